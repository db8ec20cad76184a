"""Into float32 and back into the caller's type: every element rounded once, and fast.

NumPy converts float16 one element at a time, a subnormal one in 10 to 100 ns. Here a few
operations on whole chunks do, with the same bits as NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .memory import Block, pool
from .parallel import boxes, current_threads, each, spans

__all__ = ["round_into", "sum_into_bias", "widen_into"]

Array = npt.NDArray[Any]

# Elements converted at once: few enough for the second cache, enough for a second thread to
# be worth while, since every call takes the interpreter lock.
CHUNK = 2**18

# Below this many elements NumPy's own conversion is as fast as a dozen calls.
FEW = 2**10

# Chunks up to which other threads are not worth waking.
FEW_CHUNKS = 1

# Bits of float32: the exponent, that of float16's smallest normal number, and the smallest
# number that float16 rounds to infinity.
EXPONENT = np.uint32(0x7F800000)
SMALLEST_NORMAL = np.uint32(0x38800000)
OVERFLOW = np.uint32(0x477FF000)

MANTISSA_SHIFT = np.uint32(13)  # float32 has 13 bits more
BIAS_SCALE = np.float32(2.0**112)  # and its exponent begins 112 lower
# All but the three bits into which a shift moves copies of float16's sign.
NOT_COPIED_SIGN = np.int32(~0x70000000)
# Twice the bits of float16's infinity, which leaves the sign out.
TWICE_INFINITY = np.uint16(0xF800)
WORD_SHIFT = np.uint32(16)
SIGN = np.uint32(0x8000)

# A sum with 2**13 times a number's power of two ends where float16 ends.
GUARD = np.uint32(13 << 23)
GUARD_BIAS = np.uint32(126 << 10)


def widen_into(target: Array, values: Array) -> None:
    """Write ``values`` into ``target``, whose type holds every one of them exactly.

    Parameters
    ----------
    target : ndarray
        Any strides.
    values : ndarray
        Of the same shape, any strides; in the target's type, or float16 or bfloat16 for
        float32.
    """
    if target.dtype == values.dtype:
        np.copyto(target, values)
    elif _is_slow(values, target):
        _in_chunks(_widen_halves, target, values)
    else:
        _copy(target, values)


def round_into(target: Array, values: Array) -> None:
    """Write ``values`` into ``target``, each element rounded once to the target's type.

    Parameters
    ----------
    target : ndarray
        Any strides; values beyond its type's range become infinities.
    values : ndarray
        Of the same shape, in float32 or float64.
    """
    with np.errstate(all="ignore"):
        if target.dtype == values.dtype:
            np.copyto(target, values)
        elif _is_slow(target, values):
            _in_chunks(_round_to_halves, target, values)
        else:
            _copy(target, values)


def sum_into_bias(diff_bias: Array, diff_dst: Array) -> None:
    """Write the bias gradient, the sum of ``diff_dst`` over all but channels.

    Parameters
    ----------
    diff_bias : ndarray, shape (C,)
    diff_dst : ndarray, shape (N, C, *spatial)
        Summed in float64: over millions of pixels float32 would lose digits.
    """
    threads = current_threads() if diff_dst.size > FEW_CHUNKS * CHUNK else 1
    images = list(spans(len(diff_dst), max(1, -(-len(diff_dst) // (2 * threads)))))
    sums = np.empty((len(images), *diff_bias.shape))
    axes = (0, *range(2, diff_dst.ndim))
    each(
        lambda part: np.sum(diff_dst[images[part]], axis=axes, dtype=sums.dtype, out=sums[part]),
        range(len(images)),
        threads,
    )
    round_into(diff_bias, sums.sum(axis=0))


def _is_slow(half: Array, single: Array) -> bool:
    """Whether NumPy's own conversion takes longer than a dozen calls on chunks."""
    return half.dtype == np.float16 and single.dtype == np.float32 and half.size >= FEW


class _Room:
    """Temporaries of one thread, each for one chunk, on a block of `NBYTES`."""

    WORDS, SHORTS = 3, 2
    NBYTES = CHUNK * (4 * WORDS + 2 * SHORTS)

    def __init__(self, block: Block) -> None:
        words, shorts = np.split(block[: self.NBYTES], [4 * self.WORDS * CHUNK])
        self._words = words.view(np.uint32).reshape(self.WORDS, CHUNK)
        self._shorts = shorts.view(np.uint16).reshape(self.SHORTS, CHUNK)

    def words(self, number: int, array: Array) -> Array:
        """Return one of three arrays of 32 bits an element, like ``array`` but without gaps."""
        return _like(array, self._words[number])

    def shorts(self, number: int, array: Array) -> Array:
        """Return one of two arrays of 16 bits an element, like ``array`` but without gaps."""
        return _like(array, self._shorts[number])


