"""Correlations multiply exactly the elements that the definition of a convolution multiplies."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import onednn_py
from onednn_py import TensorSpec
from onednn_py.backends.numpy.correlation import AxisCorrelation, _trimmed, correlations
from onednn_py.problem.problem import Direction, Problem, TensorLayout


def problem_1d(
    direction: Direction, kernel: int, src: int, dst: int, stride: int, dilation: int, pad: int
) -> Problem:
    def layout(*shape: int) -> TensorLayout:
        return TensorLayout(shape, tuple(np.empty(shape, np.int8).strides))

    pad_end = stride * (dst - 1) + (kernel - 1) * dilation + 1 - src - pad
    return Problem(
        transposed=False,
        direction=direction,
        dtype="f32",
        src=layout(1, 1, src),
        weights=layout(1, 1, 1, kernel),
        dst=layout(1, 1, dst),
        bias=None,
        strides=(stride,),
        dilations=(dilation,),
        pads_begin=(pad,),
        pads_end=(pad_end,),
    )


@given(
    direction=st.sampled_from(Direction),
    kernel=st.integers(1, 9),
    src=st.integers(1, 25),
    dst=st.integers(1, 12),
    stride=st.integers(1, 6),
    dilation=st.integers(1, 6),
    pad=st.integers(-4, 20),
)
def test_every_product_is_computed_once(
    direction: Direction, kernel: int, src: int, dst: int, stride: int, dilation: int, pad: int
) -> None:
    computed = []
    for correlation in correlations(problem_1d(direction, kernel, src, dst, stride, dilation, pad)):
        (axis,) = correlation.axes
        windows = np.arange(len(axis.target)) * axis.step + axis.offset
        reads = windows + np.arange(len(axis.kernel))[:, np.newaxis] * axis.dilation
        begin, end = axis.reads(slice(0, len(axis.target)))
        assert (begin, end) == (reads.min(), reads.max() + 1)
        inside = (reads >= 0) & (reads < axis.source_size)
        assert inside[0].any()
        assert inside[-1].any()
        for j, t in np.argwhere(inside):
            positions = (reads[j, t], axis.target[t])
            if direction is Direction.BACKWARD_DATA:
                positions = positions[::-1]
            computed.append((axis.kernel[j], *positions))
        assert list(np.arange(kernel)[correlation.kernel]) == list(axis.kernel)
        size = src if direction is Direction.BACKWARD_DATA else dst
        assert list(np.arange(size)[correlation.target]) == list(axis.target)
    defined = [
        (k, position, x)
        for k in range(kernel)
        for x in range(dst)
        if 0 <= (position := x * stride - pad + k * dilation) < src
    ]
    assert sorted(computed) == defined


def test_axes_are_combined() -> None:
    problem = problem_1d(Direction.BACKWARD_DATA, 3, 9, 4, 2, 1, 0)
    square = Problem(
        **{
            **vars(problem),
            "src": TensorLayout((1, 1, 9, 9), (81, 81, 9, 1)),
            "weights": TensorLayout((1, 1, 1, 3, 3), (9, 9, 9, 3, 1)),
            "dst": TensorLayout((1, 1, 4, 4), (16, 16, 4, 1)),
            "strides": (2, 2),
            "dilations": (1, 1),
            "pads_begin": (0, 0),
            "pads_end": (0, 0),
        }
    )
    shapes = [correlation.kernel_shape for correlation in correlations(square)]
    assert sorted(shapes) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    covered = np.zeros((9, 9), int)
    for correlation in correlations(square):
        assert covered[correlation.target].shape == correlation.target_shape
        covered[correlation.target] += 1
    assert (covered == 1).all()


def test_a_kernel_that_reads_padding_mostly_is_planned_at_once() -> None:
    """Counting 2**40 positions one by one would not end."""
    many = 2**40
    layout = TensorLayout((1, 1, 1), (1, 1, 1))
    weights = TensorLayout((1, 1, 1, many), (many, many, many, 1))
    for direction in Direction:
        problem = Problem(
            transposed=False,
            direction=direction,
            dtype="f32",
            src=layout,
            weights=weights,
            dst=layout,
            bias=None,
            strides=(1,),
            dilations=(1,),
            pads_begin=(many - 1,),
            pads_end=(0,),
        )
        (correlation,) = correlations(problem)
        assert correlation.kernel_shape == (1,)


@given(
    kernel=st.integers(1, 12),
    target=st.integers(0, 6),
    offset=st.integers(-60, 12),
    dilation=st.integers(1, 12),
    step=st.integers(1, 12),
    source=st.integers(1, 12),
)
def test_trimming_keeps_what_a_look_at_every_position_finds(
    kernel: int, target: int, offset: int, dilation: int, step: int, source: int
) -> None:
    axis = AxisCorrelation(range(kernel), range(target), offset, dilation, step, source)
    inside = [
        j
        for j in range(kernel)
        if any(0 <= t * step + offset + j * dilation < source for t in range(target))
    ]
    kept = [(trimmed.kernel, trimmed.offset) for trimmed in _trimmed(axis)]
    if not inside:
        assert not kept
        return
    first, last = inside[0], inside[-1]
    assert kept == [(range(first, last + 1), offset + first * dilation)]


def test_a_stride_over_the_whole_source_is_planned_at_once() -> None:
    """The windows lie on both sides of the source for half of the kernel's positions."""
    src, weights = TensorSpec((1, 5, 1), "f4"), TensorSpec((10**9, 1, 1), "f4")
    plan = onednn_py.plan(
        "convolution",
        src,
        weights,
        strides=10**9,
        pads_begin=1_500_000_000,
        pads_end=499_999_995,
        backend="numpy",
    )
    # With those from 500,000,000 on, the second window reads the source.
    assert "5 kernel positions" in repr(plan)
