"""Arrays of callers: what is accepted, in which strides, and which outputs can be written."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

# Not as np.ma: that attribute imports at its first use, and a child forked meanwhile
# would wait for the import lock for ever.
from numpy.ma import MaskedArray

from onednn_py.errors import AttributeValueError, DTypeError, ShapeError, brief

from .dtypes import DTYPES, dtype_name
from .foreign import as_array, as_output, type_name
from .formats import are_nested, dense_strides

__all__ = [
    "READ_IN_PLACE",
    "WRITTEN_IN_PLACE",
    "TensorSpec",
    "checked_output",
    "common_dtype",
    "element_strides",
    "is_mapped",
    "map_one_file",
    "overlaps",
    "readable",
    "share_memory",
    "spec_of",
]

Array = npt.NDArray[Any]

# NumPy's own limit.
MOST_AXES = 64

# NumPy's flags, C-contiguous, aligned and writeable, of arrays that need no look at their strides.
READ_IN_PLACE = 0x1 | 0x100
WRITTEN_IN_PLACE = READ_IN_PLACE | 0x400


@dataclass(frozen=True, slots=True, repr=False)
class TensorSpec:
    """Shape and data type of a tensor, in place of the tensor itself when planning.

    Parameters
    ----------
    shape : tuple of int
        In the format that the call's ``data_format`` or ``weights_format`` names.
    dtype : dtype-like
        ``numpy.float32``, ``numpy.float16``, ``ml_dtypes.bfloat16`` or ``numpy.float64``.

    Examples
    --------
    >>> import numpy as np, onednn_py
    >>> onednn_py.TensorSpec((1, 8, 8, 16), np.float32).shape
    (1, 8, 8, 16)
    """

    shape: tuple[int, ...]
    dtype: npt.DTypeLike

    def __post_init__(self) -> None:
        try:
            extents = tuple(islice(self.shape, MOST_AXES + 1))
            shape = tuple(map(operator.index, extents))
            if any(isinstance(extent, bool) for extent in extents):
                raise TypeError  # a mistake, as among attributes
        except Exception:
            given = brief(self.shape)
            raise ShapeError(f"TensorSpec: shape: expected integers, got {given}") from None
        if len(shape) > MOST_AXES:
            raise ShapeError(f"TensorSpec: shape: expected at most {MOST_AXES} axes, got more")
        if any(not 0 <= extent < 2**63 for extent in shape):
            raise ShapeError("TensorSpec: shape: expected extents from 0 to 2**63 - 1")
        itemsize = DTYPES[dtype_name("TensorSpec", self.dtype)].itemsize
        # NumPy multiplies the other extents even where one is zero.
        if prod(max(extent, 1) for extent in shape) * itemsize >= 2**63:
            raise ShapeError(f"TensorSpec: shape {shape} takes more than memory can address")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", np.dtype(self.dtype))  # equal types, equal hashes

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype})"

    @property
    def ndim(self) -> int:
        return len(self.shape)


# Pickles and messages name it as users do.
TensorSpec.__module__ = "onednn_py"


def spec_of(where: str, tensor: Any) -> TensorSpec:
    """Return shape and dtype of an array, of NumPy or another library, or TensorSpec.

    Raises
    ------
    DTypeError
        If it is none of them: lists and scalars are not converted silently.
    """
    if isinstance(tensor, TensorSpec):
        return tensor
    if isinstance(tensor, MaskedArray):
        raise DTypeError(f"{where}: masked arrays have no gradient here; fill the mask first")
    tensor = as_array(where, tensor)
    if not isinstance(tensor, np.ndarray):
        hint = ""
        if isinstance(tensor, (list, tuple)):
            hint = "; np.asarray makes an array of numbers, plan takes a TensorSpec of a shape"
        raise DTypeError(f"{where}: {_no_array(tensor)}{hint}")
    dtype_name(where, tensor.dtype)
    # NumPy has checked the shape.
    spec = object.__new__(TensorSpec)
    object.__setattr__(spec, "shape", tensor.shape)
    object.__setattr__(spec, "dtype", tensor.dtype)
    return spec


def _no_array(value: Any) -> str:
    """Return what a message says of a value that is no array."""
    message = f"expected a numpy.ndarray, got {type_name(value)}"
    return f"{message} of length {len(value)}" if isinstance(value, (list, tuple)) else message


def common_dtype(operation: str, specs: Mapping[str, TensorSpec]) -> str:
    """Return the data type that all tensors of a call share.

    Raises
    ------
    DTypeError
        If they differ or one is unsupported.
    """
    names = {name: dtype_name(f"{operation}: {name}", s.dtype) for name, s in specs.items()}
    if len(set(names.values())) > 1:
        listed = ", ".join(f"{name} {short}" for name, short in names.items())
        raise DTypeError(f"{operation}: all tensors must have one dtype, got {listed}")
    return next(iter(names.values()))


def element_strides(array: Array) -> tuple[int, ...] | None:
    """Return strides in elements if oneDNN can take the array as it is, otherwise None.

    Refused are foreign byte order, misalignment, zero and negative strides, strides that
    are no multiple of the element, axes that overlap, and axes that do not step over
    the whole next inner axis, as in ``x[..., ::2]`` of an odd size. An axis of one element may
    have any stride in NumPy; it gets the stride of a dense axis, so that equal layouts are equal
    values.
    """
    if not (array.dtype.isnative and array.flags.aligned):
        return None
    shape = array.shape
    if array.flags.c_contiguous:
        return dense_strides(shape)
    itemsize = array.itemsize
    strides = [stride // itemsize for stride in array.strides]
    step = 1
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] == 1:
            strides[axis] = step
        elif array.strides[axis] <= 0 or array.strides[axis] % itemsize:
            return None
        step = strides[axis] * shape[axis]
    return tuple(strides) if are_nested(shape, strides) else None


def readable(array: Array) -> tuple[Array, tuple[int, ...]]:
    """Return the array, or a dense copy where oneDNN cannot take it, and its strides."""
    array = np.asarray(array)
    strides = element_strides(array)
    if strides is None:
        array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C", copy=True)
        strides = dense_strides(array.shape)
    return array, strides


def checked_output(where: str, out: Any, shape: tuple[int, ...], dtype: str) -> Array:
    """Return the array to write if a result of this shape and type can be written into ``out``.

    Another library's array gives a NumPy array on its memory.

    Raises
    ------
    DTypeError
        If it is no array, of another type, or gives copies of its elements alone.
    ShapeError
        If its shape differs.
    AttributeValueError
        If it is read-only or its own elements overlap.
    """
    out = as_output(where, out)
    if isinstance(out, MaskedArray) or not isinstance(out, np.ndarray):
        raise DTypeError(f"{where}: {_no_array(out)}")
    if out.shape != shape:
        raise ShapeError(f"{where}: expected shape {shape}, got {out.shape}")
    if out.dtype.newbyteorder("=") != DTYPES[dtype]:
        raise DTypeError(f"{where}: expected dtype {DTYPES[dtype]}, got {out.dtype!s:.60}")
    if not out.flags.writeable:
        raise AttributeValueError(f"{where}: the array is read-only")
    if overlaps(out):
        raise AttributeValueError(f"{where}: elements of the array overlap one another")
    return out


def share_memory(first: Array, second: Array) -> bool:
    """Whether two arrays have an element in common; in doubt (it is NP-hard), yes."""
    if map_one_file(first, second):
        return True
    try:
        # NumPy's stubs know two of its values only; any other bounds the search.
        return np.shares_memory(first, second, max_work=10_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def map_one_file(first: Array, second: Array) -> bool:
    """Whether two arrays may have bytes of one file in common, at two addresses.

    NumPy compares addresses, and a file that is mapped twice has two. Only files with a name can be
    compared.
    """
    one, other = _file_part(first), _file_part(second)
    if one is None or other is None or one.mapping is other.mapping:
        return False
    if one.stop <= other.start or other.stop <= one.start:
        return False
    try:
        return os.path.samefile(one.name, other.name)
    except OSError:  # a file that was deleted
        return one.name == other.name


def is_mapped(array: Array) -> bool:
    """Whether an array's memory is mapped from a file with a name."""
    return _mapping_of(array) is not None


