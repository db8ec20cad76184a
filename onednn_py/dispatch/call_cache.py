"""From a function's arguments to a result: equal arguments are checked and planned once."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.problem.arrays import element_strides
from onednn_py.problem.call_spec import CallSpec, call_spec
from onednn_py.problem.operations import OPERATIONS
from onednn_py.system.forks import in_forked_child

from .bound_call import BoundCall, run, settings

__all__ = ["call", "forget_calls"]

Array = npt.NDArray[Any]

# Bound calls that are kept; each takes a few kilobytes.
MOST_CALLS = 1024

_calls: dict[Any, BoundCall] = {}
_lock = threading.Lock()

# How many of a function's first arguments are tensors.
_TENSORS = {name: len(operation.tensors) for name, operation in OPERATIONS.items()}

ndarray = np.ndarray

# Immutable types whose equal values mean the same; their subclasses may behave otherwise.
_CONSTANT = frozenset(
    (int, bool, str, type(None), *(np.dtype(code).type for code in np.typecodes["AllInteger"]))
)
_LISTS = (tuple, list, frozenset)


def call(name: str, arguments: Mapping[str, Any]) -> Any:
    """Compute a call, by its `BoundCall` if an equal call was made before.

    Parameters
    ----------
    name : str
        Of the function, a key of `OPERATIONS`.
    arguments : mapping
        All arguments of the function in the order of its signature: tensors, attributes, and
        ``out``, ``backend`` and ``fpmath_mode`` last.
    """
    *values, out, backend, fpmath_mode = arguments.values()
    chosen = settings(backend, fpmath_mode)
    count = _TENSORS[name]
    key = _key(name, chosen.fpmath_mode, values, count)
    try:
        bound = _calls.get(key)
    except TypeError:  # an attribute without a hash
        bound = key = None
    if bound is None:
        described = dict(zip(arguments, values))  # noqa: B905 - without the last three
        spec = call_spec(name, described)
        tensors = _tensors(spec, values[:count])
        results = run(spec, tensors, spec.outs(out), chosen)
        _remember(key, values[count:], spec, tensors, chosen.fpmath_mode)
        return spec.returned(results)
    spec = bound.spec
    arrays = [array for array in values[:count] if array is not None]
    if out is None:
        outs = bound.new_results()
    else:
        outs = spec.outs(out)
        if not bound.takes(arrays, outs):
            tensors = dict(zip(spec.inputs, arrays, strict=True))
            return spec.returned(run(spec, tensors, outs, chosen))
    bound.execute(chosen, arrays + outs)
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
    """Return a key that equal calls share, None where a tensor is no plain array.

    The types of attributes that are neither int nor str belong to it: True and 1.0 are equal to 1,
    but they are no strides. Attributes of any type have a key; `_remember` keeps only calls of
    constant attributes.
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
        elif kind is tuple or kind is list:
            # A list has no hash. How many entries it has, the values tell.
            key += kind, tuple(value), *map(type, value)
        else:
            key += kind, value
    return tuple(key)


def _is_constant(value: Any) -> bool:
    """Whether a value is of an immutable type, or a list or set of such values."""
    if type(value) in _LISTS:
        return all(type(entry) in _CONSTANT for entry in value)
    return type(value) in _CONSTANT


def _remember(
    key: Any,
    attributes: Sequence[Any],
    spec: CallSpec,
    tensors: Mapping[str, Array],
    fpmath_mode: str,
) -> None:
    """Keep a bound call, unless an equal call may mean something else."""
    if key is None or not all(map(_is_constant, attributes)):
        return
    strides = {}
    for name, array in tensors.items():
        found = element_strides(array)
        if found is None:
            return
        strides[name] = found
    bound = BoundCall(spec, strides, fpmath_mode)
    with _lock:
        while len(_calls) >= MOST_CALLS:
            del _calls[next(iter(_calls))]
        _calls[key] = bound


@in_forked_child
def _reset() -> None:
    global _lock
    _lock = threading.Lock()
