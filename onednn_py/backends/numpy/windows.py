"""Tiles of a result, and the source elements that their windows read, as strided views."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from onednn_py.system.casting import widen_into
from onednn_py.system.parallel import spans

from .correlation import AxisCorrelation
from .workspace import Workspace

__all__ = ["GAP", "Tile", "is_channels_last", "is_sparse", "padded_source", "split", "windows"]

Array = npt.NDArray[Any]
Tile = tuple[slice, ...]

# Windows that spread over this many times the elements that they read are not copied into a
# padded array: their elements are picked by index.
SPARSE = 4

# Elements whose distance is a multiple of this many bytes compete for the same cache lines and
# are slow to read in turn. A gap of some elements makes the distance another one.
CONFLICT = 256
GAP = 8


def split(tiles: Sequence[Tile], most: int) -> list[list[Tile]]:
    """Split a list of tiles into at most ``most`` lists."""
    length = -(-len(tiles) // max(1, most))
    return [list(tiles[span]) for span in spans(len(tiles), length)]


def is_channels_last(array: Array) -> bool:
    """Whether the channels of (N, G, C, *spatial) lie closer together than its pixels do."""
    channels = [s for s, e in zip(array.strides[1:3], array.shape[1:3], strict=True) if e > 1]
    pixels = [s for s, e in zip(array.strides[3:], array.shape[3:], strict=True) if e > 1]
    return not pixels or (bool(channels) and min(channels) < min(pixels))


def padded_source(
    source: Array,
    axes: Sequence[AxisCorrelation],
    spatial: Sequence[slice],
    workspace: Workspace,
    *,
    channels_last: bool | None,
) -> Array:
    """Return the part of (N, G, C, *S) that a tile's windows read, with its padding.

    Parameters
    ----------
    source : ndarray, shape (N, G, C, *S)
    axes : sequence of AxisCorrelation
    spatial : sequence of slice
        The tile's windows along each spatial axis.
    workspace : Workspace
    channels_last : bool or None
        Whether channels must be innermost, or pixels; None accepts both, and any data type.
    """
    reads = [axis.reads(span) for axis, span in zip(axes, spatial, strict=True)]
    inside: tuple[Any, ...] = tuple(
        slice(min(max(0, begin), axis.source_size), max(0, min(end, axis.source_size)))
        for axis, (begin, end) in zip(axes, reads, strict=True)
    )
    part: Array = source[(..., *inside)]
    lengths = tuple(end - begin for begin, end in reads)
    is_ordered = channels_last is None or (
        source.dtype == workspace.dtype and is_channels_last(source) == channels_last
    )
    if part.shape[3:] == lengths and is_ordered:
        return part
    if is_channels_last(source) if channels_last is None else channels_last:
        padded = workspace.empty("padded", (len(source), *lengths, *source.shape[1:3]))
        padded = np.moveaxis(padded, (-2, -1), (1, 2))
    else:
        padded = workspace.empty("padded", (*source.shape[:3], *lengths))
    middle: list[Any] = []
    for number, (span, (begin, _)) in enumerate(zip(inside, reads, strict=True), 3):
        outer = (slice(None),) * number
        if span.start >= span.stop:
            padded[...] = 0
            return padded
        padded[(*outer, slice(0, span.start - begin))] = 0
        padded[(*outer, slice(span.stop - begin, None))] = 0
        middle.append(slice(span.start - begin, span.stop - begin))
    if channels_last and not is_channels_last(source):
        part = _without_conflicts(part, workspace)
    widen_into(padded[(..., *middle)], part)
    return padded


def windows(
    source: Array,
    axes: Sequence[AxisCorrelation],
    spatial: Sequence[slice],
    workspace: Workspace,
    *,
    channels_last: bool | None,
) -> Array:
    """Return (N, G, C, *kernel, *windows) of a tile: a view of `padded_source`, unless sparse.

    The parameters are those of `padded_source`.
    """
    if any(is_sparse(axis, span) for axis, span in zip(axes, spatial, strict=True)):
        return _windows_by_index(source, axes, spatial)
    padded = padded_source(source, axes, spatial, workspace, channels_last=channels_last)
    strides = list(zip(axes, padded.strides[3:], strict=True))
    kernel_strides = (axis.dilation * stride for axis, stride in strides)
    window_strides = (axis.step * stride for axis, stride in strides)
    lengths = (span.stop - span.start for span in spatial)
    return as_strided(
        padded,
        (*padded.shape[:3], *(len(axis.kernel) for axis in axes), *lengths),
        (*padded.strides[:3], *kernel_strides, *window_strides),
    )


def is_sparse(axis: AxisCorrelation, span: slice) -> bool:
    """Whether the windows read only few of the positions that they spread over."""
    begin, end = axis.reads(span)
    inside = max(0, min(end, axis.source_size) - max(0, begin))
    read: int = len(axis.kernel) * (span.stop - span.start)
    return end - begin > SPARSE * (inside + read)


def _without_conflicts(source: Array, workspace: Workspace) -> Array:
    """Return (N, G, C, *S), copied if its channels would compete for the same cache lines."""
    channel_stride = source.strides[2 if source.shape[2] > 1 else 1]
    if channel_stride % CONFLICT:
        return source
    pixels = prod(source.shape[3:])
    copied = workspace.empty("with gaps", (*source.shape[:3], pixels + GAP), source.dtype)
    copied = copied[..., :pixels].reshape(source.shape)
    np.copyto(copied, source)
    return copied


def _windows_by_index(
    source: Array, axes: Sequence[AxisCorrelation], spatial: Sequence[slice]
) -> Array:
    """Copy the elements that windows read, however wide pads and dilations are."""
    # The index behind the last element reads a zero.
    extended = np.pad(source, [(0, 0)] * 3 + [(0, 1)] * len(axes))
    indices = []
    for number, (axis, span) in enumerate(zip(axes, spatial, strict=True)):
        kernel = np.arange(len(axis.kernel)) * axis.dilation + axis.offset
        index = kernel[:, np.newaxis] + np.arange(span.start, span.stop) * axis.step
        index[(index < 0) | (index >= axis.source_size)] = axis.source_size
        shape = [1] * (2 * len(axes))
        shape[number], shape[number + len(axes)] = index.shape
        indices.append(index.reshape(shape))
    read: Array = extended[(slice(None),) * 3 + tuple(indices)]
    return read
