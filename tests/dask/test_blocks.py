"""The functions on dask arrays: equal to those on NumPy's, for drawn geometries and chunks."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.support.cases import CURATED, Case
from tests.support.dask_cases import DASK_FUNCTIONS, assert_equal_values, check_blocks
from tests.support.reproduction import reproduction
from tests.support.strategies import geometries

pytestmark = pytest.mark.frameworks


def repeat(case: Case, dtype: str, function: str, seed: int, data_format: str, form: str) -> None:
    check_blocks(
        case.integers(dtype),
        function,
        seed,
        data_format=data_format,
        weights_first=data_format == "NCX",
        form=form,
    )


@pytest.mark.parametrize("function", DASK_FUNCTIONS)
@hypothesis.given(
    case=geometries(),
    dtype=st.sampled_from(["f32", "f32", "bf16", "f16", "f64"]),
    seed=st.integers(0, 10**6),
    data_format=st.sampled_from(["NXC", "NCX"]),
    form=st.sampled_from(["native", "documented"]),
)
@hypothesis.settings(max_examples=150)
def test_drawn_geometries_and_chunks(
    function: str, case: Case, dtype: str, seed: int, data_format: str, form: str
) -> None:
    arguments = (case, dtype, function, seed, data_format, form)
    hypothesis.note(reproduction(__name__, f"repeat{arguments!r}"))
    repeat(*arguments)


@pytest.mark.parametrize("function", DASK_FUNCTIONS)
@pytest.mark.parametrize("name", CURATED)
def test_curated_geometries(name: str, function: str) -> None:
    for seed, dtype in enumerate(("f32", "bf16")):
        repeat(CURATED[name], dtype, function, seed, "NXC", "native")


def test_the_comparison_fails_on_a_wrong_array() -> None:
    right = np.arange(6, dtype=np.float32).reshape(2, 3)
    wrong = right.copy()
    wrong[1, 2] += 1
    assert_equal_values(right, right.copy())
    for other in (wrong, right.astype(np.float64), right.ravel(), right[:1]):
        with pytest.raises(AssertionError):
            assert_equal_values(other, right)
    with pytest.raises(AssertionError):
        assert_equal_values((right, wrong), (right, right))
