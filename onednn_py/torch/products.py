"""Calls with a kernel as large as src, such as 1x1 on one pixel: products of matrices.

Squeeze-excitation and the last layers of networks have them. A product by PyTorch itself takes a
third to a tenth of the time that a primitive of oneDNN needs to begin, PyTorch's or ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import torch

from .signature import Geometry, Native

__all__ = ["Product", "as_product"]

_Kernel = torch._C._ConvBackend

# PyTorch's kernels that are such products already, or loops where the CPU lacks a type.
_PRODUCTS = (_Kernel.Slow2d, _Kernel.Slow3d, _Kernel.SlowTranspose2d, _Kernel.SlowTranspose3d)

_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

# At the CPU's kernels at once: autocast, which is in force where a program differentiates inside of
# its block, must not cast here.
_mm = torch.ops.aten.mm.default.redispatch
_addmm = torch.ops.aten.addmm.default.redispatch
_sum = torch.ops.aten.sum.dim_IntList.redispatch


def as_product(
    geometry: Geometry,
    tensors: Sequence[torch.Tensor],
    mask: Sequence[bool] | None,
    dst_shape: Sequence[int],
    found: Native,
) -> Product | None:
    """Return a call as products of matrices, None if it is no such call.

    Parameters
    ----------
    geometry : Geometry
        With an entry per spatial axis.
    tensors : sequence of Tensor
        src and weights; then the bias if there is one, or diff_dst for the gradients.
    mask : sequence of bool or None
        Of the gradients, which ones are asked for.
    dst_shape : sequence of int
    found : Native
        How PyTorch would compute the call.
    """
    src, weights = tensors[:2]
    kernel = tuple(weights.shape[2:])
    shapes = tuple(src.shape), tuple(dst_shape)
    patch, pixel = reversed(shapes) if geometry.transposed else shapes
    if geometry.groups > 1 or patch[2:] != kernel or prod(pixel[2:]) > 1:
        return None
    if any(geometry.padding) or any(geometry.output_padding):
        return None
    if found.kernel in _PRODUCTS:
        return None
    is_last = found.is_channels_last
    if prod(kernel) > 1:
        # Rows of the patches and of the weights have to be in the same order, and in memory.
        of_patches = src if not geometry.transposed else None if mask is None else tensors[2]
        rows = [weights] if of_patches is None else [weights, of_patches]
        if not all(_in_order(tensor, is_last).is_contiguous() for tensor in rows):
            return None
    return Product(geometry.transposed, src.shape, weights.shape, dst_shape, mask, is_last)


class Product:
    """A call of known shapes and memory formats, which takes tensors and gives tensors.

    With X the matrix of patches (N, channels and positions of the kernel), Y that of pixels
    (N, channels) and W that of weights (channels of Y, channels of X and positions), a convolution
    is Y = X W', and a transposed one X = Y W.

    Parameters
    ----------
    transposed : bool
    src_shape, weights_shape, dst_shape : sequence of int
    mask : sequence of bool, optional
        Of the gradients of src, weights and bias, which ones are asked for; None for the forward
        pass.
    is_channels_last : bool
        Of the results.
    """

    def __init__(
        self,
        transposed: bool,
        src_shape: Sequence[int],
        weights_shape: Sequence[int],
        dst_shape: Sequence[int],
        mask: Sequence[bool] | None,
        is_channels_last: bool,
    ) -> None:
        self._transposed = transposed
        self._is_last = is_channels_last
        self._mask = mask
        self._src = _shaper(src_shape, is_channels_last)
        self._weights = _shaper(weights_shape, is_channels_last)
        self._dst = _shaper(dst_shape, is_channels_last)
        self._summed = [0, *range(2, len(src_shape))]
        self._positions = prod(dst_shape[2:])

    def __call__(
        self, tensors: Sequence[torch.Tensor]
    ) -> torch.Tensor | tuple[torch.Tensor | None, ...]:
        """Return dst, or the three gradients, None for those that are not asked for."""
        if self._mask is None:
            return self._forward(*tensors)
        return self._backward(*tensors)

    def _forward(
        self, src: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        factor = self._rows(weights)
        if not self._transposed:
            factor = factor.t()
        if bias is None:
            return self._dst(_mm(_CPU, self._rows(src), factor))
        # Added before the result is rounded.
        return self._dst(_addmm(_CPU, self._row(bias), self._rows(src), factor))

    def _backward(
        self, src: torch.Tensor, weights: torch.Tensor, diff_dst: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        assert self._mask is not None
        of_src, of_weights, of_bias = self._mask
        rows, diff_rows = self._rows(src), self._rows(diff_dst)
        results: list[torch.Tensor | None] = [None, None, None]
        if of_src:
            factor = self._rows(weights)
            factor = factor.t() if self._transposed else factor
            results[0] = self._src(_mm(_CPU, diff_rows, factor))
        if of_weights:
            pixels, patches = (rows, diff_rows) if self._transposed else (diff_rows, rows)
            results[1] = self._weights(_mm(_CPU, pixels.t(), patches))
        if of_bias:
            results[2] = _sum(_CPU, diff_dst, self._summed)
        return tuple(results)

    def _row(self, bias: torch.Tensor) -> torch.Tensor:
        """Return a bias as each row of the matrix of dst has it."""
        if self._positions == 1:
            return bias
        if self._is_last:
            return bias.repeat(self._positions)
        return bias[:, None].expand(-1, self._positions).reshape(-1)

    def _rows(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor as a matrix of as many rows as its first axis has elements."""
        return _in_order(tensor, self._is_last).reshape(tensor.shape[0], -1)


def _in_order(tensor: torch.Tensor, is_last: bool) -> torch.Tensor:
    """Return a tensor with its axes in the order of the memory format."""
    return tensor.movedim(1, -1) if is_last else tensor


def _shaper(shape: Sequence[int], is_last: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that gives a dense matrix of rows a shape, in a memory format."""
    in_memory = (shape[0], *shape[2:], shape[1]) if is_last else tuple(shape)

    def shaped(matrix: torch.Tensor) -> torch.Tensor:
        tensor = matrix.view(in_memory)
        return tensor.movedim(-1, 1) if is_last else tensor

    return shaped
