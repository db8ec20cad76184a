"""Numbers in regular steps: which of them lie in a range, without counting them one by one.

Windows step over elements, and so do the positions of a dilated kernel. A valid shape may have
2**40 of either. Their remainders tell which meet, and are found as by Euclid's algorithm, in a
number of steps that grows with the digits alone.
"""

from __future__ import annotations

__all__ = ["first_and_last", "first_within", "least_natural", "least_remainder"]


def first_and_last(
    start: int, step: int, count: int, inner_step: int, inner_count: int, size: int
) -> tuple[int, int] | None:
    """Return the first and the last n at which some number is in ``range(size)``.

    The numbers at n are ``start + n * step + t * inner_step`` for t in ``range(inner_count)``.

    Parameters
    ----------
    start : int
    step, inner_step : int
        Positive.
    count, inner_count : int
        How many n and t there are.
    size : int

    Returns
    -------
    (int, int) or None
        None if no number is in the range.
    """
    if inner_count < 1:
        return None
    # Outside of these n, all numbers are negative, or all lie behind the range.
    span = (inner_count - 1) * inner_step
    least = max(0, -((start + span) // step))
    most = min(count - 1, (size - 1 - start) // step)
    if least > most:
        return None
    # Within, the number of t = 0 is in the range, or negative: then the remainder is the first
    # number that is not.
    skipped = first_within(start + least * step, step, inner_step, size - 1)
    left = first_within(start + most * step, -step, inner_step, size - 1)
    if skipped is None or left is None or least + skipped > most:
        return None
    return least + skipped, most - left


def least_natural(start: int, step: int, count: int, inner_step: int, inner_count: int) -> int:
    """Return the least of the numbers that is not negative; there has to be one.

    The numbers and the parameters are those of `first_and_last`.
    """
    if start >= 0:
        return start
    # Before the first n, all numbers are negative; from the end on, none is, and the least is that
    # of t = 0. In between, it is the remainder.
    span = (inner_count - 1) * inner_step
    first, end = max(0, -((start + span) // step)), min(count, -(start // step))
    found = []
    if end < count:
        found.append(start + end * step)
    if first < end:
        found.append(least_remainder(start + first * step, step, inner_step, end - first))
    return min(found)


def first_within(start: int, step: int, modulus: int, most: int) -> int | None:
    """Return the least n >= 0 with ``(start + n * step) % modulus <= most``, None without any."""
    start, step = start % modulus, step % modulus
    if start <= most:
        return 0
    if step == 0:
        return None
    if 2 * step > modulus:
        # Mirrored, 0 to most are themselves again, and the smaller step halves the modulus below.
        start, step = (most - start) % modulus, modulus - step
    # The sums come to lie low as they pass a multiple of the modulus. What they are at first
    # behind each multiple makes a progression too, modulo the step.
    passed = first_within(start - modulus, -modulus, step, most)
    return None if passed is None else -((start - (passed + 1) * modulus) // step)


def least_remainder(start: int, step: int, modulus: int, count: int) -> int:
    """Return the least of ``(start + n * step) % modulus`` for n in ``range(count)``."""
    start, step = start % modulus, step % modulus
    if 2 * step > modulus:
        # Last to first, the same remainders have the smaller step, which halves the modulus below.
        start, step = (start + (count - 1) * step) % modulus, modulus - step
    passed = (start + (count - 1) * step) // modulus
    if passed == 0:
        return start
    # Least at first, or as the sums pass a multiple of the modulus, as in `first_within`.
    return min(start, least_remainder(start - modulus, -modulus, step, passed))
