"""Chunks: a problem split along an axis into problems that are computed one after the other.

Along the minibatch, each chunk has some of the images. Along the first spatial axis, it has a range
of the result, or of a weights gradient's sum, and the part of the other tensor that its windows
meet. Along channels, it has a range of the result's channels (of src's or of dst's for a weights
gradient), or some of the groups. Tiles of a weights gradient have ranges along all spatial axes.
Other modules make chunks of their own: those of `planes` have parts of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from math import prod
from operator import add
from typing import Any, NamedTuple, TypeVar

import numpy.typing as npt

from onednn_py.problem.geometry import effective_kernel
from onednn_py.problem.problem import Direction, Problem, TensorLayout

__all__ = [
    "SPLIT_AXES",
    "Addend",
    "Block",
    "Chunk",
    "ChunkTensor",
    "InChunks",
    "number_of_tiles",
    "part_of",
    "split",
    "tiles",
    "without_axis",
    "without_image_gap",
]

# Implementations work on blocks of so many channels.
CHANNEL_BLOCK = 16

# For each role, the axis of its tensor that is split, and the range along it.
_Ranges = dict[str, tuple[int, range]]


_A = TypeVar("_A", bound="Addend")


@dataclass(frozen=True)
class Addend(Problem):
    """A problem whose primitive may add the result to what the memory holds.

    Attributes
    ----------
    adds : bool
        Whether it does. Convolutions add dst alone, as oneDNN's gradients take no post-ops.
    """

    adds: bool = False

    __hash__ = Problem.__hash__

    @classmethod
    def of(cls: type[_A], problem: Problem, **changes: Any) -> _A:
        """Return a problem of any kind as one of this kind, with changes besides."""
        kept = {field.name: getattr(problem, field.name) for field in fields(Problem)}
        return cls(**{**kept, **changes})


@dataclass(frozen=True, slots=True)
class Block:
    """Images of a tensor that are reordered once, for consecutive chunks that have parts of them.

    Attributes
    ----------
    problem : Problem
        Whose tensor of the same role has these images.
    begin : tuple of int
        Index of the first element in the whole tensor.
    """

    problem: Problem
    begin: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChunkTensor:
    """The part of a tensor that a chunk reads or writes.

    Attributes
    ----------
    begin : tuple of int
        Index of the first element in the whole tensor.
    steps : tuple of int
        From element to element along each axis, empty for 1 along all of them.
    is_split : bool
        Whether the chunk has a part of its own; otherwise all chunks that are not split, or those
        of one sum, have the same part.
    is_partial_sum : bool
        Whether the chunk writes one term of a sum over some chunks. The first of these writes all
        that the others add to, unless the formulation is partial: all may be added to zeros.
    block : Block, optional
        What holds the part's images, where these are reordered together with other chunks'.
    image : int
        Index of the part's first image in the block.
    """

    begin: tuple[int, ...]
    is_split: bool = False
    is_partial_sum: bool = False
    steps: tuple[int, ...] = ()
    block: Block | None = None
    image: int = 0

    def spans(self, shape: Sequence[int]) -> tuple[slice, ...]:
        """Return the slices of the whole tensor that are a part of this shape."""
        steps = self.steps or (1,) * len(shape)
        return tuple(
            slice(first, first + (count - 1) * step + 1, step)
            for first, count, step in zip(self.begin, shape, steps, strict=True)
        )

    def of(self, whole: npt.NDArray[Any], shape: Sequence[int]) -> npt.NDArray[Any]:
        """Return the part of this shape of a tensor, or less of it where the tensor ends before."""
        if whole.shape == shape and not self.steps and not any(self.begin):
            return whole
        return whole[self.spans(shape)]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a problem, a problem itself.

    Attributes
    ----------
    problem : Problem
        The same object for chunks that differ in their offsets alone.
    tensors : dict
        By role.
    is_first, is_last : bool
        Of all chunks, or of those of the sum that it writes a term of. Where all terms are added to
        zeros, none is first.
    """

    problem: Problem
    tensors: dict[str, ChunkTensor]
    is_first: bool = True
    is_last: bool = True


class InChunks(NamedTuple):
    """A problem, the chunks that compute it, and whether its result is zero before they do.

    It begins at zero where part of the result is the sum of no term, and where no term has all
    elements of its sum.
    """

    problem: Problem
    chunks: tuple[Chunk, ...]
    begins_at_zero: bool = False


