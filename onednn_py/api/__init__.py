"""The functions, one file a family of operations; `FUNCTIONS` has them by name."""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
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


def _without_catch_all(function: Callable[..., Any]) -> Signature:
    """Return the signature without ``**unknown``, which is there for a better error alone."""
    found = signature(function)
    parameters = found.parameters.values()
    named = [one for one in parameters if one.kind is not Parameter.VAR_KEYWORD]
    return found.replace(parameters=named)


for name, function in FUNCTIONS.items():
    function.__signature__ = _without_catch_all(function)  # type: ignore[attr-defined]
    function.__annotations__.pop("unknown", None)
    declare(name, tuple(signature(function).parameters))
