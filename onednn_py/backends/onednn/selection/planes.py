"""Depthwise weights gradients of volumes as those of planes.

oneDNN's kernels of depthwise weights gradients take lines and planes (v3.2). For volumes there
remains a matrix product for each channel and image. A position along the kernel's depth multiplies
each plane of diff_dst with one plane of src: with the planes as images, that is a weights gradient
in two dimensions. So many planes are computed at a time that their copies take little memory, and
the terms are added up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Direction, Problem, TensorLayout

from .chunks import Chunk, ChunkTensor, without_image_gap

__all__ = ["as_planes"]

# More executions, each with its reorders, are not worth the time.
MOST_CHUNKS = 256

# What the planes of a chunk take of src and diff_dst together.
CHUNK_BYTES = 2**24


def as_planes(inner: Problem) -> tuple[Chunk, ...] | None:
    """Return a depthwise weights gradient of volumes as terms of gradients of planes.

    Parameters
    ----------
    inner : Problem
        In the roles of a convolution.

    Returns
    -------
    tuple of Chunk or None
        For each position along the depth of the kernel, the terms of its part of the gradient, each
        of some planes of one image. None for another problem, for positions that meet padding
        alone, with too many terms, or where oneDNN has no layout of the planes, as of every second
        of an odd number.
    """
    groups, outputs, inputs = inner.weights.shape[:3]
    if inner.direction is not Direction.BACKWARD_WEIGHTS or len(inner.kernel) != 3:
        return None
    if groups == 1 or outputs * inputs > 1:
        return None
    positions = [_windows(inner, position) for position in range(inner.kernel[0])]
    if not all(positions):
        return None
    length, images = _planes_of_a_chunk(inner), inner.src.shape[0]
    terms = [
        [
            (image, range(begin, min(begin + length, windows.stop)))
            for image in range(images)
            for begin in range(windows.start, windows.stop, length)
        ]
        for windows in positions
    ]
    if sum(map(len, terms)) > MOST_CHUNKS:
        return None
    chunks: list[Chunk] = []
    same: dict[Problem, Problem] = {}
    for position, of_position in enumerate(terms):
        number = len(of_position)
        for index, (image, windows) in enumerate(of_position):
            problem, begins = _term(inner, position, image, windows)
            tensors = {role: ChunkTensor(begin, is_split=True) for role, begin in begins.items()}
            tensors["weights"] = ChunkTensor(begins["weights"], is_partial_sum=number > 1)
            problem = same.setdefault(problem, problem)
            chunks.append(Chunk(problem, tensors, index == 0, index == number - 1))
    nested = all(chunk.problem.layouts[role].is_nested for chunk in chunks for role in tensors)
    return tuple(chunks) if nested else None


def _windows(inner: Problem, position: int) -> range:
    """Return the planes of diff_dst whose windows meet src at a position along the depth."""
    stride, size, windows = inner.strides[0], inner.src.shape[2], inner.dst.shape[2]
    shift = position * inner.dilations[0] - inner.pads_begin[0]  # of the first window's element
    return range(max(0, -(shift // stride)), min(windows, (size - 1 - shift) // stride + 1))


def _planes_of_a_chunk(inner: Problem) -> int:
    elements = [layout.size // layout.shape[2] for layout in (inner.src, inner.dst)]
    plane = sum(elements) // inner.src.shape[0] * DTYPES[inner.dtype].itemsize
    return max(1, min(inner.dst.shape[2], CHUNK_BYTES // plane))


def _term(
    inner: Problem, position: int, image: int, windows: range
) -> tuple[Problem, dict[str, tuple[int, ...]]]:
    """Return the gradient of some planes, and the index of each tensor's first element."""
    stride = inner.strides[0]
    plane = windows.start * stride + position * inner.dilations[0] - inner.pads_begin[0]
    layouts: dict[str, Any] = {
        "src": _planes(inner.src, len(windows), stride),
        "dst": _planes(inner.dst, len(windows), 1),
        "weights": _without_axis(inner.weights, 3),
    }
    problem = replace(
        inner,
        bias=None,
        strides=inner.strides[1:],
        dilations=inner.dilations[1:],
        pads_begin=inner.pads_begin[1:],
        pads_end=inner.pads_end[1:],
        **layouts,
    )
    begins = {
        "src": (image, 0, plane, 0, 0),
        "dst": (image, 0, windows.start, 0, 0),
        "weights": (0, 0, 0, position, 0, 0),
    }
    return problem, begins


def _planes(layout: TensorLayout, number: int, step: int) -> TensorLayout:
    """Return the layout of every step-th plane of an image, as images of their own."""
    _, channels, _, *pixels = layout.shape
    _, to_channel, to_plane, *strides = layout.strides
    return without_image_gap(
        TensorLayout((number, channels, *pixels), (step * to_plane, to_channel, *strides))
    )


def _without_axis(layout: TensorLayout, axis: int) -> TensorLayout:
    shape, strides = list(layout.shape), list(layout.strides)
    del shape[axis], strides[axis]
    return TensorLayout(tuple(shape), tuple(strides))