def split(problem: Problem, axis: str, number: int) -> tuple[Chunk, ...] | None:
    """Return a problem in about ``number`` chunks, None where it cannot be split so.

    Parameters
    ----------
    problem : Problem
    axis : str
        A key of `SPLIT_AXES`.
    number : int
        The minibatch is split into as many equal chunks, other axes into as many or fewer.
    """
    if number == 1:
        begins = {role: (0,) * len(layout.shape) for role, layout in problem.layouts.items()}
        return (Chunk(problem, {role: ChunkTensor(begin) for role, begin in begins.items()}),)
    parts = list(SPLIT_AXES[axis](problem, number)) if number > 1 else []
    if len(parts) < 2 or None in parts:
        return None
    found = [part for part in parts if part is not None]
    is_split = {
        role: any(getattr(part, role).shape != layout.shape for part, _ in found)
        for role, layout in problem.layouts.items()
    }
    is_sum = {
        role: not is_split[role] and role in _result_roles(problem) for role in problem.layouts
    }
    same: dict[Problem, Problem] = {}
    return tuple(
        Chunk(
            same.setdefault(part, part),
            {role: ChunkTensor(begins[role], is_split[role], is_sum[role]) for role in begins},
            is_first=index == 0,
            is_last=index == len(found) - 1,
        )
        for index, (part, begins) in enumerate(found)
    )


def _result_roles(problem: Problem) -> tuple[str, ...]:
    if problem.direction is Direction.BACKWARD_WEIGHTS:
        return ("weights", "bias")
    return (problem.result_role,)


# A part's problem, and the index of each tensor's first element in the whole.
SplitPart = tuple[Problem, dict[str, tuple[int, ...]]]


def part_of(problem: Problem, ranges: _Ranges, **changes: Any) -> SplitPart:
    """Return the problem of some ranges, by role and axis, with other changes besides."""
    begins = {}
    for role, layout in problem.layouts.items():
        shape, begin = list(layout.shape), [0] * len(layout.shape)
        if role in ranges:
            axis, span = ranges[role]
            shape[axis], begin[axis] = len(span), span.start
        changes[role] = without_image_gap(TensorLayout(tuple(shape), layout.strides))
        begins[role] = tuple(begin)
    return replace(problem, **changes), begins


def without_image_gap(layout: TensorLayout) -> TensorLayout:
    """Return the layout with a dense stride of a single image.

    Some kernels compute with the distance to the next image even where there is none.
    """
    if layout.shape[0] > 1:
        return layout
    image = TensorLayout(layout.shape[1:], layout.strides[1:])
    return TensorLayout(layout.shape, (image.extent, *image.strides))


def without_axis(layout: TensorLayout, axis: int) -> TensorLayout:
    """Return the layout of the first elements along an axis."""
    shape, strides = list(layout.shape), list(layout.strides)
    del shape[axis], strides[axis]
    return TensorLayout(tuple(shape), tuple(strides))


def _spans(size: int, length: int) -> Iterator[range]:
    for begin in range(0, size, length):
        yield range(begin, min(begin + length, size))


