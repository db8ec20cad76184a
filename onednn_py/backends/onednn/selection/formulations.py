"""Formulations: other problems with the same result, for speed and for what oneDNN refuses."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Direction, Problem, TensorLayout
from onednn_py.system.sums import sum_into_bias

from .chunks import Chunk, split
from .dst_as_weights import as_tiles, is_line, seen_by_tiles
from .matmul import Product, as_product, has_matrices, is_matrix
from .phases import as_forward, phases, unwritten
from .planes import view_in_plane
from .windows import layout_seen, leaves_elements_out, spatial_sizes, window_of

__all__ = ["FORMULATIONS", "Formulation", "formulate"]

Array = npt.NDArray[Any]
_P = TypeVar("_P", bound=Problem)

# direct: the family's own primitive. as_convolution: a transposed problem on the convolution
# primitives, with src and dst exchanged. strided_1x1: a 1x1 kernel with strides, transposed or
# not, as a convolution with stride 1 on every stride-th element. flipped: a data gradient as a
# forward convolution with flipped weights, or with strides as several of them, see `phases`.
# matmul: a 1x1 kernel as products of matrices. dst_as_weights: a depthwise weights gradient as
# forward convolutions of src with diff_dst, an image or a tile of an image each.
FORMULATIONS = (
    "direct",
    "as_convolution",
    "strided_1x1",
    "matmul",
    "flipped",
    "dst_as_weights",
)

# A product is made ready for each image, where a weights gradient needs one. More images than these
# are not worth the time.
MOST_IMAGES = 256

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
        Whether the primitives leave elements of the result unwritten.
    dst_is_weights : bool
        Whether the primitives are those of `dst_as_weights`.
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

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The unique problems of the chunks, each of which needs a primitive."""
        return tuple(dict.fromkeys(chunk.problem for chunk in self.chunks))

    @property
    def needs_completion(self) -> bool:
        return self.bias_apart or self.is_partial

    @property
    def is_cast(self) -> bool:
        """Whether the primitive computes in another data type than the caller's."""
        return self.problem.dtype != self.asked.dtype

    @property
    def weights_order(self) -> Hashable:
        """Equal where two formulations of a problem read the weights in the same order."""
        factors = self.problem.factors if isinstance(self.problem, Product) else None
        return self.swaps_channels, self.flips, self.dst_is_weights, factors

    def dtype(self, role: str) -> str:
        """Return the data type of what the primitive reads or writes."""
        is_sum = self.chunks[0].tensors[role].is_partial_sum
        return SUM_DTYPE if is_sum else self.problem.dtype

    def offset(self, role: str, chunk: Chunk) -> int:
        """Return the bytes from the first element of a tensor of ``problem`` to a chunk's."""
        layout: TensorLayout = getattr(self.problem, role)
        begin = chunk.tensors[role].begin
        elements = sum(b * stride for b, stride in zip(begin, layout.strides, strict=True))
        return elements * DTYPES[self.problem.dtype].itemsize

    def complete(self, tensors: Mapping[str, Array]) -> None:
        """Compute what no primitive does: the bias gradient, elements that are left out."""
        asked = self.asked
        tensors = {
            role: view_in_plane(array, asked.layouts[role]) for role, array in tensors.items()
        }
        if self.bias_apart:
            sum_into_bias(tensors["bias"], tensors["dst"])
        if not self.is_partial:
            return
        result, bias = tensors[asked.result_role], tensors.get("bias")
        fill: Any = 0
        if bias is not None:
            fill = bias.reshape(1, -1, *(1 for _ in asked.kernel))
        if self.flips or any(span.step not in (None, 1) for span in self.window):
            result[...] = fill
            return
        for axis, span in enumerate(self.window):
            result[(slice(None),) * (axis + 2) + (slice(span.stop, None),)] = fill

    def seen(self, role: str, array: Array) -> Array:
        """Return what the primitive sees of a tensor of ``asked``, by the role in ``problem``."""
        array = view_in_plane(array, self.asked.layouts[self.roles[role]])
        if self.dst_is_weights:
            return seen_by_tiles(role, array, is_turned=is_line(self.asked))
        if role == "weights":
            if self.swaps_channels:
                array = array.swapaxes(1, 2)
            return np.flip(array, tuple(range(3, array.ndim))) if self.flips else array
        if self.roles[role] == self.asked.stepped_role:
            return array[(slice(None), slice(None), *self.window)]
        return array


