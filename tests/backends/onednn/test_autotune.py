"""Measuring: the fastest candidate that computes the right result is kept."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py.backends import ONEDNN
from onednn_py.backends.numpy.plan import NumPyPlan
from onednn_py.backends.onednn import autotune
from onednn_py.backends.onednn.autotune import Measured, measure
from onednn_py.backends.onednn.binding.engine import Engine
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan, build_plan
from onednn_py.errors import OneDNNError
from onednn_py.problem.problem import Problem
from tests.support.candidate_runs import NETWORKS, CandidateRun
from tests.support.cases import CURATED, OPERATIONS
from tests.support.forks import child_while_held, needs_fork
from tests.support.requirements import needs_onednn
from tests.support.wisdom_cases import empty_store  # noqa: F401 - a fixture

pytestmark = [needs_onednn, pytest.mark.usefixtures("fresh_cache")]

# Seconds for the candidates of one problem.
BUDGET = 0.3


def run_of(
    name: str = "2d_blocked_channels",
    operation: str = "convolution",
    dtype: str = "f32",
    data_format: str = "NCX",
) -> CandidateRun:
    geometry = {**CURATED, **NETWORKS}[name]
    return CandidateRun(geometry.integers(dtype), operation, data_format)


def measured(problem: Problem, budget: float = BUDGET) -> Measured:
    # As before every call: a forked child computes on one thread.
    ONEDNN.prepare()
    return measure(current_engine(), problem, NumPyPlan(problem).execute, budget)


def heuristic_plan(problem: Problem) -> OneDNNPlan:
    return build_plan(current_engine(), problem)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_winner_computes_the_right_result(operation: str) -> None:
    for name, dtype, data_format in (
        ("1x1_stride_tail", "f32", "NXC"),
        ("2d_groups_16", "bf16", "NCX"),
    ):
        run = run_of(name, operation, dtype, data_format)
        found = measured(run.problem)
        run.check(found.plan)
        assert 0 < found.microseconds <= found.heuristic_microseconds
        names = [timing[0] for timing in found.timings]
        assert str(found.plan.choice) in names
        assert str(heuristic_plan(run.problem).choice) in names
        assert len(names) == len(set(names)) > 1
        times = [timing[1] for timing in found.timings]
        assert times == sorted(times)
        assert min(times) > 0


def test_without_time_the_heuristic_choice_wins() -> None:
    run = run_of("3x3_stride")
    found = measured(run.problem, 0)
    assert found.plan.choice == heuristic_plan(run.problem).choice
    assert found.microseconds == found.heuristic_microseconds
    assert len(found.timings) == 1
    run.check(found.plan)


def test_the_last_rounds_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single candidate has none, several have one at least."""
    runs: list[autotune._Runner] = []
    run_of_runner = autotune._Runner.run

    def noted(runner: autotune._Runner) -> float:
        runs.append(runner)
        return run_of_runner(runner)

    monkeypatch.setattr(autotune._Runner, "run", noted)
    measured(run_of().problem, 0)
    assert len(runs) <= autotune.MOST_RUNS
    runners = list(dict.fromkeys(runs)) * 2
    runs.clear()
    autotune._run_in_turn(runners, 0)
    assert len(runs) == len(runners) * autotune.RUNS_A_TURN
    runs.clear()
    autotune._run_in_turn(runners, 1e9)
    assert len(runs) == len(runners) * autotune.RUNS_A_TURN * autotune.FINAL_ROUNDS


def test_the_fastest_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowed(plan: OneDNNPlan) -> OneDNNPlan:
        def after_a_while(work: Callable[..., None]) -> Callable[..., None]:
            def run(*arguments: Any) -> None:
                time.sleep(0.01)
                work(*arguments)

            return run

        runner = plan.address_runner
        if runner is None:  # of copies by NumPy
            monkeypatch.setattr(plan, "execute", after_a_while(plan.execute))
        else:
            plan.address_runner = replace(runner, run=after_a_while(runner.run))
        return plan

    run = run_of()
    with monkeypatch.context() as patched:
        patched.setattr(autotune, "build_plan", lambda *arguments: slowed(build_plan(*arguments)))
        found = measured(run.problem)
    assert found.microseconds < found.heuristic_microseconds
    assert found.heuristic_microseconds > 10_000
    monkeypatch.setattr(autotune, "OneDNNPlan", lambda *arguments: slowed(OneDNNPlan(*arguments)))
    found = measured(run.problem)
    assert found.plan.choice == heuristic_plan(run.problem).choice