class _FilePart(NamedTuple):
    """The bytes of a file from an array's first element to the end of its last one."""

    mapping: np.memmap[Any, Any]
    name: str
    start: int
    stop: int


def _file_part(array: Array) -> _FilePart | None:
    mapping = _mapping_of(array)
    if mapping is None or mapping.filename is None or array.size == 0:
        return None
    start = mapping.offset + array.ctypes.data - mapping.ctypes.data
    reaches = [
        stride * (extent - 1) for stride, extent in zip(array.strides, array.shape, strict=True)
    ]
    stop = start + sum(max(reach, 0) for reach in reaches) + array.itemsize
    start += sum(min(reach, 0) for reach in reaches)
    return _FilePart(mapping, os.fspath(mapping.filename), start, stop)


def _mapping_of(array: Any) -> np.memmap[Any, Any] | None:
    """Return the array that was mapped, of which this one is a view of any depth."""
    found = None
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap) and array.filename is not None:
            found = array
        array = array.base
    return found


def overlaps(array: Array) -> bool:
    """Whether two elements of one array share memory (zero strides, sliding windows)."""
    if array.size == 0 or array.flags.c_contiguous:
        return False
    reach = 0
    extents = sorted(
        (abs(stride), extent) for stride, extent in zip(array.strides, array.shape, strict=True)
    )
    for stride, extent in extents:
        if extent > 1:
            if stride < reach + array.itemsize:
                return True
            reach += stride * (extent - 1)
    return False