def formulate(
    asked: Problem,
    compute_dtype: str,
    formulation: str = "direct",
    chunks: int = 1,
    split_axis: str = "minibatch",
    bias_apart: bool = False,
) -> Formulation | None:
    """Return ``asked`` in a form that oneDNN's primitives take, None if there is no such form.

    Parameters
    ----------
    asked : Problem
    compute_dtype : str
        Tensors of another data type become dense ones of this type.
    formulation : str
        One of `FORMULATIONS`.
    chunks, split_axis, bias_apart
        As in `Choice`. Where the primitive's sum would be wrong, the bias gradient is always apart.
    """
    if formulation == "flipped":
        return _flipped(asked, compute_dtype) if chunks == 1 else None
    if formulation == "dst_as_weights":
        return _dst_as_weights(asked, compute_dtype) if chunks == 1 else None
    if formulation == "matmul":
        return _matmul(asked, compute_dtype, chunks, split_axis)
    window = window_of(asked, formulation)
    if window is None:
        return None
    exchange = asked.transposed and formulation != "direct"
    if exchange and asked.result_role == "dst" and asked.bias is not None:
        return None  # the bias belongs to what would be a convolution's src
    if formulation == "as_convolution" and not exchange:
        return None
    stepped = asked.stepped_role
    layout: TensorLayout = getattr(asked, stepped)
    seen = layout_seen(layout, window)
    if compute_dtype == asked.dtype and not seen.is_nested:
        return None  # every second element of an odd number of them, for one
    is_shortened = seen.shape != layout.shape
    changes: dict[str, Any] = {} if seen == layout else {stepped: seen}
    if formulation == "strided_1x1":
        ones, zeros = (1,) * len(window), (0,) * len(window)
        changes |= {"strides": ones, "dilations": ones, "pads_begin": zeros, "pads_end": zeros}
    elif is_shortened:
        changes["pads_end"] = tuple(
            end + size - span.stop
            for end, size, span in zip(asked.pads_end, spatial_sizes(asked), window, strict=True)
        )
    problem = replace(asked, **changes) if changes else asked
    must_be_apart = exchange or _misses_bias(asked, is_shortened, chunks, split_axis)
    bias_apart = asked.has_bias_gradient and (bias_apart or must_be_apart)
    roles = {"src": "src", "weights": "weights", "dst": "dst", "bias": "bias"}
    if exchange:
        problem = problem.as_convolution()
        roles = {"src": "dst", "weights": "weights", "dst": "src"}
    if bias_apart:
        problem = replace(problem, bias=None)
    parts = split(problem, split_axis, chunks)
    if parts is None:
        return None
    if compute_dtype != asked.dtype:
        # The copy of a chunk is dense, whatever gaps the other chunks leave in the whole.
        roles_of = set(problem.layouts)
        parts = tuple(
            replace(one, problem=_copied(one.problem, roles_of, compute_dtype)) for one in parts
        )
        problem = _copied(problem, roles_of, compute_dtype)
    copied = frozenset(problem.layouts) if compute_dtype != asked.dtype else frozenset()
    return Formulation(
        asked,
        problem,
        parts,
        roles,
        window,
        bias_apart,
        swaps_channels=exchange,
        copied=copied,
        is_partial=leaves_elements_out(asked, window),
    )


def _flipped(asked: Problem, compute_dtype: str) -> Formulation | None:
    """Return a data gradient as forward convolutions with flipped weights."""
    problem = as_forward(asked)
    parts = None if problem is None else phases(problem)
    if problem is None or parts is None:
        return None
    is_partial = unwritten(problem, parts)
    copied = {"weights"}
    if compute_dtype != asked.dtype:
        copied = set(problem.layouts)
    elif not all(part.problem.dst.is_nested for part in parts):
        copied.add("dst")  # every second element of an odd number of them, for one
    parts = tuple(
        replace(one, problem=_copied(one.problem, copied, compute_dtype)) for one in parts
    )
    problem = _copied(problem, copied, compute_dtype)
    window = tuple(slice(0, size) for size in spatial_sizes(asked))
    roles = {"src": "src", "weights": "weights", "dst": "dst", "bias": "bias"}
    if not asked.transposed:
        roles = {"src": "dst", "weights": "weights", "dst": "src"}
    return Formulation(
        asked,
        problem,
        parts,
        roles,
        window,
        bias_apart=False,
        swaps_channels=not asked.transposed,
        flips=True,
        copied=frozenset(copied),
        is_partial=is_partial,
    )


