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
    """A reorder, as long as a plan has it, and the layout of primitives at one end of it."""

    wanted: Handle
    primitive: weakref.ref[Any]
    scratchpad: Handle | None


# By engine, threads, the caller's layout and the direction.
_known: dict[Hashable, tuple[_Known, ...]] = {}


def shared_reorder(
    engine: Engine, layout: Hashable, wanted: Handle, make: Callable[[], Made]
) -> Made:
    """Return the reorder of another plan, or make it.

    Plans may run a primitive at once: its scratchpad is that of the execution.

    Parameters
    ----------
    engine : Engine
    layout : hashable
        Of the tensor as the caller has it, with the direction of the reorder.
    wanted : Handle
        Memory descriptor of the tensor in the layout of a primitive.
    make : callable
    """
    threads = 0 if engine.openmp is None else engine.openmp.number()
    key = (engine, threads, layout)
    alive = tuple(one for one in _known.get(key, ()) if one.primitive() is not None)
    for one in alive:
        primitive = one.primitive()
        if primitive is not None and engine.equal(one.wanted, wanted):
            return Made(primitive, one.scratchpad)
    made = make()
    if len(_known) >= MOST_LAYOUTS:
        _known.clear()
    _known[key] = (*alive, _Known(wanted, weakref.ref(made.primitive), made.scratchpad))
    return made


# A primitive belongs to the threads of the process that made it.
in_forked_child(_known.clear)
