"""Exact sums must be equal, other sums may differ by no more than rounding."""

from __future__ import annotations

import numpy as np
import pytest

from onednn_py.tools.graph_files.agreement import Tolerance
from onednn_py.tools.graph_files.calls import FILE_DTYPES
from tests.support.native_programs import DTYPES

TERMS = 4096


def vectors(dtype: str, integers: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    shape = (1, 64, TERMS)
    if integers:
        pair = [rng.integers(-4, 5, shape) for _ in range(2)]
    else:
        pair = [rng.standard_normal(shape) for _ in range(2)]
    return pair[0].astype(DTYPES[dtype]), pair[1].astype(DTYPES[dtype])


def sums(first: np.ndarray, second: np.ndarray, *, backwards: bool = False) -> np.ndarray:
    """Return sums of products, accumulated in order in float32 and rounded to the type."""
    products = first.astype(np.float32) * second.astype(np.float32)
    if backwards:
        products = products[..., ::-1]
    return np.add.accumulate(products, axis=-1)[..., -1:].astype(first.dtype)


def tolerance(first: np.ndarray, second: np.ndarray, dtype: str) -> Tolerance:
    return Tolerance(dtype, {"src": first, "weights": second}, TERMS)


@pytest.mark.parametrize("dtype", FILE_DTYPES)
def test_integers_must_be_equal(dtype: str) -> None:
    first, second = vectors(dtype, integers=True)
    strict = tolerance(first, second, dtype)
    assert strict.exact
    right = sums(first, second)
    assert strict.compare("numpy", right, sums(first, second, backwards=True)).status == "equal"
    wrong = right.copy()
    wrong[0, 3, 0] = np.nextafter(wrong[0, 3, 0].astype(np.float32), np.float32(1e9)) * 1.01
    found = strict.compare("numpy", wrong, right)
    assert found.status == "differs"
    assert "1 of 64 elements, first at (0, 3, 0)" in found.detail
    assert found.detail.endswith("expected equality")


@pytest.mark.parametrize("dtype", FILE_DTYPES)
def test_another_order_is_close_and_missing_terms_are_not(dtype: str) -> None:
    first, second = vectors(dtype)
    lenient = tolerance(first, second, dtype)
    assert not lenient.exact
    forwards, backwards = sums(first, second), sums(first, second, backwards=True)
    assert lenient.compare("native", forwards, backwards).status in ("equal", "close")
    partial = sums(first[..., : TERMS - 64], second[..., : TERMS - 64])
    found = lenient.compare("native", partial, forwards)
    assert found.status == "differs"
    assert "expected at most" in found.detail


def test_integers_too_large_for_exact_sums() -> None:
    large = np.full((1, 1, TERMS), 1000, np.float32)
    assert not tolerance(large, large, "f32").exact
    assert tolerance(large, large / 1000, "f32").exact
    bias = np.full(1, 2**24, np.float32)
    assert not Tolerance("f32", {"src": large, "weights": large / 1000, "bias": bias}, TERMS).exact


def test_values_that_are_not_finite() -> None:
    first, second = vectors("f32")
    lenient = tolerance(first, second, "f32")
    values = np.array([1.0, np.nan, np.inf, -np.inf], np.float32)
    assert lenient.compare("numpy", values, values.copy()).status == "equal"
    for other in (np.nan, -np.inf, 1.0):
        wrong = values.copy()
        wrong[2] = other
        found = lenient.compare("numpy", values, wrong)
        assert (found.status, found.difference) == ("differs", np.inf)


def test_shape_type_and_emptiness() -> None:
    empty = np.zeros((1, 0, 3), np.float32)
    lenient = Tolerance("f32", {"src": empty, "weights": empty}, 0)
    assert lenient.compare("numpy", empty, empty).status == "equal"
    for other in (empty.transpose(0, 2, 1), empty.astype(np.float16)):
        assert lenient.compare("numpy", empty, other).status == "differs"
