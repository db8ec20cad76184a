"""The two functions that make operators.

Shapes in the docstrings are for ``data_format="NXC"``, as in `onednn_py.convolution`: N is the
minibatch, S and X are spatial shapes of one to three axes, I and O the channels of src and dst.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onednn_py.api.types import (
    AnyArray,
    AutoPad,
    BackendName,
    ConvolutionWeightsFormat,
    ConvTransposeWeightsFormat,
    DataFormat,
    Effort,
    FpmathMode,
    Ints,
)

from .arguments import operator_spec
from .operator import ConvolutionOperator

if TYPE_CHECKING:
    from typing_extensions import Never

__all__ = ["conv_transpose_operator", "convolution_operator"]


def convolution_operator(
    src_shape: Sequence[int] | None = None,
    weights: AnyArray | None = None,
    *,
    src: AnyArray | None = None,
    weights_shape: Sequence[int] | None = None,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: AutoPad = "none",
    groups: int = 1,
    data_format: DataFormat = "NXC",
    weights_format: ConvolutionWeightsFormat = "XIO",
    backend: BackendName | None = None,
    fpmath_mode: FpmathMode | None = None,
    effort: Effort | None = None,
    **unknown: Never,
) -> ConvolutionOperator:
    """`onednn_py.convolution` as a linear operator: of src with fixed weights, or the reverse.

    ``matvec`` is the forward operation on a flattened tensor, ``rmatvec`` the gradient: of src by
    `onednn_py.convolution_backward_data`, of weights by
    `onednn_py.convolution_backward_weights`. ``matmat`` and ``rmatmat`` compute all columns of a
    matrix in one call.

    Parameters
    ----------
    src_shape : sequence of int, (N, *S, I)
        For an operator of src: its shape in ``data_format`` order.
    weights : ndarray, shape (*kernel, I/groups, O)
        For an operator of src: the fixed weights, which are copied.
    src : ndarray, shape (N, *S, I)
        For an operator of weights: the fixed src, which is copied.
    weights_shape : sequence of int, (*kernel, I/groups, O)
        For an operator of weights: their shape in ``weights_format`` order.
    strides, pads_begin, pads_end, dilations, auto_pad, groups, data_format, weights_format
        As of `onednn_py.convolution`.
    backend, fpmath_mode, effort : str, optional
        As of `onednn_py.plan`. Where they are left out, what is in force when the operator is made
        holds for all of its calls.

    Returns
    -------
    ConvolutionOperator
        A `scipy.sparse.linalg.LinearOperator` of the dtype of the fixed tensor: float32, float16,
        bfloat16, or float64, which is computed by NumPy.

    Raises
    ------
    AttributeValueError
        If the arguments are neither ``src_shape`` with ``weights`` nor ``src`` with
        ``weights_shape``.
    ShapeError, DTypeError, AttributeValueError, LibraryNotFoundError
        As `onednn_py.convolution` does. Methods of the operator raise ShapeError for vectors of
        another length, and DTypeError for complex ones.

    Examples
    --------
    >>> import numpy as np
    >>> from onednn_py.scipy import convolution_operator
    >>> difference = np.array([-1, 1], np.float64).reshape(2, 1, 1)
    >>> D = convolution_operator((1, 5, 1), difference)
    >>> D @ np.array([0.0, 1.0, 3.0, 6.0, 10.0])
    array([1., 2., 3., 4.])
    >>> D.T @ np.ones(4)
    array([-1.,  0.,  0.,  0.,  1.])
    >>> D.dst_shape
    (1, 4, 1)
    """
    return ConvolutionOperator(operator_spec("convolution", locals()))


def conv_transpose_operator(
    src_shape: Sequence[int] | None = None,
    weights: AnyArray | None = None,
    *,
    src: AnyArray | None = None,
    weights_shape: Sequence[int] | None = None,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: AutoPad = "none",
    groups: int = 1,
    data_format: DataFormat = "NXC",
    weights_format: ConvTransposeWeightsFormat = "XOI",
    output_padding: Ints = 0,
    backend: BackendName | None = None,
    fpmath_mode: FpmathMode | None = None,
    effort: Effort | None = None,
    **unknown: Never,
) -> ConvolutionOperator:
    """`onednn_py.conv_transpose` as a linear operator: of src with fixed weights, or the reverse.

    Its gradients are `onednn_py.conv_transpose_backward_data` and
    `onednn_py.conv_transpose_backward_weights`; otherwise it is as `convolution_operator`.

    Parameters
    ----------
    src_shape : sequence of int, (N, *X, I)
        For an operator of src: its shape in ``data_format`` order.
    weights : ndarray, shape (*kernel, O/groups, I)
        For an operator of src: the fixed weights, which are copied.
    src : ndarray, shape (N, *X, I)
        For an operator of weights: the fixed src, which is copied.
    weights_shape : sequence of int, (*kernel, O/groups, I)
        For an operator of weights: their shape in ``weights_format`` order.
    strides, pads_begin, pads_end, dilations, auto_pad, groups, data_format, weights_format, \
output_padding
        As of `onednn_py.conv_transpose`.
    backend, fpmath_mode, effort : str, optional
        As of `convolution_operator`.

    Returns
    -------
    ConvolutionOperator
        A `scipy.sparse.linalg.LinearOperator` of the dtype of the fixed tensor.

    Raises
    ------
    AttributeValueError, ShapeError, DTypeError, LibraryNotFoundError
        As `convolution_operator` does.

    Examples
    --------
    >>> import numpy as np
    >>> from onednn_py.scipy import conv_transpose_operator
    >>> twice = conv_transpose_operator((1, 3, 1), np.ones((2, 1, 1)), strides=2)
    >>> twice @ np.array([1.0, 2.0, 3.0])
    array([1., 1., 2., 2., 3., 3.])
    """
    return ConvolutionOperator(operator_spec("conv_transpose", locals()))
