"""Progressions are searched as if their numbers were counted one by one."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onednn_py.problem.progressions import (
    first_and_last,
    first_within,
    least_natural,
    least_remainder,
)


@pytest.mark.parametrize("modulus", range(1, 14))
def test_remainders_are_those_of_counting(modulus: int) -> None:
    for start, step in product(range(-2, modulus + 2), repeat=2):
        # After as many steps as the modulus has, the remainders come again.
        remainders = [(start + n * step) % modulus for n in range(modulus + 3)]
        for most in range(-1, modulus + 1):
            counted = next((n for n, found in enumerate(remainders) if found <= most), None)
            assert first_within(start, step, modulus, most) == counted
        for count in range(1, len(remainders) + 1):
            assert least_remainder(start, step, modulus, count) == min(remainders[:count])


@pytest.mark.parametrize(("step", "inner_step"), list(product(range(1, 8), repeat=2)))
def test_numbers_are_those_of_counting(step: int, inner_step: int) -> None:
    for start, count, inner_count in product(range(-25, 6, 2), range(4), range(4)):
        rows = [
            [start + n * step + t * inner_step for t in range(inner_count)] for n in range(count)
        ]
        for size in range(-1, 7):
            met = [n for n, row in enumerate(rows) if any(0 <= number < size for number in row)]
            counted = (met[0], met[-1]) if met else None
            assert first_and_last(start, step, count, inner_step, inner_count, size) == counted
        naturals = [number for row in rows for number in row if number >= 0]
        if naturals:
            least = least_natural(start, step, count, inner_step, inner_count)
            assert least == min(naturals)


@given(
    start=st.integers(0, 2**200), step=st.integers(0, 2**200), modulus=st.integers(1, 2**200),
    most=st.integers(0, 2**200), count=st.integers(1, 2**200),
)  # fmt: skip
def test_numbers_that_cannot_be_counted(
    start: int, step: int, modulus: int, most: int, count: int
) -> None:
    """Both functions tell the same of numbers beyond any machine's."""
    found = first_within(start, step, modulus, most)
    if found is not None:
        assert (start + found * step) % modulus <= most
        assert least_remainder(start, step, modulus, found + 1) <= most
    if found:
        assert least_remainder(start, step, modulus, found) > most
    least = least_remainder(start, step, modulus, count)
    reached = first_within(start, step, modulus, least)
    assert reached is not None
    assert reached < count
    assert (start + reached * step) % modulus == least


@pytest.mark.parametrize("modulus", [2**62, 2**62 - 1])
@pytest.mark.parametrize("step", [1, -1, 2**31 + 1, 2**62 // 3])
def test_steps_close_to_the_modulus_end_soon(step: int, modulus: int) -> None:
    """Euclid's algorithm with quotients rounded up takes 2**62 divisions for some of them."""
    found = first_within(1, step, modulus, 0)
    if found is not None:
        assert (1 + found * step) % modulus == 0
    assert 0 <= least_remainder(1, step, modulus, modulus) <= 1
