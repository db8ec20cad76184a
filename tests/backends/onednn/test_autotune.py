"""Plans by measuring: the fastest that is right is kept, remembered, and taken from then on."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError, wisdom
from onednn_py.backends.numpy import NumpyPlan
from onednn_py.backends.onednn import autotune as tune
from onednn_py.backends.onednn.autotune import Measured, described, measure
from onednn_py.backends.onednn.binding.runtime import runtime
from onednn_py.backends.onednn.execution.plan import NativePlan
from onednn_py.backends.onednn.selection.select import build_plan
from onednn_py.dispatch import planner as dispatch
from onednn_py.errors import OneDNNError
from onednn_py.problem.problem import Problem
from onednn_py.wisdom import Entry
from tests.support.candidate_runs import NETWORKS, Way
from tests.support.cases import CURATED, OPERATIONS
from tests.support.forks import child_while_held, needs_fork
from tests.support.requirements import needs_onednn

pytestmark = [needs_onednn, pytest.mark.usefixtures("fresh_cache")]

BUDGET = 0.3

# Of a convolution.
TENSORS = np.ones((2, 12, 12, 8), np.float32), np.ones((3, 3, 8, 8), np.float32)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wisdom, "_known", OrderedDict())


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the problems that dispatch has measured."""
    names: list[str] = []

    def noted(api: Any, problem: Any, reference: Any, budget: float) -> Any:
        names.append(problem.name)
        return measure(api, problem, reference, min(budget, BUDGET))

    monkeypatch.setattr(dispatch, "measure", noted)
    return names


def way_of(name: str = "2d_blocked_channels", operation: str = "convolution", **more: str) -> Way:
    geometry = {**CURATED, **NETWORKS}[name]
    return Way(geometry.integers(more.get("dtype", "f32")), operation, more.get("format", "NCX"))


def measure_problem(problem: Problem, budget: float = BUDGET) -> Measured:
    return measure(runtime(), problem, NumpyPlan(problem).execute, budget)


def measure_way(way: Way) -> Measured:
    return measure_problem(way.problem)


