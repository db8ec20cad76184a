"""Where the kernel positions of windows meet elements of src, whatever remainders they leave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import gcd

from onednn_py.problem.problem import Problem
from onednn_py.system.parallel import spans

__all__ = ["AxisMeetings", "axis_numbers", "meetings"]


@dataclass(frozen=True, slots=True)
class AxisMeetings:
    """One axis: window x meets src at x * stride + k * dilation - pad_begin, if that is inside.

    Attributes
    ----------
    kernel, windows : range
        Kernel positions k and windows x, without the outer ones that meet only padding.
    stride, dilation, pad_begin : int
    size : int
        Elements of src.
    """

    kernel: range
    windows: range
    stride: int
    dilation: int
    pad_begin: int
    size: int

    @property
    def between(self) -> int:
        """From one kernel position to the next that leaves the same remainder of the stride."""
        return self.stride // gcd(self.stride, self.dilation)

    def boxes(self, span: slice) -> Iterator[tuple[int, slice, slice]]:
        """Yield boxes of kernel positions and windows that all meet src, no two at one element.

        A box is the element that its first two meet, its kernel positions, counted from the
        first of ``kernel``, and its windows, counted from the first of ``span``, a slice of
        ``windows``. There are at most as many boxes as kernel positions, and as windows.
        """
        kernel, windows = self.kernel, self.windows[span]
        start = windows.start * self.stride + kernel.start * self.dilation - self.pad_begin
        at_once, _ = self._boxes_at_most(len(windows))
        for part in spans(len(kernel), at_once):
            first, count = start + part.start * self.dilation, part.stop - part.start
            reach = (count - 1) * self.dilation
            met = _meeting(first, self.stride, len(windows), self.size, reach)
            inside = _meeting(first, self.stride, len(windows), self.size - reach)
            if at_once > self.between:
                inside = range(0)  # windows overlap, so that each has a box of its own
            if inside:
                yield first + inside.start * self.stride, part, slice(inside.start, inside.stop)
            before = range(met.start, min(met.stop, inside.start))
            for window in chain(before, range(max(met.start, inside.stop), met.stop)):
                origin = first + window * self.stride
                met_positions = _meeting(origin, self.dilation, count, self.size)
                if met_positions:
                    begin, end = met_positions.start, met_positions.stop
                    yield (
                        origin + begin * self.dilation,
                        slice(part.start + begin, part.start + end),
                        slice(window, window + 1),
                    )

    @property
    def most_boxes(self) -> int:
        """The most boxes that ``boxes`` yields for all windows."""
        return self._boxes_at_most(len(self.windows))[1]

    def _boxes_at_most(self, windows: int) -> tuple[int, int]:
        """Return how many kernel positions a box of a tile has at the most, and how many boxes."""
        kernel, between = len(self.kernel), self.between
        reach = (min(kernel, between) - 1) * self.dilation
        # Windows that are partly inside, at either edge, have boxes of their own.
        edges = min(windows, 2 * -(-reach // self.stride))
        ways = [
            (windows, max(1, kernel)),
            (-(-kernel // between) * (1 + edges), between),
            (kernel, 1),
        ]
        boxes, at_once = min(ways, key=lambda way: way[0])
        return at_once, boxes


def meetings(problem: Problem) -> tuple[AxisMeetings, ...]:
    """Return the axes of a convolution."""
    return tuple(
        AxisMeetings(
            _meeting(-pad, dilation, kernel, size, (windows - 1) * stride),
            _meeting(-pad, stride, windows, size, (kernel - 1) * dilation),
            stride,
            dilation,
            pad,
            size,
        )
        for kernel, size, windows, stride, dilation, pad in axis_numbers(problem)
    )


def axis_numbers(problem: Problem) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Yield each axis's kernel, elements of src and dst, stride, dilation and pad at the begin."""
    return zip(
        problem.kernel,
        problem.src.shape[2:],
        problem.dst.shape[2:],
        problem.strides,
        problem.dilations,
        problem.pads_begin,
        strict=True,
    )


def _meeting(first: int, step: int, count: int, size: int, reach: int = 0) -> range:
    """Return for which of ``count`` numbers a stretch meets range(size).

    It begins at first + number * step, and reaches so many elements further.
    """
    begin = max(0, -((first + reach) // step))
    return range(begin, max(begin, min(count, (size - 1 - first) // step + 1)))
