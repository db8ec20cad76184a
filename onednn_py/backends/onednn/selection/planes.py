"""Depthwise problems on volumes as problems on planes.

oneDNN's depthwise kernels take planes, but no volumes (v3.2): there remain a matrix product for
each channel and image, and with AVX-512 kernels for groups, most of whose products are zero. A
position along the kernel's depth joins each plane of dst with one plane of src: with the planes as
images, that is a depthwise problem in two dimensions. The terms of all positions are added up, and
those of all images for a weights gradient.

A block of planes is computed at a time: those of the result, or of diff_dst for a weights gradient.
What its terms read, and the result, are reordered once for all of them, and the copies take little
memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Direction, Problem, TensorLayout

from .chunks import Addend, Block, Chunk, ChunkTensor, InChunks, without_axis, without_image_gap

__all__ = ["as_planes"]

# The steps of so many chunks take some 12 MB of a plan.
MOST_CHUNKS = 1024

# Blocks that are looked at: with strides, many have no term.
MOST_BLOCKS = 4096

# What the planes of a block take of src and dst together: at most so many bytes, and at most one
# part in so many of both. Their copies, which have multiples of 16 channels, and the copy of a term
# are to stay within the workspace limit. Otherwise gemm would remain, which took 12 to 36 times as
# long. Blocks of 2 MB take 1.05 of the time, in geometric mean over 277 drawn problems.
BLOCK_BYTES = 2**24
BLOCK_SHARE = 6
SMALL_BYTES = 2**23  # of src and dst; below, there is no limit, see `workspace`


class _Term(NamedTuple):
    """A position along the depth of the kernel, and the planes of src and dst that it joins."""

    position: int
    src: range
    dst: range

    def planes(self, role: str) -> range:
        planes: range = getattr(self, role)
        return planes

    def within(self, role: str, block: range) -> _Term:
        """Return the term of those planes alone that lie in a block of a tensor's planes."""
        planes = self.planes(role)
        ends = (
            min(len(planes), max(0, -(-(end - planes.start) // planes.step)))
            for end in (block.start, block.stop)
        )
        part = slice(*ends)
        return _Term(self.position, self.src[part], self.dst[part])


class _Sum(NamedTuple):
    """Terms of one image that meet a block of planes of the result, or of diff_dst.

    Attributes
    ----------
    image : int
    block : range
    reads : list of (range, list of _Term)
        Planes of the other tensor, and the terms that read some of them.
    """

    image: int
    block: range
    reads: list[tuple[range, list[_Term]]]

    @property
    def terms(self) -> list[_Term]:
        return [term for _, terms in self.reads for term in terms]

    @property
    def writes_all(self) -> bool:
        """Whether the first term writes all planes of a block of the result."""
        return bool(self.reads) and len(self.terms[0].dst) == len(self.block)


def as_planes(inner: Problem) -> InChunks | None:
    """Return a depthwise problem on volumes as terms of problems on planes.

    Parameters
    ----------
    inner : Problem
        In the roles of a convolution, without bias.

    Returns
    -------
    InChunks or None
        Chunks of some planes of one image each. None for another problem, with no term or too many,
        or where oneDNN has no layout of the planes.
    """
    groups, outputs, inputs, *kernel = inner.weights.shape
    if len(kernel) != 3 or groups == 1 or outputs * inputs > 1:
        return None
    if kernel[0] > MOST_CHUNKS:
        return None
    terms = [_term(inner, position) for position in range(kernel[0])]
    sums, number = [], 0
    for one in _sums(inner, [term for term in terms if term.dst]):
        sums.append(one)
        number += len(one.terms)
        if number > MOST_CHUNKS or len(sums) > MOST_BLOCKS:
            return None
    if not number:
        return None
    builder = _Builder(inner)
    chunks = tuple(chunk for one in sums for chunk in builder.chunks(one))
    if not builder.has_layouts:
        return None
    if inner.direction is Direction.BACKWARD_WEIGHTS:
        # The part of the kernel that meets the padding alone is zero.
        return InChunks(inner, chunks, not all(term.dst for term in terms))
    return InChunks(inner, chunks, not all(one.writes_all for one in sums))


def _term(inner: Problem, position: int) -> _Term:
    """Return the planes of dst whose windows meet src at a position, and these planes of src."""
    stride, size, windows = inner.strides[0], inner.src.shape[2], inner.dst.shape[2]
    shift = position * inner.dilations[0] - inner.pads_begin[0]  # of the first window's element
    dst = range(max(0, -(shift // stride)), min(windows, (size - 1 - shift) // stride + 1))
    first = dst.start * stride + shift
    return _Term(position, range(first, first + len(dst) * stride, stride), dst)


def _roles(inner: Problem) -> tuple[str, str]:
    """Return the role whose planes make blocks, and the other."""
    return ("src", "dst") if inner.result_role == "src" else ("dst", "src")


def _sums(inner: Problem, terms: list[_Term]) -> Iterator[_Sum]:
    """Yield the terms of each image and block.

    With strides, terms of a data gradient write every stride-th plane. Each of the first planes
    begins blocks of its own.
    """
    role, other = _roles(inner)
    size = getattr(inner, role).shape[2]
    step = inner.strides[0] if role == "src" else 1
    length = _planes_of_a_block(inner)
    for image in range(inner.src.shape[0]):
        for first in range(min(step, size)):
            alike = [term for term in terms if term.planes(role).start % step == first]
            planes = range(first, size, step)
            for begin in range(0, len(planes), length):
                block = planes[begin : begin + length]
                parts = [term.within(role, range(block.start, block[-1] + 1)) for term in alike]
                parts = [part for part in parts if part.dst]
                parts.sort(key=lambda part: -len(part.dst))
                yield _Sum(image, block, list(_reads(parts, inner, other)))


def _reads(terms: list[_Term], inner: Problem, role: str) -> Iterator[tuple[range, list[_Term]]]:
    """Yield ranges of planes that terms read, and the terms; the first term remains the first.

    Terms have a range each where one for all has no layout, as every second plane of an odd number,
    or would have more planes than the terms read together.
    """
    by_first: dict[int, list[_Term]] = {}
    for term in terms:
        planes = term.planes(role)
        by_first.setdefault(planes.start % planes.step, []).append(term)
    for alike in by_first.values():
        ranges = [term.planes(role) for term in alike]
        begin, end = (min(one.start for one in ranges), max(one.stop for one in ranges))
        whole = range(begin, end, ranges[0].step)
        has_layout = _planes(getattr(inner, role), whole).is_nested
        if has_layout and len(whole) <= sum(map(len, ranges)):
            yield whole, alike
        else:
            yield from ((term.planes(role), [term]) for term in alike)


class _Builder:
    """Makes chunks, whose equal problems are one object."""

    def __init__(self, inner: Problem) -> None:
        self._inner = inner
        self._positions: set[int] = set()  # of a weights gradient, those that are written
        self._problems: dict[tuple[TensorLayout, TensorLayout, bool], Problem] = {}

    @property
    def has_layouts(self) -> bool:
        """Whether oneDNN has layouts of what all chunks and blocks read and write."""
        layouts = (layout for one in self._problems.values() for layout in one.layouts.values())
        return all(layout.is_nested for layout in layouts)

    def chunks(self, one: _Sum) -> Iterator[Chunk]:
        """Yield the terms of a block."""
        inner = self._inner
        role, other = _roles(inner)
        of_block = self._block(role, one.image, one.block)
        terms = one.terms
        for planes, alike in one.reads:
            of_planes = self._block(other, one.image, planes)
            for term in alike:
                is_first, is_last = self._is_first_and_last(one, term, terms)
                problem = self._problem(
                    _planes(inner.src, term.src),
                    _planes(inner.dst, term.dst),
                    adds=inner.direction is Direction.FORWARD and not is_first,
                )
                weights = (0, 0, 0, term.position, 0, 0)
                is_sum = inner.direction is Direction.BACKWARD_WEIGHTS
                tensors = {
                    role: self._part(role, one.image, term, one.block, of_block, not is_sum),
                    other: self._part(other, one.image, term, planes, of_planes),
                    "weights": ChunkTensor(weights, is_split=True, is_partial_sum=is_sum),
                }
                yield Chunk(problem, tensors, is_first, is_last)

    def _is_first_and_last(self, one: _Sum, term: _Term, terms: list[_Term]) -> tuple[bool, bool]:
        """Return whether a term is the first of a sum, which writes it, and the last.

        Terms are to be asked for in order, each once.
        """
        if self._inner.direction is Direction.BACKWARD_WEIGHTS:
            # Each position is a sum, over all images, which the caller's gradient holds.
            is_first = term.position not in self._positions
            self._positions.add(term.position)
            return is_first, True
        return term is terms[0] and one.writes_all, term is terms[-1]

    def _problem(self, src: TensorLayout, dst: TensorLayout, *, adds: bool = False) -> Problem:
        """Return the problem of some planes."""
        key = src, dst, adds
        if key not in self._problems:
            inner = self._inner
            problem = replace(
                inner,
                src=src,
                weights=without_axis(inner.weights, 3),
                dst=dst,
                strides=inner.strides[1:],
                dilations=inner.dilations[1:],
                pads_begin=inner.pads_begin[1:],
                pads_end=inner.pads_end[1:],
            )
            self._problems[key] = Addend.of(problem, adds=True) if adds else problem
        return self._problems[key]

    def _block(self, role: str, image: int, planes: range) -> Block:
        """Return a block of an image's planes.

        The other tensor of its problem has as many planes, wherever these would lie.
        """
        inner, others = self._inner, range(len(planes))
        if role == "src":
            problem = self._problem(_planes(inner.src, planes), _planes(inner.dst, others).dense())
        else:
            problem = self._problem(_planes(inner.src, others).dense(), _planes(inner.dst, planes))
        return Block(problem, (image, 0, planes.start, 0, 0))

    @staticmethod
    def _part(
        role: str, image: int, term: _Term, planes: range, block: Block, is_sum: bool = False
    ) -> ChunkTensor:
        """Return what a term reads or writes of a tensor, a part of a block."""
        first = term.planes(role).start
        return ChunkTensor(
            (image, 0, first, 0, 0),
            is_split=True,
            is_partial_sum=is_sum,
            block=block,
            image=(first - planes.start) // planes.step,
        )


def _planes_of_a_block(inner: Problem) -> int:
    """Return how many planes of the result, or of diff_dst, make a block."""
    itemsize = DTYPES[inner.dtype].itemsize
    layouts = inner.src, inner.dst
    plane = sum(one.size // one.shape[2] for one in layouts) // inner.src.shape[0] * itemsize
    whole = sum(one.size for one in layouts) * itemsize
    most = BLOCK_BYTES if whole < SMALL_BYTES else min(BLOCK_BYTES, whole // BLOCK_SHARE)
    # No more than src has for each step: of every second plane of an odd number, oneDNN has no
    # layout. Where padding makes dst deeper than src, no term has all planes of a larger block,
    # which would have to begin at zero.
    return max(1, min(most // plane, inner.src.shape[2] // inner.strides[0]))


def _planes(layout: TensorLayout, planes: range) -> TensorLayout:
    """Return the layout of some planes of an image, as images of their own."""
    _, channels, _, *pixels = layout.shape
    _, to_channel, to_plane, *strides = layout.strides
    return without_image_gap(
        TensorLayout(
            (len(planes), channels, *pixels), (planes.step * to_plane, to_channel, *strides)
        )
    )
