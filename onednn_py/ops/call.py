"""From a function's arguments to a result: what the arguments mean is worked out once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import element_strides
from ..calls import Bound, Task, run, settings
from ..normalise import recipe
from ..operations import OPERATIONS

__all__ = ["Array", "Ints", "call", "forget_kinds", "run_task"]

Array = npt.NDArray[Any]
Ints = int | Sequence[int]

# Kinds of calls whose meaning is kept; each is a few kilobytes.
MOST_KINDS = 1024

_kinds: dict[Any, Bound] = {}
_lock = threading.Lock()

ndarray = np.ndarray

_CONSTANT = (int, str, np.integer, type(None))


def call(
    name: str,
    tensors: Mapping[str, Any],
    arguments: Mapping[str, Any],
    out: Any,
    backend: str | None,
    fpmath_mode: str | None,
    *,
    bias: bool = False,
) -> Any:
    """Compute one operation: `Task` made by `recipe`, arrays by the caller's names."""

    def task() -> tuple[Task, Mapping[str, Any]]:
        made = Task.of(recipe(name, tensors, arguments, bias=bias))
        roles = OPERATIONS[name].tensors
        return made, {roles[name]: array for name, array in tensors.items() if array is not None}

    return run_task(name, task, tensors, (bias, arguments), out, backend, fpmath_mode)


def run_task(
    name: str,
    make: Callable[[], tuple[Task, Mapping[str, Any]]],
    tensors: Mapping[str, Any],
    arguments: tuple[Any, Mapping[str, Any]],
    out: Any,
    backend: str | None,
    fpmath_mode: str | None,
) -> Any:
    """Compute a call, by what is known of its kind if there was one like it before.

    Parameters
    ----------
    name : str
    make : callable
        Checks the arguments; returns the task and its inputs by the task's names.
    tensors : mapping
        The caller's tensors.
    arguments : (flag, mapping)
        All else that decides what is computed.
    out : array, sequence of arrays, or None
    backend, fpmath_mode : str or None
    """
    chosen = settings(backend, fpmath_mode)
    kind = _kind(name, tensors, arguments, chosen.fpmath_mode)
    try:
        bound = _kinds.get(kind) if kind is not None else None
    except TypeError:  # something in it has no hash
        bound = kind = None
    if bound is None:
        task, named = make()
        results = run(task, named, task.outs(out), chosen)
        if kind is not None and _is_constant(tuple(arguments[1].values())):
            _remember(kind, task, named, chosen.fpmath_mode)
        return task.returned(results)
    task = bound.task
    arrays = [array for array in tensors.values() if array is not None]
    if out is None:
        outs = bound.new_results()
    else:
        outs = task.outs(out)
        if not bound.takes(arrays, outs):
            named = dict(zip(task.inputs, arrays, strict=True))
            return task.returned(run(task, named, outs, chosen))
    bound.execute(chosen, arrays + outs)
    return task.returned(outs)


def forget_kinds() -> None:
    """Drop what is known of calls."""
    with _lock:
        _kinds.clear()


def _kind(
    name: str, tensors: Mapping[str, Any], arguments: tuple[Any, Mapping[str, Any]], mode: str
) -> Any:
    """Return what tells a kind of call from others, None if it must go the long way.

    Types belong to it: True and 1.0 are equal to 1, but they are no strides.
    """
    flag, mapping = arguments
    values = tuple(mapping.values())
    types: tuple[Any, ...] = tuple(map(type, values))
    if list in types:
        # A list has no hash.
        values = tuple([tuple(v) if type(v) is list else v for v in values])
    if list in types or tuple in types:
        # The types of their entries count too; how many each has, the values tell.
        types += tuple(map(type, chain.from_iterable([v for v in values if type(v) is tuple])))
    kind = [name, mode, flag, type(flag), values, types]
    for array in tensors.values():
        if type(array) is ndarray:
            kind += array.shape, array.strides, array.dtype, array.flags.num
        elif array is None:
            kind.append(None)
        else:
            return None
    return tuple(kind)


def _is_constant(value: Any) -> bool:
    """Whether a value stays what it is; an object of a foreign type may mean another number."""
    if type(value) in (tuple, list, frozenset):
        return all(map(_is_constant, value))
    return isinstance(value, _CONSTANT)


def _remember(key: Any, task: Task, named: Mapping[str, Array], mode: str) -> None:
    strides = {name: element_strides(array) for name, array in named.items()}
    whole = {name: found for name, found in strides.items() if found is not None}
    if len(whole) < len(strides):
        return
    bound = Bound(task, {name: whole[name] for name in task.inputs}, mode)
    with _lock:
        while len(_kinds) >= MOST_KINDS:
            del _kinds[next(iter(_kinds))]
        _kinds[key] = bound


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