def _dst_as_weights(asked: Problem, compute_dtype: str) -> Formulation | None:
    """Return a depthwise weights gradient as forward convolutions with diff_dst as weights."""
    found = as_tiles(asked)
    if found is None:
        return None
    problem, parts = found
    copied = frozenset(problem.layouts) if compute_dtype != asked.dtype else frozenset()
    roles = {"src": "src", "weights": "dst", "dst": "weights", "bias": "bias"}
    if asked.transposed:
        roles |= {"src": "dst", "weights": "src"}
    return Formulation(
        asked,
        _copied(problem, copied, compute_dtype),
        tuple(replace(one, problem=_copied(one.problem, copied, compute_dtype)) for one in parts),
        roles,
        tuple(slice(0, size) for size in spatial_sizes(asked)),
        bias_apart=asked.has_bias_gradient,
        copied=copied,
        dst_is_weights=True,
    )


def _matmul(asked: Problem, compute_dtype: str, chunks: int, split_axis: str) -> Formulation | None:
    """Return a 1x1 problem as products of matrices."""
    window = window_of(asked, "matmul")
    if window is None:
        return None
    stepped = asked.stepped_role
    seen: dict[str, Any] = {stepped: layout_seen(getattr(asked, stepped), window)}
    product = as_product(replace(asked, **seen))
    if product is None:
        return None
    if product.has_bias_gradient:
        product = replace(product, bias=None)
    activations = {"src": product.src, "dst": product.dst}
    # Every second element of an odd number of them is not nested, for one.
    copied = {
        role for role, layout in activations.items() if not (layout.is_nested and is_matrix(layout))
    }
    if compute_dtype != asked.dtype:
        copied = set(product.layouts)
    parts = _products(product, split_axis, chunks, copied, compute_dtype)
    if parts is None and chunks == 1 and product.direction is Direction.BACKWARD_WEIGHTS:
        images = product.src.shape[0]
        number = images if images <= MOST_IMAGES else 0
        parts = _products(product, "minibatch", number, copied, compute_dtype)
    if parts is None:
        return None
    roles = {"src": "src", "weights": "weights", "dst": "dst", "bias": "bias"}
    exchange = asked.direction is Direction.BACKWARD_DATA
    if exchange:
        roles |= {"src": "dst", "dst": "src"}
    return Formulation(
        asked,
        _copied(product, copied, compute_dtype),
        parts,
        roles,
        window,
        bias_apart=asked.has_bias_gradient,
        swaps_channels=exchange,
        copied=frozenset(copied),
        is_partial=leaves_elements_out(asked, window),
    )


def _products(
    product: Product, split_axis: str, number: int, copied: set[str], dtype: str
) -> tuple[Chunk, ...] | None:
    """Return a product in chunks, each a single primitive that adds to the sum of those before."""
    chunks = []
    for chunk in split(product, split_axis, number) or ():
        adds = not chunk.is_first and chunk.tensors["weights"].is_partial_sum
        part = replace(_copied(cast(Product, chunk.problem), copied, dtype), adds=adds)
        if not has_matrices(part):
            return None
        chunks.append(replace(chunk, problem=part))
    return tuple(chunks) or None


def _misses_bias(asked: Problem, is_shortened: bool, chunks: int, split_axis: str) -> bool:
    """Whether a bias gradient in the primitive would miss elements of dst, or sum some twice."""
    if asked.transposed and is_shortened:
        return True
    shares_elements = asked.transposed and split_axis == "spatial"
    splits_src = split_axis == "channels" and asked.groups == 1 and asked.src.size > asked.dst.size
    return chunks > 1 and (shares_elements or splits_src)


def _copied(problem: _P, roles: Iterable[str], dtype: str) -> _P:
    """Return a problem, perhaps of another data type, on copies without gaps of some tensors."""
    layouts: dict[str, Any] = {role: getattr(problem, role).dense() for role in roles}
    return replace(problem, dtype=dtype, **layouts)
