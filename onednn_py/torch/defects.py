"""Calls at which PyTorch's own kernels fail: none is left to them by choice.

They are those of PyTorch 2.13, which has oneDNN 3.12 in it.
"""

from __future__ import annotations

from math import prod

import torch

from .preference import Call

__all__ = ["is_defective"]

# Input channels of a group that oneDNN's kernels of weights gradients take at once.
_CHANNEL_BLOCK = 16

# Channels in a row of an AMX tile.
_TILE_CHANNELS = 32

# Columns of padding, and of dst, up to which weights gradients are right, whatever else they have.
_WIDEST_SOUND_PAD = 14
_COLUMNS_OF_A_PASS = 28


def _dilated_float16(call: Call) -> bool:
    # Both directions write where they may not, and end the process: src (3, 9, 6, 1), weights
    # (5, 9, 5, 2), stride (1, 2), padding (0, 3), dilation (1, 2).
    return call.dtype is torch.float16 and max(call.geometry.dilation) > 1


def _strided_1x1_weights(call: Call) -> bool:
    # uxlfoundation/oneDNN#6035: gradients of weights that are written outside of the scratchpad.
    # The second axis of weights is that of the channels that a convolution reads, and those that
    # a transposed one writes: the roles of both are swapped there.
    is_1x1 = prod(call.weights_shape[2:]) == 1 and max(call.geometry.stride) > 1
    return not call.forward and is_1x1 and call.weights_shape[1] % _CHANNEL_BLOCK != 0


def _bfloat16_on_one_column(call: Call) -> bool:
    # Not a number, or errors of 10 and more, where a stride leaves one column: src (2, 16, 8, 4),
    # weights (2, 8, 2, 3), stride 2, padding (1, 0), groups 2. The gradient of src of a transposed
    # convolution is a convolution, too.
    transposed = call.geometry.transposed
    columns = call.src_shape[-1] if transposed else call.dst_shape[-1]
    is_strided = columns == 1 and call.geometry.stride[-1] > 1
    return call.dtype is torch.bfloat16 and call.forward != transposed and is_strided


def _wide_pads_of_strided_weights(call: Call) -> bool:
    # Products of padded columns are left out: src (2, 16, 80), weights (16, 16, 3), stride 2,
    # padding 16, dilation 16.
    columns = call.src_shape[-1] if call.geometry.transposed else call.dst_shape[-1]
    is_wide = call.geometry.stride[-1] > 1 and call.geometry.padding[-1] > _WIDEST_SOUND_PAD
    return not call.forward and is_wide and columns > _COLUMNS_OF_A_PASS


def _bfloat16_folded_columns(call: Call) -> bool:
    # Most elements are wrong: src (2, 16, 12, 40), weights (16, 16, 4, 4), stride 4.
    # The second axis of weights is that of the channels that are summed, in both.
    stride, channels = call.geometry.stride[-1], call.weights_shape[1]
    return (
        call.dtype is torch.bfloat16
        and call.forward != call.geometry.transposed
        and stride > 1
        and call.geometry.padding[-1] == 0
        and channels % _TILE_CHANNELS != 0
        and channels * stride % _TILE_CHANNELS == 0
    )


def _pads_that_cancel(call: Call) -> bool:
    # Wrong, or memory is destroyed, channels last, without AMX, where windows leave as many columns
    # out as there is padding: src (1, 16, 2, 15), weights (16, 16, 2, 5), stride (1, 5), padding
    # (0, 2) in bfloat16; by the source, in float16 as well, where the CPU computes it. The gradient
    # of src of a transposed convolution is a convolution, too.
    geometry = call.geometry
    read, written = call.src_shape[-1], call.dst_shape[-1]
    if geometry.transposed:
        read, written = written, read
    extent = geometry.dilation[-1] * (call.weights_shape[-1] - 1) + 1
    return (
        call.dtype in (torch.bfloat16, torch.float16)
        and call.forward != geometry.transposed
        and geometry.padding[-1] > 0
        and (written - 1) * geometry.stride[-1] + extent == read
    )


def _bfloat16_planes_behind_all_windows(call: Call) -> bool:
    # Memory's former content in the last planes: src (1, 4, 6, 8, 20), weights (4, 16, 2, 2, 2),
    # transposed with stride 2 and output padding 1.
    if call.dtype is not torch.bfloat16 or len(call.src_shape) != 5:
        return False
    geometry = call.geometry
    if geometry.transposed:
        return call.forward and geometry.output_padding[0] > 0
    extent = geometry.dilation[0] * (call.weights_shape[2] - 1) + 1
    covered = (call.dst_shape[2] - 1) * geometry.stride[0] + extent
    return not call.forward and covered < call.src_shape[2] + geometry.padding[0]


def _bfloat16_without_whole_window(call: Call) -> bool:
    # Gradients of weights where on some axis every window reaches into the padding. With AMX they
    # have values of memory that was never written. Without, they are written where they may not,
    # which ends the process: src (1, 1, 7, 2), weights (1, 17, 3, 1), stride (1, 2), padding
    # (2, 1), dilation 2, transposed. Or two threads wait for each other for ever: src (3, 4, 1),
    # weights (32, 4, 3), padding 2, dilation 2.
    if call.forward or call.dtype is not torch.bfloat16:
        return False
    geometry = call.geometry
    read = call.dst_shape if geometry.transposed else call.src_shape
    return any(
        # The first window behind the padding in front ends behind the tensor.
        -(-pad // stride) * stride - pad + dilation * (kernel - 1) >= size
        for size, kernel, stride, pad, dilation in zip(
            read[2:],
            call.weights_shape[2:],
            geometry.stride,
            geometry.padding,
            geometry.dilation,
            strict=True,
        )
    )


def _bfloat16_dilated_rows(call: Call) -> bool:
    # Most gradients of weights are wrong, channels last, without AMX: src (4, 32, 32, 32), weights
    # (32, 8, 3, 3), padding 2, dilation 2, groups 4.
    geometry = call.geometry
    transposed = geometry.transposed
    columns = (call.src_shape if transposed else call.dst_shape)[-1]
    return (
        not call.forward
        and call.dtype is torch.bfloat16
        and max(geometry.dilation[:-1], default=1) > 1
        and columns > _COLUMNS_OF_A_PASS
        and call.weights_shape[1] % _CHANNEL_BLOCK != 0
    )


_RULES = (
    _dilated_float16,
    _strided_1x1_weights,
    _bfloat16_on_one_column,
    _wide_pads_of_strided_weights,
    _bfloat16_folded_columns,
    _pads_that_cancel,
    _bfloat16_planes_behind_all_windows,
    _bfloat16_without_whole_window,
    _bfloat16_dilated_rows,
)


def is_defective(call: Call) -> bool:
    """Whether PyTorch's own kernel gives wrong results, ends the process or never returns."""
    return any(applies(call) for applies in _RULES)
