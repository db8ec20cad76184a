"""Arrays for the tensors of a graph file, with its strides, of given or random values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.errors import DTypeError, GraphFileError, ShapeError
from onednn_py.problem.arrays import overlaps
from onednn_py.problem.dtypes import DATA_TYPES, DTYPES
from onednn_py.tools.benchdnn.filling import LARGEST

from .calls import FILE_DTYPES, Call
from .parsing import LogicalTensor

__all__ = ["EXACT_SUM", "Filling", "allocate", "check_memory", "fillings", "given_tensor"]

Array = npt.NDArray[Any]

# float32, in which every backend accumulates, holds all integers up to this exactly.
EXACT_SUM = 2 ** DATA_TYPES["f32"].digits

# Memory of an execution and its comparison, in multiples of that of the tensors.
WORKING_COPIES = 3


@dataclass(frozen=True, slots=True)
class Filling:
    """Small, sparse, random integers, like those of benchdnn's cases.

    Attributes
    ----------
    limit : int
        Largest magnitude.
    density : float
        Fraction of the elements that may be other than zero.
    """

    limit: int
    density: float

    def __or__(self, other: Filling) -> Filling:
        """Return the stricter of both, for a tensor that two operations read."""
        return Filling(min(self.limit, other.limit), min(self.density, other.density))

    def fill(self, array: Array, rng: np.random.Generator) -> None:
        values = rng.integers(-self.limit, self.limit + 1, array.shape, dtype=np.int8)
        if self.density < 1:
            values[rng.random(array.shape, np.float32) >= self.density] = 0
        array[...] = values.astype(array.dtype)


def fillings(call: Call) -> dict[int, Filling]:
    """Return the filling of each input of a call, by tensor id.

    float32 holds every sum of products exactly. As in benchdnn, one of the two factors is so
    sparse that the tensors' own type holds most of the sums exactly, too.
    """
    limits = {
        role: min(LARGEST[role][call.dtype], isqrt(EXACT_SUM // max(call.terms, 1)) or 1)
        for role in call.inputs
    }
    factors = [role for role in call.inputs if role != "bias"]
    safe_terms = 2 ** DATA_TYPES[call.dtype].digits // prod(limits[role] for role in factors)
    sparse = "src" if call.result_role == "dst" else "dst"
    density = min(1.0, max(safe_terms, 1) / max(call.terms, 1))
    return {
        tensor.id: Filling(limits[role], density if role == sparse else 1.0)
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
    buffer = np.zeros(_reach(shape, tensor.strides), dtype)
    strides = tuple(stride * dtype.itemsize for stride in tensor.strides)
    array: Array = np.ndarray(shape, dtype, buffer.view(np.uint8), strides=strides)
    if overlaps(array):
        raise GraphFileError(
            f"tensor {tensor.id}: strides {tensor.strides} let elements of shape {shape} overlap"
        )
    return array


def check_memory(tensors: Mapping[int, tuple[LogicalTensor, tuple[int, ...]]]) -> None:
    """Raise a GraphFileError if this machine's memory cannot hold the tensors."""
    available = _physical_memory()
    sizes = {
        id_: _reach(shape, tensor.strides) * DTYPES[tensor.dtype].itemsize
        for id_, (tensor, shape) in tensors.items()
    }
    needed = WORKING_COPIES * sum(sizes.values())
    if needed > available:
        largest = max(sizes, key=lambda id_: sizes[id_])
        raise GraphFileError(
            f"tensors and their comparison need about {needed:.3g} bytes, tensor {largest} alone"
            f" has {sizes[largest]:.3g}; this machine has {available:.3g}"
        )


def _reach(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> int:
    """Return the number of elements from the first to the last, gaps included."""
    if strides is None or 0 in shape:
        return prod(shape)
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


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
        exact = np.array_equal(
            converted.astype(np.float64), array.astype(np.float64), equal_nan=True
        )
    if not exact:
        raise DTypeError(f"{where}: its {array.dtype} values are not exact in {dtype}")
    copy = allocate(tensor, array.shape)
    copy[...] = converted
    return copy
