"""Which calls are left to PyTorch because it computes them faster, by measurement.

The ratios are PyTorch's time over ours, in geometric mean over drawn problems, on two cores with
AVX-512 and bfloat16 arithmetic, PyTorch 2.13 and oneDNN 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import torch

from .signature import Geometry

__all__ = ["Call", "reason_to_leave"]

_Kernel = torch._C._ConvBackend

# PyTorch's own loops over products of matrices, with which it computes float32 where a problem is
# small: one image of few elements, kernels of 3 at the most. Calls of oneDNN take longer.
_PRODUCTS = (_Kernel.Slow2d, _Kernel.SlowTranspose2d, _Kernel.SlowTranspose3d)

# Additions and multiplications below which that holds on one thread, where 1x1 kernels of any size
# are computed so, and for volumes, which these loops copy at length.
_SMALL_PRODUCT = 3e7
_SMALL_VOLUME = 1e6


class Call(NamedTuple):
    """What rules know of a call.

    Attributes
    ----------
    forward : bool
        Whether dst is computed, and not gradients.
    kernel : torch._C._ConvBackend
        Which of PyTorch's kernels would compute it.
    is_channels_last : bool
        Of the results.
    only_weights : bool
        Of gradients, whether that of src is not asked for.
    """

    geometry: Geometry
    dtype: torch.dtype
    src_shape: Sequence[int]
    weights_shape: Sequence[int]
    dst_shape: Sequence[int]
    forward: bool
    kernel: Any
    is_channels_last: bool
    only_weights: bool
    threads: int

    @property
    def flops(self) -> float:
        """Additions and multiplications of one pass, those on pads included."""
        pixels = self.src_shape if self.geometry.transposed else self.dst_shape
        return 2.0 * pixels[0] * prod(pixels[2:]) * prod(self.weights_shape)

    @property
    def is_depthwise(self) -> bool:
        return self.geometry.groups > 1 and self.weights_shape[1] == 1

    def is_native(self, dtype: torch.dtype) -> bool:
        """Whether PyTorch computes a type of 16 bits by oneDNN, as it does where the CPU can."""
        return self.dtype is dtype and self.kernel == _Kernel.Mkldnn


def _small_product(call: Call) -> bool:
    # In other types these loops take many times as long as ours.
    if call.dtype is not torch.float32:
        return False
    # One thread, 62 problems: 0.67, and 1.04 above 30 MFLOP; two threads, 34 problems: 0.41.
    if call.kernel in _PRODUCTS:
        return call.threads > 1 or call.flops < _SMALL_PRODUCT
    # Below the limit 0.74 (one thread, 8 problems) and 0.52 (two, 6); above it 3.4 and 1.9.
    return bool(call.kernel == _Kernel.Slow3d and call.flops < _SMALL_VOLUME)


def _one_pixel(call: Call) -> bool:
    # Squeeze-excitation on two threads, inside training steps of EfficientNet-B0: 0.58 to 0.86.
    is_product = prod(call.dst_shape[2:]) == 1 and prod(call.weights_shape[2:]) == 1
    return is_product and call.dtype is torch.float32


def _strided_1x1(call: Call) -> bool:
    # One thread, 6 problems: 0.60; two threads, 4 problems: 0.95. Implementations for AMX are not
    # used here where strides exceed the kernel: they were wrong in oneDNN before 3.13.
    is_1x1 = prod(call.weights_shape[2:]) == 1 and max(call.geometry.stride) > 1
    is_dense = call.geometry.groups == 1 and call.src_shape[1] >= 4
    is_forward = call.forward and not call.geometry.transposed
    return is_forward and is_1x1 and is_dense and call.is_native(torch.bfloat16)


def _grouped(call: Call) -> bool:
    # Groups of several channels. Channels last, one and two threads: forward 0.54 and 0.62 (13
    # problems), gradients 0.96 and 0.61 (13). Channels first: the gradient of weights alone 0.92
    # and 0.80 (11), all gradients 1.06 and 1.11, which are taken.
    if not call.is_native(torch.bfloat16) or call.geometry.groups == 1 or call.is_depthwise:
        return False
    return call.is_channels_last or call.only_weights


def _depthwise(call: Call) -> bool:
    # Forward. One and two threads: bfloat16, channels last 0.89 and 0.70 (21 problems), first 1.25
    # and 1.00; float16, last 0.42 and 0.78 (11), first 0.86 and 0.88 (15).
    if not call.forward or not call.is_depthwise or len(call.weights_shape) == 3:
        return False
    is_bfloat16 = call.is_native(torch.bfloat16)
    return call.is_native(torch.float16) or (is_bfloat16 and call.is_channels_last)


_RULES: tuple[tuple[str, Callable[[Call], bool]], ...] = (
    ("faster in PyTorch: small products of matrices", _small_product),
    ("faster in PyTorch: 1x1 kernels on one pixel", _one_pixel),
    ("faster in PyTorch: bfloat16, strided 1x1 kernels", _strided_1x1),
    ("faster in PyTorch: bfloat16 in groups", _grouped),
    ("faster in PyTorch: depthwise in 16 bits", _depthwise),
)


def reason_to_leave(call: Call) -> str:
    """Return why PyTorch's kernel is preferred, empty where ours is."""
    return next((reason for reason, applies in _RULES if applies(call)), "")
