"""Rounding to float16: NumPy's own values for every kind of number, subnormals too."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from onednn_py.rounding import CHUNK, round_into


def every_kind() -> np.ndarray:
    """Normal, subnormal, halfway, overflowing and special values, of both signs."""
    rng = np.random.default_rng(0)
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    finite = np.sort(halves[np.isfinite(halves)])
    between = (finite[1:].astype(np.float64) + finite[:-1]) / 2
    near = np.nextafter(between.astype(np.float32), np.float32(np.inf))
    random = rng.standard_normal(20_000) * 10.0 ** rng.integers(-9, 6, 20_000)
    return np.concatenate([halves, between.astype(np.float32), near, random.astype(np.float32)])


def plain(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(np.float16)


def test_every_value_is_rounded_as_numpy_does() -> None:
    values = every_kind()
    target = np.empty(values.shape, np.float16)
    round_into(target, values)
    np.testing.assert_array_equal(target, plain(values))
    assert (np.signbit(target) == np.signbit(plain(values)))[~np.isnan(values)].all()


@pytest.mark.parametrize("shape", [(3, CHUNK), (1, 7), (0, 4), (5, 0), (2 * CHUNK + 3, 1)])
def test_any_shape_and_strides(shape: tuple[int, ...]) -> None:
    values = np.resize(every_kind(), shape[::-1]).T
    room = np.zeros((*shape, 2), np.float16)
    round_into(room[..., 0], values)
    np.testing.assert_array_equal(room[..., 0], plain(values))
    assert not room[..., 1].any()


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float32, np.float64])
def test_other_types_are_numpy_s_affair(dtype: type) -> None:
    values = np.linspace(-1, 1, 17)
    target = np.empty(17, dtype)
    round_into(target, values)
    np.testing.assert_array_equal(target, values.astype(dtype))


def test_overflow_is_infinity_without_a_warning() -> None:
    target = np.empty(2, np.float16)
    round_into(target, np.array([1e6, -1e6], np.float32))
    np.testing.assert_array_equal(target, [np.inf, -np.inf])
