"""Boxes of kernel positions and windows: every product once, no element of src twice in a box."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onednn_py.backends.numpy.meetings import AxisMeetings, meetings
from onednn_py.problem.problem import Direction, Problem, TensorLayout


def axis_of(kernel: int, src: int, dst: int, stride: int, dilation: int, pad: int) -> AxisMeetings:
    problem = Problem(
        transposed=False,
        direction=Direction.BACKWARD_DATA,
        dtype="f32",
        src=TensorLayout((1, 1, src), (src, src, 1)),
        weights=TensorLayout((1, 1, 1, kernel), (kernel, kernel, kernel, 1)),
        dst=TensorLayout((1, 1, dst), (dst, dst, 1)),
        bias=None,
        strides=(stride,),
        dilations=(dilation,),
        pads_begin=(pad,),
        pads_end=(stride * (dst - 1) + (kernel - 1) * dilation + 1 - src - pad,),
    )
    (axis,) = meetings(problem)
    return axis


@given(
    kernel=st.integers(1, 20),
    src=st.integers(1, 40),
    dst=st.integers(1, 12),
    stride=st.integers(1, 12),
    dilation=st.integers(1, 12),
    pad=st.integers(-6, 60),
    tile=st.integers(1, 12),
)
@example(kernel=2, src=1, dst=2, stride=12, dilation=12, pad=6, tile=12)  # nothing meets
def test_every_product_is_in_one_box(
    kernel: int, src: int, dst: int, stride: int, dilation: int, pad: int, tile: int
) -> None:
    axis = axis_of(kernel, src, dst, stride, dilation, pad)
    added = []
    for first in range(0, len(axis.windows), tile):
        windows = slice(first, min(first + tile, len(axis.windows)))
        for begin, of_kernel, of_windows in axis.boxes(windows):
            k = np.array(axis.kernel)[of_kernel, np.newaxis]
            x = np.array(axis.windows[windows])[of_windows]
            elements = x * stride + k * dilation - pad
            assert elements[0, 0] == begin
            assert np.unique(elements).size == elements.size
            pairs = np.broadcast(k, x)
            added += [(*pair, e) for pair, e in zip(pairs, elements.ravel(), strict=True)]
    defined = [
        (k, x, element)
        for k in range(kernel)
        for x in range(dst)
        if 0 <= (element := x * stride + k * dilation - pad) < src
    ]
    assert sorted(added) == defined
    whole = slice(0, len(axis.windows))
    boxes = sum(1 for _ in axis.boxes(whole))
    assert boxes <= axis.most_boxes <= min(len(axis.kernel), len(axis.windows))


def test_what_meets_only_padding_is_left_out_without_counting() -> None:
    axis = axis_of(kernel=2**40, src=1, dst=1, stride=1, dilation=1, pad=2**40 - 1)
    assert axis.kernel == range(2**40 - 1, 2**40)
    axis = axis_of(kernel=3, src=5, dst=2**40, stride=2, dilation=1, pad=2**40)
    assert axis.windows == range(2**39 - 1, 2**39 + 3)


@pytest.mark.parametrize(
    ("kernel", "dst", "stride", "dilation", "boxes"),
    [
        (10**9, 1000, 10**9, 1, 1),
        (16, 14, 16, 3, 1),
        (1024, 500, 256, 1, 4),
        (10**9, 3, 2, 1, 3),
        (100, 5000, 5, 1001, 100),
    ],
)
def test_there_are_few_boxes(kernel: int, dst: int, stride: int, dilation: int, boxes: int) -> None:
    src = stride * (dst - 1) + (kernel - 1) * dilation + 1
    axis = axis_of(kernel, src, dst, stride, dilation, pad=0)
    assert sum(1 for _ in axis.boxes(slice(0, dst))) == boxes
