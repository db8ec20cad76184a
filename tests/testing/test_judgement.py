"""Comparisons of arrays: they find one wrong element, NaN, other types and other shapes."""

from __future__ import annotations

import warnings

import ml_dtypes
import numpy as np
import pytest

from onednn_py.testing.judgement import (
    difference,
    differences,
    distance,
    fit_to_limits,
    threshold,
    too_many_zeros,
)
from onednn_py.testing.runners import run_float64
from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import Case

SMALL = Case(parse_descriptor("ic16ih7oc24kh3ph1"), "BWD_D", "f32", "NCX")
TYPES = (np.float32, np.float16, ml_dtypes.bfloat16)


@pytest.mark.parametrize("dtype", TYPES)
def test_difference_sees_one_element_and_nan(dtype: type) -> None:
    expected = np.arange(6).reshape(2, 3).astype(dtype)
    assert difference(expected, expected.copy()) == ""
    assert difference(np.negative(expected * 0), expected * 0) == ""
    for value in (7, np.nan, np.inf):
        wrong = expected.copy()
        wrong[1, 2] = value
        assert "1 of 6 elements differ, the first at (1, 2)" in difference(wrong, expected)
    assert "expected" in difference(expected[:1], expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_signalling_nan_is_a_wrong_element(dtype: type) -> None:
    """Memory that was never written may hold one, for which NumPy warns."""
    expected = np.ones((2, 3), dtype)
    wrong, bits = expected.copy(), expected.dtype.itemsize * 8
    quiet = int(np.array(np.nan, dtype).view(f"u{bits // 8}"))
    mantissa = {np.float32: 23, np.float16: 10}.get(dtype, 7)
    wrong.view(f"u{bits // 8}")[1, 2] = (quiet & ~(1 << (mantissa - 1))) | 1
    assert np.isnan(wrong[1, 2].astype(np.float32))
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "1 of 6" in difference(wrong, expected)
        assert "(1, 2)" in distance(wrong, expected, 7e-3)


def test_difference_names_types_and_shapes() -> None:
    expected = np.zeros((2, 3), np.float32)
    assert difference(expected.astype(float), expected) == (
        "float64 (2, 3), expected float32 (2, 3)"
    )
    assert difference(expected.T, expected) == "float32 (3, 2), expected float32 (2, 3)"
    big_endian = expected.astype(">f4")
    assert difference(big_endian, expected).startswith(">f4 (2, 3), expected float32")
    assert "object" in difference(expected.astype(object), expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_distance_takes_rounding_and_finds_a_wrong_element(dtype: type) -> None:
    expected = np.arange(1, 101).astype(dtype)
    close = np.nextafter(expected, expected.dtype.type(1000))
    assert (close != expected).all()
    assert distance(close, expected, 7e-3) == ""
    for value in (0, np.nan, np.inf):
        wrong = expected.copy()
        wrong[60] = value
        found = distance(wrong, expected, 7e-3)
        assert "the largest at (60,): " in found, value
        assert f"expected {expected[60]}" in found
    zeros = expected * 0
    assert distance(zeros, zeros, 1e-5) == ""
    assert distance(expected, zeros, 1e-5)
    assert "expected" in distance(expected[:1], expected, 1)


@pytest.mark.parametrize(("dtype", "rounding"), [("f32", 2e-5), ("f16", 7e-3), ("bf16", 7e-3)])
def test_distance_finds_one_wrong_element_among_very_many(dtype: str, rounding: float) -> None:
    rng = np.random.default_rng(0)
    kind = SMALL.__class__(SMALL.descriptor, "BWD_D", dtype, "NCX").numpy_dtype
    expected = rng.integers(-30, 31, 300_000).astype(kind)
    expected[777] = 20
    # Errors whose norm is as large as is allowed, nearly.
    scale = 0.9 * rounding * np.sqrt(np.mean(expected.astype(float) ** 2))
    noisy = expected.astype(float) + scale * rng.normal(size=expected.size)
    if dtype == "f32":
        assert distance(noisy.astype(kind), expected, rounding) == ""
    assert distance(expected.copy(), expected, rounding) == ""
    wrong = expected.copy()
    wrong[777] = 0
    found = distance(wrong, expected, rounding)
    assert "at (777,): 0.0, expected 20.0" in found or "at (777,): 0, expected 20" in found


def test_thresholds_are_benchdnns() -> None:
    values = {"f32": 2e-5, "f16": 7e-3}
    for dtype, value in values.items():
        case = Case(parse_descriptor("mb2ic3ih8oc4kh3ph1"), "BWD_D", dtype, "NCX")
        assert threshold(case) == value
        weights = Case(case.descriptor, "BWD_WB", dtype, "NCX")
        # mb 2, 8 x 8 windows.
        assert threshold(weights) == pytest.approx(value * (2 * 8 * 8 / 8) ** 0.4)
    tiny = Case(parse_descriptor("mb1ic3ih1oc4kh1"), "BWD_W", "f32", "NCX")
    assert threshold(tiny) == 2e-5


def test_differences_name_the_tensor() -> None:
    case = Case(SMALL.descriptor, "BWD_WB", "f32", "NCX")
    expected, _ = run_float64(case, case.tensors())
    weights, bias = (array.copy() for array in expected)
    assert differences(case, [weights, bias], expected) == ""
    bias[3] += 1
    for exact in (True, False):
        found = differences(case, [weights, bias], expected, exact=exact)
        assert found.startswith("diff_bias: ")
        assert "at (3,)" in found


def test_mostly_zero_results_are_not_trusted() -> None:
    # Nearly all windows of the forward pass lie in the padding.
    case = Case(parse_descriptor("ic4iw2oc4kw1pw20"), "FWD_D", "f32", "NCX")
    expected, _ = run_float64(case, case.tensors())
    assert "of dst is not zero" in too_many_zeros(case, expected)
    expected, _ = run_float64(SMALL, SMALL.tensors())
    assert too_many_zeros(SMALL, expected) == ""


def test_limits() -> None:
    flops = SMALL.with_minibatch(1).descriptor.flops
    large = SMALL.with_minibatch(8)
    assert fit_to_limits(large, 8 * flops) == (large, "")
    assert fit_to_limits(large, flops) == (SMALL.with_minibatch(1), "")
    assert "floating-point operations" in fit_to_limits(large, flops - 1)[1]
    huge = Case(parse_descriptor("ic1iw1000000000oc1kw1"), "BWD_D", "f32", "NCX")
    assert "elements" in fit_to_limits(huge, float("inf"))[1]
    assert fit_to_limits(SMALL.with_minibatch(0), 1.0)[1] == "no elements to compute"
