"""Which calls are left to PyTorch because it computes them faster, by measurement.

The ratios are PyTorch's time over ours, in geometric mean over drawn problems, on two cores with
AVX-512 and bfloat16 arithmetic, PyTorch 2.13 and oneDNN 3.2. CPUs with AVX2 alone have rules of
their own, since PyTorch's oneDNN, which is 3.12, has kernels for these CPUs that 3.2 lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import torch

from .signature import Geometry

__all__ = ["Call", "reason_to_leave"]

_Kernel = torch._C._ConvBackend

BFLOAT16 = torch.bfloat16

# PyTorch's own loops over products of matrices, with which it computes float32 where a problem is
# small: one image of few elements, kernels of 3 at the most. Calls of oneDNN take longer.
_PRODUCTS = (_Kernel.Slow2d, _Kernel.SlowTranspose2d, _Kernel.SlowTranspose3d)

# These loops for all types that PyTorch's oneDNN has no kernels for on the CPU.
_LOOPS = (*_PRODUCTS, _Kernel.Slow3d, _Kernel.SlowDilated2d, _Kernel.SlowDilated3d)

# Additions and multiplications below which that holds on one thread, where 1x1 kernels of any size
# are computed so, and for volumes, which these loops copy at length.
_SMALL_PRODUCT = 3e7
_SMALL_VOLUME = 1e6

# On CPUs with AVX2 alone, the way to PyTorch's kernel costs smaller calls as much as it gains: some
# 28 microseconds, 20 of which are PyTorch's way to a kernel in Python.
_LARGE_ON_AVX2 = 5e6

# Elements of src from which forward passes of depthwise volumes without strides, channels last, are
# faster here.
_LARGE_VOLUME = 8e6


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
        """Whether a call is of a type, and PyTorch computes it by oneDNN."""
        return self.dtype is dtype and self.kernel == _Kernel.Mkldnn


def _small_product(call: Call) -> bool:
    # In other types these loops take many times as long as ours.
    if call.dtype is not torch.float32:
        return False
    # One thread, 62 problems: 0.67, and 1.04 above 30 MFLOP; two threads, 38 problems: 0.68, the
    # worst 0.14.
    if call.kernel in _PRODUCTS:
        return call.threads > 1 or call.flops < _SMALL_PRODUCT
    # One thread, 8 problems below the limit: 0.74, 18 above it: 3.4.
    return bool(call.kernel == _Kernel.Slow3d and call.flops < _SMALL_VOLUME)


def _small_in_loops(call: Call) -> bool:
    # Where the CPU has no bfloat16, NumPy converts what ours read and write, which takes 100 to 300
    # microseconds of a small call. 162 calls, drawn after the rule, with AVX2 alone: 0.44 (0.1 to
    # 4.0). Depthwise calls of these sizes 1 to 9.
    if call.dtype is not BFLOAT16 or call.kernel not in _LOOPS or call.is_depthwise:
        return False
    if call.geometry.groups > 1 or (call.forward and len(call.src_shape) == 5):
        return call.flops < 3e5
    is_plain_gradient = not (call.forward or call.geometry.transposed)
    return call.flops < (1e6 if is_plain_gradient else 6e5)


def _one_pixel(call: Call) -> bool:
    # Where the precision of products forbids those of `products`: squeeze-excitation on two
    # threads, inside training steps of EfficientNet-B0, 0.58 to 0.86.
    is_product = prod(call.dst_shape[2:]) == 1 and prod(call.weights_shape[2:]) == 1
    return is_product and call.dtype is torch.float32


def _strided_1x1(call: Call) -> bool:
    # Forward, channels last, 512 pixels and more: 0.79 on one thread (5 problems) and 0.86 on two.
    # Fewer pixels 1.1 to 2.0, channels first 1.3 to 3.5.
    is_1x1 = prod(call.weights_shape[2:]) == 1 and max(call.geometry.stride) > 1
    is_dense = call.geometry.groups == 1 and call.src_shape[1] >= 4
    is_forward_last = call.forward and call.is_channels_last and not call.geometry.transposed
    has_pixels = call.dst_shape[0] * prod(call.dst_shape[2:]) >= 512
    return is_forward_last and is_1x1 and is_dense and has_pixels and call.is_native(BFLOAT16)


def _grouped(call: Call) -> bool:
    # Groups of several channels. The gradient of weights alone, channels first: 0.92 on one thread
    # (6 problems) and 0.82 on two (4). Forward, channels last: 0.54 on one (7); on two, above 10
    # MFLOP, groups of 8 channels and fewer 0.46 (13), larger ones 0.90 to 1.1, below 1.2.
    # Other gradients are between 1.0 and 1.6.
    if not call.is_native(BFLOAT16) or call.geometry.groups == 1 or call.is_depthwise:
        return False
    if not call.is_channels_last:
        return call.only_weights
    is_thin = call.weights_shape[1] <= 8 and prod(call.weights_shape[2:]) > 1
    return call.forward and (call.threads == 1 or (is_thin and call.flops > 1e7))


def _thin_volume(call: Call) -> bool:
    # Forward, channels last, 2 to 4 channels of src and kernels of 3x3x3 and 5x5x5: 0.63 (14
    # problems, 0.45 to 0.96); 1 channel 1.5 (13).
    is_thin = call.geometry.groups == 1 and 2 <= call.src_shape[1] <= 4
    is_large = len(call.src_shape) == 5 and prod(call.weights_shape[2:]) >= 27
    is_strided = max(call.geometry.stride) > 1
    is_forward_last = call.forward and call.is_channels_last and not call.geometry.transposed
    return is_forward_last and is_thin and is_large and not is_strided and call.is_native(BFLOAT16)


def _depthwise(call: Call) -> bool:
    # Forward, channels last: bfloat16 0.89 on one thread (12 problems) and 0.88 on two (8), float16
    # 0.42 (4) and 0.91 (4). Channels first 0.9 to 1.5.
    is_forward_last = call.forward and call.is_channels_last
    has_16_bits = call.is_native(BFLOAT16) or call.is_native(torch.float16)
    return is_forward_last and call.is_depthwise and has_16_bits


def _depthwise_volume(call: Call) -> bool:
    # Forward, where PyTorch's oneDNN has a kernel, which takes no dilations: with these, 881 calls
    # took 3.9 (0.6 to 296). More outputs than inputs were not measured.
    is_volume = len(call.src_shape) == 5 and not call.geometry.transposed
    is_depthwise = call.is_depthwise and call.src_shape[1] == call.dst_shape[1]
    is_native = call.is_native(torch.float32) and max(call.geometry.dilation) == 1
    if not (is_volume and is_depthwise and call.forward and is_native):
        return False
    return _is_left_last(call) if call.is_channels_last else _is_left_first(call)


def _is_left_last(call: Call) -> bool:
    """Whether a forward pass of a depthwise volume with channels last is left."""
    # 685 calls: 0.53; 18 of more elements: 1.11. Larger than that, PyTorch takes new memory.
    return max(call.geometry.stride) > 1 or prod(call.src_shape) < _LARGE_VOLUME


def _is_left_first(call: Call) -> bool:
    """Whether the same with channels first is left."""
    # Fewer channels than registers hold, and many small images: 179 calls, 0.52; 334 others: 1.40.
    # On CPUs with AVX2 alone ours were faster.
    if _has_avx2_alone:
        return False
    images, channels = call.src_shape[:2]
    fills_no_register = channels < 16 and call.flops >= 4e5
    has_small_images = images >= 4 and prod(call.src_shape) < 1.5e6 and call.flops >= 1e5
    return fills_no_register or has_small_images


def _large_kernel_on_avx2(call: Call) -> bool:
    # 50 calls of more than 0.3 ms: 0.62; left to PyTorch, 31 others: 0.95.
    is_thin = call.geometry.groups == 1 and max(call.src_shape[1], call.dst_shape[1]) <= 16
    is_forward = call.forward and not call.geometry.transposed
    is_large = prod(call.weights_shape[2:]) >= 49 and call.flops >= _LARGE_ON_AVX2
    return is_forward and is_thin and is_large


def _parts_of_loads_on_avx2(call: Call) -> bool:
    # The gradient of weights alone, of outputs that fill no loads of 4 and are too many for a copy
    # that does: 19 calls of more than 0.3 ms: 0.80; left to PyTorch, 11 others: 0.91. Beside the
    # gradient of src it is worth nothing.
    outputs = call.dst_shape[1]
    is_dense = call.geometry.groups == 1 and not call.geometry.transposed
    fills_none = outputs > 8 and outputs % 4 != 0 and prod(call.weights_shape[2:]) > 1
    return call.only_weights and is_dense and fills_none and call.flops >= _LARGE_ON_AVX2


_RULES: tuple[tuple[str, Callable[[Call], bool]], ...] = (
    ("faster in PyTorch: small products of matrices", _small_product),
    ("faster in PyTorch: small in bfloat16 on a CPU without it", _small_in_loops),
    ("faster in PyTorch: 1x1 kernels on one pixel", _one_pixel),
    ("faster in PyTorch: bfloat16, strided 1x1 kernels", _strided_1x1),
    ("faster in PyTorch: bfloat16 in groups", _grouped),
    ("faster in PyTorch: bfloat16 volumes of few channels", _thin_volume),
    ("faster in PyTorch: depthwise in 16 bits", _depthwise),
    ("faster in PyTorch: depthwise volumes", _depthwise_volume),
)

# Of float32 with channels last, on CPUs with AVX2 alone.
_RULES_OF_AVX2: tuple[tuple[str, Callable[[Call], bool]], ...] = (
    ("faster in PyTorch: large kernels between few channels, on AVX2", _large_kernel_on_avx2),
    ("faster in PyTorch: weights of parts of registers, on AVX2", _parts_of_loads_on_avx2),
)

_has_avx2_alone = torch.backends.cpu.get_cpu_capability() == "AVX2"


def reason_to_leave(call: Call) -> str:
    """Return why PyTorch's kernel is preferred, empty where ours is."""
    rules = _RULES
    if _has_avx2_alone and call.is_channels_last and call.is_native(torch.float32):
        rules += _RULES_OF_AVX2
    return next((reason for reason, applies in rules if applies(call)), "")
