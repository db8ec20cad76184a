"""Phases: a data gradient as forward convolutions with flipped weights.

Element ``i`` of a data gradient sums ``weights[k] * diff_dst[x]`` over all ``k`` and ``x`` with
``i + pad == stride * x + k``. For the elements ``i = r, r + stride, ...``, a phase, these are every
stride-th ``k``: a convolution of diff_dst with the flipped part of the kernel, with stride 1. With
stride 1 there is one phase, which has the whole kernel.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

from onednn_py.problem.geometry import effective_kernel
from onednn_py.problem.problem import Direction, Problem, TensorLayout

from .chunks import Chunk, ChunkTensor, without_image_gap

__all__ = ["as_forward", "phases", "unwritten"]

# More are not worth their executions: 2 x 2 x 2, or 4 x 4 in a plane.
MOST_PHASES = 16


class _AxisPhase(NamedTuple):
    """A phase along one axis.

    Attributes
    ----------
    elements : range
        Of the result.
    positions : range
        Of the flipped kernel; empty where no position meets the elements.
    read : range
        What the windows meet of diff_dst.
    pads : (int, int)
        Before and behind these, in elements of diff_dst.
    """

    elements: range
    positions: range
    read: range
    pads: tuple[int, int]


def as_forward(asked: Problem) -> Problem | None:
    """Return a data gradient in the roles of the forward convolution that computes it.

    Weights are flipped, which layouts do not show: theirs is a dense copy's. The geometry is still
    that of the gradient. None if ``asked`` is no data gradient, transposed forward included.
    """
    inner = asked.as_convolution()
    if inner.direction is not Direction.BACKWARD_DATA:
        return None
    return replace(
        inner,
        direction=Direction.FORWARD,
        src=inner.dst,
        dst=inner.src,
        weights=inner.weights.swapped(1, 2).dense(),
        bias=asked.bias,
    )


def phases(forward: Problem) -> tuple[Chunk, ...] | None:
    """Return the convolutions of what `as_forward` returned, None if there are no such.

    Phases that no position of the kernel meets are left out.
    """
    if max(map(min, forward.strides, forward.dst.shape[2:])) > MOST_PHASES:
        return None
    axes = [_axis_phases(forward, axis) for axis in range(len(forward.strides))]
    found: list[list[_AxisPhase]] = []
    number = 1
    for axis in axes:
        if axis is None:
            return None
        number *= len(axis)
        found.append(axis)
    if number > MOST_PHASES:
        return None
    combinations = [parts for parts in product(*found) if all(part.positions for part in parts)]
    if not combinations:
        return None
    # The largest kernel first: its implementation is that of all phases.
    combinations.sort(key=lambda parts: [-len(part.positions) for part in parts])
    reads_all_alike = len({tuple(part.read for part in parts) for parts in combinations}) == 1
    is_several = len(combinations) > 1
    chunks = []
    for index, parts in enumerate(combinations):
        problem, tensors = _phase(forward, parts)
        tensors["src"] = replace(tensors["src"], is_split=not reads_all_alike)
        tensors = {
            role: replace(one, is_split=is_several) if role in ("weights", "dst") else one
            for role, one in tensors.items()
        }
        chunks.append(Chunk(problem, tensors, index == 0, index == len(combinations) - 1))
    return tuple(chunks)


def _axis_phases(forward: Problem, axis: int) -> list[_AxisPhase] | None:
    """Return the phases along a spatial axis, None where forward convolutions cannot do it."""
    stride, dilation, pad = (
        numbers[axis] for numbers in (forward.strides, forward.dilations, forward.pads_begin)
    )
    kernel, size = forward.kernel[axis], forward.dst.shape[axis + 2]
    windows = forward.src.shape[axis + 2]
    if stride > 1 and dilation > 1:
        return None
    found = []
    for first in range(min(stride, size)):
        shift, start = divmod(first + pad, stride)
        count = len(range(start, kernel, stride))
        if not count:
            found.append(_AxisPhase(range(first, size, stride), range(0), range(0), (0, 0)))
            continue
        elements = range(first, size, stride)
        reach = effective_kernel(count, dilation) - 1
        # Window m begins at element m + shift - reach of diff_dst.
        begin, end = shift - reach, len(elements) + shift
        read = range(max(0, begin), min(windows, end))
        pads = read.start - begin, end - read.stop
        if not read or max(pads) > reach:
            return None  # windows wholly in the padding
        last = kernel - 1 - start - (count - 1) * stride
        found.append(_AxisPhase(elements, range(last, kernel - start, stride), read, pads))
    return found


def _phase(
    forward: Problem, parts: tuple[_AxisPhase, ...]
) -> tuple[Problem, dict[str, ChunkTensor]]:
    ones = (1,) * len(parts)
    dst = forward.dst
    spatial_strides = [
        stride * part.elements.step for stride, part in zip(dst.strides[2:], parts, strict=True)
    ]
    layouts: dict[str, Any] = {
        "src": TensorLayout(
            (*forward.src.shape[:2], *(len(part.read) for part in parts)), forward.src.strides
        ),
        "weights": TensorLayout(
            (*forward.weights.shape[:3], *(len(part.positions) for part in parts)),
            forward.weights.strides,
        ).dense(),
        "dst": TensorLayout(
            (*dst.shape[:2], *(len(part.elements) for part in parts)),
            (*dst.strides[:2], *spatial_strides),
        ),
    }
    layouts = {role: without_image_gap(layout) for role, layout in layouts.items()}
    tensors = {
        "src": ChunkTensor((0, 0, *(part.read.start for part in parts))),
        "weights": ChunkTensor(
            (0, 0, 0, *(part.positions.start for part in parts)),
            steps=(1, 1, 1, *(part.positions.step for part in parts)),
        ),
        "dst": ChunkTensor(
            (0, 0, *(part.elements.start for part in parts)),
            steps=(1, 1, *(part.elements.step for part in parts)),
        ),
    }
    if forward.bias is not None:
        tensors["bias"] = ChunkTensor((0,))
    problem = replace(
        forward,
        **layouts,
        strides=ones,
        pads_begin=tuple(part.pads[0] for part in parts),
        pads_end=tuple(part.pads[1] for part in parts),
    )
    return problem, tensors


def unwritten(forward: Problem, chunks: tuple[Chunk, ...]) -> bool:
    """Whether the phases leave elements of the result out."""
    return sum(chunk.problem.dst.size for chunk in chunks) < forward.dst.size
