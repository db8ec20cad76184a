"""Which elements are multiplied with which: every operation as correlations with regular steps.

A convolution's forward pass is one correlation of src. The gradient of its data is one
correlation of dst for every remainder of the stride: elements of src whose positions leave
the same remainder are reached by the same kernel positions, and step over dst one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import gcd
from typing import Any

from onednn_py.problem.problem import Direction, Problem
from onednn_py.problem.progressions import first_and_last

from .meetings import axis_numbers

__all__ = ["AxisCorrelation", "Correlation", "correlations"]


@dataclass(frozen=True, slots=True)
class AxisCorrelation:
    """One axis: target[t] is the sum over j of weights[j] * source[t*step + offset + j*dilation].

    Attributes
    ----------
    kernel : range
        The kernel positions that j counts, in the order in which they read the source.
    target : range
        The target positions that t counts.
    offset : int
        Source position that j = 0 reads for t = 0; may be in the padding.
    dilation, step : int
        Source positions from one j to the next, and from one t to the next.
    source_size : int
        Source elements; outside of them there are zeros.
    """

    kernel: range
    target: range
    offset: int
    dilation: int
    step: int
    source_size: int

    def reads(self, windows: slice) -> tuple[int, int]:
        """Return the first source position that windows (a slice of t) read, and the end."""
        begin = windows.start * self.step + self.offset
        last = (windows.stop - 1) * self.step + self.offset + (len(self.kernel) - 1) * self.dilation
        return begin, last + 1


@dataclass(frozen=True, slots=True)
class Correlation:
    """A correlation along all axes, and the indices that select its weights and its target."""

    axes: tuple[AxisCorrelation, ...]

    @property
    def kernel(self) -> tuple[Any, ...]:
        return (..., *(_as_slice(axis.kernel) for axis in self.axes))

    @property
    def target(self) -> tuple[Any, ...]:
        return (..., *(_as_slice(axis.target) for axis in self.axes))

    @property
    def kernel_shape(self) -> tuple[int, ...]:
        return tuple(len(axis.kernel) for axis in self.axes)

    @property
    def target_shape(self) -> tuple[int, ...]:
        return tuple(len(axis.target) for axis in self.axes)


def correlations(problem: Problem) -> list[Correlation]:
    """Return the correlations that compute a convolution's result.

    A weights gradient has those of the forward pass. Elements of the result that no
    correlation covers are zero, or the bias.
    """
    is_backward_data = problem.direction is Direction.BACKWARD_DATA
    of_axis = _backward_data_axis if is_backward_data else _forward_axis
    axes = [
        [axis for whole in of_axis(*numbers) for axis in _trimmed(whole)]
        for numbers in axis_numbers(problem)
    ]
    return [Correlation(combination) for combination in product(*axes)]


def _forward_axis(
    kernel: int, src: int, dst: int, stride: int, dilation: int, pad_begin: int
) -> list[AxisCorrelation]:
    """Every dst element reads src."""
    return [AxisCorrelation(range(kernel), range(dst), -pad_begin, dilation, stride, src)]


def _backward_data_axis(
    kernel: int, src: int, dst: int, stride: int, dilation: int, pad_begin: int
) -> list[AxisCorrelation]:
    """Every src element reads dst, with the kernel positions that fit its remainder."""
    # Positions so far apart have the same remainder.
    between = stride // gcd(stride, dilation)
    axes = []
    for last in reversed(range(max(kernel - between, 0), kernel)):
        remainder = (last * dilation - pad_begin) % stride
        axes.append(
            AxisCorrelation(
                kernel=range(last, -1, -between),
                target=range(remainder, src, stride),
                offset=(remainder + pad_begin - last * dilation) // stride,
                dilation=between * dilation // stride,
                step=1,
                source_size=dst,
            )
        )
    return axes


def _trimmed(axis: AxisCorrelation) -> list[AxisCorrelation]:
    """Drop the outer kernel positions that read only padding; all of them leave no correlation."""
    found = first_and_last(
        axis.offset,
        axis.dilation,
        len(axis.kernel),
        axis.step,
        len(axis.target),
        axis.source_size,
    )
    if found is None:
        return []
    first, last = found
    offset = axis.offset + first * axis.dilation
    return [replace(axis, kernel=axis.kernel[first : last + 1], offset=offset)]


def _as_slice(positions: range) -> slice:
    # A range that counts down to 0 ends at -1, which a slice takes for the last element.
    return slice(positions.start, positions.stop if positions.stop >= 0 else None, positions.step)
