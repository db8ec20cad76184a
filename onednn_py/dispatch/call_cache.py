"""From a function's arguments to a result: equal arguments are checked and planned once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.problem.arrays import element_strides
from onednn_py.problem.call_spec import CallSpec, call_spec
from onednn_py.problem.foreign import as_array, is_foreign_array
from onednn_py.problem.keywords import refuse_keywords
from onednn_py.problem.operations import OPERATIONS
from onednn_py.system.forks import in_forked_child

from .bound_call import BoundCall
from .general_call import run
from .settings import Settings, settings

__all__ = ["call", "declare", "forget_calls"]

Array = npt.NDArray[Any]

# Bound calls that are kept; each takes a few kilobytes.
MOST_CALLS = 1024

# Arguments that say how a call is computed, not what.
_SETTINGS = ("out", "backend", "fpmath_mode")

_NONE: Mapping[str, Any] = {}

_calls: dict[Any, BoundCall] = {}
_lock = threading.RLock()

# For each function, how many of its first arguments are tensors, and what picks its arguments, in
# the order of its signature, from a mapping.
_TENSORS = {name: len(operation.tensors) for name, operation in OPERATIONS.items()}
_pick: dict[str, Callable[[Mapping[str, Any]], tuple[Any, ...]]] = {}
_names: dict[str, tuple[str, ...]] = {}

ndarray = np.ndarray

# Immutable types whose equal values mean the same; their subclasses may behave otherwise.
_CONSTANT = frozenset(
    (int, bool, str, type(None), *(np.dtype(code).type for code in np.typecodes["AllInteger"]))
)
_LISTS = frozenset((tuple, list, frozenset))


def declare(name: str, parameters: Sequence[str]) -> None:
    """Make a function known to `call`.

    Parameters
    ----------
    name : str
        A key of `OPERATIONS`.
    parameters : sequence of str
        In the order of the signature: tensors, attributes, and ``out``, ``backend`` and
        ``fpmath_mode`` anywhere.
    """
    described = [name for name in parameters if name not in _SETTINGS]
    _names[name] = tuple(described)
    _pick[name] = itemgetter(*described, *_SETTINGS)


def call(name: str, arguments: Mapping[str, Any], unknown: Mapping[str, Any] = _NONE) -> Any:
    """Compute a call, by its `BoundCall` if an equal call was made before.

    Parameters
    ----------
    name : str
        Of a function that was declared.
    arguments : mapping
        The function's arguments by name; other names are ignored.
    unknown : mapping
        Keywords that the function does not have.
    """
    if unknown:
        refuse_keywords(name, unknown, (*_names[name], *_SETTINGS))
    *values, out, backend, fpmath_mode = _pick[name](arguments)
    chosen = settings(backend, fpmath_mode, None, name)
    count = _TENSORS[name]
    key = _key(name, chosen.fpmath_mode, values, count)
    bound = _calls.get(key)
    if key is None:
        # Such as torch.Size, whose entries are those of a plain tuple.
        values = [tuple(tuple.__iter__(one)) if isinstance(one, tuple) else one for one in values]
        if any(map(is_foreign_array, values[:count])):
            labels = [f"{name}: {tensor}" for tensor in _names[name][:count]]
            values[:count] = map(as_array, labels, values[:count])
        key = _key(name, chosen.fpmath_mode, values, count)
        bound = _calls.get(key)
    if bound is not None:
        return _execute(bound, values[:count], out, chosen)
    if list in map(type, values):
        # The lists that are checked are those of the key, whatever other threads do to them.
        values = [list(value) if type(value) is list else value for value in values]
        key = _key(name, chosen.fpmath_mode, values, count)
    spec = call_spec(name, dict(zip(_names[name], values, strict=True)))
    tensors = _tensors(spec, values[:count])
    bound = None if key is None else _bound(spec, tensors, chosen.fpmath_mode)
    if bound is None:
        return spec.returned(run(spec, tensors, spec.outs(out), chosen))
    result = _execute(bound, values[:count], out, chosen)
    _remember(key, bound)
    return result


def _execute(bound: BoundCall, tensors: Sequence[Any], out: Any, chosen: Settings) -> Any:
    """Compute a call of the tensors for which it is bound, None for one that is left out."""
    spec = bound.spec
    arrays = list(tensors)
    if len(arrays) > bound.inputs:
        arrays = [array for array in arrays if array is not None]
    if out is None:
        written = outs = bound.new_results()
    else:
        outs = spec.outs(out)
        memory = bound.memory_of(arrays, outs)
        if memory is None:
            named = dict(zip(spec.inputs, arrays, strict=True))
            return spec.returned(run(spec, named, outs, chosen))
        written = memory
    plan, pick = bound.plan(chosen)
    bound.run(plan, pick, arrays + written)
    return spec.returned(outs)


def forget_calls() -> None:
    """Drop all bound calls."""
    with _lock:
        _calls.clear()


def _tensors(spec: CallSpec, values: Sequence[Any]) -> dict[str, Array]:
    """Return the tensors that are given, by the call's names of them."""
    given = [array for array in values if array is not None]
    return dict(zip(spec.inputs, given, strict=True))


def _key(name: str, fpmath_mode: str, values: Sequence[Any], count: int) -> Any:
    """Return a key that equal calls share, None if an equal call may mean something else.

    Tensors must be plain arrays, attributes immutable or lists of immutable entries. The types of
    attributes that are neither int nor str belong to the key: True and 1.0 are equal to 1, but
    they are no strides.
    """
    key: list[Any] = [name, fpmath_mode]
    for tensor in values[:count]:
        if type(tensor) is ndarray:
            key += tensor.shape, tensor.strides, tensor.dtype, tensor.flags.num
        elif tensor is None:
            key.append(None)
        else:
            return None
    for value in values[count:]:
        kind = type(value)
        if kind is int or kind is str or value is None:
            key.append(value)
        elif kind in _LISTS:
            # A list has no hash. How many entries it has, the values tell.
            entries = tuple(value)  # once, since another thread may change a list
            types = tuple(map(type, entries))
            if not _CONSTANT.issuperset(types):
                return None
            key += kind, value if kind is frozenset else entries, *types
        elif kind in _CONSTANT:
            key += kind, value
        else:
            return None
    return tuple(key)


def _bound(spec: CallSpec, tensors: Mapping[str, Array], fpmath_mode: str) -> BoundCall | None:
    """Return the bound call of these tensors, None if one of them has to be copied."""
    strides = {}
    for name, array in tensors.items():
        found = element_strides(array)
        if found is None:
            return None
        strides[name] = found
    return BoundCall(spec, strides, fpmath_mode)


def _remember(key: Any, bound: BoundCall) -> None:
    with _lock:
        _calls[key] = bound
        if len(_calls) > MOST_CALLS:
            for oldest in list(_calls)[:-MOST_CALLS]:
                _calls.pop(oldest, None)


@in_forked_child
def _reset() -> None:
    global _lock
    _lock = threading.RLock()
