"""The comparison of trees of arrays fails on wrong ones."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

pytestmark = pytest.mark.frameworks


@pytest.fixture
def cases() -> Any:
    return importlib.import_module("tests.support.jax_cases")


def test_equal_trees(cases: Any) -> None:
    numpy = importlib.import_module("jax.numpy")
    right = (numpy.arange(6.0).reshape(2, 3), [numpy.ones(2)])
    cases.assert_equal(right, right)
    first, (second,) = right
    for wrong in (
        (first.at[1, 2].add(1e-6), [second]),
        (first.astype("bfloat16"), [second]),
        (first.reshape(3, 2), [second]),
        (first[:1], [second]),
        (first, []),
        (first, [second.at[0].set(numpy.nan)]),
    ):
        with pytest.raises(AssertionError):
            cases.assert_equal(wrong, right)
    with pytest.raises(AssertionError):
        cases.assert_equal((), ())
