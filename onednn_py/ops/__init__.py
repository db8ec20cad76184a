"""The functions of the package: forward passes, gradients, both gradients at once."""

from .convolutions import (
    convolution,
    convolution_backprop_data,
    convolution_backward_data,
    convolution_backward_weights,
)
from .joint import Gradients, conv_transpose_backward, convolution_backward, joint_task
from .transposed import (
    conv_transpose,
    conv_transpose_backward_data,
    conv_transpose_backward_weights,
)

__all__ = [
    "Gradients",
    "conv_transpose",
    "conv_transpose_backward",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
    "convolution",
    "convolution_backprop_data",
    "convolution_backward",
    "convolution_backward_data",
    "convolution_backward_weights",
    "joint_task",
]
