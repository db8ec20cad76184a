"""Arrays as stacks of matrices that BLAS reads and writes: in place, or copied."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.system.casting import widen_into

__all__ = ["as_matrices", "blank_matrices", "in_place"]

Array = npt.NDArray[Any]


def in_place(array: Array, rows: int) -> Array | None:
    """Return (G, A, B) of an array (G, *A, *B) if BLAS takes it as it lies, else None.

    Parameters
    ----------
    array : ndarray
    rows : int
        How many axes A has.
    """
    shape = []
    for first, end in ((0, 1), (1, rows + 1), (rows + 1, array.ndim)):
        extent, step = 1, 0
        for axis in range(end - 1, first - 1, -1):
            if array.shape[axis] == 1:
                continue
            if extent > 1 and array.strides[axis] != step:
                return None
            extent *= array.shape[axis]
            step = array.strides[axis] * array.shape[axis]
        shape.append(extent)
    merged = array.reshape(shape)
    down, across = merged.strides[1:]
    item = merged.itemsize
    by_rows = across == item and (shape[1] == 1 or down >= item * shape[2])
    by_columns = down == item and (shape[2] == 1 or across >= item * shape[1])
    return merged if by_rows or by_columns else None


def blank_matrices(
    shape: tuple[int, ...],
    rows: int,
    empty: Callable[[tuple[int, ...]], Array],
    *,
    columns_first: bool,
) -> tuple[Array, Array]:
    """Return an uninitialised array (G, *A, *B), and the same memory as (G, A, B).

    Parameters
    ----------
    shape : tuple of int
    rows : int
        How many axes A has.
    empty : callable
        Makes a C-contiguous array of a shape.
    columns_first : bool
        Let it lie in memory as (G, *B, *A).
    """
    groups, above, beside = shape[0], shape[1 : rows + 1], shape[rows + 1 :]
    if not columns_first:
        array = empty(shape)
        return array, array.reshape(groups, prod(above), prod(beside))
    array = empty((groups, *beside, *above))
    last = range(len(beside) + 1, array.ndim)
    matrices = array.reshape(groups, prod(beside), prod(above)).swapaxes(1, 2)
    return array.transpose(0, *last, *range(1, len(beside) + 1)), matrices


def as_matrices(
    array: Array,
    rows: int,
    dtype: np.dtype[Any],
    empty: Callable[[tuple[int, ...]], Array],
    *,
    columns_first: bool,
) -> Array:
    """Return (G, A, B) of an array (G, *A, *B) in a data type, in place or copied.

    Parameters are those of `blank_matrices`, for the copy.
    """
    direct = in_place(array, rows) if array.dtype == dtype else None
    if direct is not None:
        return direct
    copied, matrices = blank_matrices(array.shape, rows, empty, columns_first=columns_first)
    widen_into(copied, array)
    return matrices
