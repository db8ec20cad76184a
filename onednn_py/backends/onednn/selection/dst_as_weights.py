"""Depthwise weights gradients as forward convolutions of src with diff_dst in the weights' place.

The gradient of a depthwise kernel is what diff_dst sums as a kernel of its own that moves along
src: as many windows as the kernel has elements, with strides and dilations exchanged. oneDNN's
kernels of depthwise weights gradients take 3x3 and smaller (v3.2). Its forward kernels take any
size and keep the sums in registers. They compute an image, or a tile of it, at a time; then the
tiles are added up.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Direction, Problem, TensorLayout

from .chunks import Chunk, ChunkTensor, InChunks, number_of_tiles, tiles, without_image_gap

__all__ = [
    "as_forward",
    "as_tiles",
    "is_line",
    "most_windows",
    "one_image",
    "seen_by_tiles",
]

Array = npt.NDArray[Any]

# More executions, each with its reorders, are not worth the time.
MOST_CHUNKS = 256

# The forward kernel reads all of a tile for each row of the result, in so many channels at once,
# and its code has a part for each column of diff_dst. Both are to stay in the caches.
TILE_BYTES = 2**20
CHANNELS = 64
MOST_COLUMNS = 64

# It adds the products of a tile one by one. In more of them, float32 would lose digits: with 26,000
# pixels, sums of positive numbers have 10 to 40 times the error of other implementations.
MOST_PIXELS = 2**12


def as_tiles(asked: Problem) -> InChunks | None:
    """Return a depthwise weights gradient in a plane as forward convolutions, one for each tile.

    Returns
    -------
    InChunks or None
        All images in the roles of the convolutions, where the images are the input channels of the
        weights. None for another problem, or with too many tiles.
    """
    inner = asked.as_convolution()
    groups, outputs, inputs = inner.weights.shape[:3]
    if inner.direction is not Direction.BACKWARD_WEIGHTS or groups == 1 or outputs * inputs > 1:
        return None
    if len(inner.kernel) != 2:
        return None
    inner = _without_tail(_turned(inner) if is_line(inner) else inner)
    images, most = inner.src.shape[0], most_windows(inner)
    number = images * number_of_tiles(inner, most)
    parts = tiles(inner, most) if number <= MOST_CHUNKS else None
    if parts is None:
        return None
    chunks: list[Chunk] = []
    same: dict[Problem, Problem] = {}
    of_tiles = [one_image(as_forward(part)) for part, _ in parts]
    of_tiles = [same.setdefault(problem, problem) for problem in of_tiles]
    for image in range(images):
        for problem, (_, begins) in zip(of_tiles, parts, strict=True):
            src = ChunkTensor((image, *begins["src"][1:]), is_split=number > 1)
            weights = ChunkTensor((0, 0, image, *begins["dst"][2:]), is_split=number > 1)
            dst = ChunkTensor((0, 0, 0, 0), is_partial_sum=number > 1)
            index = len(chunks)
            chunk = Chunk(
                problem,
                {"src": src, "weights": weights, "dst": dst},
                is_first=index == 0,
                is_last=index == number - 1,
            )
            chunks.append(chunk)
    return InChunks(as_forward(inner), tuple(chunks))


def is_line(problem: Problem) -> bool:
    """Whether a problem in a plane has a height of 1."""
    return problem.src.shape[2] == problem.dst.shape[2] == problem.kernel[0] == 1


def seen_by_tiles(role: str, array: Array, *, is_turned: bool) -> Array:
    """Return a tensor in the axis order of a role of the convolutions.

    Parameters
    ----------
    role : {"src", "weights", "dst"}
    array : ndarray
        In the canonical order of its own role: of src, diff_dst and diff_weights.
    is_turned : bool
        Whether the problem is a line, which the convolutions have along the rows.
    """
    if is_turned:
        array = array.swapaxes(-1, -2)
    if role == "weights":
        return array.swapaxes(0, 1)[:, np.newaxis]
    return array[:, 0, 0][np.newaxis] if role == "dst" else array


def _turned(problem: Problem) -> Problem:
    """Return a line along the columns as a line along the rows, over which kernels loop."""
    layouts: dict[str, Any] = {
        role: getattr(problem, role).swapped(-1, -2) for role in ("src", "weights", "dst")
    }
    names = ("strides", "dilations", "pads_begin", "pads_end")
    numbers: dict[str, Any] = {name: getattr(problem, name)[::-1] for name in names}
    return replace(problem, **layouts, **numbers)


def _without_tail(inner: Problem) -> Problem:
    """Return a problem without the rows and columns of src that no window meets."""
    pixels = (
        size + min(0, end) for size, end in zip(inner.src.shape[2:], inner.pads_end, strict=True)
    )
    src = TensorLayout((*inner.src.shape[:2], *pixels), inner.src.strides)
    return replace(inner, src=src, pads_end=tuple(max(0, end) for end in inner.pads_end))


def most_windows(inner: Problem) -> tuple[int, int]:
    """Return how many rows and columns of diff_dst a tile may have."""
    columns = inner.dst.shape[3]
    columns = -(-columns // -(-columns // MOST_COLUMNS))
    block = min(CHANNELS, inner.dst.shape[1]) * DTYPES[inner.dtype].itemsize
    pixels = min(MOST_PIXELS, TILE_BYTES // (block * (1 + prod(inner.strides))))
    return max(1, pixels // columns), columns


def as_forward(inner: Problem) -> Problem:
    """Return a weights gradient in the roles of the forward convolutions, all images at once."""
    images, channels, *pixels = zip(inner.dst.shape, inner.dst.strides, strict=True)
    weights = (channels, (1, channels[1]), images, *pixels)
    channels, _, _, *positions = zip(inner.weights.shape, inner.weights.strides, strict=True)
    dst = ((1, inner.weights.extent), channels, *positions)
    return replace(
        inner,
        direction=Direction.FORWARD,
        weights=_layout(weights),
        dst=_layout(dst),
        bias=None,
        strides=inner.dilations,
        dilations=inner.strides,
    )


def _layout(axes: tuple[tuple[int, int], ...]) -> TensorLayout:
    return TensorLayout(tuple(extent for extent, _ in axes), tuple(stride for _, stride in axes))


def one_image(problem: Problem) -> Problem:
    """Return the first image of what `as_forward` returned."""
    channels, rows, columns = problem.src.shape[1:]
    src = TensorLayout((1, channels, rows, columns), problem.src.strides)
    groups, outputs, _, *pixels = problem.weights.shape
    strides = problem.weights.strides
    weights = TensorLayout((groups, outputs, 1, *pixels), (*strides[:2], strides[0], *strides[3:]))
    return replace(problem, src=without_image_gap(src), weights=weights)
