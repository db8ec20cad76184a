"""Depthwise problems on volumes as problems on planes.

oneDNN's depthwise kernels take planes, but no volumes (v3.2): there remain a matrix product for
each channel and image, and with AVX-512 kernels for groups, most of whose products are zero. A
position along the kernel's depth joins each plane of dst with one plane of src: with the planes as
images, that is a depthwise problem in two dimensions. The terms of all positions are added up, and
those of all images for a weights gradient. So many planes are computed at a time that their copies
take little memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Direction, Problem, TensorLayout

from .chunks import Chunk, ChunkTensor, without_axis, without_image_gap

__all__ = ["as_planes"]

# The steps of so many chunks take some 12 MB of a plan.
MOST_CHUNKS = 1024

# What the planes of a chunk take of src and dst together: at most so much, and at most so large a
# part of both. Their copies, whose channels fill blocks, and that of a term are to stay within the
# workspace limit. Otherwise gemm remained, which took 12 to 36 times as long.
CHUNK_BYTES = 2**24
CHUNK_SHARE = 6
SMALL_BYTES = 2**23  # of src and dst; below, there is no limit, see `workspace`


class _Term(NamedTuple):
    """A position along the depth of the kernel, and the planes of src and dst that it joins."""

    position: int
    src: range
    dst: range

    def within(self, role: str, block: range) -> _Term:
        """Return the term of those planes alone that lie in a block of a tensor's planes."""
        planes: range = getattr(self, role)
        ends = (
            min(len(planes), max(0, -(-(end - planes.start) // planes.step)))
            for end in (block.start, block.stop)
        )
        part = slice(*ends)
        return _Term(self.position, self.src[part], self.dst[part])


class _Sum(NamedTuple):
    """Terms of the same planes, or of the same part of the kernel, by image.

    The first writes all of what the others add to, unless all are added to zeros.
    """

    terms: list[tuple[int, _Term]]
    begins_at_zero: bool = False


def as_planes(inner: Problem) -> tuple[tuple[Chunk, ...], bool] | None:
    """Return a depthwise problem on volumes as terms of problems on planes.

    Parameters
    ----------
    inner : Problem
        In the roles of a convolution, without bias.

    Returns
    -------
    (tuple of Chunk, bool) or None
        Chunks, each of some planes of one image, and whether the result has to be zero before they
        are computed: where part of it is the sum of no term, or where no term has all planes. None
        for another problem, with no term or too many, or where oneDNN has no layout of the planes.
    """
    groups, outputs, inputs, *kernel = inner.weights.shape
    if len(kernel) != 3 or groups == 1 or outputs * inputs > 1:
        return None
    terms = [_term(inner, position) for position in range(kernel[0])]
    used = [term for term in terms if term.dst]
    if inner.direction is Direction.BACKWARD_WEIGHTS:
        # The part of the kernel that meets the padding alone is zero.
        is_partial = len(used) < len(terms)
        sums = list(_by_position(inner, used))
    else:
        sums = list(_by_planes(inner, used))
        is_partial = any(one.begins_at_zero for one in sums)
    if sum(len(one.terms) for one in sums) not in range(1, MOST_CHUNKS + 1):
        return None
    chunks: list[Chunk] = []
    same: dict[Problem, Problem] = {}
    for terms_of_sum, begins_at_zero in sums:
        for index, (image, term) in enumerate(terms_of_sum):
            problem, begins = _of_term(inner, image, term)
            tensors = {role: ChunkTensor(begin, is_split=True) for role, begin in begins.items()}
            tensors[inner.result_role] = ChunkTensor(
                begins[inner.result_role],
                is_split=inner.result_role != "weights",
                is_partial_sum=len(terms_of_sum) > 1 or inner.result_role != "weights",
            )
            problem = same.setdefault(problem, problem)
            is_first = index == 0 and not begins_at_zero
            chunks.append(Chunk(problem, tensors, is_first, index == len(terms_of_sum) - 1))
    layouts = (layout for chunk in chunks for layout in chunk.problem.layouts.values())
    if not all(layout.is_nested for layout in layouts):
        return None
    return tuple(chunks), is_partial


def _term(inner: Problem, position: int) -> _Term:
    """Return the planes of dst whose windows meet src at a position, and these planes of src."""
    stride, size, windows = inner.strides[0], inner.src.shape[2], inner.dst.shape[2]
    shift = position * inner.dilations[0] - inner.pads_begin[0]  # of the first window's element
    dst = range(max(0, -(shift // stride)), min(windows, (size - 1 - shift) // stride + 1))
    first = dst.start * stride + shift
    return _Term(position, range(first, first + len(dst) * stride, stride), dst)


def _by_position(inner: Problem, terms: list[_Term]) -> Iterator[_Sum]:
    """Yield the terms of each position's part of a weights gradient."""
    length = _planes_of_a_chunk(inner)
    for term in terms:
        blocks = _blocks(term.dst, length)
        parts = [term.within("dst", block) for block in blocks]
        yield _Sum([(image, part) for image in range(inner.src.shape[0]) for part in parts])


def _by_planes(inner: Problem, terms: list[_Term]) -> Iterator[_Sum]:
    """Yield the terms of blocks of planes of dst, or of src for a data gradient.

    With strides, terms of a data gradient write every stride-th plane. There is a sum for each of
    the first planes.
    """
    role = inner.result_role
    size = getattr(inner, role).shape[2]
    step = inner.strides[0] if role == "src" else 1
    for first in range(min(step, size)):
        alike = [term for term in terms if getattr(term, role).start % step == first]
        for block in _blocks(range(first, size, step), _planes_of_a_chunk(inner)):
            parts = [term.within(role, range(block.start, block[-1] + 1)) for term in alike]
            parts = [part for part in parts if part.dst]
            parts.sort(key=lambda part: -len(part.dst))
            begins_at_zero = not parts or len(parts[0].dst) < len(block)
            for image in range(inner.src.shape[0]):
                yield _Sum([(image, part) for part in parts], begins_at_zero)


def _blocks(planes: range, length: int) -> list[range]:
    return [planes[begin : begin + length] for begin in range(0, len(planes), length)]


def _planes_of_a_chunk(inner: Problem) -> int:
    itemsize = DTYPES[inner.dtype].itemsize
    layouts = inner.src, inner.dst
    plane = sum(one.size // one.shape[2] for one in layouts) // inner.src.shape[0] * itemsize
    whole = sum(one.size for one in layouts) * itemsize
    most = CHUNK_BYTES if whole < SMALL_BYTES else min(CHUNK_BYTES, whole // CHUNK_SHARE)
    # Of every second plane of an odd number, oneDNN has no layout, but of all of these but one.
    return max(1, min(most // plane, inner.src.shape[2] // inner.strides[0]))


def _of_term(inner: Problem, image: int, term: _Term) -> tuple[Problem, dict[str, tuple[int, ...]]]:
    """Return the problem of some planes, and the index of each tensor's first element."""
    layouts: dict[str, Any] = {
        "src": _planes(inner.src, term.src),
        "dst": _planes(inner.dst, term.dst),
        "weights": without_axis(inner.weights, 3),
    }
    problem = replace(
        inner,
        strides=inner.strides[1:],
        dilations=inner.dilations[1:],
        pads_begin=inner.pads_begin[1:],
        pads_end=inner.pads_end[1:],
        **layouts,
    )
    begins = {
        "src": (image, 0, term.src.start, 0, 0),
        "dst": (image, 0, term.dst.start, 0, 0),
        "weights": (0, 0, 0, term.position, 0, 0),
    }
    return problem, begins


def _planes(layout: TensorLayout, planes: range) -> TensorLayout:
    """Return the layout of some planes of an image, as images of their own."""
    _, channels, _, *pixels = layout.shape
    _, to_channel, to_plane, *strides = layout.strides
    return without_image_gap(
        TensorLayout(
            (len(planes), channels, *pixels), (planes.step * to_plane, to_channel, *strides)
        )
    )
