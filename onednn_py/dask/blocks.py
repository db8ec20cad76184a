"""What the tasks compute: parts of chunks, results of blocks, and sums of partial results.

Everything here runs on workers. Results are fresh memory of NumPy's, not of the package's pool, so
that a worker that drops one gives its memory back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.ma import MaskedArray

import onednn_py
from onednn_py.errors import DTypeError
from onednn_py.problem.dtypes import DATA_TYPES
from onednn_py.system.casting import round_into, widen_into
from onednn_py.system.sums import sum_into_bias

__all__ = [
    "BlockCall",
    "DataBlock",
    "WeightsBlock",
    "bias_sum",
    "data_block",
    "empty_block",
    "partial_sum",
    "take",
    "total",
    "weights_block",
]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class BlockCall:
    """What the blocks of a call have in common.

    Attributes
    ----------
    function : str
    dtype : str
    attributes : mapping
        Those that no block changes, ``backend`` and ``fpmath_mode`` among them.
    threads : int
    rank, channel_axis : int
        Of activations, in the caller's order.
    """

    function: str
    dtype: str
    attributes: Mapping[str, Any]
    threads: int
    rank: int
    channel_axis: int

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        return DATA_TYPES[self.dtype].numpy

    @property
    def accumulator(self) -> np.dtype[Any]:
        return DATA_TYPES[self.dtype].accumulator

    def run(self, *tensors: Any, **attributes: Any) -> None:
        with onednn_py.num_threads(self.threads):
            getattr(onednn_py, self.function)(*tensors, **self.attributes, **attributes)


class DataBlock(NamedTuple):
    """A block of a forward pass or of a data gradient, see `data_block`."""

    shape: tuple[int, ...]
    written: tuple[slice, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    groups: int
    input_grid: tuple[int, ...]
    weights_grid: tuple[int, ...]
    is_partial: bool


class WeightsBlock(NamedTuple):
    """A block of a weights gradient, see `weights_block`."""

    shape: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    groups: int
    src_grid: tuple[int, ...]
    diff_dst_grid: tuple[int, ...]
    is_partial: bool


def take(chunk: Array, part: tuple[slice, ...]) -> Array:
    """Return a copy of a part of a chunk: a view would keep the whole chunk in memory."""
    return np.array(_plain(chunk)[part], order="C", copy=True)


def data_block(call: BlockCall, block: DataBlock, *tensors: Array) -> Array:
    """Return a block of a forward pass or of a data gradient.

    Parameters
    ----------
    call : BlockCall
    block : DataBlock
        The block's shape, the part of it that is not zero, and the call that computes that part. A
        partial block has the type of sums.
    *tensors
        Pieces of the input and of the weights, each in the order of its grid; then the bias, whole.
    """
    dtype = call.accumulator if block.is_partial else call.numpy_dtype
    inputs, weights = prod(block.input_grid), prod(block.weights_grid)
    operands = [
        _assembled(tensors[:inputs], block.input_grid, dtype),
        _assembled(tensors[inputs : inputs + weights], block.weights_grid, dtype),
    ]
    bias = tensors[inputs + weights :]
    operands += bias
    written = tuple(part.stop - part.start for part in block.written)
    result = np.empty(block.shape, dtype)
    if written != block.shape:
        result[...] = _along_channels(call, bias[0]) if bias else 0
    call.run(
        *operands,
        pads_begin=block.pads_begin,
        pads_end=block.pads_end,
        groups=block.groups,
        out=result[block.written],
    )
    return result


def weights_block(call: BlockCall, block: WeightsBlock, *tensors: Array) -> Array:
    """Return a block of a weights gradient, or its part of the sum.

    Parameters
    ----------
    call : BlockCall
    block : WeightsBlock
    *tensors
        Pieces of src and of diff_dst, each in the order of its grid.
    """
    dtype = call.accumulator if block.is_partial else call.numpy_dtype
    count = prod(block.src_grid)
    src = _assembled(tensors[:count], block.src_grid, dtype)
    diff_dst = _assembled(tensors[count:], block.diff_dst_grid, dtype)
    result = np.empty(block.shape, dtype)
    call.run(
        src,
        diff_dst,
        block.shape,
        pads_begin=block.pads_begin,
        pads_end=block.pads_end,
        groups=block.groups,
        out=result,
    )
    return result


def empty_block(call: BlockCall, shape: tuple[int, ...], *bias: Array) -> Array:
    """Return a block of the result to which no input contributes: zeros, or the bias."""
    result = np.zeros(shape, call.numpy_dtype)
    if bias:
        result[...] = _along_channels(call, bias[0])
    return result


def bias_sum(call: BlockCall, chunk: Array) -> Array:
    """Return the sum of a chunk of diff_dst over all axes but channels, in the type of sums."""
    sums = np.empty(_plain(chunk).shape[call.channel_axis], call.accumulator)
    with onednn_py.num_threads(call.threads):
        sum_into_bias(sums, np.moveaxis(chunk, call.channel_axis, 1))
    return sums


def partial_sum(*partials: Array) -> Array:
    """Return the sum of partial results, added one after the other."""
    result = partials[0] + partials[1] if len(partials) > 1 else partials[0]
    for partial in partials[2:]:
        result += partial
    return result


def total(call: BlockCall, has_bias: bool, *partials: Array) -> Array:
    """Return the sum of partial results and of the bias, rounded once to the result's type."""
    bias = partials[-1:] if has_bias else ()
    result = partial_sum(*partials[: len(partials) - len(bias)])
    if bias:
        wide = _along_channels(call, bias[0].astype(call.accumulator))
        result = np.add(result, wide, out=None if result is partials[0] else result)
    if call.numpy_dtype == result.dtype:
        return result
    rounded = np.empty(result.shape, call.numpy_dtype)
    round_into(rounded, result)
    return rounded


def _along_channels(call: BlockCall, bias: Array) -> Array:
    return _plain(bias).reshape(-1, *[1] * (call.rank - 1 - call.channel_axis))


def _plain(chunk: Array) -> Array:
    """Return a chunk as it is.

    Raises
    ------
    DTypeError
        If it has a mask, which the collection's ``_meta`` need not tell.
    """
    if isinstance(chunk, MaskedArray):
        raise DTypeError(
            "expected chunks that are numpy.ndarray, got a masked array; fill the mask"
        )
    return chunk


def _assembled(pieces: Sequence[Array], grid: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return the array that pieces on a grid make, of a type that represents them exactly."""
    for piece in pieces:
        _plain(piece)
    if len(pieces) == 1 and pieces[0].dtype == dtype:
        return pieces[0]
    numbers = np.arange(len(pieces)).reshape(grid)
    edges = []
    for axis, count in enumerate(grid):
        line = numbers[tuple(slice(None) if other == axis else 0 for other in range(len(grid)))]
        extents = [pieces[number].shape[axis] for number in line]
        edges.append(np.concatenate([[0], np.cumsum(extents)])[: count + 1].tolist())
    array = np.empty([edge[-1] for edge in edges], dtype)
    for index, piece in zip(np.ndindex(*grid), pieces, strict=True):
        place = tuple(slice(edge[i], edge[i + 1]) for edge, i in zip(edges, index, strict=True))
        if piece.dtype == dtype:
            array[place] = piece
        else:
            widen_into(array[place], np.asarray(piece, piece.dtype.newbyteorder("=")))
    return array
