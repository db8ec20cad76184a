"""From the arguments of a function to dask arrays: checks, tables of blocks, layers."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from onednn_py.config import backend_setting, checked_threads, fpmath_mode_setting
from onednn_py.errors import AttributeValueError, DTypeError, ShapeError, brief
from onednn_py.problem.arrays import TensorSpec, spec_of
from onednn_py.problem.call_spec import call_spec
from onednn_py.problem.dtypes import DTYPES, dtype_name
from onednn_py.problem.foreign import as_array, type_name
from onednn_py.problem.keywords import refuse_keywords
from onednn_py.problem.operations import OPERATIONS, Operation
from onednn_py.problem.problem import Direction
from onednn_py.problem.recipe import Recipe

from .blocks import BlockCall
from .data_tasks import data_tasks
from .layer import BlockLayer, Source, Tasks
from .weights_tasks import BiasTasks, weights_tasks

__all__ = ["collection"]

# Arguments that say how a call is computed, not what.
_SETTINGS = ("backend", "fpmath_mode", "threads_per_block", "split_every")


def collection(name: str, arguments: Mapping[str, Any]) -> Any:
    """Return the dask array, or the pair of them, that a call describes; nothing is computed.

    Parameters
    ----------
    name : str
        Of the function.
    arguments : mapping
        By the function's names; ``unknown`` are keywords that it does not have.

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Naming what was expected and what came.
    """
    given = dict(arguments)
    unknown = given.pop("unknown")
    if unknown:
        refuse_keywords(name, unknown, tuple(given))
    settings = _settings(name, {key: given.pop(key) for key in _SETTINGS})
    operation = OPERATIONS[name]
    assert isinstance(operation, Operation)
    for key, value in given.items():
        if key not in operation.tensors and isinstance(value, da.Array):
            raise AttributeValueError(
                f"{name}: {key}: expected no dask array, whose values are unknown"
            )
    tensors = {
        tensor: _tensor(f"{name}: {tensor}", given[tensor])
        for tensor in operation.tensors
        if given[tensor] is not None or tensor != "bias"
    }
    specs = {
        tensor: TensorSpec(array.shape, array.dtype.newbyteorder("="))
        for tensor, array in tensors.items()
    }
    recipe = call_spec(name, given | specs).recipes[0].recipe
    arrays = {operation.tensors[tensor]: _chunked(array) for tensor, array in tensors.items()}
    return _results(recipe, arrays, settings)


def _settings(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the checked settings, those of this context where the call names none.

    Where nobody chose, workers decide for themselves.
    """
    backend, mode = given["backend"], given["fpmath_mode"]
    if backend is not None or backend_setting.current() != "auto":
        backend = backend_setting.current(backend, name)
    if mode is not None or fpmath_mode_setting.current() != "strict":
        mode = fpmath_mode_setting.current(mode, name)
    threads = checked_threads(given["threads_per_block"], f"{name}: threads_per_block")
    try:
        split_every = operator.index(given["split_every"])
    except TypeError:
        split_every = 0
    if split_every < 2:
        raise AttributeValueError(
            f"{name}: split_every: expected an integer from 2 on, got {brief(given['split_every'])}"
        )
    return {"backend": backend, "fpmath_mode": mode, "threads": threads, "split_every": split_every}


def _tensor(where: str, tensor: Any) -> Any:
    """Return a dask array of known chunks, or an array of NumPy's."""
    if not isinstance(tensor, da.Array):
        if hasattr(type(tensor), "__dask_graph__"):
            raise DTypeError(f"{where}: expected a dask array, got {type_name(tensor)}")
        if isinstance(tensor, TensorSpec):
            raise DTypeError(f"{where}: a TensorSpec has no data; only plan takes it")
        spec_of(where, tensor)
        return as_array(where, tensor)
    if type(tensor._meta) is not np.ndarray:
        raise DTypeError(
            f"{where}: expected chunks that are numpy.ndarray, got {type_name(tensor._meta)}"
        )
    dtype_name(where, tensor.dtype)
    if any(math.isnan(extent) for extents in tensor.chunks for extent in extents):
        raise ShapeError(
            f"{where}: the sizes of its chunks are unknown; compute_chunk_sizes() finds them"
        )
    return tensor


def _chunked(array: Any) -> Any:
    """Return a dask array; one of NumPy's is a single chunk, which all tasks refer to.

    A bias is small, and becomes a single chunk, too.
    """
    if isinstance(array, da.Array):
        return array if array.ndim > 1 else array.rechunk(-1)
    return da.from_array(array, chunks=array.shape)


def _results(recipe: Recipe, arrays: dict[str, Any], settings: dict[str, Any]) -> Any:
    operation, attributes = recipe.operation, recipe.attributes
    rank = len(recipe.views["src"].shape)
    common = {
        name: getattr(attributes, name)
        for name in ("strides", "dilations", "data_format", "weights_format")
    }
    split_every = settings.pop("split_every")
    threads = settings.pop("threads")
    channel_axis = recipe.views["dst"].axes[1]
    call = BlockCall(operation.name, recipe.dtype, common | settings, threads, rank, channel_axis)
    names = {role: array.name for role, array in arrays.items()}
    token = tokenize(repr(recipe), sorted(settings.items()), threads, split_every, names)
    sources = {
        role: Source(array.name, array.chunks, f"{operation.name}-{role}-part-{token}")
        for role, array in arrays.items()
    }
    name = f"{operation.name}-{token}"
    if operation.direction is not Direction.BACKWARD_WEIGHTS:
        return _array(data_tasks(name, call, recipe, sources, split_every), call, arrays.values())
    result = _array(weights_tasks(name, call, recipe, sources, split_every), call, arrays.values())
    if "bias" not in recipe.views:
        return result
    bias = BiasTasks(f"{operation.name}-bias-{token}", call, sources["dst"], split_every)
    return result, _array(bias, call, [arrays["dst"]])


def _array(tasks: Tasks, call: BlockCall, arrays: Any) -> Any:
    graph = HighLevelGraph.from_collections(tasks.name, BlockLayer(tasks), list(arrays))
    meta = np.empty((0,) * len(tasks.chunks), DTYPES[call.dtype])
    return da.Array(graph, tasks.name, tasks.chunks, meta=meta)
