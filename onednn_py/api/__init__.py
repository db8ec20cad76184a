"""The functions, one file a family of operations; `FUNCTIONS` has them by name."""

from collections.abc import Callable
from inspect import signature
from typing import Any

from onednn_py.dispatch.call_cache import declare
from onednn_py.problem.operations import OPERATIONS

from .backward import Gradients, conv_transpose_backward, convolution_backward
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
    "FUNCTIONS",
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
]

FUNCTIONS: dict[str, Callable[..., Any]] = {name: globals()[name] for name in OPERATIONS}

for name, function in FUNCTIONS.items():
    declare(name, tuple(signature(function).parameters))
