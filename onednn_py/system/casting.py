"""Conversions into float32 and back into the caller's type: each element is rounded once.

NumPy converts float16 one element at a time, a subnormal one in 10 to 100 ns. This module
converts whole chunks by a few ufuncs, with the same bits as NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from .memory_pool import Block, pool
from .parallel import boxes, current_threads, each, spans

__all__ = ["round_into", "widen_into"]

Array = npt.NDArray[Any]

# Elements of a chunk, converted by a dozen calls that each take the interpreter lock. On chunks
# of 2**17, two threads wait longer for the lock than the whole work takes; on chunks of this
# size, they are faster than one thread from three chunks on.
CHUNK = 2**19
FEW_CHUNKS = 2

# Below this many elements NumPy's own conversion is as fast as a dozen calls.
FEW = 2**10

# Work on at most this many elements is single-threaded.
SINGLE_THREADED = 2**18

# float32's lowest exponent bit, its exponent of float16's smallest normal number, its largest
# exponent, and the bits of the smallest float32 that float16 rounds to infinity.
EXPONENT_SHIFT = np.uint32(23)
SMALLEST_EXPONENT, LARGEST_EXPONENT = np.uint32(113), np.uint32(255)
OVERFLOW = np.uint32(0x477FF000)

MANTISSA_SHIFT = np.uint32(13)  # float32's mantissa has 13 bits more
BIAS_SCALE = np.float32(2.0**112)  # float32's exponent bias is larger by 112
# Clears the three bits into which a shift moves copies of float16's sign.
NOT_COPIED_SIGN = np.int32(~0x70000000)
INFINITY, MINUS_INFINITY = np.int16(0x7C00), np.uint16(0xFC00)
SIGN_SHIFT = np.uint32(16)
SIGN = np.uint32(0x8000)

# For a number's exponent e, e * GUARD_FACTOR + GUARD are the bits of 2**13 times its power of two,
# with float16's exponent, less one, ten bits from the end. Adding that power rounds the number's
# last bit to float16's last bit.
GUARD_FACTOR = np.uint32((1 << 23) + (1 << 10))
GUARD = np.uint32((13 << 23) - (113 << 10))


def widen_into(target: Array, values: Array) -> None:
    """Write ``values`` into ``target``, whose type represents each of them exactly.

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
        elif target.dtype == ml_dtypes.bfloat16 and values.dtype == np.float64:
            _copy(target, _singles_beside_middles(values))
        else:
            _copy(target, values)


def _singles_beside_middles(values: Array) -> Array:
    """Return float64 numbers as float32, from which they round to the right bfloat16.

    Rounded to nearest twice, a number beside the middle between two bfloat16 would first become the
    middle, and then perhaps the wrong number of the two.
    """
    singles = values.astype(np.float32)
    bits = singles.view(np.uint32)
    is_middle = (bits & 0xFFFF) == 0x8000
    if is_middle.any():
        middles, exact = np.abs(singles[is_middle].astype(np.float64)), np.abs(values[is_middle])
        moved = bits[is_middle]
        moved += middles < exact
        moved -= middles > exact
        bits[is_middle] = moved
    return singles


def _is_slow(half: Array, single: Array) -> bool:
    """Whether NumPy's own conversion takes longer than a dozen calls on chunks."""
    return half.dtype == np.float16 and single.dtype == np.float32 and half.size >= FEW


class _Temporaries:
    """Arrays of one chunk each, for one thread, until the ``with`` block ends.

    They lie on a block of `NBYTES`, acquired when the first of them is asked for.
    """

    UINT32_ARRAYS = 3
    NBYTES = CHUNK * (4 * UINT32_ARRAYS + 2)

    def __init__(self) -> None:
        self._block: Block | None = None

    def __enter__(self) -> _Temporaries:
        return self

    def __exit__(self, *_: object) -> None:
        if self._block is not None:
            pool.release(self._block)
            self._block = None

    def uint32(self, number: int, array: Array) -> Array:
        """Return array 0, 1 or 2 of 32-bit integers, like ``array`` but without gaps."""
        return _like(array, self._memory()[4 * number * CHUNK :].view(np.uint32))

    def uint16(self, array: Array) -> Array:
        """Return an array of 16-bit integers, like ``array`` but without gaps."""
        return _like(array, self._memory()[4 * self.UINT32_ARRAYS * CHUNK :].view(np.uint16))

    def _memory(self) -> Block:
        if self._block is None:
            self._block = pool.acquire(self.NBYTES)
        return self._block[: self.NBYTES]


