"""Reorders of weights that several plans use: images have many sizes, their weights one."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from onednn_py.backends.onednn.binding.engine import Engine, Handle
from onednn_py.system.forks import in_forked_child

__all__ = ["Made", "shared_reorder"]

# Layouts of callers whose reorders are remembered.
MOST_LAYOUTS = 256


class Made(NamedTuple):
    """A primitive, and the memory descriptor of its scratchpad, None if it needs none."""

    primitive: Handle
    scratchpad: Handle | None


class _Known(NamedTuple):
    """A reorder, as long as a plan has it, and the memory descriptors of its ends."""

    source: Handle
    target: Handle
    primitive: weakref.ref[Any]
    scratchpad: Handle | None


# By engine, threads and the caller's layout.
_known: dict[Hashable, tuple[_Known, ...]] = {}


def shared_reorder(
    engine: Engine, layout: Hashable, source: Handle, target: Handle, make: Callable[[], Made]
) -> Made:
    """Return the reorder of another plan, or make it.

    Plans may run a primitive at once: its scratchpad is that of the execution.

    Parameters
    ----------
    engine : Engine
    layout : hashable
        Of the tensor as the caller has it.
    source, target : Handle
        Memory descriptors, which the layout alone does not tell: a matmul's are of matrices.
    make : callable
    """
    threads = engine.number_of_threads()
    key = (engine, threads, layout)
    alive = tuple(one for one in _known.get(key, ()) if one.primitive() is not None)
    for one in alive:
        primitive = one.primitive()
        is_same = engine.equal(one.source, source) and engine.equal(one.target, target)
        if primitive is not None and is_same:
            return Made(primitive, one.scratchpad)
    made = make()
    if len(_known) >= MOST_LAYOUTS:
        _known.clear()
    _known[key] = (*alive, _Known(source, target, weakref.ref(made.primitive), made.scratchpad))
    return made


# A primitive belongs to the threads of the process that made it.
in_forked_child(_known.clear)
