"""Both gradients of a convolution in one call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from ..arrays import share_memory, spec_of
from ..errors import AttributeValueError, ShapeError
from .call import Array, Ints
from .convolutions import convolution_backward_data, convolution_backward_weights
from .transposed import conv_transpose_backward_data, conv_transpose_backward_weights

__all__ = ["Gradients", "conv_transpose_backward", "convolution_backward"]

WRT = ("src", "weights", "bias")


class Gradients(NamedTuple):
    """Gradients of one call, None where not asked for."""

    diff_src: Array | None
    diff_weights: Array | None
    diff_bias: Array | None


def convolution_backward(
    src: Array,
    weights: Array,
    diff_dst: Array,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: str = "none",
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XIO",
    wrt: Collection[str] = ("src", "weights"),
    out: Sequence[Array | None] | None = None,
    backend: str | None = None,
) -> Gradients:
    """Return the gradients of `convolution` with respect to src, weights and bias.

    Parameters
    ----------
    src : ndarray, shape (N, *S, I)
    weights : ndarray, shape (*kernel, I/groups, O)
    diff_dst : ndarray, shape (N, *X, O)
    wrt : sequence of {"src", "weights", "bias"}
        Which gradients to compute.
    out : (diff_src, diff_weights, diff_bias), optional
        Arrays to write, None for new ones; a `Gradients` of an earlier call will do.

    The other attributes are those of `convolution`.

    Returns
    -------
    Gradients

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Naming what was expected and what came.

    Examples
    --------
    >>> import numpy as np, onednn_py
    >>> src = np.ones((1, 3, 3, 1), np.float32)
    >>> weights = np.ones((2, 2, 1, 1), np.float32)
    >>> diff_dst = np.ones((1, 2, 2, 1), np.float32)
    >>> gradients = onednn_py.convolution_backward(src, weights, diff_dst, wrt=("weights",))
    >>> gradients.diff_weights.ravel().tolist(), gradients.diff_src
    ([4.0, 4.0, 4.0, 4.0], None)
    """
    attributes: dict[str, Any] = {
        "strides": strides,
        "pads_begin": pads_begin,
        "pads_end": pads_end,
        "dilations": dilations,
        "auto_pad": auto_pad,
        "groups": groups,
        "data_format": data_format,
        "weights_format": weights_format,
        "backend": backend,
    }
    name = "convolution_backward"
    shape = spec_of(f"{name}: src", src).shape
    outputs = _outputs(name, out)
    src, weights, diff_dst = (_kept(tensor, outputs) for tensor in (src, weights, diff_dst))

    def backward_data(diff_src: Array | None) -> Array:
        return convolution_backward_data(diff_dst, weights, shape, out=diff_src, **attributes)

    def backward_weights(**keywords: Any) -> Any:
        return convolution_backward_weights(src, diff_dst, **keywords, **attributes)

    return _backward(name, weights, wrt, outputs, backward_data, backward_weights)


def conv_transpose_backward(
    src: Array,
    weights: Array,
    diff_dst: Array,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: str = "none",
    groups: int = 1,
    data_format: str = "NXC",
    weights_format: str = "XOI",
    output_padding: Ints = 0,
    wrt: Collection[str] = ("src", "weights"),
    out: Sequence[Array | None] | None = None,
    backend: str | None = None,
) -> Gradients:
    """Return the gradients of `conv_transpose` with respect to src, weights and bias.

    Parameters
    ----------
    src : ndarray, shape (N, *X, I)
    weights : ndarray, shape (*kernel, O/groups, I)
    diff_dst : ndarray, shape (N, *S, O)
    wrt : sequence of {"src", "weights", "bias"}
        Which gradients to compute.
    out : (diff_src, diff_weights, diff_bias), optional
        Arrays to write, None for new ones; a `Gradients` of an earlier call will do.

    The other attributes are those of `conv_transpose`.

    Returns
    -------
    Gradients

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Naming what was expected and what came.
    """
    attributes: dict[str, Any] = {
        "strides": strides,
        "pads_begin": pads_begin,
        "pads_end": pads_end,
        "dilations": dilations,
        "auto_pad": auto_pad,
        "groups": groups,
        "data_format": data_format,
        "weights_format": weights_format,
        "output_padding": output_padding,
        "backend": backend,
    }
    name = "conv_transpose_backward"
    shape = spec_of(f"{name}: src", src).shape
    outputs = _outputs(name, out)
    src, weights, diff_dst = (_kept(tensor, outputs) for tensor in (src, weights, diff_dst))

    def backward_data(diff_src: Array | None) -> Array:
        result = conv_transpose_backward_data(diff_dst, weights, out=diff_src, **attributes)
        if result.shape != shape:
            raise ShapeError(f"{name}: diff_dst belongs to a src of {result.shape}, got {shape}")
        return result

    def backward_weights(**keywords: Any) -> Any:
        return conv_transpose_backward_weights(src, diff_dst, **keywords, **attributes)

    return _backward(name, weights, wrt, outputs, backward_data, backward_weights)


def _backward(
    name: str,
    weights: Array,
    wrt: Collection[str],
    outputs: tuple[Array | None, ...],
    backward_data: Callable[[Array | None], Array],
    backward_weights: Callable[..., Any],
) -> Gradients:
    asked: Any = [wrt] if isinstance(wrt, str) else wrt
    if not isinstance(asked, Collection) or not asked or any(name not in WRT for name in asked):
        raise AttributeValueError(f"{name}: wrt: expected some of {', '.join(WRT)}; got {wrt!r}")
    diff_src, diff_weights, diff_bias = outputs
    made: dict[str, Array] = {}
    if "weights" in asked or "bias" in asked:
        shape = spec_of(f"{name}: weights", weights).shape
        pair = backward_weights(
            weights_shape=shape,
            bias="bias" in asked,
            out=(diff_weights, diff_bias) if "bias" in asked else diff_weights,
        )
        if "bias" in asked:
            made["weights"], made["bias"] = pair
        else:
            made["weights"] = pair
    if "src" in asked:
        made["src"] = backward_data(diff_src)
    return Gradients(*(made.get(key) if key in asked else None for key in WRT))


def _outputs(name: str, out: Any) -> tuple[Array | None, ...]:
    if out is None:
        return (None,) * len(WRT)
    if not isinstance(out, (tuple, list)) or len(out) != len(WRT):
        raise AttributeValueError(
            f"{name}: out: expected (diff_src, diff_weights, diff_bias), None for a new array;"
            f" got {type(out).__qualname__}"
        )
    given = [array for array in out if isinstance(array, np.ndarray)]
    for first, second in combinations(given, 2):
        if share_memory(first, second):
            raise AttributeValueError(f"{name}: out: two of the arrays share memory")
    return tuple(out)


def _kept(tensor: Any, outputs: tuple[Array | None, ...]) -> Any:
    """Return an input that writing the first gradient cannot change under the second."""
    if isinstance(tensor, np.ndarray):
        for out in outputs:
            if isinstance(out, np.ndarray) and np.may_share_memory(tensor, out):
                return tensor.copy()
    return tensor
