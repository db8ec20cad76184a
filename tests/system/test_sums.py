"""The bias gradient's sums: exact on integers, precise on dense data, the same bits every time."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import onednn_py
from onednn_py.system import sums
from onednn_py.system.sums import sum_into_bias

DTYPES = [ml_dtypes.bfloat16, np.float16, np.float32, np.float64]

# (N, C, *spatial): few elements and many, several blocks, each way in which a block is summed.
SHAPES = {
    "no image": (0, 5, 4, 4),
    "no pixel": (3, 5, 0),
    "one channel": (3, 1, 90, 70),
    "few elements": (2, 3, 5, 7),
    "few channels": (3, 3, 61, 83),
    "few pixels": (70, 96, 2, 1),
    "some pixels": (9, 40, 7, 7),
    "many channels": (2, 700, 13),
    "many pixels": (2, 4, 97, 103),
    "volume": (3, 6, 11, 12, 13),
    "several blocks": (5, 33, 83, 81),
    "large images": (1, 1, 1100, 1000),
}


def channels_last(values: np.ndarray) -> np.ndarray:
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(values, 1, -1)), -1, 1)


def with_gaps(values: np.ndarray, axis: int) -> np.ndarray:
    """Return the values as every second element along an axis of a larger array."""
    doubled = np.repeat(values, 2, axis=axis)
    doubled[(slice(None),) * axis + (slice(1, None, 2),)] = 77
    return doubled[(slice(None),) * axis + (slice(None, None, 2),)]


def with_channel_gaps_last(values: np.ndarray) -> np.ndarray:
    return np.moveaxis(with_gaps(np.moveaxis(values, 1, -1), values.ndim - 1), -1, 1)


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "channels first": np.ascontiguousarray,
    "channels last": channels_last,
    "images apart": lambda values: with_gaps(values, 0),
    "images apart, channels last": lambda values: np.moveaxis(
        with_gaps(np.ascontiguousarray(np.moveaxis(values, 1, -1)), 0), -1, 1
    ),
    "channels apart": lambda values: with_gaps(values, 1),
    "channels apart, last": with_channel_gaps_last,
    "rows apart": lambda values: with_gaps(values, 2),
    "columns apart": lambda values: with_gaps(values, values.ndim - 1),
    "channels outermost": lambda values: np.ascontiguousarray(values.swapaxes(0, 1)).swapaxes(0, 1),
    "images innermost": lambda values: np.moveaxis(
        np.ascontiguousarray(np.moveaxis(values, 0, -1)), -1, 0
    ),
    "backwards": lambda values: values[..., ::-1],
}


def sums_of(diff_dst: np.ndarray) -> np.ndarray:
    bias = np.full(diff_dst.shape[1], 55, diff_dst.dtype)
    sum_into_bias(bias, diff_dst)
    return bias


def in_float64(diff_dst: np.ndarray) -> np.ndarray:
    axes = (0, *range(2, diff_dst.ndim))
    return diff_dst.astype(np.float64).sum(axis=axes)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_integers_are_summed_exactly(dtype: type, layout: str) -> None:
    rng = np.random.default_rng(0)
    for name, shape in SHAPES.items():
        diff_dst = LAYOUTS[layout](rng.integers(-2, 3, shape).astype(dtype))
        # Sums beyond a narrow type's integers are rounded once.
        np.testing.assert_array_equal(sums_of(diff_dst), in_float64(diff_dst).astype(dtype), name)


@pytest.mark.parametrize("layout", ["channels first", "channels last"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shape", [(1, 2, 1200, 900), (200, 5, 31, 31), (40, 150, 20, 1)], ids=str)
def test_many_numbers_lose_no_digits(shape: tuple[int, ...], dtype: type, layout: str) -> None:
    """Numbers of one sign, where errors of many small additions would add up."""
    diff_dst = LAYOUTS[layout](np.random.default_rng(0).uniform(0.5, 1, shape)).astype(dtype)
    expected = in_float64(diff_dst)
    with np.errstate(over="ignore"):
        rounded = expected.astype(dtype).astype(np.float64)
    # Half a unit in the last place is the rounding at the end, the rest is the sum's.
    tolerance = {np.float32: 1.5 * 2.0**-23, np.float64: 2.0**-40}.get(dtype)
    if tolerance is None:
        tolerance = 0.51 * float(ml_dtypes.finfo(dtype).eps)
    found = sums_of(diff_dst).astype(np.float64)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(found[~finite], rounded[~finite])
    np.testing.assert_array_less(
        np.abs(found - expected)[finite], (tolerance * np.abs(expected))[finite]
    )


@pytest.mark.parametrize("layout", ["channels first", "channels last"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_the_same_bits_on_any_number_of_threads(
    dtype: type, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums, "SINGLE_THREADED", 0)
    monkeypatch.setattr(sums, "SINGLE_THREADED_HALVES", 0)
    values = np.random.default_rng(0).standard_normal((6, 33, 90, 80)).astype(dtype)
    diff_dst = LAYOUTS[layout](values)
    found = []
    for threads in (1, 2, 3, 3, 3):
        with onednn_py.num_threads(threads):
            found.append(sums_of(diff_dst).tobytes())
    assert len(set(found)) == 1


def test_overflow_is_infinity_without_a_warning() -> None:
    diff_dst = np.full((2, 3, 100, 100), 60000, np.float16)
    np.testing.assert_array_equal(sums_of(diff_dst), np.full(3, np.inf, np.float16))


def test_what_is_not_finite_stays_in_its_channel() -> None:
    diff_dst = np.ones((2, 3, 100, 100), np.float32)
    diff_dst[1, 0, 50, 50], diff_dst[0, 2, 1, 2] = np.nan, -np.inf
    for layout in ("channels first", "channels last"):
        np.testing.assert_array_equal(sums_of(LAYOUTS[layout](diff_dst)), [np.nan, 2e4, -np.inf])