class TestMeasure:
    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_the_winner_is_right(self, operation: str) -> None:
        for name, dtype, data_format in (
            ("1x1_stride_tail", "f32", "NXC"),
            ("2d_groups_16", "bf16", "NCX"),
        ):
            way = way_of(name, operation, dtype=dtype, format=data_format)
            found = measure_way(way)
            way.check(found.plan)
            assert 0 < found.microseconds <= found.heuristic_microseconds
            names = [timing[0] for timing in found.timings]
            assert described(found.plan.choice) in names
            assert described(build_plan(runtime(), way.problem).choice) in names
            assert len(names) == len(set(names)) > 1
            times = [timing[1] for timing in found.timings]
            assert times == sorted(times)
            assert min(times) > 0

    def test_without_any_time_it_is_the_heuristic_choice(self) -> None:
        way = way_of("3x3_stride")
        found = measure_problem(way.problem, 0)
        assert found.plan.choice == build_plan(runtime(), way.problem).choice
        assert found.microseconds == found.heuristic_microseconds
        assert len(found.timings) == 1
        way.check(found.plan)

    def test_the_fastest_wins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def slowed(plan: NativePlan) -> NativePlan:
            run = plan.run
            plan.run = lambda *arguments: (time.sleep(0.01), run(*arguments))
            return plan

        way = way_of()
        with monkeypatch.context() as patched:
            patched.setattr(tune, "build_plan", lambda *arguments: slowed(build_plan(*arguments)))
            found = measure_way(way)
        assert found.microseconds < found.heuristic_microseconds
        assert found.heuristic_microseconds > 10_000
        monkeypatch.setattr(tune, "NativePlan", lambda *arguments: slowed(NativePlan(*arguments)))
        found = measure_way(way)
        assert found.plan.choice == build_plan(runtime(), way.problem).choice

    def test_strided_tensors(self) -> None:
        """Measured on the caller's layout, whose gaps stay untouched."""
        src = np.ones((2, 9, 9, 24), np.float32)[..., ::2][..., :8]
        weights = np.ones((3, 3, 8, 6), np.float32)
        out = np.full((2, 7, 7, 13), 9, np.float32)
        with onednn_py.use_effort("measure"):
            onednn_py.convolution(src, weights, out=out[..., 1::2])
        np.testing.assert_array_equal(out[..., 1::2], 72)
        np.testing.assert_array_equal(out[..., ::2], 9)

    @pytest.mark.parametrize("stage", ["create", "execute"])
    def test_a_candidate_that_fails_is_passed_over(
        self, stage: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        way = way_of()
        caplog.set_level(logging.INFO, "onednn_py")

        class Failing(NativePlan):
            def __init__(self, api: Any, *parts: Any, **more: Any) -> None:
                super().__init__(api, *parts, **more)
                if stage == "create":
                    raise OneDNNError("dnnl_primitive_create", "out_of_memory")
                self.run = self.fail

            def fail(self, *arguments: Any) -> None:
                raise OneDNNError("dnnl_primitive_execute", "runtime_error")

        monkeypatch.setattr(tune, "NativePlan", Failing)
        found = measure_way(way)
        assert found.plan.choice == build_plan(runtime(), way.problem).choice
        assert len(found.timings) == 1
        way.check(found.plan)
        assert "fails: dnnl_primitive_" in caplog.text

    def test_a_candidate_that_computes_something_else_is_passed_over(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """However fast: one that does nothing, and one that is wrong in a single element."""
        for operation in ("convolution_backward_weights", "convolution_backward_data"):
            way = way_of(operation=operation)
            for harmed in (None, way.problem.result_name, "bias"):
                if harmed != "bias" or way.problem.bias is not None:
                    self.check_wrong(way, harmed, monkeypatch, caplog)

    def check_wrong(self, way: Way, harmed: str | None, monkeypatch: Any, caplog: Any) -> None:
        caplog.clear()

        class Wrong(NativePlan):
            needs_arrays = property(lambda self: True, lambda self, value: None)

            def execute(self, tensors: Any, *more: Any) -> None:
                if harmed is not None:
                    super().execute(tensors, *more)
                    tensors[harmed][(-1,) * tensors[harmed].ndim] += 1

        with monkeypatch.context() as patched:
            patched.setattr(tune, "NativePlan", Wrong)
            found = measure_way(way)
        assert type(found.plan) is NativePlan
        assert len(found.timings) == 1
        assert "computes something else: passed over" in caplog.text
        way.check(found.plan)

    @pytest.mark.parametrize("all_wrong", [False, True])
    def test_a_wrong_heuristic_choice_is_passed_over(
        self, all_wrong: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Defects of oneDNN that no guard knows: NumPy says who is right."""
        way = way_of()

        class Wrong(NativePlan):
            needs_arrays = property(lambda self: True, lambda self, value: None)

            def execute(self, tensors: Any, *more: Any) -> None:
                super().execute(tensors, *more)
                wrong = tensors[way.problem.result_name]
                wrong[...] = self.choice.implementation.startswith("x64")
                wrong[...] += 1

        def build_wrong(api: Any, problem: Problem) -> NativePlan:
            return Wrong(api, build_plan(api, problem).parts[0])

        monkeypatch.setattr(tune, "build_plan", build_wrong)
        if all_wrong:
            monkeypatch.setattr(tune, "NativePlan", Wrong)
            with pytest.raises(OneDNNError, match="every implementation is wrong"):
                measure_way(way)
            return
        found = measure_way(way)
        assert type(found.plan) is NativePlan
        assert "computes something else: passed over" in caplog.text
        way.check(found.plan)

    def test_one_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two measurements at once would disturb each other."""
        running, most = [], []
        begin = tune._measure

        def noted(*arguments: Any) -> Any:
            running.append(1)
            most.append(len(running))
            try:
                return begin(*arguments)
            finally:
                running.pop()

        monkeypatch.setattr(tune, "_measure", noted)
        problems = [way_of(name).problem for name in ("2d", "2d_dilated", "1d", "2d_groups")]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda problem: measure_problem(problem, 0.05), problems))
        assert len(found) == len(most) == 4
        assert max(most) == 1

    @needs_fork
    def test_a_child_forked_while_its_parent_measures(self) -> None:
        def measured() -> object:
            return measure_problem(way_of().problem, 0.05).timings

        assert child_while_held(tune._measuring, measured) == 0


class TestEffort:
    """Who asks for measuring, and what comes of it."""

    @pytest.fixture(params=["plan", "plan in context", "context", "environment"])
    def measure_by(
        self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Any]:
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

    def test_measured_once_and_remembered(self, measure_by: Any, measured: list[str]) -> None:
        diff_dst, weights = np.ones((2, 8, 8, 16), np.float32), np.ones((3, 3, 8, 16), np.float32)
        expected = onednn_py.convolution_backward_data(diff_dst, weights)
        assert not measured
        for _ in range(3):
            np.testing.assert_array_equal(measure_by(diff_dst, weights), expected)
        (name,) = measured
        entry = wisdom.recall(dispatch.machine_here(), name)
        assert entry is not None
        assert entry.gain >= 1
        # Recalled, not measured again, by whoever plans from now on.
        onednn_py.cache_clear()
        planned = onednn_py.plan(onednn_py.convolution_backward_data, diff_dst, weights)
        assert planned._current()[1].choice.as_dict() == entry.choice
        np.testing.assert_array_equal(measure_by(diff_dst, weights), expected)
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
        """The heuristic plan of the same problem, too, stays in the cache."""
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

    def test_timings_are_told(self) -> None:
        way = way_of("3x3_stride")
        plan = dispatch.plan_problem(way.problem, "onednn", "measure")
        assert plan.timings
        assert "  measured:\n" in repr(plan)
        for name, microseconds in plan.timings:
            assert f"{microseconds:10.1f} us  {name}" in repr(plan)
        assert "measured" not in repr(dispatch.plan_problem(way.problem, "onednn"))

    def test_what_numpy_runs_is_not_measured(self, measured: list[str]) -> None:
        src, weights = np.ones((1, 8, 8, 4)), np.ones((3, 3, 4, 4))
        with onednn_py.use_effort("measure"):
            for backend in ("auto", "numpy"):
                onednn_py.convolution(src, weights, backend=backend)
                single = [array.astype(np.float32) for array in (src, weights)]
                onednn_py.convolution(single[0][:0], single[1], backend=backend)
            onednn_py.convolution(*single, backend="numpy")
        assert not measured
        assert not wisdom._known


class TestWisdom:
    """What a file may hold, and what becomes of it."""

    def remember(self, way: Way, choice: dict[str, Any]) -> None:
        entry = Entry(choice, 1.0, 2.0)
        wisdom.remember(dispatch.machine_here(), way.problem.name, entry)
        onednn_py.cache_clear()

    def test_every_sound_choice_is_taken(self) -> None:
        for operation in ("convolution_backward_data", "conv_transpose"):
            way = way_of("2d_1x1_strided", operation)
            for part in way.parts():
                self.remember(way, part.choice.as_dict())
                plan = dispatch.plan_problem(way.problem, "onednn")
                assert plan.choice == part.choice
                way.check(plan)

    @pytest.mark.parametrize(
        "changes",
        [
            {"implementation": "jit:avx1024_core"},
            {"implementation": "ref"},
            {"activations": "given", "weights": "given", "implementation": "brgconv:none"},
            {"formulation": "sliced"},
            {"formulation": "exchanged"},
        ],
        ids=str,
    )
    def test_a_choice_that_does_not_exist_here(
        self, changes: dict[str, Any], measured: list[str]
    ) -> None:
        way = way_of()
        expected = build_plan(runtime(), way.problem).choice
        self.remember(way, {**expected.as_dict(), **changes})
        for effort in ("heuristic", "measure"):
            plan = dispatch.plan_problem(way.problem, "onednn", effort)
            assert plan.choice == expected
            way.check(plan)
        assert not measured

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
        way = way_of()
        self.remember(way, choice)
        plan = dispatch.plan_problem(way.problem, "onednn")
        assert plan.choice == build_plan(runtime(), way.problem).choice
        assert "is no choice" in caplog.text
        way.check(plan)
        # Measuring puts something better in its place.
        dispatch.plan_problem(way.problem, "onednn", "measure")
        assert len(measured) == 1
        assert wisdom.recall(dispatch.machine_here(), way.problem.name).choice != choice

    def test_it_is_of_the_number_of_threads(self, measured: list[str]) -> None:
        if onednn_py.get_num_threads() == 1:
            pytest.skip("one thread only")
        with onednn_py.use_effort("measure"):
            onednn_py.convolution(*TENSORS)
            with onednn_py.num_threads(1):
                onednn_py.convolution(*TENSORS)
        assert len(measured) == 2
        assert {machine.threads for machine, _ in wisdom._known} == {1, onednn_py.get_num_threads()}
