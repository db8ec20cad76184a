"""Merged groups keep infinities and what is not a number to themselves."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onednn_py
from onednn_py.backends.numpy.plan import NumPyPlan
from onednn_py.backends.onednn.autotune import integer_tensors
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution import plan as plan_module
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.execution.unmixed import _is_finite, are_unmixed
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.preference import Preference
from onednn_py.backends.onednn.selection.select import candidate_of
from onednn_py.problem.problem import Problem
from tests.support.candidate_runs import FORMATS, CandidateRun
from tests.support.cases import OPERATIONS, case
from tests.support.requirements import needs_onednn

pytestmark = needs_onednn

GEOMETRY = case((9, 8), 3, pads=1, minibatch=2, groups=4, inputs=16, outputs=16)


def merged_plan(operation: str, data_format: str = "NCX") -> OneDNNPlan:
    problem = CandidateRun(GEOMETRY.integers("f32"), operation, data_format).problem
    preference = Preference(Choice("f32", "merged_groups"))
    found = candidate_of(current_engine(), problem, preference)
    assert found is not None
    return OneDNNPlan(current_engine(), found)


def inputs_with(problem: Problem, number: float) -> dict[str, Any]:
    """Return tensors of which an element of the second group of the first input is a number."""
    tensors = integer_tensors(problem)
    name = "dst" if problem.result_role == "src" else "src"
    tensors[name][1, 5, 2, 3] = number
    return tensors


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, 3e38])
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_other_groups_are_finite(operation: str, data_format: str, number: float) -> None:
    plan = merged_plan(operation, data_format)
    problem = plan.problem
    found, expected = inputs_with(problem, number), inputs_with(problem, number)
    with np.errstate(all="ignore"):
        plan.execute(found)
        NumPyPlan(problem).execute(expected)
    np.testing.assert_array_equal(found[problem.result_role], expected[problem.result_role])
    if not np.isfinite(number):
        assert 0 < np.isfinite(found[problem.result_role]).mean() < 1


def test_without_the_second_look_other_groups_would_not_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plan_module, "are_unmixed", lambda *_: True)
    plan = merged_plan("convolution")
    found, expected = inputs_with(plan.problem, np.inf), inputs_with(plan.problem, np.inf)
    with np.errstate(all="ignore"):
        plan.execute(found)
        NumPyPlan(plan.problem).execute(expected)
    assert not np.array_equal(found["dst"], expected["dst"], equal_nan=True)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_finite_results_are_not_computed_again(operation: str) -> None:
    plan = merged_plan(operation)
    tensors = integer_tensors(plan.problem)
    plan.execute(tensors)
    assert are_unmixed(plan.candidates, tensors)
    assert plan._unmerged is None


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_sums_of_any_type_tell_what_is_finite(dtype: Any) -> None:
    """Sums of half precision would be infinite themselves."""
    numbers = np.full((3, 30000), 3, dtype)
    assert _is_finite(numbers)
    for wrong in (np.nan, np.inf, -np.inf):
        numbers[1, 7] = wrong
        assert not _is_finite(numbers)


def test_gradients_of_weights_cannot_mix() -> None:
    plan = merged_plan("convolution_backward_weights")
    tensors = inputs_with(plan.problem, np.nan)
    with np.errstate(all="ignore"):
        plan.execute(tensors)
    assert not np.isfinite(tensors["weights"]).all()
    assert are_unmixed(plan.candidates, tensors)
    assert plan._unmerged is None


def test_unmerged_plans_are_counted() -> None:
    plan = merged_plan("convolution")
    before = plan.nbytes
    with np.errstate(all="ignore"):
        plan.execute(inputs_with(plan.problem, np.nan))
    assert plan.nbytes > before
    assert [one.choice.formulation == "merged_groups" for one in plan.unmerged] == [False]


def test_packed_weights_are_those_of_unmerged_groups() -> None:
    plan = merged_plan("convolution")
    tensors, expected = inputs_with(plan.problem, np.inf), inputs_with(plan.problem, np.inf)
    packed = plan.pack("weights", tensors["weights"])
    assert packed is not None
    assert plan.accepts(packed)
    assert plan.reading_packed("weights").choice.formulation != "merged_groups"
    tensors.pop("weights")
    with np.errstate(all="ignore"):
        plan.execute(tensors, packed)
        NumPyPlan(plan.problem).execute(expected)
    np.testing.assert_array_equal(tensors["dst"], expected["dst"])


def test_16_bits_are_not_merged() -> None:
    for dtype in ("bf16", "f16"):
        problem = CandidateRun(GEOMETRY.integers(dtype), "convolution", "NCX").problem
        preference = Preference(Choice("f32", "merged_groups"))
        assert candidate_of(current_engine(), problem, preference) is None


def test_a_public_call() -> None:
    """Of a size for which CPUs with AVX2 alone merge groups."""
    rng = np.random.default_rng(0)
    src = rng.integers(-3, 4, (4, 32, 32, 32)).astype(np.float32)
    weights = rng.integers(-3, 4, (32, 4, 3, 3)).astype(np.float32)
    src[0, 0, 5, 5] = np.inf
    formats = {"data_format": "NCX", "weights_format": "OIX"}
    results = [
        onednn_py.convolution(
            src, weights, groups=8, pads_begin=1, pads_end=1, backend=backend, **formats
        )
        for backend in ("onednn", "numpy")
    ]
    np.testing.assert_array_equal(*results)
    assert np.isfinite(results[0][:, 4:]).all()
