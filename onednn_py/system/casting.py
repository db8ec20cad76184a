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

from .memory_pool import Block, pool
from .parallel import boxes, current_threads, each, spans

__all__ = ["round_into", "sum_into_bias", "widen_into"]

Array = npt.NDArray[Any]

# Elements converted at once, in a dozen calls that each take the interpreter lock: two threads
# wait longer for it on chunks of 2**17 than both together would take for the work, and gain
# something from the third chunk of this size on.
CHUNK = 2**19
FEW_CHUNKS = 2

# Below this many elements NumPy's own conversion is as fast as a dozen calls.
FEW = 2**10

# Elements of one call that other threads are not worth waking for.
NOT_MANY = 2**18

# Bits of float32: where the exponent begins, float16's smallest of a normal number, the largest
# there is, and the smallest number that float16 rounds to infinity.
EXPONENT_SHIFT = np.uint32(23)
SMALLEST_EXPONENT, LARGEST_EXPONENT = np.uint32(113), np.uint32(255)
OVERFLOW = np.uint32(0x477FF000)

MANTISSA_SHIFT = np.uint32(13)  # float32 has 13 bits more
BIAS_SCALE = np.float32(2.0**112)  # and its exponent begins 112 lower
# All but the three bits into which a shift moves copies of float16's sign.
NOT_COPIED_SIGN = np.int32(~0x70000000)
INFINITY, MINUS_INFINITY = np.int16(0x7C00), np.uint16(0xFC00)
WORD_SHIFT = np.uint32(16)
SIGN = np.uint32(0x8000)

# For a number's exponent e, e * GUARD_FACTOR + GUARD are the bits of 2**13 times its power of two,
# with float16's exponent, less one, ten bits from the end. A sum with it ends where float16 ends.
GUARD_FACTOR = np.uint32((1 << 23) + (1 << 10))
GUARD = np.uint32((13 << 23) - (113 << 10))


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
    threads = current_threads() if diff_dst.size > NOT_MANY else 1
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
    """Temporaries of one thread, each for one chunk, while it is entered.

    They lie on a block of `NBYTES`, which is only taken if one of them is asked for.
    """

    WORDS = 3
    NBYTES = CHUNK * (4 * WORDS + 2)

    def __init__(self) -> None:
        self._block: Block | None = None

    def __enter__(self) -> _Room:
        return self

    def __exit__(self, *_: object) -> None:
        if self._block is not None:
            pool.release(self._block)
            self._block = None

    def words(self, number: int, array: Array) -> Array:
        """Return one of three arrays of 32 bits an element, like ``array`` but without gaps."""
        return _like(array, self._memory()[4 * number * CHUNK :].view(np.uint32))

    def shorts(self, array: Array) -> Array:
        """Return an array of 16 bits an element, like ``array`` but without gaps."""
        return _like(array, self._memory()[4 * self.WORDS * CHUNK :].view(np.uint16))

    def _memory(self) -> Block:
        if self._block is None:
            self._block = pool.acquire(self.NBYTES)
        return self._block[: self.NBYTES]


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
        with _Room() as room:
            for chunk in chunks[span]:
                convert(target[chunk], values[chunk], room)

    each(work, spans(len(chunks), -(-len(chunks) // (4 * threads))), threads)


def _copy(target: Array, values: Array) -> None:
    """Convert as NumPy does, on all threads."""
    threads = current_threads() if target.size > NOT_MANY else 1
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
    if target.flags.c_contiguous and bits.strides[-1] == bits.itemsize:
        _widen_dense(target, bits)
        return
    dense, wide = room.shorts(bits), room.words(0, bits).view(np.float32)
    np.copyto(dense, bits)
    _widen_dense(wide, dense)
    np.copyto(target, wide)


def _widen_dense(wide: Array, bits: Array) -> None:
    signed = bits.view(np.int16)
    if signed.max() >= INFINITY or bits.max() >= MINUS_INFINITY or not _keeps_subnormals():
        # Nothing is beyond the table's end; the default mode would copy the result once more.
        if not wide.flags.c_contiguous:
            bits, wide = bits.ravel("K"), wide.ravel("K")
        np.take(_every_half(), bits, out=wide, mode="wrap")
        return
    words = wide.view(np.int32)
    np.copyto(words, signed)
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
    np.right_shift(sums, EXPONENT_SHIFT, out=power)
    np.clip(power, SMALLEST_EXPONENT, LARGEST_EXPONENT, out=power)
    np.multiply(power, GUARD_FACTOR, out=power)
    np.add(power, GUARD, out=power)
    # The addition rounds, to even, and leaves float16's bits lowest.
    np.add(magnitude, power.view(np.float32), out=magnitude)
    sign = power
    np.right_shift(values.view(np.uint32), WORD_SHIFT, out=sign)
    np.bitwise_and(sign, SIGN, out=sign)
    np.bitwise_or(sums, sign, out=sums)
    np.copyto(target.view(np.uint16), sums, casting="unsafe")
