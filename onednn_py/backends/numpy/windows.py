"""Tiles of a result, and what its windows read, as views of strides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from onednn_py.system.casting import widen_into
from onednn_py.system.parallel import spans

from .correlation import AxisTaps
from .workspace import Means

__all__ = ["GAP", "channels_last", "is_sparse", "lanes", "piece", "windows"]

Array = npt.NDArray[Any]
Tile = tuple[slice, ...]

# Elements that lie apart by more than so many times what is read of them are not copied
# into one padded array, but picked one by one.
SPARSE = 4

# Bytes of which a distance is no multiple, if reading across it is to be fast: otherwise
# many elements share one line of the cache. A gap of some elements makes it none.
CONFLICT = 256
GAP = 8


def lanes(listed: Sequence[Tile], number: int) -> list[list[Tile]]:
    """Cut a list of tiles into at most ``number`` lists."""
    length = -(-len(listed) // max(1, number))
    return [list(listed[span]) for span in spans(len(listed), length)]


def channels_last(array: Array) -> bool:
    """Whether the channels of (N, G, C, *spatial) lie closer together than its pixels do."""
    near = [s for s, e in zip(array.strides[1:3], array.shape[1:3], strict=True) if e > 1]
    far = [s for s, e in zip(array.strides[3:], array.shape[3:], strict=True) if e > 1]
    return not far or (bool(near) and min(near) < min(far))


def piece(
    source: Array,
    axes: Sequence[AxisTaps],
    tile: Tile,
    using: Means,
    *,
    last: bool | None,
) -> Array:
    """Return what a tile's windows read of (N, G, C, *S), zeros around it where they read more.

    Parameters
    ----------
    source : ndarray, shape (N, G, C, *S)
    axes : sequence of AxisTaps
    tile : tuple of slice
        The windows along each axis.
    using : Means
    last : bool or None
        Whether channels must be innermost, or pixels; None takes any source as it is.
    """
    reads = [axis.reads(span) for axis, span in zip(axes, tile, strict=True)]
    inside = tuple(
        slice(min(max(0, begin), axis.size), max(0, min(end, axis.size)))
        for axis, (begin, end) in zip(axes, reads, strict=True)
    )
    part: Array = source[_spatial(inside)]
    lengths = tuple(end - begin for begin, end in reads)
    fits = last is None or (source.dtype == using.dtype and channels_last(source) == last)
    if part.shape[3:] == lengths and fits:
        return part
    if channels_last(source) if last is None else last:
        buffer = using.empty("piece", (len(source), *lengths, *source.shape[1:3]))
        buffer = np.moveaxis(buffer, (-2, -1), (1, 2))
    else:
        buffer = using.empty("piece", (*source.shape[:3], *lengths))
    middle: list[slice] = []
    for number, (span, (begin, _)) in enumerate(zip(inside, reads, strict=True), 3):
        whole = (slice(None),) * number
        if span.start >= span.stop:
            buffer[...] = 0
            return buffer
        buffer[(*whole, slice(0, span.start - begin))] = 0
        buffer[(*whole, slice(span.stop - begin, None))] = 0
        middle.append(slice(span.start - begin, span.stop - begin))
    if last and not channels_last(source):
        part = _apart(part, using)
    widen_into(buffer[_spatial(middle)], part)
    return buffer


def windows(
    source: Array,
    axes: Sequence[AxisTaps],
    tile: Tile,
    using: Means,
    *,
    last: bool | None,
) -> Array:
    """Return (N, G, C, *taps, *windows) of a tile, a view of `piece` wherever that is small."""
    if any(is_sparse(axis, span) for axis, span in zip(axes, tile, strict=True)):
        return _picked(source, axes, tile)
    read = piece(source, axes, tile, using, last=last)
    strides = read.strides[3:]
    return as_strided(
        read,
        (
            *read.shape[:3],
            *(axis.count for axis in axes),
            *(span.stop - span.start for span in tile),
        ),
        (
            *read.strides[:3],
            *(axis.dilation * stride for axis, stride in zip(axes, strides, strict=True)),
            *(axis.step * stride for axis, stride in zip(axes, strides, strict=True)),
        ),
    )


def _apart(source: Array, using: Means) -> Array:
    """Return (N, G, C, *S) as it is, or copied, if its channels share lines of the cache."""
    channel = source.strides[2 if source.shape[2] > 1 else 1]
    if channel % CONFLICT:
        return source
    pixels = prod(source.shape[3:])
    shape = (*source.shape[:3], pixels + GAP)
    rows = using.memory.empty("rows", shape, source.dtype)[..., :pixels].reshape(source.shape)
    np.copyto(rows, source)
    return rows


def is_sparse(axis: AxisTaps, span: slice) -> bool:
    """Whether hardly any of the elements between the first and the last one read exist."""
    begin, end = axis.reads(span)
    real = max(0, min(end, axis.size) - max(0, begin))
    read: int = axis.count * (span.stop - span.start)
    return end - begin > SPARSE * (real + read)


def _spatial(index: Iterable[slice]) -> tuple[Any, ...]:
    return (..., *index)


def _picked(source: Array, axes: Sequence[AxisTaps], tile: Tile) -> Array:
    """Copy what windows read, whose pads and dilations may be of any size."""
    extended = np.pad(source, [(0, 0)] * 3 + [(0, 1)] * len(axes))
    indices = []
    for number, (axis, span) in enumerate(zip(axes, tile, strict=True)):
        taps = np.arange(axis.count) * axis.dilation + axis.first
        at = taps[:, np.newaxis] + np.arange(span.start, span.stop) * axis.step
        at[(at < 0) | (at >= axis.size)] = axis.size
        shape = [1] * (2 * len(axes))
        shape[number], shape[number + len(axes)] = at.shape
        indices.append(at.reshape(shape))
    picked: Array = extended[(slice(None),) * 3 + tuple(indices)]
    return picked
