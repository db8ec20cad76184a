"""What a primitive sees of the tensor that strides step over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from onednn_py.backends.onednn.selection.windows import (
    layout_seen,
    leaves_elements_out,
    spatial_sizes,
    window_of,
)
from onednn_py.problem.problem import Problem, TensorLayout
from tests.support.candidate_runs import CandidateRun
from tests.support.cases import Case, case


def problem(geometry: Case, operation: str = "convolution_backward_data") -> Problem:
    return CandidateRun(geometry.integers("f32"), operation, "NCX").problem


def test_a_1x1_kernel_sees_every_stride_th_element() -> None:
    strided = problem(case((9, 8), 1, 2))
    window = window_of(strided, "strided_1x1")
    assert window == (slice(0, 9, 2), slice(0, 7, 2))
    assert leaves_elements_out(strided, window)
    assert not leaves_elements_out(problem(case((9, 8), 1, 2), "convolution"), window)


def test_strided_1x1_is_for_strided_1x1_kernels() -> None:
    assert window_of(problem(case((9, 8), 1)), "strided_1x1") is None
    assert window_of(problem(case((9, 8), 3, 2)), "strided_1x1") is None
    assert window_of(problem(case((9, 8), 1, 2, pads=1)), "strided_1x1") is None
    assert window_of(problem(case((9, 8), 1)), "matmul") == (slice(0, 9, 1), slice(0, 8, 1))


@pytest.mark.parametrize(("size", "seen"), [(12, 12), (13, 13), (14, 12)])
def test_a_tail_of_a_whole_stride_is_left_out(size: int, seen: int) -> None:
    """oneDNN refuses it. A smaller tail stays, as what strides leave over."""
    geometry = case((size,), 3, 3)
    asked = problem(geometry)
    asked = asked if size < 14 else _with_tail(asked)
    window = window_of(asked, "direct")
    assert window == (slice(0, seen),)
    assert leaves_elements_out(asked, window) == (seen < size)


def _with_tail(asked: Problem) -> Problem:
    """Return the problem with an element more behind the windows."""
    (end,) = asked.pads_end
    assert end == -2
    images, channels, size = asked.src.shape
    src = TensorLayout((images, channels, size + 1), asked.src.strides)
    return replace(asked, src=src, pads_end=(end - 1,))


def test_a_layout_seen_is_that_of_a_view() -> None:
    array = np.zeros((2, 3, 9, 8), np.float32)
    layout = TensorLayout(array.shape, tuple(step // 4 for step in array.strides))
    window = (slice(0, 9, 2), slice(0, 7, 3))
    view = array[:, :, window[0], window[1]]
    seen = layout_seen(layout, window)
    assert seen.shape == view.shape
    assert seen.strides == tuple(step // 4 for step in view.strides)


def test_spatial_sizes_are_of_the_side_of_the_strides() -> None:
    geometry = case((9, 8), 3, 2)
    assert spatial_sizes(problem(geometry)) == (9, 8)
    transposed = problem(geometry, "conv_transpose")
    assert spatial_sizes(transposed) == transposed.dst.shape[2:]
