"""A Formulation: another problem with the same result, and how it relates to the one asked."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Problem, TensorLayout
from onednn_py.system.casting import round_into, widen_into
from onednn_py.system.sums import sum_into_bias

from .chunks import Chunk
from .dst_as_weights import is_line, seen_by_tiles
from .equivalents import view_of
from .im2col import gather
from .matmul import Product
from .merged_groups import blocks, by_merged_group
from .padded_channels import copy_beside_zeros

__all__ = ["SUM_DTYPE", "Formulation", "on_copies"]

Array = npt.NDArray[Any]
_P = TypeVar("_P", bound=Problem)

# Sums of chunks are stored between them, which a narrower type would round.
SUM_DTYPE = "f32"


@dataclass(frozen=True, slots=True)
class Formulation:
    """The problem that the primitive computes, and how it relates to the one that was asked.

    Attributes
    ----------
    asked, problem : Problem
    chunks : tuple of Chunk
        What the primitives compute one after the other: ``problem``, or all parts of it.
    roles : dict
        For each role of ``problem``, the role of the tensor in ``asked``.
    window : tuple of slice
        For each spatial axis, what the primitive sees of the tensor that strides step over.
        It begins at the first element, so that addresses stay what they are.
    bias_apart : bool
        Whether the bias gradient is summed outside the primitive.
    swaps_channels : bool
        Whether the weights of ``problem`` have src's channels where those of ``asked`` have dst's.
    flips : bool
        Whether the weights of ``problem`` are those of ``asked`` flipped along all spatial axes.
    copied : frozenset of str
        The roles of ``problem`` whose tensors NumPy copies, in or out.
    is_partial : bool
        Whether the primitives leave elements of the result unwritten, or only add to them.
    dst_is_weights : bool
        Whether the primitives are those of `dst_as_weights` or `dst_planes`.
    gathers : bool
        Whether the copy of src has the patches of `im2col`.
    merged_groups : int
        How many groups of ``asked`` make one of ``problem``, whose weights are zero between them.
    takes_planes : bool
        Whether chunks have planes of src and dst, as those of `planes` and `unpadded_depth` do.
    """

    asked: Problem
    problem: Problem
    chunks: tuple[Chunk, ...]
    roles: dict[str, str]
    window: tuple[slice, ...]
    bias_apart: bool
    swaps_channels: bool = False
    flips: bool = False
    copied: frozenset[str] = frozenset()
    is_partial: bool = False
    dst_is_weights: bool = False
    gathers: bool = False
    merged_groups: int = 1
    takes_planes: bool = False

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The unique problems of the chunks, each of which needs a primitive, and of blocks.

        Those of blocks give memory descriptors alone.
        """
        tensors = (tensor for chunk in self.chunks for tensor in chunk.tensors.values())
        blocks = (tensor.block.problem for tensor in tensors if tensor.block is not None)
        return tuple(dict.fromkeys(chain((chunk.problem for chunk in self.chunks), blocks)))

    def needs_prefill(self, is_summed: bool) -> bool:
        """Whether `prefill` has anything to do.

        Parameters
        ----------
        is_summed : bool
            Whether products of oneDNN sum the bias gradient.
        """
        return self.is_partial or (self.bias_apart and not is_summed)

    @property
    def adds_bias(self) -> bool:
        """Whether the bias is added to dst behind the primitive, which takes none."""
        asked = self.asked
        return asked.result_role == "dst" and asked.bias is not None and self.problem.bias is None

    @property
    def is_cast(self) -> bool:
        """Whether the primitive computes in another data type than the caller's."""
        return self.problem.dtype != self.asked.dtype

    def order(self, role: str) -> Hashable:
        """Return what of a tensor's order of elements its memory descriptor does not say.

        Equal only where two formulations read the same elements in the same order.
        """
        problem = self.problem
        factors = problem.factors if isinstance(problem, Product) else None
        of_matrix: Hashable = None
        if self.gathers:
            # A matrix does not say which axes of the tensor it has, nor where windows stand.
            geometry = problem.strides, problem.dilations, problem.pads_begin, problem.pads_end
            of_matrix = getattr(problem, role).dense(), geometry if role == "src" else None
        if role != "weights":
            return of_matrix
        forms = self.swaps_channels, self.flips, self.dst_is_weights, self.merged_groups
        return *forms, factors, of_matrix

    def dtype(self, role: str) -> str:
        """Return the data type of what the primitive reads or writes."""
        is_sum = self.chunks[0].tensors[role].is_partial_sum
        return SUM_DTYPE if is_sum else self.problem.dtype

    def offset(self, role: str, begin: Sequence[int]) -> int:
        """Return the bytes from the first element of a tensor of ``problem`` to another."""
        layout: TensorLayout = getattr(self.problem, role)
        elements = sum(b * stride for b, stride in zip(begin, layout.strides, strict=True))
        return elements * DTYPES[self.problem.dtype].itemsize

    def prefill(self, tensors: Mapping[str, Array]) -> None:
        """Write, before primitives run, a bias gradient and what they leave out or add to."""
        layouts = self.asked.layouts
        tensors = {role: view_of(array, layouts[role]) for role, array in tensors.items()}
        if self.bias_apart and "bias" in tensors:
            sum_into_bias(tensors["bias"], tensors["dst"])
        if self.is_partial:
            is_forward = self.asked.result_role == "dst"
            added = tensors.get("bias") if is_forward else None
            self._fill_rest(tensors[self.asked.result_role], added)

    def _fill_rest(self, result: Array, bias: Array | None) -> None:
        """Fill the elements of the result that primitives leave out, or add to."""
        fill: Any = 0
        if bias is not None and (self.is_cast or not self.adds_bias):
            fill = _beside(bias, result)
        has_gaps = any(span.step not in (None, 1) for span in self.window)
        if self.flips or self.takes_planes or self.dst_is_weights or has_gaps:
            result[...] = fill
            return
        for axis, span in enumerate(self.window):
            result[(slice(None),) * (axis + 2) + (slice(span.stop, None),)] = fill

    def add_bias(self, dst: Array, bias: Array) -> None:
        """Add the bias to the whole of dst, both of ``asked``."""
        dst = view_of(dst, self.asked.dst)
        with np.errstate(all="ignore"):  # as oneDNN's own additions are silent
            dst += _beside(bias, dst)

    def bias_of(self, role: str, chunk: Chunk, dst: Array, bias: Array) -> Array:
        """Return the bias of each element of dst that a chunk writes, by the role in ``problem``.

        It has the data type of ``problem``: converted for each channel, not for each element.

        Parameters
        ----------
        role : str
        chunk : Chunk
        dst, bias : ndarray
            Of ``asked``.
        """
        dst = view_of(dst, self.asked.dst)
        bias = bias.astype(DTYPES[self.problem.dtype])
        added = self.seen(role, np.broadcast_to(_beside(bias, dst), dst.shape))
        layout: TensorLayout = getattr(chunk.problem, role)
        return added[chunk.tensors[role].spans(layout.shape)]

    def copy(self, role: str, chunk: Chunk, target: Array, array: Array) -> None:
        """Write what a chunk reads of a tensor of ``asked``, by the role in ``problem``."""
        seen, part = self.seen(role, array), chunk.tensors[role]
        if role == "src" and self.gathers:
            images, channels = part.spans(target.shape)[:2]
            gather(target, seen[images, channels], chunk.problem)
            return
        if role == "weights" and self.merged_groups > 1:
            target[...] = 0
            seen = by_merged_group(seen, self.merged_groups)
            widen_into(blocks(target, self.merged_groups), seen)
            return
        values = part.of(seen, target.shape)
        if values.shape == target.shape:
            widen_into(target, values)
        else:
            copy_beside_zeros(target, values)

    def round_back(self, role: str, chunk: Chunk, array: Array, source: Array) -> None:
        """Round a chunk's copy of the result into that of ``asked``, by the role in ``problem``."""
        seen = self.seen(role, array)
        if role == "weights" and self.merged_groups > 1:
            source = blocks(source, self.merged_groups)
            round_into(by_merged_group(seen, self.merged_groups), source)
            return
        result = chunk.tensors[role].of(seen, source.shape)
        axis = 0 if role == "bias" else 1
        if result.shape[axis] != source.shape[axis]:  # channels that were added to the copy
            source = source[(slice(None),) * axis + (slice(result.shape[axis]),)]
        round_into(result, source)

    def seen(self, role: str, array: Array) -> Array:
        """Return what the primitive sees of a tensor of ``asked``, by the role in ``problem``."""
        array = view_of(array, self.asked.layouts[self.roles[role]])
        if self.dst_is_weights:
            return seen_by_tiles(role, array, is_turned=is_line(self.asked))
        if role == "weights":
            if self.swaps_channels:
                array = array.swapaxes(1, 2)
            return np.flip(array, tuple(range(3, array.ndim))) if self.flips else array
        if self.roles[role] == self.asked.stepped_role:
            return array[(slice(None), slice(None), *self.window)]
        return array


def _beside(bias: Array, dst: Array) -> Array:
    """Return the bias in a shape that broadcasts to dst's."""
    return bias.reshape(1, -1, *(1 for _ in dst.shape[2:]))


def on_copies(problem: _P, roles: Iterable[str], dtype: str) -> _P:
    """Return a problem, perhaps of another data type, on copies without gaps of some tensors."""
    layouts: dict[str, Any] = {role: getattr(problem, role).dense() for role in roles}
    return replace(problem, dtype=dtype, **layouts)
