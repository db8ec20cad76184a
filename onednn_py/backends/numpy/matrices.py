"""Arrays as stacks of matrices for BLAS: as views where it can read them, else as copies."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.system.casting import widen_into

__all__ = ["as_matrices", "empty_matrices", "view_as_matrices"]

Array = npt.NDArray[Any]


def view_as_matrices(array: Array, row_axes: int) -> Array | None:
    """Return a view (G, A, B) of an array (G, *A, *B), None if BLAS would copy it.

    Parameters
    ----------
    array : ndarray
    row_axes : int
        Number of axes in A.
    """
    shape = []
    for first, end in ((0, 1), (1, row_axes + 1), (row_axes + 1, array.ndim)):
        extent, step = 1, 0
        for axis in range(end - 1, first - 1, -1):
            if array.shape[axis] == 1:
                continue
            if extent > 1 and array.strides[axis] != step:
                return None
            extent *= array.shape[axis]
            step = array.strides[axis] * array.shape[axis]
        shape.append(extent)
    matrices = array.reshape(shape)
    row_stride, column_stride = matrices.strides[1:]
    item = matrices.itemsize
    is_row_major = column_stride == item and (shape[1] == 1 or row_stride >= item * shape[2])
    is_column_major = row_stride == item and (shape[2] == 1 or column_stride >= item * shape[1])
    return matrices if is_row_major or is_column_major else None


def empty_matrices(
    shape: tuple[int, ...],
    row_axes: int,
    empty: Callable[[tuple[int, ...]], Array],
    *,
    column_major: bool,
) -> tuple[Array, Array]:
    """Return an uninitialised array (G, *A, *B), and a view (G, A, B) of it.

    Parameters
    ----------
    shape : tuple of int
    row_axes : int
        Number of axes in A.
    empty : callable
        Returns an uninitialised C-contiguous array of a shape.
    column_major : bool
        Whether the axes lie in memory as (G, *B, *A).
    """
    groups, rows, columns = shape[0], shape[1 : row_axes + 1], shape[row_axes + 1 :]
    if not column_major:
        array = empty(shape)
        return array, array.reshape(groups, prod(rows), prod(columns))
    array = empty((groups, *columns, *rows))
    first_row_axis = len(columns) + 1
    matrices = array.reshape(groups, prod(columns), prod(rows)).swapaxes(1, 2)
    axes = (0, *range(first_row_axis, array.ndim), *range(1, first_row_axis))
    return array.transpose(axes), matrices


def as_matrices(
    array: Array,
    row_axes: int,
    dtype: np.dtype[Any],
    empty: Callable[[tuple[int, ...]], Array],
    *,
    column_major: bool,
) -> Array:
    """Return (G, A, B) of an array (G, *A, *B) in a data type, as a view or copied.

    The parameters are those of `empty_matrices`, for the copy.
    """
    view = view_as_matrices(array, row_axes) if array.dtype == dtype else None
    if view is not None:
        return view
    copied, matrices = empty_matrices(array.shape, row_axes, empty, column_major=column_major)
    widen_into(copied, array)
    return matrices
