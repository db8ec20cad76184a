"""Results into the caller's type: every element rounded once, and fast."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["round_into", "sum_into_bias", "widen_into"]

Array = npt.NDArray[Any]

SMALLEST_NORMAL_HALF = np.float32(2.0**-14)
STEPS_PER_ONE = np.float32(2.0**24)  # float16's subnormals are multiples of 2**-24

# Elements converted at once: their temporaries stay in the cache.
CHUNK = 2**16


def round_into(target: Array, values: Array) -> None:
    """Write ``values`` into ``target``, each element rounded once to the target's type.

    Parameters
    ----------
    target : ndarray
        Any strides; values beyond its type's range become infinities.
    values : ndarray
        Of the same shape, in float32 or float64.
    """
    with np.errstate(over="ignore", under="ignore"):
        if target.dtype != np.float16 or values.dtype != np.float32:
            np.copyto(target, values, casting="unsafe")
            return
        rows = max(1, CHUNK * len(values) // max(1, values.size)) if values.ndim else 1
        for first in range(0, len(values), rows):
            _round_to_half(target[first : first + rows], values[first : first + rows])


def widen_into(target: Array, values: Array) -> None:
    """Write ``values`` into ``target``, whose type holds every one of them exactly.

    Parameters
    ----------
    target : ndarray
        Any strides, float32.
    values : ndarray
        Of the same shape, any strides, in float16 or bfloat16.
    """
    np.copyto(target, values, casting="unsafe")


def sum_into_bias(diff_bias: Array, diff_dst: Array) -> None:
    """Write the bias gradient, the sum of ``diff_dst`` over all but channels.

    Parameters
    ----------
    diff_bias : ndarray, shape (C,)
    diff_dst : ndarray, shape (N, C, *spatial)
        Summed in float64: over millions of pixels float32 would lose digits.
    """
    axes = (0, *range(2, diff_dst.ndim))
    round_into(diff_bias, diff_dst.sum(axis=axes, dtype=np.float64))


def _round_to_half(target: Array, values: Array) -> None:
    """Round subnormal results by integer arithmetic: NumPy takes 100 ns for each of them.

    Gradients are often that small. Everything else is left to NumPy, at 1.5 ns.
    """
    tiny = np.abs(values) < SMALLEST_NORMAL_HALF
    tiny &= values != 0
    if not tiny.any():
        np.copyto(target, values, casting="unsafe")
        return
    np.copyto(target, np.where(tiny, np.float32(0), values), casting="unsafe")
    small = values[tiny]
    bits = np.rint(np.abs(small) * STEPS_PER_ONE).astype(np.uint16)
    bits |= np.signbit(small).astype(np.uint16) << np.uint16(15)
    target[tiny] = bits.view(np.float16)
