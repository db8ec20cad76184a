"""What a call of PyTorch's convolution operations means, from its tensors' shapes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from onednn_py.problem.attributes import LARGEST
from onednn_py.problem.geometry import axis_from_size, effective_kernel, windows

__all__ = [
    "DTYPES",
    "NO_ELEMENTS",
    "PLAIN",
    "Geometry",
    "Native",
    "native",
    "output_shape",
    "refusal",
]

# The data types that run here.
DTYPES = frozenset((torch.float32, torch.float16, torch.bfloat16))

# Of a tensor that is not on the CPU, is sparse, or whose memory was freed.
NO_ELEMENTS = "a tensor has no elements of its own in the CPU's memory"

# The types of tensors that run here.
PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))


class Geometry(NamedTuple):
    """The attributes of a call, as `aten::convolution` takes them.

    Lists have one entry per spatial axis, or one for all.
    """

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int

    def expanded(self, rank: int) -> Geometry:
        """Return the geometry with an entry per spatial axis in each list."""

        def full(numbers: tuple[int, ...]) -> tuple[int, ...]:
            return numbers * rank if len(numbers) == 1 else numbers

        return self._replace(
            stride=full(self.stride),
            padding=full(self.padding),
            dilation=full(self.dilation),
            output_padding=full(self.output_padding),
        )

    def attributes(self) -> dict[str, Any]:
        """Return the attributes as the functions of `onednn_py` take them."""
        attributes: dict[str, Any] = {
            "strides": self.stride,
            "pads_begin": self.padding,
            "pads_end": self.padding,
            "dilations": self.dilation,
            "groups": self.groups,
            "weights_format": "IOX" if self.transposed else "OIX",
        }
        if self.transposed:
            attributes["output_padding"] = self.output_padding
        return attributes


def output_shape(
    geometry: Geometry, src: Sequence[int], weights: Sequence[int]
) -> tuple[int, ...] | None:
    """Return the shape of dst, None where the shapes do not fit.

    Parameters
    ----------
    geometry : Geometry
        With an entry per spatial axis.
    src : sequence of int
        (N, I, *spatial)
    weights : sequence of int
        (O, I / groups, *kernel), transposed (I, O / groups, *kernel).
    """
    groups = geometry.groups
    if geometry.transposed:
        if src[1] != weights[0] or groups < 1 or weights[0] % groups:
            return None
        channels = weights[1] * groups
    else:
        if groups < 1 or src[1] != weights[1] * groups or weights[0] % groups:
            return None
        channels = weights[0]
    sizes = []
    for size, kernel, stride, pad, dilation, extra in zip(
        src[2:],
        weights[2:],
        geometry.stride,
        geometry.padding,
        geometry.dilation,
        geometry.output_padding,
        strict=True,
    ):
        extent = effective_kernel(kernel, dilation)
        if geometry.transposed:
            sizes.append(axis_from_size(size, extent, stride, 2 * pad, extra))
        else:
            sizes.append(windows(size, extent, stride, 2 * pad))
    return (src[0], channels, *sizes)


def refusal(
    geometry: Geometry,
    tensors: Sequence[torch.Tensor],
    bias_shape: Sequence[int] | None,
    mask: Sequence[bool] | None,
) -> str:
    """Return why a call is left to PyTorch whatever its speed, empty where it is not.

    What is wrong is left to PyTorch, too, which has its own words for it.

    Parameters
    ----------
    geometry : Geometry
    tensors : sequence of Tensor
        src and weights; then the bias if there is one, or diff_dst for the gradients. All of them
        are `PLAIN`.
    bias_shape : sequence of int or None
        Of the gradients, the bias's shape.
    mask : sequence of bool or None
        Of the gradients, which ones are asked for.
    """
    if not all(_has_own_elements(tensor) for tensor in tensors):
        return NO_ELEMENTS
    src, weights, *others = tensors
    dtype = src.dtype
    if any(tensor.dtype != dtype for tensor in tensors):
        return "data types differ"
    if dtype not in DTYPES:
        return f"data type {str(dtype).removeprefix('torch.')}"
    rank = src.dim() - 2
    if rank not in (1, 2, 3) or weights.dim() != rank + 2:
        return "number of axes"
    lists = (geometry.stride, geometry.padding, geometry.dilation, geometry.output_padding)
    if any(len(numbers) not in (1, rank) for numbers in lists):
        return NOT_VALID
    geometry = geometry.expanded(rank)
    if not src.numel() or not weights.numel():
        return "empty"
    if not _is_valid(geometry):
        return NOT_VALID
    if max(map(max, geometry[:3])) > LARGEST:
        return "numbers of more than 31 bits"
    shape = output_shape(geometry, src.shape, weights.shape)
    if shape is None or min(shape[2:]) < 1:
        return NOT_VALID
    if mask is None:
        return NOT_VALID if others and tuple(others[0].shape) != shape[1:2] else ""
    if not any(mask):
        return "no gradient is asked for"
    if tuple(others[0].shape) != shape:
        return NOT_VALID
    if mask[2] and (bias_shape is None or tuple(bias_shape) != shape[1:2]):
        return NOT_VALID
    return ""


# Why PyTorch gets calls that it refuses with errors of its own.
NOT_VALID = "not valid"


def _has_own_elements(tensor: torch.Tensor) -> bool:
    return (
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not tensor.is_neg()
        and not tensor.is_conj()
    )


def _is_valid(geometry: Geometry) -> bool:
    """Whether the numbers of a geometry, of an entry per axis, are in range."""
    if min(*geometry.stride, *geometry.dilation) < 1:
        return False
    if min(*geometry.padding, *geometry.output_padding) < 0:
        return False
    if not geometry.transposed:
        return not any(geometry.output_padding)
    return all(
        extra < max(stride, dilation)
        for extra, stride, dilation in zip(
            geometry.output_padding, geometry.stride, geometry.dilation, strict=True
        )
    )


class Native(NamedTuple):
    """How PyTorch would compute a call.

    Attributes
    ----------
    kernel : torch._C._ConvBackend
    is_channels_last : bool
        Of the results.
    """

    kernel: Any
    is_channels_last: bool


def native(
    geometry: Geometry, tensors: Sequence[torch.Tensor], bias_shape: Sequence[int] | None
) -> Native:
    """Return how PyTorch would compute a call.

    PyTorch's own functions decide, which its fake kernels ask as well, so that compiled code
    meets the strides that it expects.

    Parameters
    ----------
    geometry : Geometry
        With an entry per spatial axis.
    tensors : sequence of Tensor
        src and weights, and the bias if there is one and gradients are not asked for.
    bias_shape : sequence of int or None
        Of the gradients, the bias's shape.
    """
    src, weights, *bias = tensors
    kernel = torch._C._select_conv_backend(
        src,
        weights,
        bias[0] if bias else None,
        list(geometry.stride),
        list(geometry.padding),
        list(geometry.dilation),
        geometry.transposed,
        list(geometry.output_padding),
        geometry.groups,
        None if bias_shape is None else list(bias_shape),
    )
    if src.dim() == 3:  # PyTorch computes lines as planes of one row
        src, weights = src.contiguous().unsqueeze(2), weights.unsqueeze(2)
    found = torch._C._conv_determine_backend_memory_format(src, weights, kernel)
    return Native(kernel, found in (torch.channels_last, torch.channels_last_3d))
