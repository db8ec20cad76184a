"""The table of data types that tensors may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from onednn_py.errors import DTypeError, brief

__all__ = ["DATA_TYPES", "DTYPES", "DataType", "dtype_name"]


@dataclass(frozen=True, slots=True)
class DataType:
    """A data type of tensors.

    Attributes
    ----------
    name : str
        As oneDNN and benchdnn spell it.
    numpy : numpy.dtype
    digits : int
        Binary digits of the significand, the hidden one included.
    least_exponent : int
        Of the smallest normal number, below which neighbouring numbers keep their distance.
    accumulator : numpy.dtype
        The type in which sums are kept before they are rounded to this one.
    """

    name: str
    numpy: np.dtype[Any]
    digits: int
    least_exponent: int
    accumulator: np.dtype[Any]

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of one rounding to nearest."""
        return float(2.0**-self.digits)

    @property
    def smallest(self) -> float:
        """The smallest positive number, which is subnormal."""
        return float(2.0 ** (self.least_exponent + 1 - self.digits))


_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)

DATA_TYPES: dict[str, DataType] = {
    row.name: row
    for row in (
        DataType("f32", _F32, 24, -126, _F32),
        DataType("f16", np.dtype(np.float16), 11, -14, _F32),
        DataType("bf16", np.dtype(ml_dtypes.bfloat16), 8, -126, _F32),
        DataType("f64", _F64, 53, -1022, _F64),
    )
}

# NumPy's type of each name, and the name of each.
DTYPES: dict[str, np.dtype[Any]] = {name: row.numpy for name, row in DATA_TYPES.items()}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def dtype_name(where: str, dtype: npt.DTypeLike) -> str:
    """Return the short name (f32, bf16, f16, f64) of a supported data type, of any byte order.

    Raises
    ------
    DTypeError
        For any other.
    """
    if isinstance(dtype, np.dtype) and dtype in _NAMES:
        return _NAMES[dtype]
    try:
        # NumPy takes None for float64, which nobody can have meant.
        found = None if dtype is None else np.dtype(dtype).newbyteorder("=")
    except (TypeError, ValueError):
        found = None
    name = _NAMES.get(found) if found is not None else None
    if name is None:
        *others, last = map(_spelled, DTYPES.values())
        got = f"{dtype!s:.60}" if isinstance(dtype, np.dtype) else brief(dtype)
        raise DTypeError(f"{where}: expected dtype {', '.join(others)} or {last}, got {got}")
    return name


def _spelled(dtype: np.dtype[Any]) -> str:
    """Return NumPy's name of a type, and where to find a type that is not NumPy's own."""
    module = dtype.type.__module__
    return dtype.name if module == "numpy" else f"{dtype.name} ({module}.{dtype.name})"