def _along_minibatch(problem: Problem, number: int) -> Iterator[SplitPart | None]:
    images = problem.src.shape[0]
    if images % number:
        return
    for span in _spans(images, images // number):
        yield part_of(problem, {"src": (0, span), "dst": (0, span)})


def _along_first_spatial_axis(problem: Problem, number: int) -> Iterator[SplitPart | None]:
    """Yield parts along the first spatial axis, None for a part that no window meets."""
    stepped = problem.stepped_role
    size, windows = (getattr(problem, role).shape[2] for role in (stepped, _other(stepped)))
    if problem.result_role == stepped:
        length = _rounded(-(-size // number), problem.strides[0])
        for elements in _spans(size, length):
            yield _spatial_part(problem, elements, _windows_on(problem, elements, windows))
    elif problem.result_role != "weights" or not problem.transposed or problem.bias is None:
        # The bias gradient of a transposed problem would sum elements that parts share twice.
        for positions in _spans(windows, -(-windows // number)):
            yield _spatial_part(problem, _elements_under(problem, positions, size), positions)


def number_of_tiles(problem: Problem, most: Sequence[int]) -> int:
    """Return how many terms `tiles` makes of a weights gradient."""
    windows = getattr(problem, _other(problem.stepped_role)).shape[2:]
    return prod(-(-number // limit) for number, limit in zip(windows, most, strict=True))


def tiles(problem: Problem, most: Sequence[int], axis: int = 0) -> list[SplitPart] | None:
    """Return a weights gradient as terms, each of some windows along all spatial axes.

    Parameters
    ----------
    problem : Problem
    most : sequence of int
        Windows of a part along each spatial axis.
    axis : int
        The first axis to be split.

    Returns
    -------
    list of SplitPart or None
        None where the windows of a part meet no element.
    """
    if axis == len(most):
        return [(problem, {role: (0,) * len(one.shape) for role, one in problem.layouts.items()})]
    stepped = problem.stepped_role
    size, windows = (getattr(problem, role).shape[axis + 2] for role in (stepped, _other(stepped)))
    number = -(-windows // most[axis])
    found: list[SplitPart] = []
    for positions in _spans(windows, -(-windows // number)):
        elements = _elements_under(problem, positions, size, axis)
        part = _spatial_part(problem, elements, positions, axis)
        inner = None if part is None else tiles(part[0], most, axis + 1)
        if part is None or inner is None:
            return None
        for tile, begins in inner:
            moved = {role: tuple(map(add, begins[role], part[1][role])) for role in begins}
            found.append((tile, moved))
    return found


def _other(stepped: str) -> str:
    return "src" if stepped == "dst" else "dst"


def _windows_on(problem: Problem, elements: range, windows: int) -> range:
    """Return the windows that meet some elements of the tensor that strides step over."""
    stride, pad = problem.strides[0], problem.pads_begin[0]
    extent = effective_kernel(problem.kernel[0], problem.dilations[0])
    first = -(-(elements.start + pad - extent + 1) // stride)
    last = (elements.stop - 1 + pad) // stride
    return range(max(0, first), min(windows, last + 1))


def _elements_under(problem: Problem, positions: range, size: int, axis: int = 0) -> range:
    """Return the elements along a spatial axis, of ``size``, that some windows meet."""
    stride, pad = problem.strides[axis], problem.pads_begin[axis]
    extent = effective_kernel(problem.kernel[axis], problem.dilations[axis])
    end = (positions.stop - 1) * stride - pad + extent
    return range(max(0, positions.start * stride - pad), min(size, end))


def _spatial_part(
    problem: Problem, elements: range, positions: range, axis: int = 0
) -> SplitPart | None:
    stepped, stride = problem.stepped_role, problem.strides[axis]
    extent = effective_kernel(problem.kernel[axis], problem.dilations[axis])
    begin = problem.pads_begin[axis] + elements.start - positions.start * stride
    end = stride * (len(positions) - 1) + extent - len(elements) - begin
    if not elements or not positions or begin < 0 or end <= -stride:
        return None
    return part_of(
        problem,
        {stepped: (axis + 2, elements), _other(stepped): (axis + 2, positions)},
        pads_begin=_with(problem.pads_begin, axis, begin),
        pads_end=_with(problem.pads_end, axis, end),
    )


def _with(numbers: tuple[int, ...], axis: int, number: int) -> tuple[int, ...]:
    return (*numbers[:axis], number, *numbers[axis + 1 :])


def _along_channels(problem: Problem, number: int) -> Iterator[SplitPart | None]:
    groups, outputs, inputs = problem.weights.shape[:3]
    if groups > 1:
        length = -(-groups // number)
        if inputs * outputs == 1:
            length = _rounded(length, CHANNEL_BLOCK)
        for span in _spans(groups, length):
            yield part_of(
                problem,
                {
                    "src": (1, _scaled(span, inputs)),
                    "weights": (0, span),
                    "dst": (1, _scaled(span, outputs)),
                    "bias": (0, _scaled(span, outputs)),
                },
            )
        return
    of_src = problem.direction is Direction.BACKWARD_DATA
    if problem.direction is Direction.BACKWARD_WEIGHTS and problem.bias is None:
        # Splitting the larger tensor saves more. The bias gradient is a sum of dst.
        of_src = problem.src.size > problem.dst.size
    size = inputs if of_src else outputs
    for span in _spans(size, _rounded(-(-size // number), CHANNEL_BLOCK)):
        if of_src:
            yield part_of(problem, {"src": (1, span), "weights": (2, span)})
        else:
            yield part_of(problem, {"dst": (1, span), "weights": (1, span), "bias": (0, span)})


def _scaled(span: range, factor: int) -> range:
    return range(span.start * factor, span.stop * factor)


def _rounded(number: int, block: int) -> int:
    return -(-number // block) * block


SPLIT_AXES: dict[str, Callable[[Problem, int], Iterator[SplitPart | None]]] = {
    "minibatch": _along_minibatch,
    "spatial": _along_first_spatial_axis,
    "channels": _along_channels,
}
