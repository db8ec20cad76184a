"""Stacks of matrices: equal to a reshape, in a layout that BLAS takes, views where possible."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onednn_py.backends.numpy.matrices import as_matrices, empty_matrices, view_as_matrices

F32 = np.dtype(np.float32)


def empty(shape: tuple[int, ...]) -> np.ndarray:
    return np.empty(shape, np.float32)


def numbers(*shape: int) -> np.ndarray:
    return np.arange(prod(shape), dtype=np.float32).reshape(shape)


def is_for_blas(matrices: np.ndarray) -> bool:
    """Whether rows or columns are contiguous and do not overlap."""
    _, rows, columns = matrices.shape
    _, row_stride, column_stride = (stride // matrices.itemsize for stride in matrices.strides)
    return (column_stride == 1 and (rows == 1 or row_stride >= columns)) or (
        row_stride == 1 and (columns == 1 or column_stride >= rows)
    )


@st.composite
def strided_arrays(draw: st.DrawFn) -> np.ndarray:
    """Arrays of 3 to 5 axes in any order in memory, some with gaps, reversed or broadcast axes."""
    ndim = draw(st.integers(3, 5))
    # At most 1024 elements, whose numbers float16 represents exactly.
    shape = [draw(st.integers(1, 3)) for _ in range(ndim)]
    array = numbers(*(size + draw(st.integers(0, 1)) for size in shape))
    array = array[tuple(slice(size) for size in shape)]
    array = array[(..., slice(None, None, draw(st.sampled_from([1, 1, 1, 2, -1]))))]
    return array.transpose(draw(st.permutations(range(ndim))))


@given(
    array=strided_arrays(),
    row_axes=st.integers(1, 3),
    dtype=st.sampled_from([np.float32, np.float16]),
    column_major=st.booleans(),
)
def test_values_are_those_of_a_reshape(
    array: np.ndarray, row_axes: int, dtype: type, column_major: bool
) -> None:
    row_axes = min(row_axes, array.ndim - 2)
    typed = array if dtype is np.float32 else array.astype(dtype)
    matrices = as_matrices(typed, row_axes, F32, empty, column_major=column_major)
    groups, rows = array.shape[0], prod(array.shape[1 : row_axes + 1])
    np.testing.assert_array_equal(matrices, array.reshape(groups, rows, -1))
    assert matrices.dtype == F32
    assert is_for_blas(matrices)


@pytest.mark.parametrize(
    ("array", "row_axes"),
    [
        (numbers(2, 3, 4), 1),
        (numbers(2, 3, 4, 5), 2),
        (numbers(2, 5, 3, 4).transpose(0, 2, 3, 1), 2),
        (numbers(2, 3, 4).swapaxes(1, 2), 1),
        (numbers(2, 3, 9)[:, :, 2:6], 1),
        (numbers(9, 1, 4)[::2], 1),
    ],
)
def test_what_blas_can_read_is_a_view(array: np.ndarray, row_axes: int) -> None:
    view = view_as_matrices(array, row_axes)
    assert view is not None
    assert np.shares_memory(view, array)


@pytest.mark.parametrize(
    ("array", "row_axes"),
    [
        (numbers(2, 3, 8)[..., ::2], 1),
        (numbers(2, 3, 4)[:, :, ::-1], 1),
        (numbers(2, 3, 4)[:, ::-1], 1),
        (numbers(2, 3, 5, 4)[:, :, :3], 2),
        (numbers(2, 3, 4, 5).transpose(0, 2, 1, 3), 2),
        (numbers(4, 3, 2).T, 1),
        (np.broadcast_to(numbers(2, 1, 4), (2, 3, 4)), 1),
    ],
)
def test_what_blas_would_copy_is_no_view(array: np.ndarray, row_axes: int) -> None:
    assert view_as_matrices(array, row_axes) is None


@pytest.mark.parametrize("column_major", [False, True])
def test_empty_matrices_are_two_views_of_one_memory(column_major: bool) -> None:
    array, matrices = empty_matrices((2, 3, 4, 5), 2, empty, column_major=column_major)
    assert array.shape == (2, 3, 4, 5)
    matrices[...] = numbers(2, 12, 5)
    np.testing.assert_array_equal(array, numbers(2, 3, 4, 5))
    assert matrices.strides[1 if column_major else 2] == 4
