"""Integer arithmetic of convolution shapes, one spatial axis at a time.

Everything is said in the roles of a convolution that takes ``size`` input elements to
``windows`` output elements. A transposed convolution is the same geometry with the
roles of its src and dst exchanged.
"""

from __future__ import annotations

__all__ = [
    "axis_from_size",
    "documented_same_pads",
    "effective_kernel",
    "exact_pad_end",
    "same_total",
    "split_same",
    "transposed_same_total",
    "windows",
]


def effective_kernel(kernel: int, dilation: int) -> int:
    """Return the extent of a dilated kernel, in elements: (kernel - 1) * dilation + 1."""
    return (kernel - 1) * dilation + 1


def windows(size: int, extent: int, stride: int, pads: int) -> int:
    """Return how many windows of ``extent`` elements fit, negative if the kernel sticks out.

    Zero means an empty result; a negative number has no meaning as a shape.
    """
    return (size + pads - extent) // stride + 1


def axis_from_size(count: int, extent: int, stride: int, pads: int, output_padding: int) -> int:
    """Return the input size that ``count`` windows come from (PyTorch's and ONNX's formula)."""
    return stride * (count - 1) + extent - pads + output_padding


def exact_pad_end(size: int, count: int, extent: int, stride: int, pad_begin: int) -> int:
    """Return the end pad with which the windows cover the padded input to the last element.

    oneDNN accepts any end pad that gives the right number of windows; the exact pad
    makes equal problems equal values. It is negative where the input has a tail that
    no window touches.
    """
    return stride * (count - 1) + extent - size - pad_begin


def same_total(size: int, extent: int, stride: int) -> int:
    """Return the total SAME padding of a convolution (native: ``infer_auto_pad``)."""
    remainder = size % stride
    return max(0, extent - (remainder or stride))


def transposed_same_total(extent: int, stride: int) -> int:
    """Return the total SAME padding of a transposed convolution's forward pass."""
    return max(0, extent - stride)


def split_same(total: int, auto_pad: str) -> tuple[int, int]:
    """Split a SAME padding into (begin, end); an odd element goes to the end for same_upper."""
    begin = (total + 1) // 2 if auto_pad == "same_lower" else total // 2
    return begin, total - begin


def documented_same_pads(
    size: int, count: int, extent: int, stride: int, output_padding: int, auto_pad: str
) -> tuple[int, int]:
    """Return SAME pads by the formula that the backward-data documents print.

    Source: oneDNN Graph documents ConvolutionBackwardData and ConvolutionBackpropData,
    and OpenVINO's implementation. The odd element goes to the side opposite to native's.
    """
    total = max(0, stride * (count - 1) + extent - size + output_padding)
    begin, end = split_same(total, auto_pad)
    return end, begin
