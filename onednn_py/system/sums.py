"""The bias gradient: diff_dst summed over all axes but channels, as fast as memory is read.

Blocks are summed in float32, each sum over a few hundred terms; the sums of blocks are added up in
float64 and rounded once. Blocks depend on shape and strides alone, so that neither the number of
threads nor their order changes a bit of the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .casting import round_into
from .parallel import boxes, current_threads, each

__all__ = ["sum_into_bias"]

Array = npt.NDArray[Any]

# Up to so many elements, one call that sums in float64 is as fast as several in float32.
FEW = 2**13

# Likewise for the elements of each image, where images have gaps between them.
FEW_OF_AN_IMAGE = 2**14

# Elements of a block, the work of one thread.
BLOCK = 2**20

# Single-threaded up to so many bytes: in float32 12 MB take 0.5 ms on one thread and on two, 25 MB
# 1.0 and 0.6 ms. Beside a weights gradient, whose idle OpenMP threads spin, 12 MB of bfloat16 take
# 2.4 and 1.9 ms, 25 MB of float32 the same on both. NumPy converts float16 slowly, one element at a
# time.
SINGLE_THREADED = 2**23
SINGLE_THREADED_HALVES = 2**20

# Rows of at least so many elements are added one to the other, at most so many in float32. Several
# pixels make a row where channels are the innermost axis: rows of 256 elements take 1.7 times as
# long as those of 4096.
ROW = 2**12
MOST_ROWS = 2**7

# From so many adjacent pixels on, they are summed along their axis, at most so many in float32:
# by einsum, which adds them up in vectors with partial sums, and converts bfloat16 on the way.
# The pairwise sum of NumPy's add.reduce takes 1.4 to 3 times as long.
LEAST_PIXELS = 2**5
MOST_PIXELS = 2**12


def sum_into_bias(diff_bias: Array, diff_dst: Array) -> None:
    """Write the bias gradient, the sum of ``diff_dst`` over all axes but channels.

    Parameters
    ----------
    diff_bias : ndarray, shape (C,)
    diff_dst : ndarray, shape (N, C, *spatial)
        Any strides; float16, bfloat16, float32 or float64.
    """
    with np.errstate(all="ignore"):
        parts = _dense_parts(diff_dst) if diff_dst.size > FEW else []
        if not parts:
            axes = (0, *range(2, diff_dst.ndim))
            round_into(diff_bias, np.add.reduce(diff_dst, axis=axes, dtype=np.float64))
            return
        if diff_dst.size <= BLOCK and len(parts) == 1:
            round_into(diff_bias, _block_sums(parts[0]))
            return
        blocks = [(part, box) for part in parts for box in boxes(part.shape, BLOCK)]
        sums = np.zeros((len(blocks), diff_bias.size))

        def work(index: int) -> None:
            part, box = blocks[index]
            sums[index, box[1]] = _block_sums(part[box])

        limit = SINGLE_THREADED_HALVES if diff_dst.dtype == np.float16 else SINGLE_THREADED
        threads = current_threads() if diff_dst.nbytes > limit else 1
        each(work, range(len(blocks)), threads)
        round_into(diff_bias, sums.sum(axis=0))


def _dense_parts(array: Array) -> list[Array]:
    """Return views of shape (outer, C, inner) that make up an array of shape (N, C, *spatial).

    One view where there is one, otherwise one an image, and none where an image has gaps or few
    elements.
    """
    whole = _merged(array)
    if whole is not None:
        return [whole]
    if array[0].size < FEW_OF_AN_IMAGE:  # a call an image would take longer
        return []
    images = [_merged(array[index : index + 1]) for index in range(len(array))]
    return [image for image in images if image is not None]


def _merged(array: Array) -> Array | None:
    """Return a view whose axes outside and inside of channels are merged, None if they cannot be.

    The order of pixels becomes that in memory.
    """
    images, channels = array.shape[:2]
    if array.flags.c_contiguous:
        return array.reshape(images, channels, -1)
    channels_last = array.transpose(0, *range(2, array.ndim), 1)
    if channels_last.flags.c_contiguous:
        return channels_last.reshape(-1, channels, 1)
    step = array.strides[1] if channels > 1 else 0
    outer, inner = (1, 0), (1, array.itemsize)
    pixel_axes = [axis for axis in range(array.ndim) if axis != 1 and array.shape[axis] > 1]
    for axis in sorted(pixel_axes, key=lambda axis: -array.strides[axis]):
        extent, stride = array.shape[axis], array.strides[axis]
        count, distance = outer if stride > step > 0 else inner
        if count > 1 and distance != extent * stride:
            return None
        if stride > step > 0:
            outer = (count * extent, stride)
        else:
            inner = (count * extent, stride)
    shape = (outer[0], channels, inner[0])
    strides = (outer[1], array.strides[1], inner[1])
    return np.lib.stride_tricks.as_strided(array, shape, strides, writeable=False)


def _block_sums(block: Array) -> Array:
    """Return the sums over the first and last axis of a block of shape (outer, C, inner)."""
    outer, channels, inner = block.shape
    dtype = np.float64 if block.itemsize == 8 else np.float32
    if inner >= LEAST_PIXELS:
        sums = np.zeros(channels)
        for first in range(0, inner, MOST_PIXELS):
            pixels = block[:, :, first : first + MOST_PIXELS]
            terms = np.einsum("acp->ac", pixels, dtype=dtype, casting="unsafe")
            sums += terms.sum(axis=0, dtype=np.float64)
        return sums
    is_dense = block[:2].flags.c_contiguous
    folded = min(outer, -(-ROW // (channels * inner))) if is_dense else 1
    whole = outer - outer % folded
    totals = np.add.reduce(block[whole:], axis=0, dtype=np.float64)
    for first in range(0, whole, folded * MOST_ROWS):
        rows = block[first : min(first + folded * MOST_ROWS, whole)]
        rows = rows.reshape(-1, folded, channels, inner)
        terms = np.add.reduce(rows, axis=0, dtype=dtype)
        totals += terms.sum(axis=0, dtype=np.float64)
    return totals.sum(axis=1)  # type: ignore[no-any-return]
