"""Convolution and its gradients.

Shapes in the docstrings are for ``data_format="NXC"``: N is the minibatch, S and X are
spatial shapes of one to three axes, I and O the channels of the operation's src and dst.
With ``"NCX"`` channels come second. All tensors of a call have one dtype: float32,
float16, bfloat16, or float64, which always runs on NumPy. Where an ndarray is expected, an array of
another library on the CPU is read without a copy, such as a PyTorch tensor; results are ndarrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from onednn_py.dispatch.call_cache import call

from .types import (
    AnyArray,
    Array,
    AutoPad,
    AutoPadRule,
    BackendName,
    ConvolutionAttributes,
    ConvolutionWeightsFormat,
    DataFormat,
    FpmathMode,
    Ints,
)

if TYPE_CHECKING:
    from typing_extensions import Never, Unpack

__all__ = [
    "convolution",
    "convolution_backprop_data",
    "convolution_backward_data",
    "convolution_backward_weights",
]


def convolution(
    src: AnyArray,
    weights: AnyArray,
    bias: AnyArray | None = None,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: AutoPad = "none",
    groups: int = 1,
    data_format: DataFormat = "NXC",
    weights_format: ConvolutionWeightsFormat = "XIO",
    out: AnyArray | None = None,
    backend: BackendName | None = None,
    fpmath_mode: FpmathMode | None = None,
    **unknown: Never,
) -> Array:
    """Convolution, forward (Convolution).

    Parameters
    ----------
    src : ndarray, shape (N, *S, I)
    weights : ndarray, shape (*kernel, I/groups, O)
    bias : ndarray, shape (O,), optional
    strides, pads_begin, pads_end, dilations : int or sequence of int
        Elements, one for all spatial axes or one per axis; dilation 1 is a dense kernel.
    auto_pad : {"none", "valid", "same_upper", "same_lower"}
        If not "none", pads are computed and ``pads_begin``, ``pads_end`` ignored.
    groups : int
    data_format : {"NXC", "NCX"}
        Or a name for the arrays' own number of axes, such as "NHWC" or "NCHW".
    weights_format : {"XIO", "OIX"}
        (*kernel, I/groups, O) or (O, I/groups, *kernel); or such as "HWIO" or "OIHW".
    out : ndarray, optional
        Written and returned; may be a strided view, or a PyTorch tensor.
    backend : {"auto", "onednn", "numpy"}, optional
        Left out: as `use_backend` or the environment variable ``ONEDNN_PY_BACKEND`` says.
    fpmath_mode : {"strict", "bf16", "tf32", "f16", "any"}, optional
        What float32 tensors may be rounded to before they are multiplied. Left out: as
        `use_fpmath_mode` says.

    Returns
    -------
    ndarray, shape (N, *X, O)

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Naming what was expected and what came.
    LibraryNotFoundError
        If ``backend="onednn"`` and no library can be used, or if ``ONEDNN_PY_LIBRARY`` names a
        library that cannot be used.
    OneDNNError, OneDNNMemoryError
        If oneDNN fails, and for lack of memory.

    Examples
    --------
    >>> import numpy as np, onednn_py
    >>> src, weights = np.ones((1, 4, 1), np.float32), np.ones((3, 1, 2), np.float32)
    >>> onednn_py.convolution(src, weights, pads_begin=1)[0, :, 0].tolist()
    [2.0, 3.0, 3.0]
    """
    result: Array = call("convolution", locals(), unknown)
    return result


def convolution_backward_data(
    diff_dst: AnyArray,
    weights: AnyArray,
    dst_shape: Sequence[int] | None = None,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: AutoPad = "none",
    groups: int = 1,
    data_format: DataFormat = "NXC",
    weights_format: ConvolutionWeightsFormat = "XIO",
    output_padding: Ints = 0,
    auto_pad_rule: AutoPadRule = "native",
    out: AnyArray | None = None,
    backend: BackendName | None = None,
    fpmath_mode: FpmathMode | None = None,
    **unknown: Never,
) -> Array:
    """Gradient of `convolution` with respect to src (ConvolutionBackwardData).

    Parameters
    ----------
    diff_dst : ndarray, shape (N, *X, O)
    weights : ndarray, shape (*kernel, I/groups, O)
    dst_shape : sequence of int, optional
        Shape of the result in ``data_format`` order, or its spatial sizes alone. Without it
        they are stride * (X - 1) + (kernel - 1) * dilation + 1 - pads + output_padding.
    output_padding : int or sequence of int
        Elements, less than max(stride, dilation); ignored where ``dst_shape`` is given.
    auto_pad_rule : {"native", "documented"}
        Which side an odd SAME padding favours: oneDNN's implementation, or the formula
        that its documents print and OpenVINO implements, which is the opposite.

    The other keywords are those of `convolution`.

    Returns
    -------
    ndarray, shape (N, *S, I)

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError, LibraryNotFoundError
        As `convolution` does.

    Examples
    --------
    >>> import numpy as np, onednn_py
    >>> diff_dst = np.ones((1, 2, 2, 1), np.float32)
    >>> weights = np.ones((2, 2, 1, 1), np.float32)
    >>> onednn_py.convolution_backward_data(diff_dst, weights)[0, :, :, 0].tolist()
    [[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]
    """
    result: Array = call("convolution_backward_data", locals(), unknown)
    return result


def convolution_backprop_data(
    output_delta: AnyArray,
    filter: AnyArray,  # noqa: A002 - the document's name
    output_shape: Sequence[int] | None = None,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: AutoPad = "none",
    groups: int = 1,
    data_format: DataFormat = "NXC",
    filter_format: ConvolutionWeightsFormat = "XIO",
    output_padding: Ints = 0,
    auto_pad_rule: AutoPadRule = "native",
    out: AnyArray | None = None,
    backend: BackendName | None = None,
    fpmath_mode: FpmathMode | None = None,
    **unknown: Never,
) -> Array:
    """`convolution_backward_data` by its older name and attributes (ConvolutionBackpropData-1).

    Parameters
    ----------
    output_delta : ndarray, shape (N, *X, O)
    filter : ndarray, shape (*kernel, I/groups, O)
    output_shape : sequence of int, optional
        Shape of the result in ``data_format`` order, or its spatial sizes alone.
    filter_format : {"XIO", "OIX"}
        (*kernel, I/groups, O) or (O, I/groups, *kernel).

    The other keywords are those of `convolution_backward_data`.

    Returns
    -------
    ndarray, shape (N, *S, I)
        input_delta.

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError, LibraryNotFoundError
        As `convolution` does.
    """
    result: Array = call("convolution_backprop_data", locals(), unknown)
    return result


@overload
def convolution_backward_weights(
    src: AnyArray,
    diff_dst: AnyArray,
    weights_shape: Sequence[int],
    *,
    bias: Literal[False] = False,
    out: AnyArray | None = None,
    **attributes: Unpack[ConvolutionAttributes],
) -> Array: ...


@overload
def convolution_backward_weights(
    src: AnyArray,
    diff_dst: AnyArray,
    weights_shape: Sequence[int],
    *,
    bias: Literal[True],
    out: AnyArray | Sequence[AnyArray | None] | None = None,
    **attributes: Unpack[ConvolutionAttributes],
) -> tuple[Array, Array]: ...


@overload
def convolution_backward_weights(
    src: AnyArray,
    diff_dst: AnyArray,
    weights_shape: Sequence[int],
    *,
    bias: bool,
    out: AnyArray | Sequence[AnyArray | None] | None = None,
    **attributes: Unpack[ConvolutionAttributes],
) -> Array | tuple[Array, Array]: ...


def convolution_backward_weights(
    src: AnyArray,
    diff_dst: AnyArray,
    weights_shape: Sequence[int],
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: AutoPad = "none",
    groups: int = 1,
    data_format: DataFormat = "NXC",
    weights_format: ConvolutionWeightsFormat = "XIO",
    bias: bool = False,
    out: AnyArray | Sequence[AnyArray | None] | None = None,
    backend: BackendName | None = None,
    fpmath_mode: FpmathMode | None = None,
    **unknown: Never,
) -> Any:
    """Gradient of `convolution` with respect to weights (ConvolutionBackwardWeights).

    Parameters
    ----------
    src : ndarray, shape (N, *S, I)
    diff_dst : ndarray, shape (N, *X, O)
    weights_shape : sequence of int
        Shape of the result in ``weights_format`` order.
    bias : bool
        Whether to return the gradient of the bias too.
    out : ndarray, or pair of ndarray or None, optional
        For diff_weights, or for (diff_weights, diff_bias).

    The other keywords are those of `convolution`.

    Returns
    -------
    ndarray of ``weights_shape``, or with ``bias`` a tuple of it and diff_bias of shape (O,)

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError, LibraryNotFoundError
        As `convolution` does.

    Examples
    --------
    >>> import numpy as np, onednn_py
    >>> src, diff_dst = np.ones((1, 4, 1), np.float32), np.ones((1, 2, 1), np.float32)
    >>> weights, bias = onednn_py.convolution_backward_weights(src, diff_dst, (3, 1, 1), bias=True)
    >>> weights.ravel().tolist(), bias.tolist()
    ([2.0, 2.0, 2.0], [2.0])
    """
    return call("convolution_backward_weights", locals(), unknown)
