"""The oracle against plain loops, and the comparison helpers against wrong arrays."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.support.cases import CURATED
from tests.support.reference import DTYPES, assert_close, assert_exact, sparse_integers


def loops(case, src, weights):
    """A convolution as nested loops over everything."""
    dst = np.zeros(case.shape("dst"))
    per_group = case.inputs // case.groups
    for n, o, *x in np.ndindex(*dst.shape):
        first = o // (case.outputs // case.groups) * per_group
        for c, *k in product(range(per_group), *map(range, case.kernel)):
            s = [
                xi * stride + ki * dilation - pad
                for xi, ki, stride, dilation, pad in zip(
                    x, k, case.strides, case.dilations, case.pads_begin, strict=True
                )
            ]
            if all(0 <= si < size for si, size in zip(s, case.size, strict=True)):
                dst[(n, o, *x)] += src[(n, first + c, *s)] * weights[(o, c, *k)]
    return dst


@pytest.mark.parametrize("name", ["1d_strided", "2d_strided_dilated", "2d_groups", "3d_groups"])
def test_oracle_is_the_convolution(name: str) -> None:
    tensors = CURATED[name].integers("f64")
    src, weights = tensors.arrays["src"], tensors.arrays["weights"]
    np.testing.assert_array_equal(tensors.expected("dst"), loops(CURATED[name], src, weights))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_exact_comparison_fails_on_a_wrong_array(dtype: str) -> None:
    expected = np.arange(12.0).reshape(3, 4)
    right = expected.astype(DTYPES[dtype])
    assert_exact(right, expected, dtype)
    wrong = right.copy()
    wrong[2, 3] += np.asarray(1, DTYPES[dtype])
    for bad in (
        wrong,
        right[:2],
        right.astype(np.float64),
        right * np.asarray(np.nan, right.dtype),
    ):
        with pytest.raises(AssertionError):
            assert_exact(bad, expected, dtype)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_close_comparison_fails_on_a_wrong_array(dtype: str) -> None:
    expected = np.linspace(1.0, 2.0, 12).reshape(3, 4)
    right = expected.astype(DTYPES[dtype])
    assert_close(right, expected, dtype, terms=1)
    wrong = expected.copy()
    wrong[1, 1] *= 1.04
    with pytest.raises(AssertionError):
        assert_close(wrong.astype(DTYPES[dtype]), expected, dtype, terms=1)
    with pytest.raises(AssertionError):
        assert_close(right.ravel(), expected, dtype, terms=1)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_integers_are_neither_all_zero_nor_inexact(dtype: str) -> None:
    for terms in (1, 100, 10_000):
        values = sparse_integers(np.random.default_rng(0), (10_000,), dtype, terms=terms)
        assert np.count_nonzero(values), "an all-zero tensor tests nothing"
        np.testing.assert_array_equal(values.astype(np.float64) % 1, 0)
