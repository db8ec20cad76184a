"""From a function's arguments to a result: what the arguments mean is worked out once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.problem.arrays import element_strides
from onednn_py.problem.operations import OPERATIONS
from onednn_py.problem.recipe import recipe

from .bound_call import Bound, Task, run, settings

__all__ = ["Array", "Ints", "call", "forget_kinds", "run_task"]

Array = npt.NDArray[Any]
Ints = int | Sequence[int]

# Kinds of calls whose meaning is kept; each is a few kilobytes.
MOST_KINDS = 1024

_kinds: dict[Any, Bound] = {}
# What all arguments but the tensors say, types included, and the one object that stands for it:
# comparing that takes no time.
_meanings: dict[Any, object] = {}
# The same by the identities of arguments that never change. They are kept here, so that nothing
# else can get their identities.
_said: dict[tuple[int, ...], tuple[tuple[Any, ...], object]] = {}
_lock = threading.Lock()

ndarray = np.ndarray

# Types whose values stay what they are and compare as they should; their subclasses may not.
_CONSTANT = frozenset(
    (int, bool, str, type(None), *(np.dtype(code).type for code in np.typecodes["AllInteger"]))
)


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
    flag, mapping = arguments
    said = (name, chosen.fpmath_mode, flag, *mapping.values())
    kind = _kind(_meaning(said), tensors)
    bound = _kinds.get(kind)
    if bound is None:
        task, named = make()
        results = run(task, named, task.outs(out), chosen)
        _remember(said, tensors, task, named, chosen.fpmath_mode)
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
        _meanings.clear()
        _said.clear()


def _meaning(said: tuple[Any, ...]) -> object | None:
    """Return the object that stands for these arguments, None if no call with them is known."""
    known = _said.get(tuple(map(id, said)))
    if known is not None:
        return known[1]
    key = _by_value(said)
    meaning = None if key is None else _meanings.get(key)
    if meaning is not None:
        _note(said, meaning)
    return meaning


def _by_value(said: tuple[Any, ...]) -> Any:
    """Return a key that equal arguments have in common, None if they may come to mean others.

    Types belong to it: True and 1.0 are equal to 1, but they are no strides.
    """
    if not all(map(_is_constant, said)):
        return None
    # A list has no hash. The types of entries count too; how many each has, the values tell.
    values = tuple([tuple(value) if type(value) is list else value for value in said])
    entries = chain.from_iterable([value for value in values if type(value) is tuple])
    return values, tuple(map(type, said)), tuple(map(type, entries))


def _is_constant(value: Any) -> bool:
    """Whether a value stays what it is, or is a list or set of such."""
    if type(value) in (tuple, list, frozenset):
        return all(type(entry) in _CONSTANT for entry in value)
    return type(value) in _CONSTANT


def _kind(meaning: object | None, tensors: Mapping[str, Any]) -> Any:
    """Return what tells a kind of call from others, None if it must go the long way."""
    if meaning is None:
        return None
    kind = [meaning]
    for array in tensors.values():
        if type(array) is ndarray:
            kind += array.shape, array.strides, array.dtype, array.flags.num
        elif array is None:
            kind.append(None)
        else:
            return None
    return tuple(kind)


def _note(said: tuple[Any, ...], meaning: object) -> None:
    """Keep arguments that never change by their identities."""
    if all(type(value) is not list for value in said):
        with _lock:
            _bound(_said)
            _said[tuple(map(id, said))] = said, meaning


def _remember(
    said: tuple[Any, ...],
    tensors: Mapping[str, Any],
    task: Task,
    named: Mapping[str, Array],
    mode: str,
) -> None:
    """Keep what a call was found to mean, if the same call will mean the same."""
    key = _by_value(said)
    strides = {name: element_strides(array) for name, array in named.items()}
    whole = {name: found for name, found in strides.items() if found is not None}
    if key is None or len(whole) < len(strides):
        return
    with _lock:
        if key not in _meanings:
            _bound(_meanings)
        meaning = _meanings.setdefault(key, object())
    _note(said, meaning)
    kind = _kind(meaning, tensors)
    if kind is None:
        return
    bound = Bound(task, {name: whole[name] for name in task.inputs}, mode)
    with _lock:
        _bound(_kinds)
        _kinds[kind] = bound


def _bound(mapping: dict[Any, Any]) -> None:
    """Drop the oldest entries, to make room for one more."""
    while len(mapping) >= MOST_KINDS:
        del mapping[next(iter(mapping))]


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
