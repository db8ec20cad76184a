"""Transposed convolution and its gradients.

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
    BackendName,
    ConvTransposeAttributes,
    ConvTransposeWeightsFormat,
    DataFormat,
    FpmathMode,
    Ints,
)

if TYPE_CHECKING:
    from typing_extensions import Never, Unpack

__all__ = [
    "conv_transpose",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
]


def conv_transpose(
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
    weights_format: ConvTransposeWeightsFormat = "XOI",
    output_padding: Ints = 0,
    out: AnyArray | None = None,
    backend: BackendName | None = None,
    fpmath_mode: FpmathMode | None = None,
    **unknown: Never,
) -> Array:
    """Transposed convolution (ConvTranspose).

    Parameters
    ----------
    src : ndarray, shape (N, *X, I)
    weights : ndarray, shape (*kernel, O/groups, I)
    bias : ndarray, shape (O,), optional
    weights_format : {"XOI", "IOX"}
        (*kernel, O/groups, I) or (I, O/groups, *kernel); the documents' (*kernel, O, I/groups)
        and (I/groups, O, *kernel) are recognised too. Or such as "HWOI" or "IOHW".
    output_padding : int or sequence of int
        Elements added to the end of the result; less than max(stride, dilation).

    The other keywords are those of `convolution`.

    Returns
    -------
    ndarray, shape (N, *S, O)

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError, LibraryNotFoundError
        As `convolution` does.
    """
    result: Array = call("conv_transpose", locals(), unknown)
    return result


def conv_transpose_backward_data(
    diff_dst: AnyArray,
    weights: AnyArray,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: AutoPad = "none",
    groups: int = 1,
    data_format: DataFormat = "NXC",
    weights_format: ConvTransposeWeightsFormat = "XOI",
    output_padding: Ints = 0,
    out: AnyArray | None = None,
    backend: BackendName | None = None,
    fpmath_mode: FpmathMode | None = None,
    **unknown: Never,
) -> Array:
    """Gradient of `conv_transpose` with respect to src (ConvTransposeBackwardData).

    Parameters
    ----------
    diff_dst : ndarray, shape (N, *S, O)
    weights : ndarray, shape (*kernel, O/groups, I)
    output_padding : int or sequence of int
        That of the forward pass. Left out, elements at the end of diff_dst that no window
        reaches are tolerated, as native oneDNN does.

    The other keywords are those of `conv_transpose`.

    Returns
    -------
    ndarray, shape (N, *X, I)

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError, LibraryNotFoundError
        As `convolution` does.
    """
    result: Array = call("conv_transpose_backward_data", locals(), unknown)
    return result


@overload
def conv_transpose_backward_weights(
    src: AnyArray,
    diff_dst: AnyArray,
    weights_shape: Sequence[int],
    *,
    bias: Literal[False] = False,
    out: AnyArray | None = None,
    **attributes: Unpack[ConvTransposeAttributes],
) -> Array: ...


@overload
def conv_transpose_backward_weights(
    src: AnyArray,
    diff_dst: AnyArray,
    weights_shape: Sequence[int],
    *,
    bias: Literal[True],
    out: AnyArray | Sequence[AnyArray | None] | None = None,
    **attributes: Unpack[ConvTransposeAttributes],
) -> tuple[Array, Array]: ...


@overload
def conv_transpose_backward_weights(
    src: AnyArray,
    diff_dst: AnyArray,
    weights_shape: Sequence[int],
    *,
    bias: bool,
    out: AnyArray | Sequence[AnyArray | None] | None = None,
    **attributes: Unpack[ConvTransposeAttributes],
) -> Array | tuple[Array, Array]: ...


def conv_transpose_backward_weights(
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
    weights_format: ConvTransposeWeightsFormat = "XOI",
    output_padding: Ints = 0,
    bias: bool = False,
    out: AnyArray | Sequence[AnyArray | None] | None = None,
    backend: BackendName | None = None,
    fpmath_mode: FpmathMode | None = None,
    **unknown: Never,
) -> Any:
    """Gradient of `conv_transpose` with respect to weights (ConvTransposeBackwardWeights).

    Parameters
    ----------
    src : ndarray, shape (N, *X, I)
    diff_dst : ndarray, shape (N, *S, O)
    weights_shape : sequence of int
        Shape of the result in ``weights_format`` order, in either of the shapes that
        `conv_transpose` takes.
    output_padding : int or sequence of int
        That of the forward pass, as in `conv_transpose_backward_data`.
    bias : bool
        Whether to return the gradient of the bias too.
    out : ndarray, or pair of ndarray or None, optional
        For diff_weights, or for (diff_weights, diff_bias).

    The other keywords are those of `conv_transpose`.

    Returns
    -------
    ndarray of ``weights_shape``, or with ``bias`` a tuple of it and diff_bias of shape (O,)

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError, LibraryNotFoundError
        As `convolution` does.
    """
    return call("conv_transpose_backward_weights", locals(), unknown)
