"""Autotuning: time the candidates of a problem and keep the fastest that computes the same.

Every candidate runs on the same arrays of small integers. Sums of these are exact in
float32 whatever their order, so that a candidate must agree with the heuristic choice to
the last bit before it is trusted. Where they differ, a reference decides which of the two is wrong.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.errors import OneDNNError
from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Problem, TensorLayout
from onednn_py.system.forks import forks_wait, in_forked_child
from onednn_py.system.memory_pool import ALIGNMENT, pool

from .binding.engine import Engine
from .execution.plan import OneDNNPlan, build_plan
from .selection.choice import Choice
from .selection.select import candidates

__all__ = ["DEFAULT_BUDGET", "Measured", "integer_tensors", "measure"]

_log = logging.getLogger("onednn_py")

Array = npt.NDArray[Any]
Reference = Callable[[Mapping[str, Array]], object]

DEFAULT_BUDGET = 4.0  # seconds for one problem

LARGEST_INTEGER = 2

# A candidate this many times slower than the best so far is not measured any further.
CLEARLY_BEHIND = 1.3
LEAST_RUNS, MOST_RUNS = 3, 15
FINALISTS = 4

# The finalists take turns. The first run of a turn is not counted: it loads the plan's workspace
# into the caches, where repeated calls find it.
FINAL_ROUNDS = 5
RUNS_A_TURN = 3

# The gain over the heuristic choice that a candidate must have: less is noise.
LEAST_GAIN = 1.01

# Large arrays of NumPy begin so many bytes behind a page, where malloc puts them.
NUMPY_ALIGNMENT = 16

# Two measurements at once would disturb each other. Reentrant, since a signal handler may compute
# while its own thread measures.
_measuring = threading.RLock()


@dataclass(frozen=True)
class Measured:
    """The result of measuring a problem.

    Attributes
    ----------
    plan : OneDNNPlan
        Of the fastest choice.
    microseconds, heuristic_microseconds : float
        Median times of the choice and of the heuristic choice, run alternately.
    timings : tuple of (str, float)
        Candidates and their medians in microseconds, fastest first.
    """

    plan: OneDNNPlan
    microseconds: float
    heuristic_microseconds: float
    timings: tuple[tuple[str, float], ...]


def measure(
    engine: Engine, problem: Problem, reference: Reference, budget: float = DEFAULT_BUDGET
) -> Measured:
    """Return the fastest plan of a problem.

    Parameters
    ----------
    engine : Engine
    problem : Problem
    reference : callable
        Computes the problem in place from canonical views by role. It decides where candidates
        differ.
    budget : float
        Seconds after which no further candidate is tried.

    Raises
    ------
    OneDNNError
        If oneDNN has no implementation at all, or none that agrees with the reference; a
        candidate that fails is passed over.
    """
    with _measuring:
        return _measure(engine, problem, reference, budget)


class _Runner:
    """A plan and its executions' times."""

    def __init__(self, plan: OneDNNPlan, tensors: dict[str, Array]) -> None:
        self.plan = plan
        self.times: list[float] = []
        runner = plan.address_runner
        if runner is None:
            self._run: Callable[[], None] = lambda: plan.execute(tensors)
        else:
            pointers = runner.pointers([tensors[name] for name in runner.operands])
            self._run = lambda: runner.run(pointers)

    def run(self) -> float:
        begin = time.perf_counter()
        self._run()
        elapsed = time.perf_counter() - begin
        self.times.append(elapsed)
        return elapsed

    def warm_up(self) -> None:
        self._run()

    @property
    def microseconds(self) -> float:
        return median(self.times) * 1e6


def _measure(engine: Engine, problem: Problem, reference: Reference, budget: float) -> Measured:
    tensors = integer_tensors(problem)
    heuristic = _Runner(build_plan(engine, problem), tensors)
    runners = _agreeing(engine, problem, reference, budget, tensors, heuristic)
    if not runners:
        raise OneDNNError(
            "dnnl_primitive_desc_create", "unimplemented", "every implementation is wrong"
        )
    runners.sort(key=lambda runner: min(runner.times))
    finalists = runners[:FINALISTS]
    if heuristic in runners[FINALISTS:]:
        finalists.append(heuristic)
    if len(finalists) > 1:
        _run_in_turn(finalists, budget)
    winner = min(finalists, key=lambda runner: runner.microseconds)
    if heuristic in runners and winner.microseconds * LEAST_GAIN > heuristic.microseconds:
        winner = heuristic
    timings = sorted(((str(r.plan.choice), r.microseconds) for r in runners), key=itemgetter(1))
    winner.plan.timings = tuple(timings)
    return Measured(winner.plan, winner.microseconds, heuristic.microseconds, winner.plan.timings)


