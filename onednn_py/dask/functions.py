"""The functions: those of `onednn_py` of the same names, on dask arrays.

Shapes in the docstrings are for ``data_format="NXC"``, as in `onednn_py`: N is the minibatch, S and
X are spatial shapes, I and O the channels of the operation's src and dst. Tensors are dask arrays,
or arrays of NumPy, which become a single chunk that is embedded once in the graph. Shapes, types
and attributes are checked at once; nothing is computed before the result is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from onednn_py.api.types import (
    AnyArray,
    AutoPad,
    AutoPadRule,
    BackendName,
    ConvolutionWeightsFormat,
    ConvTransposeWeightsFormat,
    DataFormat,
    FpmathMode,
    Ints,
)

from .collections import collection

if TYPE_CHECKING:
    from typing_extensions import Never

__all__ = [
    "conv_transpose",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
    "convolution",
    "convolution_backward_data",
    "convolution_backward_weights",
]

# Most partial results that a task of a tree of sums adds, as in dask's own reductions.
SPLIT_EVERY = 4

# dask has no types of its own.
DaskArray: TypeAlias = Any


def convolution(
    src: AnyArray | DaskArray,
    weights: AnyArray | DaskArray,
    bias: AnyArray | DaskArray | None = None,
    *,
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
    threads_per_block: int = 1,
    split_every: int = SPLIT_EVERY,
    **unknown: Never,
) -> DaskArray:
    """Convolution, forward, on dask arrays.

    Parameters
    ----------
    src : dask array, shape (N, *S, I)
        Chunks along any axis. Where the channels of a group lie in several chunks, partial results
        are summed, in float32.
    weights : dask array or ndarray, shape (*kernel, I/groups, O)
        With a dask array, the channels of dst are chunked as those of the weights.
    bias : dask array or ndarray, shape (O,), optional
    threads_per_block : int
        Threads of one block's call. Schedulers run several tasks at a time.
    split_every : int
        Most partial results that one task sums, at least 2.

    The other keywords are those of `onednn_py.convolution`.
    Left out, ``backend`` and ``fpmath_mode`` are those in force where the function is called.

    Returns
    -------
    dask array, shape (N, *X, O)
        Chunked like src: a window belongs to the chunk in which its middle lies.

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Before anything is computed, as the function of `onednn_py` does; a ShapeError also for
        chunks of unknown sizes.

    Examples
    --------
    >>> import dask.array as da, numpy as np, onednn_py.dask
    >>> src = da.ones((2, 100, 3), chunks=(1, 50, 3), dtype=np.float32)
    >>> dst = onednn_py.dask.convolution(src, np.ones((5, 3, 4), np.float32), strides=2)
    >>> dst.chunks, float(dst[0, 0, 0].compute())
    (((1, 1), (24, 24), (4,)), 15.0)
    """
    return collection("convolution", locals())


def convolution_backward_data(
    diff_dst: AnyArray | DaskArray,
    weights: AnyArray | DaskArray,
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
    backend: BackendName | None = None,
    fpmath_mode: FpmathMode | None = None,
    threads_per_block: int = 1,
    split_every: int = SPLIT_EVERY,
    **unknown: Never,
) -> DaskArray:
    """Gradient of `convolution` with respect to src, on dask arrays.

    Parameters
    ----------
    diff_dst : dask array, shape (N, *X, O)
    weights : dask array or ndarray, shape (*kernel, I/groups, O)
        With a dask array, the channels of the result are chunked as those of the weights.
    dst_shape : sequence of int, optional
        As in `onednn_py.convolution_backward_data`.
    threads_per_block : int
        Threads of one block's call. Schedulers run several tasks at a time.
    split_every : int
        Most partial results that one task sums, at least 2.

    The other keywords are those of `onednn_py.convolution_backward_data`.
    Left out, ``backend`` and ``fpmath_mode`` are those in force where the function is called.

    Returns
    -------
    dask array, shape (N, *S, I)
        Chunked like diff_dst, times the strides.

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Before anything is computed, as the function of `onednn_py` does; a ShapeError also for
        chunks of unknown sizes.
    """
    return collection("convolution_backward_data", locals())


def convolution_backward_weights(
    src: AnyArray | DaskArray,
    diff_dst: AnyArray | DaskArray,
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
    backend: BackendName | None = None,
    fpmath_mode: FpmathMode | None = None,
    threads_per_block: int = 1,
    split_every: int = SPLIT_EVERY,
    **unknown: Never,
) -> Any:
    """Gradient of `convolution` with respect to weights, on dask arrays.

    Each block of the minibatch and of space gives a partial result, and these are summed in float32
    in a tree whose order the chunks and ``split_every`` alone decide: the same graph gives the same
    bits.

    Parameters
    ----------
    src : dask array, shape (N, *S, I)
    diff_dst : dask array, shape (N, *X, O)
    weights_shape : sequence of int
        Shape of the result in ``weights_format`` order.
    bias : bool
        Whether to return the gradient of the bias too.
    threads_per_block : int
        Threads of one block's call. Schedulers run several tasks at a time.
    split_every : int
        Most partial results that one task sums, at least 2.

    The other keywords are those of `onednn_py.convolution_backward_weights`.
    Left out, ``backend`` and ``fpmath_mode`` are those in force where the function is called.

    Returns
    -------
    dask array of ``weights_shape``, or with ``bias`` a tuple of it and diff_bias of shape (O,)
        Channels are chunked as those of src and diff_dst; with several groups, these.

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Before anything is computed, as the function of `onednn_py` does; a ShapeError also for
        chunks of unknown sizes.
    """
    return collection("convolution_backward_weights", locals())


def conv_transpose(
    src: AnyArray | DaskArray,
    weights: AnyArray | DaskArray,
    bias: AnyArray | DaskArray | None = None,
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
    backend: BackendName | None = None,
    fpmath_mode: FpmathMode | None = None,
    threads_per_block: int = 1,
    split_every: int = SPLIT_EVERY,
    **unknown: Never,
) -> DaskArray:
    """Transposed convolution on dask arrays.

    Parameters
    ----------
    src : dask array, shape (N, *X, I)
    weights : dask array or ndarray, shape (*kernel, O/groups, I)
        With a dask array, the channels of dst are chunked as those of the weights.
    bias : dask array or ndarray, shape (O,), optional
    threads_per_block : int
        Threads of one block's call. Schedulers run several tasks at a time.
    split_every : int
        Most partial results that one task sums, at least 2.

    The other keywords are those of `onednn_py.conv_transpose`.
    Left out, ``backend`` and ``fpmath_mode`` are those in force where the function is called.

    Returns
    -------
    dask array, shape (N, *S, O)
        Chunked like src, times the strides.

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Before anything is computed, as the function of `onednn_py` does; a ShapeError also for
        chunks of unknown sizes.
    """
    return collection("conv_transpose", locals())


def conv_transpose_backward_data(
    diff_dst: AnyArray | DaskArray,
    weights: AnyArray | DaskArray,
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
    backend: BackendName | None = None,
    fpmath_mode: FpmathMode | None = None,
    threads_per_block: int = 1,
    split_every: int = SPLIT_EVERY,
    **unknown: Never,
) -> DaskArray:
    """Gradient of `conv_transpose` with respect to src, on dask arrays.

    Parameters
    ----------
    diff_dst : dask array, shape (N, *S, O)
    weights : dask array or ndarray, shape (*kernel, O/groups, I)
        With a dask array, the channels of the result are chunked as those of the weights.
    threads_per_block : int
        Threads of one block's call. Schedulers run several tasks at a time.
    split_every : int
        Most partial results that one task sums, at least 2.

    The other keywords are those of `onednn_py.conv_transpose_backward_data`.
    Left out, ``backend`` and ``fpmath_mode`` are those in force where the function is called.

    Returns
    -------
    dask array, shape (N, *X, I)
        Chunked like diff_dst: a window belongs to the chunk in which its middle lies.

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Before anything is computed, as the function of `onednn_py` does; a ShapeError also for
        chunks of unknown sizes.
    """
    return collection("conv_transpose_backward_data", locals())


def conv_transpose_backward_weights(
    src: AnyArray | DaskArray,
    diff_dst: AnyArray | DaskArray,
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
    backend: BackendName | None = None,
    fpmath_mode: FpmathMode | None = None,
    threads_per_block: int = 1,
    split_every: int = SPLIT_EVERY,
    **unknown: Never,
) -> Any:
    """Gradient of `conv_transpose` with respect to weights, on dask arrays.

    Summed like that of `convolution_backward_weights`.

    Parameters
    ----------
    src : dask array, shape (N, *X, I)
    diff_dst : dask array, shape (N, *S, O)
    weights_shape : sequence of int
        Shape of the result in ``weights_format`` order.
    bias : bool
        Whether to return the gradient of the bias too.
    threads_per_block : int
        Threads of one block's call. Schedulers run several tasks at a time.
    split_every : int
        Most partial results that one task sums, at least 2.

    The other keywords are those of `onednn_py.conv_transpose_backward_weights`.
    Left out, ``backend`` and ``fpmath_mode`` are those in force where the function is called.

    Returns
    -------
    dask array of ``weights_shape``, or with ``bias`` a tuple of it and diff_bias of shape (O,)
        Channels are chunked as those of src and diff_dst; with several groups, these.

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Before anything is computed, as the function of `onednn_py` does; a ShapeError also for
        chunks of unknown sizes.
    """
    return collection("conv_transpose_backward_weights", locals())
