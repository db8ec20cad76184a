"""Formulations: other problems with the same result, for speed and for what oneDNN refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onednn_py.problem.problem import Problem, TensorLayout

from . import product_formulations
from .chunks import split
from .dst_as_weights import as_tiles
from .dst_planes import as_planes_of_dst
from .formulation import Formulation, on_copies
from .merged_groups import merged, number_to_merge
from .padded_channels import padded
from .phases import as_forward, phases, unwritten
from .planes import as_planes
from .unpadded_depth import as_unpadded
from .windows import layout_seen, leaves_elements_out, spatial_sizes, window_of

__all__ = ["FORMULATIONS", "formulate"]

# direct: the family's own primitive. as_convolution: a transposed problem on the convolution
# primitives, with src and dst exchanged. strided_1x1: a 1x1 kernel with strides, transposed or not,
# as a convolution with stride 1 on every stride-th element. flipped: a data gradient as a forward
# convolution with flipped weights, or with strides as several of them, see `phases`. matmul: a 1x1
# kernel as products of matrices. dst_as_weights: a depthwise weights gradient as forward
# convolutions of src with diff_dst, an image, a plane or a tile of it each. im2col: a weights
# gradient or a forward pass as a product of matrices with the patches of src that windows meet.
# padded_channels: a weights gradient with zeros beside the channels of diff_dst. merged_groups: a
# problem in groups of few channels in fewer groups of more. planes: a depthwise problem on volumes
# as problems on planes. unpadded_depth: a weights gradient of volumes in parts without padding
# along the depth.
FORMULATIONS = (
    "direct",
    "as_convolution",
    "strided_1x1",
    "matmul",
    "flipped",
    "dst_as_weights",
    "im2col",
    "padded_channels",
    "merged_groups",
    "planes",
    "unpadded_depth",
)


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
    if formulation == "padded_channels":
        return _padded_channels(asked, compute_dtype, bias_apart) if chunks == 1 else None
    if formulation == "merged_groups":
        return _merged_groups(asked, compute_dtype, chunks, split_axis, bias_apart)
    if formulation in _OF_PLANES:
        return _of_planes(asked, compute_dtype, formulation) if chunks == 1 else None
    if formulation == "matmul":
        return product_formulations.of_1x1(asked, compute_dtype, chunks, split_axis)
    if formulation == "im2col":
        return product_formulations.of_patches(asked, compute_dtype, chunks, split_axis)
    window = window_of(asked, formulation)
    if window is None:
        return None
    return _in_window(asked, compute_dtype, formulation, chunks, split_axis, bias_apart, window)


def _in_window(
    asked: Problem,
    compute_dtype: str,
    formulation: str,
    chunks: int,
    split_axis: str,
    bias_apart: bool,
    window: tuple[slice, ...],
) -> Formulation | None:
    """Return a convolution, or transposed one, of the elements that lie in a window."""
    exchange = asked.transposed and formulation != "direct"
    adds_bias = exchange and asked.result_role == "dst" and asked.bias is not None
    if formulation == "as_convolution" and not exchange:
        return None
    if adds_bias and compute_dtype != "f32":
        return None  # bfloat16 would be rounded before the addition, and after it
    problem = _seen_through(window, asked, compute_dtype, formulation)
    if problem is None:
        return None
    stepped = asked.stepped_role
    is_shortened = getattr(problem, stepped).shape != getattr(asked, stepped).shape
    must_be_apart = exchange or _misses_bias(asked, is_shortened, chunks, split_axis)
    bias_apart = asked.has_bias_gradient and (bias_apart or must_be_apart)
    roles = {"src": "src", "weights": "weights", "dst": "dst", "bias": "bias"}
    if exchange:
        problem = problem.as_convolution()
        roles = {"src": "dst", "weights": "weights", "dst": "src"}
    if bias_apart or adds_bias:
        problem = replace(problem, bias=None)
    parts = split(problem, split_axis, chunks)
    if parts is None:
        return None
    copied: frozenset[str] = frozenset()
    if compute_dtype != asked.dtype:
        # The copy of a chunk is dense, whatever gaps the other chunks leave in the whole.
        copied = frozenset(problem.layouts)
        parts = tuple(
            replace(one, problem=on_copies(one.problem, copied, compute_dtype)) for one in parts
        )
        problem = on_copies(problem, copied, compute_dtype)
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


def _seen_through(
    window: tuple[slice, ...], asked: Problem, compute_dtype: str, formulation: str
) -> Problem | None:
    """Return the problem of the elements in a window, None if oneDNN has no layout of them."""
    stepped = asked.stepped_role
    layout: TensorLayout = getattr(asked, stepped)
    seen = layout_seen(layout, window)
    if compute_dtype == asked.dtype and not seen.is_nested:
        return None  # every second element of an odd number of them, for one
    changes: dict[str, Any] = {} if seen == layout else {stepped: seen}
    if formulation == "strided_1x1":
        ones, zeros = (1,) * len(window), (0,) * len(window)
        changes |= {"strides": ones, "dilations": ones, "pads_begin": zeros, "pads_end": zeros}
    elif seen.shape != layout.shape:
        changes["pads_end"] = tuple(
            end + size - span.stop
            for end, size, span in zip(asked.pads_end, spatial_sizes(asked), window, strict=True)
        )
    return replace(asked, **changes) if changes else asked


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
        replace(one, problem=on_copies(one.problem, copied, compute_dtype)) for one in parts
    )
    problem = on_copies(problem, copied, compute_dtype)
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
    if len(asked.kernel) == 3:
        return _dst_planes(asked, compute_dtype)
    found = as_tiles(asked)
    if found is None:
        return None
    problem, parts, _ = found
    copied = frozenset(problem.layouts) if compute_dtype != asked.dtype else frozenset()
    return Formulation(
        asked,
        on_copies(problem, copied, compute_dtype),
        tuple(replace(one, problem=on_copies(one.problem, copied, compute_dtype)) for one in parts),
        _roles_of_dst_as_weights(asked),
        tuple(slice(0, size) for size in spatial_sizes(asked)),
        bias_apart=asked.has_bias_gradient,
        copied=copied,
        dst_is_weights=True,
    )


def _dst_planes(asked: Problem, compute_dtype: str) -> Formulation | None:
    """Return a depthwise weights gradient of volumes as forward convolutions."""
    found = as_planes_of_dst(asked) if (asked.dtype, compute_dtype) == ("f32", "f32") else None
    if found is None:
        return None
    return Formulation(
        asked,
        found.problem,
        found.chunks,
        _roles_of_dst_as_weights(asked),
        tuple(slice(0, size) for size in spatial_sizes(asked)),
        bias_apart=asked.has_bias_gradient,
        dst_is_weights=True,
        is_partial=found.begins_at_zero,
    )


def _roles_of_dst_as_weights(asked: Problem) -> dict[str, str]:
    roles = {"src": "src", "weights": "dst", "dst": "weights", "bias": "bias"}
    return roles | ({"src": "dst", "weights": "src"} if asked.transposed else {})


def _padded_channels(asked: Problem, compute_dtype: str, bias_apart: bool) -> Formulation | None:
    """Return a weights gradient on a copy of diff_dst that has zeros beside its channels."""
    plain = _on_convolutions(asked, compute_dtype, bias_apart)
    problem = None if plain is None else padded(plain.problem)
    if plain is None or problem is None:
        return None
    (chunk,) = plain.chunks
    copied = {role for role in ("weights", "dst", "bias") if role in problem.layouts}
    return replace(
        plain,
        problem=problem,
        chunks=(replace(chunk, problem=problem),),
        copied=plain.copied | copied,
    )


def _merged_groups(
    asked: Problem, compute_dtype: str, chunks: int, split_axis: str, bias_apart: bool
) -> Formulation | None:
    """Return a problem in groups of few channels in fewer groups, of weights with zeros."""
    number = number_to_merge(asked)
    if number == 1 or compute_dtype != asked.dtype or (chunks > 1 and split_axis == "channels"):
        return None  # a conversion besides, of which no rule was judged
    plain = _on_convolutions(asked, compute_dtype, bias_apart, chunks, split_axis)
    if plain is None:
        return None
    same: dict[Problem, Problem] = {}
    problems = [same.setdefault(p, p) for p in (merged(c.problem, number) for c in plain.chunks)]
    return replace(
        plain,
        problem=merged(plain.problem, number),
        chunks=tuple(
            replace(chunk, problem=problem)
            for chunk, problem in zip(plain.chunks, problems, strict=True)
        ),
        copied=plain.copied | {"weights"},
        merged_groups=number,
    )


_OF_PLANES = {"planes": as_planes, "unpadded_depth": as_unpadded}


def _of_planes(asked: Problem, compute_dtype: str, formulation: str) -> Formulation | None:
    """Return a problem on volumes in chunks of planes, a bias and its gradient apart."""
    if (asked.dtype, compute_dtype) != ("f32", "f32"):
        return None  # of other types no rule was judged
    plain = _on_convolutions(asked, compute_dtype, bias_apart=True)
    if plain is None:
        return None
    found = _OF_PLANES[formulation](replace(plain.problem, bias=None))
    if found is None:
        return None
    return replace(
        plain,
        problem=found.problem,
        chunks=found.chunks,
        takes_planes=True,
        is_partial=plain.is_partial or found.begins_at_zero,
    )


def _on_convolutions(
    asked: Problem,
    compute_dtype: str,
    bias_apart: bool,
    chunks: int = 1,
    split_axis: str = "minibatch",
) -> Formulation | None:
    """Return a problem, transposed or not, on the convolution primitives."""
    formulation = "as_convolution" if asked.transposed else "direct"
    return formulate(asked, compute_dtype, formulation, chunks, split_axis, bias_apart)


def _misses_bias(asked: Problem, is_shortened: bool, chunks: int, split_axis: str) -> bool:
    """Whether a bias gradient in the primitive would miss elements of dst, or sum some twice."""
    if asked.transposed and is_shortened:
        return True
    shares_elements = asked.transposed and split_axis == "spatial"
    splits_src = split_axis == "channels" and asked.groups == 1 and asked.src.size > asked.dst.size
    return chunks > 1 and (shares_elements or splits_src)
