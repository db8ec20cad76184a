"""Formulations as products of matrices, by oneDNN's matmul."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from onednn_py.problem.problem import Direction, Problem

from .chunks import Chunk, split
from .formulation import Formulation, on_copies
from .im2col import as_patch_product
from .matmul import Product, as_product, is_matrix
from .windows import layout_seen, leaves_elements_out, spatial_sizes, window_of

__all__ = ["MOST_IMAGES", "of_1x1", "of_patches"]

# A product is made ready for each image, where a weights gradient needs one. More images than these
# are not worth the time.
MOST_IMAGES = 256


def of_1x1(asked: Problem, compute_dtype: str, chunks: int, split_axis: str) -> Formulation | None:
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
        on_copies(product, copied, compute_dtype),
        parts,
        roles,
        window,
        bias_apart=asked.has_bias_gradient,
        swaps_channels=exchange,
        copied=frozenset(copied),
        is_partial=leaves_elements_out(asked, window),
    )


def of_patches(
    asked: Problem, compute_dtype: str, chunks: int, split_axis: str
) -> Formulation | None:
    """Return a weights gradient or a forward pass as products with the patches of src."""
    found = as_patch_product(asked)
    if found is None or (chunks > 1 and split_axis == "spatial"):
        return None
    product, copied = found
    if compute_dtype != asked.dtype:
        copied = set(product.layouts)
    parts = _products(product, split_axis, chunks, copied, compute_dtype)
    if parts is None:
        return None
    roles = {"src": "src", "weights": "weights", "dst": "dst", "bias": "bias"}
    if asked.transposed:
        roles |= {"src": "dst", "dst": "src"}
    return Formulation(
        asked,
        on_copies(product, copied, compute_dtype),
        parts,
        roles,
        tuple(slice(0, size) for size in spatial_sizes(asked)),
        bias_apart=asked.has_bias_gradient,
        swaps_channels=asked.transposed,
        copied=frozenset(copied),
        gathers=True,
    )


def _products(
    product: Product, split_axis: str, number: int, copied: set[str], dtype: str
) -> tuple[Chunk, ...] | None:
    """Return a product in chunks, each a single primitive that adds to the sum of those before."""
    chunks = []
    for chunk in split(product, split_axis, number) or ():
        adds = not chunk.is_first and chunk.tensors["weights"].is_partial_sum
        part = replace(on_copies(cast(Product, chunk.problem), copied, dtype), adds=adds)
        if not part.has_matrices:
            return None
        chunks.append(replace(chunk, problem=part))
    return tuple(chunks) or None
