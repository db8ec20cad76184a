"""Weights gradients of volumes in parts that meet no padding along the depth.

oneDNN's kernels of AVX2 for weights gradients take no volumes that are padded along the depth
(v3.2). There remains a product with the patches of each image, which are several times as large as
src. Windows in the middle of a volume meet src with all positions of the kernel along the depth.
Windows at its ends meet src with some of these positions: their part is a gradient of a kernel that
has these positions alone, and is added to the same positions of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.geometry import effective_kernel
from onednn_py.problem.problem import Direction, Problem

from .chunks import Chunk, ChunkTensor, InChunks, SplitPart, part_of

__all__ = ["DepthPart", "as_unpadded", "parts_along_depth"]

# More executions, each with its reorders, are not worth the time: chunks are larger instead.
MOST_CHUNKS = 64

# Windows at both ends that are looked at one by one. With more, most of a volume is padding.
MOST_END_WINDOWS = 2**14

# What the planes of a chunk take of src and diff_dst together.
CHUNK_BYTES = 2**25


class DepthPart(NamedTuple):
    """Planes of diff_dst, and the positions along the depth with which they meet src."""

    windows: range
    positions: range


def as_unpadded(inner: Problem) -> InChunks | None:
    """Return a weights gradient of padded volumes as a sum over parts without padding.

    Parameters
    ----------
    inner : Problem
        In the roles of a convolution, without bias.

    Returns
    -------
    InChunks or None
        The first chunk has all positions along the depth, unless no window meets src with all. None
        for another problem, where all windows meet src with the same positions, or with too many
        parts.
    """
    if inner.direction is not Direction.BACKWARD_WEIGHTS or len(inner.kernel) != 3:
        return None
    whole = range(inner.kernel[0])
    parts = parts_along_depth(inner)
    if parts is None or not 1 < len(parts) < MOST_CHUNKS:
        return None
    begins_at_zero = whole not in [part.positions for part in parts]
    most = MOST_CHUNKS - len(parts)
    length = max(_planes_of_a_chunk(inner), -(-inner.dst.shape[2] // most))
    blocks = [
        DepthPart(part.windows[begin : begin + length], part.positions)
        for part in sorted(parts, key=lambda part: part.positions != whole)
        for begin in range(0, len(part.windows), length)
    ]
    chunks = []
    same: dict[Problem, Problem] = {}
    for index, part in enumerate(blocks):
        problem, begins = _of_part(inner, part)
        tensors = {role: ChunkTensor(begin, is_split=True) for role, begin in begins.items()}
        tensors["weights"] = replace(tensors["weights"], is_partial_sum=True)
        problem = same.setdefault(problem, problem)
        is_first = index == 0 and not begins_at_zero
        chunks.append(Chunk(problem, tensors, is_first, index == len(blocks) - 1))
    return InChunks(inner, tuple(chunks), begins_at_zero)


def parts_along_depth(inner: Problem) -> list[DepthPart] | None:
    """Return the windows along the depth by the positions with which they meet src.

    None where more than `MOST_END_WINDOWS` do not meet src with all positions.
    """
    middle = _windows_of_all_positions(inner)
    ends = range(middle.start), range(middle.stop, inner.dst.shape[2])
    if sum(map(len, ends)) > MOST_END_WINDOWS:
        return None
    whole = [DepthPart(middle, range(inner.kernel[0]))] if middle else []
    return [*_parts_at_an_end(inner, ends[0]), *whole, *_parts_at_an_end(inner, ends[1])]


def _parts_at_an_end(inner: Problem, windows: range) -> Iterator[DepthPart]:
    """Yield the parts of some windows, leaving out windows that meet only padding."""
    begin = windows.start
    for positions, alike in groupby(windows, lambda window: _positions(inner, window)):
        end = begin + sum(1 for _ in alike)
        if positions:
            yield DepthPart(range(begin, end), positions)
        begin = end


def _windows_of_all_positions(inner: Problem) -> range:
    """Return the windows that meet src with all positions along the depth of the kernel."""
    stride, pad = inner.strides[0], inner.pads_begin[0]
    extent = effective_kernel(inner.kernel[0], inner.dilations[0])
    windows = inner.dst.shape[2]
    first = min(windows, -(-pad // stride))
    last = (inner.src.shape[2] - extent + pad) // stride
    return range(first, max(first, min(windows, last + 1)))


def _positions(inner: Problem, window: int) -> range:
    """Return the positions along the depth of the kernel with which a window meets src."""
    dilation, first = inner.dilations[0], window * inner.strides[0] - inner.pads_begin[0]
    last = (inner.src.shape[2] - 1 - first) // dilation
    return range(max(0, -(first // dilation)), min(inner.kernel[0], last + 1))


def _planes_of_a_chunk(inner: Problem) -> int:
    elements = sum(layout.size // layout.shape[2] for layout in (inner.src, inner.dst))
    return max(1, CHUNK_BYTES // (elements * DTYPES[inner.dtype].itemsize))


def _of_part(inner: Problem, part: DepthPart) -> SplitPart:
    """Return the gradient of a part, and the index of each tensor's first element."""
    windows, positions = part
    stride, dilation = inner.strides[0], inner.dilations[0]
    plane = windows.start * stride + positions.start * dilation - inner.pads_begin[0]
    planes = (len(windows) - 1) * stride + (len(positions) - 1) * dilation + 1
    return part_of(
        inner,
        {"src": (2, range(plane, plane + planes)), "weights": (3, positions), "dst": (2, windows)},
        pads_begin=(0, *inner.pads_begin[1:]),
        pads_end=(0, *inner.pads_end[1:]),
    )
