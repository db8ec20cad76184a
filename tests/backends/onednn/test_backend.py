"""The oneDNN backend: when it measures, and what it makes of wisdom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError, wisdom
from onednn_py.backends.onednn import autotune, backend, machine_here, recall
from onednn_py.backends.onednn.autotune import Measured
from onednn_py.backends.onednn.binding.engine import Engine
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import build_plan
from onednn_py.backends.onednn.selection import workspace
from onednn_py.backends.onednn.wisdom import store
from onednn_py.backends.onednn.wisdom.entry import Entry
from onednn_py.errors import OneDNNError
from onednn_py.problem.problem import Problem
from tests.support.candidate_runs import NETWORKS, CandidateRun, plan_problem
from tests.support.cases import CURATED, Case
from tests.support.requirements import needs_onednn
from tests.support.wisdom_cases import empty_store  # noqa: F401 - a fixture

pytestmark = [needs_onednn, pytest.mark.usefixtures("fresh_cache", "empty_store")]

BLOCKED_CHANNELS = CURATED["2d_blocked_channels"]

# Of a convolution.
TENSORS = np.ones((2, 12, 12, 8), np.float32), np.ones((3, 3, 8, 8), np.float32)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the problems that the backend has measured."""
    names: list[str] = []

    def measure(engine: Engine, problem: Problem, reference: Any, budget: float) -> Measured:
        names.append(problem.name)
        return autotune.measure(engine, problem, reference, min(budget, 0.3))

    monkeypatch.setattr(backend, "measure", measure)
    return names


def run_of(geometry: Case = BLOCKED_CHANNELS, operation: str = "convolution") -> CandidateRun:
    return CandidateRun(geometry.integers("f32"), operation, "NCX")