def _like(array: Array, memory: Array) -> Array:
    """Return a view of ``memory`` with the shape of ``array`` and its axes' order in memory.

    Copying in that order is much faster than in any other.
    """
    if array.flags.c_contiguous:
        return memory[: array.size].reshape(array.shape)
    order = _outermost_first(array)
    dense = memory[: array.size].reshape([array.shape[axis] for axis in order])
    return dense.transpose(np.argsort(order))


def _outermost_first(array: Array) -> list[int]:
    return sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))


def _in_chunks(
    convert: Callable[[Array, Array, _Room], None], target: Array, values: Array
) -> None:
    """Convert chunk by chunk, on all threads, in the target's order in memory."""
    target, values = _flattened(target, values)
    chunks = boxes(target.shape, CHUNK)
    threads = current_threads() if len(chunks) > FEW_CHUNKS else 1

    def work(span: slice) -> None:
        block = pool.acquire(_Room.NBYTES)
        try:
            room = _Room(block)
            for chunk in chunks[span]:
                convert(target[chunk], values[chunk], room)
        finally:
            pool.release(block)

    each(work, spans(len(chunks), -(-len(chunks) // (4 * threads))), threads)


def _copy(target: Array, values: Array) -> None:
    """Convert as NumPy does, on all threads."""
    threads = current_threads() if target.size > FEW_CHUNKS * CHUNK else 1
    if threads == 1:
        np.copyto(target, values, casting="unsafe")
        return
    target, values = _flattened(target, values)
    each(
        lambda box: np.copyto(target[box], values[box], casting="unsafe"),
        boxes(target.shape, -(-target.size // (4 * threads))),
        threads,
    )


def _flattened(target: Array, values: Array) -> tuple[Array, Array]:
    """Return both with the target's innermost axis last, with one axis if neither has gaps."""
    order = _outermost_first(target)
    target, values = target.transpose(order), values.transpose(order)
    if target.flags.c_contiguous and values.flags.c_contiguous:
        return target.reshape(-1), values.reshape(-1)
    return target, values


@cache
def _every_half() -> Array:
    """Return all float16 numbers as float32, in the order of their bits."""
    return np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)


def _widen_halves(target: Array, values: Array, room: _Room) -> None:
    bits = values.view(np.uint16)
    if bits.flags.c_contiguous and target.flags.c_contiguous:
        _widen_dense(target, bits, room)
        return
    dense, wide = room.shorts(0, bits), room.words(0, bits).view(np.float32)
    np.copyto(dense, bits)
    _widen_dense(wide, dense, room)
    np.copyto(target, wide)


def _widen_dense(wide: Array, bits: Array, room: _Room) -> None:
    magnitudes = room.shorts(1, bits)
    np.left_shift(bits, 1, out=magnitudes)
    if magnitudes.max() >= TWICE_INFINITY or not _keeps_subnormals():
        # Nothing is beyond the table's end; the default mode would copy the result once more.
        np.take(_every_half(), bits.ravel("K"), out=wide.ravel("K"), mode="wrap")
        return
    words = wide.view(np.int32)
    np.copyto(words, bits.view(np.int16))
    np.left_shift(words, int(MANTISSA_SHIFT), out=words)
    np.bitwise_and(words, NOT_COPIED_SIGN, out=words)
    # Exact, and a subnormal float16 is a subnormal float32 until here.
    np.multiply(wide, BIAS_SCALE, out=wide)


_SUBNORMAL = np.array([1], np.uint32).view(np.float32)


def _keeps_subnormals() -> bool:
    """Whether this thread computes with subnormal numbers: compilers' fast-math turns it off."""
    return bool((_SUBNORMAL * BIAS_SCALE)[0])


def _round_to_halves(target: Array, values: Array, room: _Room) -> None:
    sums, power = room.words(0, values), room.words(1, values)
    if not values.flags.c_contiguous:
        dense = room.words(2, values).view(np.float32)
        np.copyto(dense, values)
        values = dense
    magnitude = sums.view(np.float32)
    np.abs(values, out=magnitude)
    if sums.max() >= OVERFLOW:
        np.copyto(target, values, casting="unsafe")
        return
    np.bitwise_and(sums, EXPONENT, out=power)
    np.clip(power, SMALLEST_NORMAL, EXPONENT, out=power)
    np.add(power, GUARD, out=power)
    # The addition rounds, to even, and leaves float16's digits in the lowest bits, of which
    # the highest is the lowest of the exponent.
    np.add(magnitude, power.view(np.float32), out=magnitude)
    np.right_shift(power, MANTISSA_SHIFT, out=power)
    np.add(sums, power, out=sums)
    np.subtract(sums, GUARD_BIAS, out=sums)
    sign = power
    np.right_shift(values.view(np.uint32), WORD_SHIFT, out=sign)
    np.bitwise_and(sign, SIGN, out=sign)
    np.bitwise_or(sums, sign, out=sums)
    np.copyto(target.view(np.uint16), sums, casting="unsafe")
