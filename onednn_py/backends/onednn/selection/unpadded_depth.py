"""Weights gradients of volumes in parts that meet no padding along the depth.

oneDNN's kernels of AVX2 for weights gradients take no volumes that are padded along the depth
(v3.2). There remains a product with the patches of each image, which are several times as large as
src. The windows in the middle of a volume meet no padding, and those at both ends meet it with some
positions of the kernel, whose products are zero: windows with the same other positions are a
gradient of these alone. It is added to their part of the whole.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Direction, Problem, TensorLayout

from .chunks import Chunk, ChunkTensor, without_image_gap

__all__ = ["as_unpadded"]

# More executions, each with its reorders, are not worth the time.
MOST_CHUNKS = 64

# What the planes of a chunk take of src and diff_dst together.
CHUNK_BYTES = 2**25


class _Part(NamedTuple):
    """Planes of diff_dst, and the positions along the depth with which they meet src."""

    windows: range
    positions: range


def as_unpadded(inner: Problem) -> tuple[Chunk, ...] | None:
    """Return a weights gradient of padded volumes as a sum over parts without padding.

    Parameters
    ----------
    inner : Problem
        In the roles of a convolution.

    Returns
    -------
    tuple of Chunk or None
        The first has all positions along the depth. None for another problem, without padding along
        the depth, where every window meets it, or with too many parts.
    """
    if inner.direction is not Direction.BACKWARD_WEIGHTS or len(inner.kernel) != 3:
        return None
    whole = range(inner.kernel[0])
    parts = _parts(inner)
    if len(parts) == 1 or whole not in [part.positions for part in parts]:
        return None
    length = _planes_of_a_chunk(inner)
    split = [
        _Part(part.windows[begin : begin + length], part.positions)
        for part in sorted(parts, key=lambda part: part.positions != whole)
        for begin in range(0, len(part.windows), length)
    ]
    if len(split) > MOST_CHUNKS:
        return None
    chunks = []
    same: dict[Problem, Problem] = {}
    for index, part in enumerate(split):
        problem, begins = _of_part(inner, part)
        tensors = {role: ChunkTensor(begin, is_split=True) for role, begin in begins.items()}
        tensors["weights"] = replace(tensors["weights"], is_partial_sum=True)
        problem = same.setdefault(problem, problem)
        chunks.append(Chunk(problem, tensors, index == 0, index == len(split) - 1))
    return tuple(chunks)


def _parts(inner: Problem) -> list[_Part]:
    """Return the windows along the depth by the positions with which they meet src."""
    groups = groupby(range(inner.dst.shape[2]), lambda window: _positions(inner, window))
    found = []
    for positions, windows in groups:
        first, *others = windows
        if positions:
            found.append(_Part(range(first, first + 1 + len(others)), positions))
    return found


def _positions(inner: Problem, window: int) -> range:
    """Return the positions along the depth of the kernel with which a window meets src."""
    dilation, first = inner.dilations[0], window * inner.strides[0] - inner.pads_begin[0]
    last = (inner.src.shape[2] - 1 - first) // dilation
    return range(max(0, -(first // dilation)), min(inner.kernel[0], last + 1))


def _planes_of_a_chunk(inner: Problem) -> int:
    elements = sum(layout.size // layout.shape[2] for layout in (inner.src, inner.dst))
    return max(1, CHUNK_BYTES // (elements * DTYPES[inner.dtype].itemsize))


def _of_part(inner: Problem, part: _Part) -> tuple[Problem, dict[str, tuple[int, ...]]]:
    """Return the gradient of a part, and the index of each tensor's first element."""
    windows, positions = part
    stride, dilation = inner.strides[0], inner.dilations[0]
    plane = windows.start * stride + positions.start * dilation - inner.pads_begin[0]
    planes = (len(windows) - 1) * stride + (len(positions) - 1) * dilation + 1
    layouts: dict[str, Any] = {
        "src": without_image_gap(_with_depth(inner.src, 2, planes)),
        "weights": _with_depth(inner.weights, 3, len(positions)),
        "dst": without_image_gap(_with_depth(inner.dst, 2, len(windows))),
    }
    problem = replace(
        inner,
        bias=None,
        pads_begin=(0, *inner.pads_begin[1:]),
        pads_end=(0, *inner.pads_end[1:]),
        **layouts,
    )
    begins = {
        "src": (0, 0, plane, 0, 0),
        "weights": (0, 0, 0, positions.start, 0, 0),
        "dst": (0, 0, windows.start, 0, 0),
    }
    return problem, begins


def _with_depth(layout: TensorLayout, axis: int, extent: int) -> TensorLayout:
    return TensorLayout((*layout.shape[:axis], extent, *layout.shape[axis + 1 :]), layout.strides)
