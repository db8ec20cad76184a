"""Transposed convolution and its gradients.

Shapes in the docstrings are for ``data_format="NXC"``: N is the minibatch, S and X are
spatial shapes of one to three axes, I and O the channels of the operation's src and dst.
With ``"NCX"`` channels come second. All tensors of a call have one dtype: float32,
float16, bfloat16, or float64, which always runs on NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onednn_py.dispatch.call_cache import Array, Ints, call

__all__ = [
    "conv_transpose",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
]


def conv_transpose(
    src: Array,
    weights: Array,
    bias: Array | None = None,
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
    out: Array | None = None,
    backend: str | None = None,
    fpmath_mode: str | None = None,
) -> Array:
    """Transposed convolution (ConvTranspose).

    Parameters
    ----------
    src : ndarray, shape (N, *X, I)
    weights : ndarray, shape (*kernel, O/groups, I)
    bias : ndarray, shape (O,), optional
    strides, pads_begin, pads_end, dilations : int or sequence of int
        Elements, one for all spatial axes or one per axis; dilation 1 is a dense kernel.
    auto_pad : {"none", "valid", "same_upper", "same_lower"}
        If not "none", pads are computed and ``pads_begin``, ``pads_end`` ignored.
    groups : int
    data_format : {"NXC", "NCX"}
    weights_format : {"XOI", "IOX"}
        (*kernel, O/groups, I) or (I, O/groups, *kernel); the documents' (*kernel, O, I/groups)
        and (I/groups, O, *kernel) are recognised too.
    output_padding : int or sequence of int
        Elements added to the end of the result; less than max(stride, dilation).
    out : ndarray, optional
        Written and returned; may be a strided view.
    backend : {"auto", "onednn", "numpy"}, optional
    fpmath_mode : {"strict", "bf16", "tf32", "f16", "any"}, optional
        What float32 tensors may be rounded to before they are multiplied.

    Returns
    -------
    ndarray, shape (N, *S, O)

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Naming what was expected and what came.
    LibraryNotFoundError
        If ``backend="onednn"`` and no library can be used.
    """
    result: Array = call(
        "conv_transpose",
        {"src": src, "weights": weights, "bias": bias},
        {
            "strides": strides,
            "pads_begin": pads_begin,
            "pads_end": pads_end,
            "dilations": dilations,
            "auto_pad": auto_pad,
            "groups": groups,
            "data_format": data_format,
            "weights_format": weights_format,
            "output_padding": output_padding,
        },
        out,
        backend,
        fpmath_mode,
    )
    return result


def conv_transpose_backward_data(
    diff_dst: Array,
    weights: Array,
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
    out: Array | None = None,
    backend: str | None = None,
    fpmath_mode: str | None = None,
) -> Array:
    """Gradient of `conv_transpose` with respect to src (ConvTransposeBackwardData).

    Parameters
    ----------
    diff_dst : ndarray, shape (N, *S, O)
    weights : ndarray, shape (*kernel, O/groups, I)
    strides, pads_begin, pads_end, dilations : int or sequence of int
        Elements, one for all spatial axes or one per axis; dilation 1 is a dense kernel.
    auto_pad : {"none", "valid", "same_upper", "same_lower"}
        If not "none", pads are computed and ``pads_begin``, ``pads_end`` ignored.
    groups : int
    data_format : {"NXC", "NCX"}
    weights_format : {"XOI", "IOX"}
        (*kernel, O/groups, I) or (I, O/groups, *kernel); the documents' (*kernel, O, I/groups)
        and (I/groups, O, *kernel) are recognised too.
    output_padding : int or sequence of int
        That of the forward pass. Left out, elements at the end of diff_dst that no window
        reaches are tolerated, as native oneDNN does.
    out : ndarray, optional
        Written and returned; may be a strided view.
    backend : {"auto", "onednn", "numpy"}, optional
    fpmath_mode : {"strict", "bf16", "tf32", "f16", "any"}, optional
        What float32 tensors may be rounded to before they are multiplied.

    Returns
    -------
    ndarray, shape (N, *X, I)

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Naming what was expected and what came.
    LibraryNotFoundError
        If ``backend="onednn"`` and no library can be used.
    """
    result: Array = call(
        "conv_transpose_backward_data",
        {"diff_dst": diff_dst, "weights": weights},
        {
            "strides": strides,
            "pads_begin": pads_begin,
            "pads_end": pads_end,
            "dilations": dilations,
            "auto_pad": auto_pad,
            "groups": groups,
            "data_format": data_format,
            "weights_format": weights_format,
            "output_padding": output_padding,
        },
        out,
        backend,
        fpmath_mode,
    )
    return result


def conv_transpose_backward_weights(
    src: Array,
    diff_dst: Array,
    weights_shape: Sequence[int],
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
    bias: bool = False,
    out: Array | Sequence[Array | None] | None = None,
    backend: str | None = None,
    fpmath_mode: str | None = None,
) -> Any:
    """Gradient of `conv_transpose` with respect to weights (ConvTransposeBackwardWeights).

    Parameters
    ----------
    src : ndarray, shape (N, *X, I)
    diff_dst : ndarray, shape (N, *S, O)
    weights_shape : sequence of int
        Shape of the result in ``weights_format`` order.
    strides, pads_begin, pads_end, dilations : int or sequence of int
        Elements, one for all spatial axes or one per axis; dilation 1 is a dense kernel.
    auto_pad : {"none", "valid", "same_upper", "same_lower"}
        If not "none", pads are computed and ``pads_begin``, ``pads_end`` ignored.
    groups : int
    data_format : {"NXC", "NCX"}
    weights_format : {"XOI", "IOX"}
        (*kernel, O/groups, I) or (I, O/groups, *kernel); the documents' (*kernel, O, I/groups)
        and (I/groups, O, *kernel) are recognised too.
    output_padding : int or sequence of int
        That of the forward pass.
    bias : bool
        Whether to return the gradient of the bias too.
    out : ndarray, or pair of ndarray or None, optional
        For diff_weights, or for (diff_weights, diff_bias).
    backend : {"auto", "onednn", "numpy"}, optional
    fpmath_mode : {"strict", "bf16", "tf32", "f16", "any"}, optional
        What float32 tensors may be rounded to before they are multiplied.

    Returns
    -------
    ndarray of ``weights_shape``, or with ``bias`` a tuple of it and diff_bias of shape (O,)

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Naming what was expected and what came.
    LibraryNotFoundError
        If ``backend="onednn"`` and no library can be used.
    """
    return call(
        "conv_transpose_backward_weights",
        {"src": src, "diff_dst": diff_dst},
        {
            "strides": strides,
            "pads_begin": pads_begin,
            "pads_end": pads_end,
            "dilations": dilations,
            "auto_pad": auto_pad,
            "groups": groups,
            "data_format": data_format,
            "weights_format": weights_format,
            "output_padding": output_padding,
            "weights_shape": weights_shape,
        },
        out,
        backend,
        fpmath_mode,
        bias=bias,
    )
