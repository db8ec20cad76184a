"""The functions of the package: forward passes, gradients, both gradients at once."""

from .backward import Gradients, conv_transpose_backward, convolution_backward, joint_task
from .conv_transpose import (
    conv_transpose,
    conv_transpose_backward_data,
    conv_transpose_backward_weights,
)
from .convolution import (
    convolution,
    convolution_backprop_data,
    convolution_backward_data,
    convolution_backward_weights,
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