def _like(array: Array, memory: Array) -> Array:
    """Return a view of ``memory`` with the shape of ``array`` and its order of axes in memory.

    A copy between equal orders is much faster than between different ones.
    """
    if array.flags.c_contiguous:
        return memory[: array.size].reshape(array.shape)
    order = _outermost_first(array)
    dense = memory[: array.size].reshape([array.shape[axis] for axis in order])
    return dense.transpose(np.argsort(order))


def _outermost_first(array: Array) -> list[int]:
    return sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))


def _in_chunks(
    convert: Callable[[Array, Array, _Temporaries], None], target: Array, values: Array
) -> None:
    """Convert chunk by chunk, on all threads, in the target's order of axes in memory."""
    target, values = _flattened(target, values)
    chunks = boxes(target.shape, CHUNK)
    threads = current_threads() if len(chunks) > FEW_CHUNKS else 1

    def work(span: slice) -> None:
        with _Temporaries() as temporaries:
            for chunk in chunks[span]:
                convert(target[chunk], values[chunk], temporaries)

    each(work, spans(len(chunks), -(-len(chunks) // (4 * threads))), threads)


def _copy(target: Array, values: Array) -> None:
    """Convert as NumPy does, on all threads."""
    threads = current_threads() if target.size > SINGLE_THREADED else 1
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
    """Return both in the target's order of axes in memory, as 1-D arrays if neither has gaps."""
    order = _outermost_first(target)
    target, values = target.transpose(order), values.transpose(order)
    if target.flags.c_contiguous and values.flags.c_contiguous:
        return target.reshape(-1), values.reshape(-1)
    return target, values


@cache
def _every_half() -> Array:
    """Return all float16 numbers as float32, in the order of their bits."""
    return np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)


def _widen_halves(target: Array, values: Array, temporaries: _Temporaries) -> None:
    bits = values.view(np.uint16)
    if target.flags.c_contiguous and bits.strides[-1] == bits.itemsize:
        _widen_dense(target, bits)
        return
    dense, wide = temporaries.uint16(bits), temporaries.uint32(0, bits).view(np.float32)
    np.copyto(dense, bits)
    _widen_dense(wide, dense)
    np.copyto(target, wide)


def _widen_dense(wide: Array, bits: Array) -> None:
    signed = bits.view(np.int16)
    if signed.max() >= INFINITY or bits.max() >= MINUS_INFINITY or not _keeps_subnormals():
        # Every index is in the table; the default mode would copy the result once more.
        if not wide.flags.c_contiguous:
            bits, wide = bits.ravel("K"), wide.ravel("K")
        np.take(_every_half(), bits, out=wide, mode="wrap")
        return
    words = wide.view(np.int32)
    np.copyto(words, signed)
    np.left_shift(words, int(MANTISSA_SHIFT), out=words)
    np.bitwise_and(words, NOT_COPIED_SIGN, out=words)
    # Exact; only this makes a subnormal float16 a normal float32.
    np.multiply(wide, BIAS_SCALE, out=wide)


_SUBNORMAL = np.array([1], np.uint32).view(np.float32)


def _keeps_subnormals() -> bool:
    """Whether this thread computes with subnormals; libraries built with fast-math disable it."""
    return bool((_SUBNORMAL * BIAS_SCALE)[0])


def _round_to_halves(target: Array, values: Array, temporaries: _Temporaries) -> None:
    sums, power = temporaries.uint32(0, values), temporaries.uint32(1, values)
    if not values.flags.c_contiguous:
        dense = temporaries.uint32(2, values).view(np.float32)
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
    # The addition rounds to nearest even, and leaves float16's bits in the lowest 16.
    np.add(magnitude, power.view(np.float32), out=magnitude)
    sign = power
    np.right_shift(values.view(np.uint32), SIGN_SHIFT, out=sign)
    np.bitwise_and(sign, SIGN, out=sign)
    np.bitwise_or(sums, sign, out=sums)
    np.copyto(target.view(np.uint16), sums, casting="unsafe")
