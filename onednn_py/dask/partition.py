"""How a call is cut into blocks: along the minibatch, groups, channels and space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from onednn_py.overlap import SpatialAxis
from onednn_py.problem.formats import TensorView

from .layer import Interval

__all__ = [
    "ChannelBlock",
    "box_of",
    "caller_axis",
    "elements_like_windows",
    "group_intervals",
    "intervals",
    "windows_like_elements",
]


class ChannelBlock(NamedTuple):
    """Groups, and channels of dst and of src in each of them.

    With several groups, all channels of each belong to the block.
    """

    groups: Interval
    outputs: Interval
    inputs: Interval

    def activations(self, *, of_src: bool, per_group: int) -> Interval:
        """Return the channels of src or of dst that belong to the block."""
        first, last = self.inputs if of_src else self.outputs
        return self.groups[0] * per_group + first, (self.groups[1] - 1) * per_group + last


def intervals(edges: Iterable[int]) -> list[Interval]:
    """Return the intervals between edges, without empty ones; a single empty one if all are."""
    distinct = sorted(set(edges))
    return list(pairwise(distinct)) or [(distinct[0], distinct[0])]


def windows_like_elements(axis: SpatialAxis, edges: Sequence[int]) -> list[Interval]:
    """Return windows in blocks whose middles lie in the same chunk of elements."""
    shift = axis.pad_begin - (axis.extent - 1) // 2
    inner = [-(-(edge + shift) // axis.stride) for edge in edges[1:-1]]
    return intervals([0, *_clipped(inner, axis.count), axis.count])


def elements_like_windows(axis: SpatialAxis, edges: Sequence[int]) -> list[Interval]:
    """Return elements in blocks, cut between the middles of windows of neighbouring chunks.

    The inverse of `windows_like_elements` where that is possible.
    """
    shift = (axis.extent - axis.stride) // 2 - axis.pad_begin
    lies_between = (axis.extent - axis.stride) % 2 == 1
    if lies_between and (shift + 1) % axis.stride == 0 and axis.stride > 1:
        # The middle is half an element further. Chunks are mostly multiples of the stride.
        shift += 1
    inner = [edge * axis.stride + shift for edge in edges[1:-1]]
    return intervals([0, *_clipped(inner, axis.size), axis.size])


def _clipped(edges: Iterable[int], most: int) -> list[int]:
    return [min(max(edge, 0), most) for edge in edges]


def group_intervals(groups: int, per_group: int, edges: Iterable[int]) -> list[Interval]:
    """Return groups in blocks: as channels are chunked, without cutting a group."""
    return intervals([0, *(edge // per_group for edge in edges if per_group), groups])


def caller_axis(view: TensorView, canonical: int) -> int:
    """Return the caller's axis that has a canonical axis, or the part of it inside a group."""
    axis = view.axes[canonical]
    return axis - (axis > view.split_axis >= 0)


def box_of(view: TensorView, canonical: Sequence[Interval]) -> list[Interval]:
    """Return a box in the caller's axes, given in canonical ones.

    Of an axis that the view splits into groups and the rest, the rest must be whole where there are
    several groups.
    """
    split: list[Interval] = [(0, 0)] * len(view.split)
    for position, axis in enumerate(view.axes):
        split[axis] = canonical[position]
    axis = view.split_axis
    if axis < 0:
        return split
    inner = view.split[axis + 1]
    groups, rest = split[axis : axis + 2]
    merged = (groups[0] * inner + rest[0], (groups[1] - 1) * inner + rest[1])
    return [*split[:axis], merged, *split[axis + 2 :]]
