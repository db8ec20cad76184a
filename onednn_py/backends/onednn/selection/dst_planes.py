"""Depthwise weights gradients of volumes as forward convolutions, a plane of diff_dst each.

As in a plane, diff_dst takes the place of the weights, see `dst_as_weights`. A plane of it meets
one plane of src for each position along the depth of the kernel. With these planes as images, one
convolution computes what the plane of diff_dst adds to all positions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onednn_py.problem.problem import Direction, Problem, TensorLayout

from .chunks import (
    Chunk,
    ChunkTensor,
    InChunks,
    number_of_tiles,
    tiles,
    without_axis,
    without_image_gap,
)
from .dst_as_weights import as_forward, most_windows, one_image
from .unpadded_depth import DepthPart, parts_along_depth

__all__ = ["as_planes_of_dst"]

# The steps of so many chunks take some 12 MB of a plan.
MOST_CHUNKS = 1024


def as_planes_of_dst(asked: Problem) -> InChunks | None:
    """Return a depthwise weights gradient of volumes as forward convolutions of planes.

    Returns
    -------
    InChunks or None
        The problem in the roles of the convolutions, with a chunk for each plane of diff_dst, or
        tile of it. None for another problem, with too many chunks, or where oneDNN has no layout of
        the planes.
    """
    inner = asked.as_convolution()
    groups, outputs, inputs, *kernel = inner.weights.shape
    if inner.direction is not Direction.BACKWARD_WEIGHTS or len(kernel) != 3:
        return None
    if groups == 1 or outputs * inputs > 1:
        return None
    plane = _plane(inner)
    most = most_windows(plane)
    # Parts with all positions are first: they write what the others add to.
    whole = range(kernel[0])
    parts = sorted(parts_along_depth(inner) or (), key=lambda part: part.positions != whole)
    number = inner.src.shape[0] * sum(len(part.windows) for part in parts)
    if not 0 < number * number_of_tiles(plane, most) <= MOST_CHUNKS:
        return None
    of_plane = tiles(plane, most)
    if of_plane is None:
        return None
    same: dict[Problem, Problem] = {}
    chunks = [
        _chunk(inner, same, image, window, part, tile)
        for part in parts
        for window in part.windows
        for image in range(inner.src.shape[0])
        for tile in of_plane
    ]
    layouts = (layout for problem in same for layout in problem.layouts.values())
    if not all(layout.is_nested for layout in layouts):
        return None
    shared = [index for index, one in enumerate(chunks) if not one.tensors["dst"].is_split]
    if shared:
        chunks[0] = replace(chunks[0], is_first=True)
        chunks[shared[-1]] = replace(chunks[shared[-1]], is_last=True)
    return InChunks(as_forward(inner), tuple(chunks), not shared)


def _plane(inner: Problem) -> Problem:
    """Return the gradient that a plane of diff_dst gives the positions of a plane of the kernel."""
    layouts: dict[str, Any] = {
        role: without_axis(getattr(inner, role), axis)
        for role, axis in (("src", 2), ("weights", 3), ("dst", 2))
    }
    names = ("strides", "dilations", "pads_begin", "pads_end")
    numbers: dict[str, Any] = {name: getattr(inner, name)[1:] for name in names}
    return replace(inner, bias=None, **layouts, **numbers)


def _chunk(
    inner: Problem,
    same: dict[Problem, Problem],
    image: int,
    window: int,
    part: DepthPart,
    tile: tuple[Problem, dict[str, tuple[int, ...]]],
) -> Chunk:
    """Return what a tile of a plane of diff_dst adds to the positions with which it meets src."""
    positions, (of_tile, begins) = part.positions, tile
    problem = one_image(as_forward(of_tile))
    dilation = inner.dilations[0]
    first = window * inner.strides[0] + positions.start * dilation - inner.pads_begin[0]
    problem = replace(
        problem,
        src=_images(problem.src, len(positions), dilation * inner.src.strides[2]),
        dst=_images(problem.dst, len(positions), inner.weights.strides[3]),
    )
    problem = same.setdefault(problem, problem)
    is_whole = len(positions) == inner.kernel[0]
    tensors = {
        "src": ChunkTensor((image, 0, first, *begins["src"][2:]), is_split=True),
        "weights": ChunkTensor((0, 0, image, window, *begins["dst"][2:]), is_split=True),
        "dst": ChunkTensor(
            (0, 0, positions.start, 0, 0), is_split=not is_whole, is_partial_sum=True
        ),
    }
    return Chunk(problem, tensors, is_first=False, is_last=not is_whole)


def _images(layout: TensorLayout, number: int, stride: int) -> TensorLayout:
    """Return a layout of one image as that of several."""
    shape, strides = (number, *layout.shape[1:]), (stride, *layout.strides[1:])
    return without_image_gap(TensorLayout(shape, strides))
