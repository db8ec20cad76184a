"""Conversions: the same bits as NumPy and ml_dtypes, for all values and strides."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import onednn_py
from onednn_py.system import casting
from onednn_py.system.casting import CHUNK, FEW_CHUNKS, round_into, widen_into
from onednn_py.system.memory_pool import pool

MANY = FEW_CHUNKS * CHUNK + 3
HALVES = np.arange(2**16, dtype=np.uint16).view(np.float16)
FINITE_HALVES = HALVES[np.isfinite(HALVES)]


def special_values() -> np.ndarray:
    """Return normal, subnormal, halfway and overflowing values, infinities and NaN."""
    rng = np.random.default_rng(0)
    halves = HALVES.astype(np.float32)
    finite = np.sort(halves[np.isfinite(halves)])
    between = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    near = [np.nextafter(between, np.float32(side)) for side in (-np.inf, np.inf)]
    random = rng.standard_normal(20_000) * 10.0 ** rng.integers(-9, 6, 20_000)
    return np.concatenate([halves, between, *near, random.astype(np.float32)])


def any_bits(count: int) -> np.ndarray:
    """Return random bit patterns of float32: every exponent, NaN of any payload."""
    rng = np.random.default_rng(1)
    return rng.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)


def within_half(values: np.ndarray) -> np.ndarray:
    """Return the values that float16 does not round to infinity; NumPy converts the others."""
    return values[np.abs(values) < 65520]


def by_numpy(values: np.ndarray, dtype: type = np.float16) -> np.ndarray:
    with np.errstate(all="ignore"):
        return values.astype(dtype)


def assert_same_bits(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.dtype == expected.dtype
    bits = f"u{actual.itemsize}"
    np.testing.assert_array_equal(
        np.ascontiguousarray(actual).view(bits), np.ascontiguousarray(expected).view(bits)
    )


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    "values",
    [
        special_values(),
        within_half(special_values()),
        any_bits(2**18),
        within_half(any_bits(2**21)),
        np.ldexp(within_half(any_bits(2**21)), -30),
    ],
    ids=["special values", "finite", "any bits", "finite bits", "small bits"],
)
def test_every_value_is_rounded_to_the_same_bits(values: np.ndarray, dtype: type) -> None:
    target = np.empty(values.shape, dtype)
    round_into(target, values)
    assert_same_bits(target, by_numpy(values, dtype))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_every_value_is_widened_to_the_same_bits(dtype: type) -> None:
    every = np.arange(2**16, dtype=np.uint16).view(dtype)
    finite = every[np.isfinite(every.astype(np.float32))]
    for values in (every, finite, every[: 2**10], every[::-1]):
        target = np.empty(values.shape, np.float32)
        widen_into(target, values)
        assert_same_bits(target, values.astype(np.float32))


def test_every_ulp_of_float32_around_halves() -> None:
    """Halfway points, from just below to just above, for every finite float16."""
    halves = np.sort(FINITE_HALVES.astype(np.float32))
    between = ((halves[1:].astype(np.float64) + halves[:-1]) / 2).astype(np.float32)
    steps = np.arange(-3, 4, dtype=np.int32)[:, np.newaxis]
    values = within_half((between.view(np.int32) + steps).view(np.float32).reshape(-1))
    target = np.empty(values.shape, np.float16)
    round_into(target, values)
    assert_same_bits(target, by_numpy(values))


SHAPES = [(3, CHUNK), (1, 7), (0, 4), (5, 0), (2 * CHUNK + 3, 1), (7, 5, 3, 1100), (MANY,)]
VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "dense": lambda array: array,
    "transposed": lambda array: array.T,
    "backwards": lambda array: array[::-1],
    "turned": lambda array: np.moveaxis(array, 0, -1),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("threads", [1, 3])
def test_any_shape_and_strides(shape: tuple[int, ...], view: str, threads: int) -> None:
    values = VIEWS[view](np.resize(within_half(special_values()), shape))
    with onednn_py.num_threads(threads):
        rounded = np.zeros((*values.shape, 2), np.float16)
        round_into(rounded[..., 0], values)
        assert_same_bits(rounded[..., 0], by_numpy(values))
        assert not rounded[..., 1].any()
        halves = VIEWS[view](np.resize(FINITE_HALVES, shape))
        wide = np.zeros((*halves.shape, 2), np.float32)
        widen_into(wide[..., 0], halves)
        assert_same_bits(wide[..., 0], halves.astype(np.float32))
        assert not wide[..., 1].any()


def test_one_infinity_among_many_values() -> None:
    values = np.resize(within_half(special_values()), MANY)
    values[CHUNK + 1] = np.inf
    halves = np.empty(MANY, np.float16)
    round_into(halves, values)
    assert_same_bits(halves, by_numpy(values))
    wide = np.empty(MANY, np.float32)
    widen_into(wide, halves)
    assert_same_bits(wide, halves.astype(np.float32))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32, np.float64])
def test_float64_is_rounded_once(dtype: type) -> None:
    # Rounded to float32 first, the last value would be a halfway point, and be rounded down.
    values = np.resize([-1.0, 1 / 3, 1 + 2.0**-11 + 2.0**-40], MANY)
    target = np.empty(values.shape, dtype)
    round_into(target, values)
    assert_same_bits(target, values.astype(dtype))


def test_float64_beside_the_middle_of_two_halves() -> None:
    beside = 2.0**-40
    for dtype, last in ((ml_dtypes.bfloat16, 2.0**-7), (np.float16, 2.0**-10)):
        middles = np.array([1 + last / 2, 1 + 3 * last / 2])
        values = np.concatenate([middles - beside, middles, middles + beside])
        expected = [1, 1 + last, 1, 1 + 2 * last, 1 + last, 1 + 2 * last]
        target = np.empty(12, dtype)
        round_into(target, np.concatenate([values, -values]))
        np.testing.assert_array_equal(
            target.astype(np.float64), [*expected, *np.negative(expected)]
        )


def test_float64_without_equal_in_float32() -> None:
    values = np.array([0.0, -0.0, 1e-320, -1e-60, 1e300, -np.inf, np.inf, np.nan, 3.4e38, 1e-40])
    target = np.empty(values.shape, ml_dtypes.bfloat16)
    round_into(target, values)
    assert_same_bits(target[~np.isnan(values)], by_numpy(values, target.dtype)[~np.isnan(values)])
    assert np.isnan(target[7])


def test_overflow_is_infinity_without_a_warning() -> None:
    for size in (2, MANY):
        target = np.empty(size, np.float16)
        round_into(target, np.resize(np.array([1e6, -1e6], np.float32), size))
        np.testing.assert_array_equal(target, np.resize([np.inf, -np.inf], size))


@pytest.mark.parametrize("keeps", [False, True])
def test_subnormals_where_arithmetic_may_drop_them(
    keeps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library built with fast-math makes the threads of a process drop subnormals."""
    assert casting._keeps_subnormals()
    monkeypatch.setattr(casting, "_keeps_subnormals", lambda: keeps)
    found = np.empty(FINITE_HALVES.shape, np.float32)
    widen_into(found, FINITE_HALVES)
    assert_same_bits(found, by_numpy(FINITE_HALVES, np.float32))


def test_dropped_subnormals_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(casting, "_SUBNORMAL", np.zeros(1, np.float32))
    assert not casting._keeps_subnormals()


def test_temporaries_return_to_the_pool() -> None:
    values = np.ones(4 * CHUNK, np.float32)
    target = np.empty(values.shape, np.float16)
    pool.clear()
    for _ in range(5):
        round_into(target, values)
        assert 0 < pool.idle_bytes < 1.2 * casting.current_threads() * casting._Temporaries.NBYTES


def test_dense_halves_are_widened_without_temporaries() -> None:
    values = np.ones(4 * CHUNK, np.float16)
    target = np.empty(values.shape, np.float32)
    pool.clear()
    widen_into(target, values)
    assert pool.idle_bytes == 0
