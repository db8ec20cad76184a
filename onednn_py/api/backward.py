"""Both gradients of a convolution in one call."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from onednn_py.dispatch.call_cache import call
from onednn_py.problem.call_spec import Gradients

from .types import (
    AnyArray,
    AutoPad,
    BackendName,
    ConvolutionWeightsFormat,
    ConvTransposeWeightsFormat,
    DataFormat,
    FpmathMode,
    Ints,
    Wrt,
)

if TYPE_CHECKING:
    from typing_extensions import Never

__all__ = ["Gradients", "conv_transpose_backward", "convolution_backward"]


def convolution_backward(
    src: AnyArray,
    weights: AnyArray,
    diff_dst: AnyArray,
    *,
    strides: Ints = 1,
    pads_begin: Ints = 0,
    pads_end: Ints = 0,
    dilations: Ints = 1,
    auto_pad: AutoPad = "none",
    groups: int = 1,
    data_format: DataFormat = "NXC",
    weights_format: ConvolutionWeightsFormat = "XIO",
    wrt: Collection[Wrt] = ("src", "weights"),
    out: Sequence[AnyArray | None] | None = None,
    backend: BackendName | None = None,
    fpmath_mode: FpmathMode | None = None,
    **unknown: Never,
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

    The other keywords are those of `convolution`.

    Returns
    -------
    Gradients

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError, LibraryNotFoundError
        As `convolution` does.

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
    gradients: Gradients = call("convolution_backward", locals(), unknown)
    return gradients


def conv_transpose_backward(
    src: AnyArray,
    weights: AnyArray,
    diff_dst: AnyArray,
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
    wrt: Collection[Wrt] = ("src", "weights"),
    out: Sequence[AnyArray | None] | None = None,
    backend: BackendName | None = None,
    fpmath_mode: FpmathMode | None = None,
    **unknown: Never,
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

    The other keywords are those of `conv_transpose`.

    Returns
    -------
    Gradients

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError, LibraryNotFoundError
        As `convolution` does.
    """
    gradients: Gradients = call("conv_transpose_backward", locals(), unknown)
    return gradients