class TestEffort:
    """Measuring is asked for by an argument, a context or the environment."""

    @pytest.fixture(params=["plan", "plan in context", "context", "environment"])
    def measure_by(
        self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[..., Any]:
        function = onednn_py.convolution_backward_data

        def call(*tensors: Any) -> Any:
            if request.param == "plan":
                return onednn_py.plan(function, *tensors, effort="measure")(*tensors)
            if request.param == "environment":
                with monkeypatch.context() as patched:
                    patched.setenv("ONEDNN_PY_EFFORT", "measure")
                    return function(*tensors)
            with onednn_py.use_effort("measure"):
                if request.param == "plan in context":
                    return onednn_py.plan(function, *tensors)(*tensors)
                return function(*tensors)

        return call

    def test_measured_once_and_remembered(
        self, measure_by: Callable[..., Any], measured: list[str]
    ) -> None:
        diff_dst, weights = np.ones((2, 8, 8, 16), np.float32), np.ones((3, 3, 8, 16), np.float32)
        expected = onednn_py.convolution_backward_data(diff_dst, weights)
        assert not measured
        for _ in range(3):
            np.testing.assert_array_equal(measure_by(diff_dst, weights), expected)
        (name,) = measured
        entry = store.recall(machine_here(), name)
        assert entry is not None
        assert entry.gain >= 1
        # Later plans of any effort recall the choice, and nothing is measured again.
        onednn_py.cache_clear()
        planned = onednn_py.plan(onednn_py.convolution_backward_data, diff_dst, weights)
        assert planned._current()[1].choice.as_dict() == entry.choice
        np.testing.assert_array_equal(measure_by(diff_dst, weights), expected)
        assert len(measured) == 1

    def test_what_the_rules_choose_beyond_the_limit_of_memory_is_known(
        self, measured: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where no candidate keeps the limit, that of least memory is taken and remembered."""
        monkeypatch.setattr(workspace, "SMALL_TENSORS", 0)
        monkeypatch.setattr(workspace, "LARGEST_WORKSPACE", 0.0)
        monkeypatch.setattr(autotune, "candidates", lambda *arguments: iter(()))
        for _ in range(3):
            onednn_py.cache_clear()
            onednn_py.plan(onednn_py.convolution, *TENSORS, effort="measure")
        assert len(measured) == 1

    def test_the_argument_goes_before_the_context(self, measured: list[str]) -> None:
        with onednn_py.use_effort("measure"):
            onednn_py.plan(onednn_py.convolution, *TENSORS, effort="heuristic")
        assert not measured
        with onednn_py.use_effort("heuristic"):
            onednn_py.plan(onednn_py.convolution, *TENSORS, effort="measure")
        assert len(measured) == 1
        with pytest.raises(AttributeValueError, match="effort: expected one of heuristic, m"):
            onednn_py.plan(onednn_py.convolution, *TENSORS, effort="patient")

    def test_a_new_measurement_leaves_other_plans_alone(self, measured: list[str]) -> None:
        """They stay in the cache, the heuristic plan of the same problem too."""
        others = TENSORS[0][:, 2:].copy(), TENSORS[1]
        for each in (TENSORS, others):
            onednn_py.convolution(*each)
        before = onednn_py.cache_info().misses
        with onednn_py.use_effort("measure"):
            onednn_py.convolution(*TENSORS)
        assert (len(measured), onednn_py.cache_info().misses) == (1, before + 1)
        for _ in range(2):
            for each in (TENSORS, others):
                onednn_py.convolution(*each)
            with onednn_py.use_effort("measure"):
                onednn_py.convolution(*TENSORS)
        assert (len(measured), onednn_py.cache_info().misses) == (1, before + 1)

    def test_forgotten_wisdom_is_measured_again(self, measured: list[str]) -> None:
        planned = onednn_py.plan(onednn_py.convolution, *TENSORS, effort="measure")
        planned(*TENSORS)
        assert len(measured) == 1
        wisdom.forget()
        planned(*TENSORS)
        assert len(measured) == 2

    def test_many_threads_measure_once(self, measured: list[str]) -> None:
        def work(_: int) -> float:
            with onednn_py.use_effort("measure"):
                return float(onednn_py.convolution(*TENSORS).sum())

        with ThreadPoolExecutor(6) as pool:
            assert set(pool.map(work, range(12))) == {72.0 * 2 * 10 * 10 * 8}
        assert len(measured) == 1

    def test_a_measured_plan_lists_the_timings(self) -> None:
        problem = run_of(NETWORKS["3x3_stride"]).problem
        plan = plan_problem(problem, effort="measure")
        assert plan.timings
        assert "  measured:\n" in repr(plan)
        for name, microseconds in plan.timings:
            assert f"{microseconds:10.1f} us  {name}" in repr(plan)
        assert "measured" not in repr(plan_problem(problem))

    def test_what_numpy_runs_is_not_measured(self, measured: list[str]) -> None:
        src, weights = np.ones((1, 8, 8, 4)), np.ones((3, 3, 4, 4))
        single = src.astype(np.float32), weights.astype(np.float32)
        with onednn_py.use_effort("measure"):
            for name in ("auto", "numpy"):
                onednn_py.convolution(src, weights, backend=name)
                onednn_py.convolution(single[0][:0], single[1], backend=name)
            onednn_py.convolution(*single, backend="numpy")
        assert not measured
        assert not store._known


class TestWisdom:
    """Choices that wisdom has of a problem, valid ones and others."""

    def remember(self, run: CandidateRun, choice: Mapping[str, Any]) -> None:
        entry = Entry(choice, 1.0, 2.0)
        store.remember(machine_here(), run.problem.name, entry)
        onednn_py.cache_clear()

    def test_every_valid_choice_is_taken(self) -> None:
        for operation in ("convolution_backward_data", "conv_transpose"):
            run = run_of(CURATED["2d_1x1_strided"], operation)
            for candidate in run.candidates():
                self.remember(run, candidate.choice.as_dict())
                plan = plan_problem(run.problem)
                assert plan.choice == candidate.choice
                run.check(plan)

    @pytest.mark.parametrize(
        "changes",
        [
            {"implementation": "jit:avx1024_core"},
            {"implementation": "ref"},
            {"activations": "given", "weights": "given", "implementation": "brgconv:none"},
            {"formulation": "strided_1x1"},
            {"formulation": "as_convolution"},
        ],
        ids=str,
    )
    def test_a_choice_that_onednn_has_not_is_replaced(
        self, changes: dict[str, Any], measured: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        run = run_of()
        expected = build_plan(current_engine(), run.problem).choice
        self.remember(run, {**expected.as_dict(), **changes})
        plan = plan_problem(run.problem)
        assert plan.choice == expected
        assert f"wisdom: ignored for {run.problem.name}: oneDNN has no " in caplog.text
        assert recall(run.problem) is None
        assert not measured
        run.check(plan)
        run.check(plan_problem(run.problem, effort="measure"))
        assert len(measured) == 1
        assert recall(run.problem) is not None

    @pytest.mark.parametrize(
        "choice",
        [
            *({}, {"compute_dtype": 1}, {"compute_dtype": None}, {"compute_dtype": "bf16"}),
            *({"compute_dtype": "double"}, {"compute_dtype": "f32", "reference": "yes"}),
            *({"compute_dtype": "f32", "threads": threads} for threads in (-3, True, 4)),
            *({"compute_dtype": "f32", name: "none"} for name in ("formulation", "weights")),
            *({"compute_dtype": "f32", name: "more"} for name in ("activations", "another")),
            {"implementation": "jit:avx2"},
        ],
        ids=str,
    )
    def test_what_is_no_choice_is_ignored(
        self, choice: dict[str, Any], measured: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        run = run_of()
        self.remember(run, choice)
        plan = plan_problem(run.problem)
        assert plan.choice == build_plan(current_engine(), run.problem).choice
        assert f"wisdom: ignored for {run.problem.name}: " in caplog.text
        run.check(plan)
        # Measuring replaces it.
        plan_problem(run.problem, effort="measure")
        assert len(measured) == 1
        assert store.recall(machine_here(), run.problem.name).choice != choice

    def test_an_error_of_onednn_leaves_the_plan_to_the_rules(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fails(*arguments: Any) -> None:
            raise OneDNNError("dnnl_convolution_primitive_desc_create", "runtime_error", "broken")

        run = run_of()
        expected = build_plan(current_engine(), run.problem).choice
        self.remember(run, expected.as_dict())
        monkeypatch.setattr(backend, "chosen", fails)
        assert plan_problem(run.problem).choice == expected
        assert "broken" in caplog.text

    def test_it_is_bound_to_the_number_of_threads(self, measured: list[str]) -> None:
        if onednn_py.get_num_threads() == 1:
            pytest.skip("one thread only")
        with onednn_py.use_effort("measure"):
            onednn_py.convolution(*TENSORS)
            with onednn_py.num_threads(1):
                onednn_py.convolution(*TENSORS)
        assert len(measured) == 2
        assert {machine.threads for machine, _ in store._known} == {1, onednn_py.get_num_threads()}
