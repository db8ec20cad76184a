"""Arrays for the tensors of a graph file, with its strides, of given or random values."""

from __future__ import annotations

import os
from collections.abc import Iterable
from math import isqrt, prod
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.ma import MaskedArray

from onednn_py.errors import DTypeError, GraphFileError, ShapeError
from onednn_py.problem.arrays import overlaps
from onednn_py.problem.dtypes import DATA_TYPES, DTYPES
from onednn_py.problem.problem import TensorLayout
from onednn_py.tools.benchdnn.filling import LARGEST, safe_share

from .calls import FILE_DTYPES, Call
from .parsing import LogicalTensor

__all__ = ["EXACT_SUM", "allocate", "check_memory", "fillings", "given_tensor"]

Array = npt.NDArray[Any]

# float32, in which every backend accumulates, holds all integers up to this exactly.
EXACT_SUM = 2 ** DATA_TYPES["f32"].digits

# Memory of an execution and its comparison, in multiples of that of the tensors.
WORKING_COPIES = 3


def fillings(call: Call) -> dict[int, tuple[int, float]]:
    """Return the largest magnitude and the share of nonzeros of each input, by tensor id.

    float32 holds every sum of products of such integers exactly. As in benchdnn, one of the two
    factors is so sparse that the tensors' own type holds most of the sums exactly, too.
    """
    exact = isqrt(EXACT_SUM // max(call.terms, 1)) or 1
    limits = {role: min(LARGEST[role][call.spec.dtype], exact) for role in call.inputs}
    factors = prod(limit for role, limit in limits.items() if role != "bias")
    share = safe_share(call.spec.dtype, call.terms, factors)
    sparse = "src" if call.result_role == "dst" else "dst"
    return {
        tensor.id: (limits[role], share if role == sparse else 1.0)
        for role, tensor in call.inputs.items()
    }


def allocate(tensor: LogicalTensor, shape: tuple[int, ...]) -> Array:
    """Return an array of zeros with the tensor's strides.

    Raises
    ------
    GraphFileError
        If elements overlap with these strides.
    """
    dtype = DTYPES[tensor.dtype]
    if tensor.strides is None or 0 in shape:
        return np.zeros(shape, dtype)
    buffer = np.zeros(_extent(tensor, shape), dtype)
    strides = tuple(stride * dtype.itemsize for stride in tensor.strides)
    array: Array = np.ndarray(shape, dtype, buffer.view(np.uint8), strides=strides)
    if overlaps(array):
        raise GraphFileError(
            f"tensor {tensor.id}: strides {tensor.strides} let elements of shape {shape} overlap"
        )
    return array


def check_memory(tensors: Iterable[tuple[LogicalTensor, tuple[int, ...]]]) -> None:
    """Raise a GraphFileError if this machine's memory cannot hold tensors of these shapes."""
    available = _physical_memory()
    sizes = {
        tensor.id: _extent(tensor, shape) * DTYPES[tensor.dtype].itemsize
        for tensor, shape in tensors
    }
    needed = WORKING_COPIES * sum(sizes.values())
    if needed > available:
        largest = max(sizes, key=lambda id_: sizes[id_])
        raise GraphFileError(
            f"tensors and their comparison need about {needed:.3g} bytes, tensor {largest} alone"
            f" has {sizes[largest]:.3g}; this machine has {available:.3g}"
        )


def _extent(tensor: LogicalTensor, shape: tuple[int, ...]) -> int:
    """Return the number of elements from the first to the last, gaps included."""
    return prod(shape) if tensor.strides is None else TensorLayout(shape, tensor.strides).extent


def _physical_memory() -> int:
    """Return the machine's memory in bytes; the largest 64-bit integer where it is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**63 - 1


def given_tensor(where: str, array: Any, tensor: LogicalTensor) -> Array:
    """Return a copy of a given array with the type and strides of the file's tensor.

    The array may have another type if its values are exact in the tensor's. Two bytes without
    a type are bfloat16, which ``.npy`` files cannot name.

    Raises
    ------
    DTypeError, ShapeError
        If the array does not fit the tensor.
    """
    if tensor.dtype not in FILE_DTYPES:
        raise DTypeError(f"{where}: tensor {tensor.id} is {tensor.dtype}, which cannot be given")
    if isinstance(array, MaskedArray):
        raise DTypeError(f"{where}: expected an array without a mask; fill it first")
    if not isinstance(array, np.ndarray):
        raise DTypeError(f"{where}: expected a numpy.ndarray, got {type(array).__qualname__}")
    dtype = DTYPES[tensor.dtype]
    if array.dtype == np.dtype("V2") and tensor.dtype == "bf16":
        array = array.view(dtype)
    if tensor.shape not in (None, array.shape):
        raise ShapeError(f"{where}: expected shape {tensor.shape}, got {array.shape}")
    if array.dtype.kind not in "fiu" and array.dtype not in DTYPES.values():
        raise DTypeError(f"{where}: expected {dtype}, got {array.dtype}")
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
        wide = array.astype(np.float64)
        exact = np.array_equal(converted.astype(np.float64), wide, equal_nan=True)
        if exact and array.dtype.kind in "iu" and array.itemsize == 8:
            # float64 is not exact either. Beyond the type's range, casts back are not defined.
            limit = 2.0 ** (63 if array.dtype.kind == "i" else 64)
            exact = bool((wide < limit).all() and (wide.astype(array.dtype) == array).all())
    if not exact:
        raise DTypeError(f"{where}: its {array.dtype} values are not exact in {dtype}")
    copy = allocate(tensor, array.shape)
    copy[...] = converted
    return copy