@pytest.mark.usefixtures("empty_store")
def test_the_layout_of_the_caller_is_measured() -> None:
    """The gaps between its elements stay untouched."""
    src = np.ones((2, 9, 9, 24), np.float32)[..., ::2][..., :8]
    weights = np.ones((3, 3, 8, 6), np.float32)
    out = np.full((2, 7, 7, 13), 9, np.float32)
    with onednn_py.use_effort("measure"):
        onednn_py.convolution(src, weights, out=out[..., 1::2])
    np.testing.assert_array_equal(out[..., 1::2], 72)
    np.testing.assert_array_equal(out[..., ::2], 9)


@pytest.mark.parametrize("stage", ["create", "execute"])
def test_a_candidate_that_fails_is_passed_over(
    stage: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = run_of()
    caplog.set_level(logging.INFO, "onednn_py")

    class Failing(OneDNNPlan):
        def __init__(self, engine: Engine, *candidates: Any, **more: Any) -> None:
            super().__init__(engine, *candidates, **more)
            if stage == "create":
                raise OneDNNError("dnnl_primitive_create", "out_of_memory")
            if self.address_runner is None:  # of copies by NumPy
                monkeypatch.setattr(self, "execute", self.fail)
            else:
                self.address_runner = replace(self.address_runner, run=self.fail)

        def fail(self, *arguments: Any) -> None:
            raise OneDNNError("dnnl_primitive_execute", "runtime_error")

    monkeypatch.setattr(autotune, "OneDNNPlan", Failing)
    found = measured(run.problem)
    assert found.plan.choice == heuristic_plan(run.problem).choice
    assert len(found.timings) == 1
    run.check(found.plan)
    assert "fails: dnnl_primitive_" in caplog.text


def test_a_candidate_that_computes_something_else_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However fast: it may do nothing, or be wrong in a single element."""
    for operation in ("convolution_backward_weights", "convolution_backward_data"):
        run = run_of(operation=operation)
        for harmed in (None, run.problem.result_role, "bias"):
            if harmed != "bias" or run.problem.bias is not None:
                check_passed_over(run, harmed, monkeypatch, caplog)


def check_passed_over(run: CandidateRun, harmed: str | None, monkeypatch: Any, caplog: Any) -> None:
    """Fail if a candidate wins that computes nothing, or harms an element of a result."""
    caplog.clear()

    class Wrong(OneDNNPlan):
        address_runner = property(lambda self: None, lambda self, value: None)

        def execute(self, tensors: Any, *more: Any) -> None:
            if harmed is not None:
                super().execute(tensors, *more)
                tensors[harmed][(-1,) * tensors[harmed].ndim] += 1

    with monkeypatch.context() as patched:
        patched.setattr(autotune, "OneDNNPlan", Wrong)
        found = measured(run.problem)
    assert type(found.plan) is OneDNNPlan
    assert len(found.timings) == 1
    assert "computes something else: passed over" in caplog.text
    run.check(found.plan)


@pytest.mark.parametrize("all_wrong", [False, True])
def test_a_wrong_heuristic_choice_is_passed_over(
    all_wrong: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """NumPy decides which result is right where oneDNN has a defect that no guard knows."""
    run = run_of()

    class Wrong(OneDNNPlan):
        address_runner = property(lambda self: None, lambda self, value: None)

        def execute(self, tensors: Any, *more: Any) -> None:
            super().execute(tensors, *more)
            wrong = tensors[run.problem.result_role]
            wrong[...] = self.choice.implementation.startswith("x64")
            wrong[...] += 1

    def build_wrong(engine: Engine, problem: Problem) -> OneDNNPlan:
        return Wrong(engine, *build_plan(engine, problem).candidates)

    monkeypatch.setattr(autotune, "build_plan", build_wrong)
    if all_wrong:
        monkeypatch.setattr(autotune, "OneDNNPlan", Wrong)
        with pytest.raises(OneDNNError, match="every implementation is wrong"):
            measured(run.problem)
        return
    found = measured(run.problem)
    assert type(found.plan) is OneDNNPlan
    assert "computes something else: passed over" in caplog.text
    run.check(found.plan)


def test_threads_measure_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two measurements at once would disturb each other."""
    running, counts = [], []
    measure_now = autotune._measure

    def counted(*arguments: Any) -> Any:
        running.append(1)
        counts.append(len(running))
        try:
            return measure_now(*arguments)
        finally:
            running.pop()

    monkeypatch.setattr(autotune, "_measure", counted)
    problems = [run_of(name).problem for name in ("2d", "2d_dilated", "1d", "2d_groups")]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda problem: measured(problem, 0.05), problems))
    assert len(found) == len(counts) == 4
    assert max(counts) == 1


@needs_fork
def test_a_child_forked_while_its_parent_measures() -> None:
    def measures() -> object:
        return measured(run_of().problem, 0.05).timings

    assert child_while_held(autotune._measuring, measures) == 0
