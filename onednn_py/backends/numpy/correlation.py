"""Which element meets which: every operation as correlations along regular steps.

A convolution's forward pass is one correlation of src. The gradient of its data is a
correlation of dst for every remainder of the stride: the elements of src that leave the
same remainder are touched by the same taps, and step over dst one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

from onednn_py.problem.problem import Direction, Problem

__all__ = ["AxisTaps", "Correlation", "correlations"]


@dataclass(frozen=True, slots=True)
class AxisTaps:
    """One axis: target[t] is the sum over j of weights[j] * source[t*step + first + j*dilation].

    Attributes
    ----------
    kernel : slice
        The kernel's positions j, in the order in which they read the source.
    count : int
        How many they are.
    first : int
        Source element that the first position reads for t = 0; may lie outside.
    dilation, step : int
        Source elements from one position to the next, and from one t to the next.
    size : int
        Source elements; outside of them there are zeros.
    target : slice
        The target's elements t.
    windows : int
        How many they are.
    """

    kernel: slice
    count: int
    first: int
    dilation: int
    step: int
    size: int
    target: slice
    windows: int

    def reads(self, span: slice) -> tuple[int, int]:
        """Return the first source element that some windows read, and the one after the last."""
        begin = span.start * self.step + self.first
        last = (span.stop - 1) * self.step + self.first + (self.count - 1) * self.dilation
        return begin, last + 1


@dataclass(frozen=True, slots=True)
class Correlation:
    """The same along all axes, and the indices that select its weights and its target."""

    axes: tuple[AxisTaps, ...]

    @property
    def kernel(self) -> tuple[Any, ...]:
        return (..., *(axis.kernel for axis in self.axes))

    @property
    def target(self) -> tuple[Any, ...]:
        return (..., *(axis.target for axis in self.axes))

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(axis.count for axis in self.axes)

    @property
    def windows(self) -> tuple[int, ...]:
        return tuple(axis.windows for axis in self.axes)


def correlations(problem: Problem) -> list[Correlation]:
    """Return the correlations that a convolution's result is made of.

    Those for the weights' gradient are the forward pass's. Where the list does not cover
    the result's elements, nothing but the bias reaches them.
    """
    of_axis = _gathered if problem.direction is not Direction.BACKWARD_DATA else _scattered
    axes = [
        of_axis(*numbers)
        for numbers in zip(
            problem.kernel,
            problem.src.shape[2:],
            problem.dst.shape[2:],
            problem.strides,
            problem.dilations,
            problem.pads_begin,
            strict=True,
        )
    ]
    return [Correlation(combination) for combination in product(*axes)]


def _gathered(
    kernel: int, size: int, count: int, stride: int, dilation: int, pad_begin: int
) -> list[AxisTaps]:
    """Every dst element reads src: one correlation, or none if only padding is read."""
    return list(
        _trimmed(range(kernel), -pad_begin, dilation, stride, size, slice(0, count, 1), count)
    )


def _scattered(
    kernel: int, size: int, count: int, stride: int, dilation: int, pad_begin: int
) -> list[AxisTaps]:
    """Every src element reads dst, with the taps that suit its remainder by the stride."""
    by_remainder: dict[int, list[int]] = {}
    for tap in reversed(range(kernel)):
        by_remainder.setdefault((tap * dilation - pad_begin) % stride, []).append(tap)
    found: list[AxisTaps] = []
    for remainder, taps in by_remainder.items():
        windows = -((remainder - size) // stride)
        if windows <= 0:
            continue
        between = taps[0] - taps[1] if len(taps) > 1 else stride
        found += _trimmed(
            range(taps[0], taps[-1] - 1, -between),
            (remainder + pad_begin - taps[0] * dilation) // stride,
            between * dilation // stride,
            1,
            count,
            slice(remainder, size, stride),
            windows,
        )
    return found


def _trimmed(
    taps: range, first: int, dilation: int, step: int, size: int, target: slice, windows: int
) -> Iterable[AxisTaps]:
    """Leave out the outer taps that meet only padding, however far away they are."""

    def meets(number: int) -> bool:
        offset = first + number * dilation
        return max(0, -(offset // step)) <= min(windows - 1, (size - 1 - offset) // step)

    meeting = [number for number in range(len(taps)) if meets(number)]
    if meeting:
        kept = taps[meeting[0] : meeting[-1] + 1]
        kernel = slice(kept.start, kept.stop if kept.stop >= 0 else None, kept.step)
        first += meeting[0] * dilation
        yield AxisTaps(kernel, len(kept), first, dilation, step, size, target, windows)