def _run_in_turn(finalists: list[_Runner], budget: float) -> None:
    """Time runners by turns, in rounds of which no further one begins after ``budget`` seconds."""
    for runner in finalists:
        runner.times.clear()
    begin = time.perf_counter()
    for _ in range(FINAL_ROUNDS):
        for runner in finalists:
            runner.warm_up()
            for _ in range(RUNS_A_TURN):
                runner.run()
        if time.perf_counter() - begin > budget:
            break


def _agreeing(
    engine: Engine,
    problem: Problem,
    reference: Reference,
    budget: float,
    tensors: dict[str, Array],
    heuristic: _Runner,
) -> list[_Runner]:
    """Return the candidates that compute the right result, the heuristic choice first, timed."""
    begin = time.perf_counter()
    results = [tensors[name] for name in _result_names(problem)]
    heuristic.warm_up()
    expected = [result.copy() for result in results]
    best = _race(heuristic, float("inf"))
    runners = [heuristic]
    is_checked = False
    for candidate in candidates(engine, problem):
        if candidate.choice == heuristic.plan.choice:
            continue
        if time.perf_counter() - begin > budget:
            _log.info("%s: no time left for further candidates", problem.operation)
            break
        try:
            runner = _Runner(OneDNNPlan(engine, candidate), tensors)
            for result in results:
                result.fill(0)
            runner.warm_up()
        except OneDNNError as error:
            _log.info("%s: %s fails: %s", problem.operation, candidate.choice, error)
            continue
        found = [result.copy() for result in results]
        if not is_checked and not all(map(np.array_equal, found, expected)):
            is_checked = True
            reference(tensors)
            right = [result.copy() for result in results]
            if not all(map(np.array_equal, right, expected)):
                # The heuristic choice is wrong, and so are the candidates that agreed with it.
                for wrong in runners:
                    _pass_over(problem, wrong.plan.choice)
                runners, best, expected = [], float("inf"), right
        if not all(map(np.array_equal, found, expected)):
            _pass_over(problem, candidate.choice)
            continue
        best = min(best, _race(runner, best))
        runners.append(runner)
    return runners


def _pass_over(problem: Problem, choice: Choice) -> None:
    _log.warning("%s: %s computes something else: passed over", problem.operation, choice)


def _race(runner: _Runner, best: float) -> float:
    """Run a candidate until it is known well enough or clearly behind; return its least time."""
    for count in range(MOST_RUNS):
        runner.run()
        least = min(runner.times)
        if least > CLEARLY_BEHIND * best or (count + 1 >= LEAST_RUNS and sum(runner.times) > 0.02):
            break
    return min(runner.times)


def _result_names(problem: Problem) -> list[str]:
    names = [problem.result_role]
    if problem.result_role == "weights" and problem.bias is not None:
        names.append("bias")
    return names


def integer_tensors(problem: Problem) -> dict[str, Array]:
    """Arrays of the problem's layouts, by role, filled with small integers."""
    with forks_wait:  # NumPy imports its random numbers now
        rng = np.random.default_rng(0)
    tensors = {}
    for role in ("src", "weights", "dst", "bias"):
        layout: TensorLayout | None = getattr(problem, role)
        if layout is None:
            continue
        dtype = DTYPES[problem.dtype]
        extent = layout.extent
        # Where NumPy's own memory begins: kernels that read it directly may be slower there.
        memory = pool.empty((extent * dtype.itemsize + ALIGNMENT,), np.dtype(np.uint8))
        begin = (NUMPY_ALIGNMENT - memory.ctypes.data) % ALIGNMENT
        flat = memory[begin : begin + extent * dtype.itemsize].view(dtype)
        if role in _result_names(problem):
            flat.fill(0)
        else:
            numbers = rng.integers(-LARGEST_INTEGER, LARGEST_INTEGER + 1, 2**16, np.int8)
            for first in range(0, extent, numbers.size):
                part = flat[first : first + numbers.size]
                part[...] = numbers[: part.size]
        strides = tuple(stride * dtype.itemsize for stride in layout.strides)
        tensors[role] = np.ndarray(layout.shape, dtype, flat, 0, strides)
    return tensors


@in_forked_child
def _reset() -> None:
    global _measuring
    _measuring = threading.RLock()
