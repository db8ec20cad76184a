"""Times of drawn problems: of every way to compute one, and of the heuristic and measured plans."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
from survey_draw import Drawn

import onednn_py

# The public functions plan what their rules or wisdom say. A survey needs each of the ways by
# itself, and the heuristic plan beside the measured one.
from onednn_py.backends import FALLBACK, ONEDNN
from onednn_py.backends.base import Plan
from onednn_py.backends.onednn import machine_here
from onednn_py.backends.onednn.autotune import integer_tensors
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan, build_plan
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.equivalents import equivalent
from onednn_py.backends.onednn.selection.select import candidates
from onednn_py.dispatch.planner import plan_call, prepared_backend
from onednn_py.errors import OneDNNError
from onednn_py.problem.call_spec import SubProblem
from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Problem

__all__ = ["by_turns", "choices_of", "in_words", "judged", "recorded"]

Array = npt.NDArray[Any]
Row = dict[str, Any]

# Recording: a way that is so many times slower than the best so far, after these runs, is
# not run again. Its time is kept all the same.
CLEARLY_BEHIND = 3.0
RUNS_BEHIND = 2
LEAST_RUNS, MOST_RUNS, ENOUGH = 3, 12, 0.015

# Ways within this factor of the best take turns, so that their order is known better.
CLOSE = 1.5
MOST_FINALISTS = 8
FINAL_TURNS = 3

# Judging: both plans take turns, in the opposite order each time. A turn begins with a run that is
# not counted, which loads the plan's workspace into the caches.
TURNS = 6
TURN_SECONDS = 0.012
LEAST_A_TURN, MOST_A_TURN = 2, 60

# Where malloc puts large arrays: so many bytes behind a page.
NUMPY_OFFSET = 16
PAGE = 4096


class _Way:
    """A plan on its tensors, and the seconds of its runs."""

    def __init__(self, plan: Plan, tensors: Mapping[str, Array]) -> None:
        self.plan = plan
        self.seconds: list[float] = []
        runner = plan.address_runner
        if runner is None:
            self.run: Callable[[], None] = lambda: plan.execute(tensors)
        else:
            pointers = runner.pointers([tensors[name] for name in runner.operands])
            self.run = lambda: runner.run(pointers)

    def timed(self) -> float:
        begin = time.perf_counter()
        self.run()
        seconds = time.perf_counter() - begin
        self.seconds.append(seconds)
        return seconds

    @property
    def microseconds(self) -> float:
        return round(median(self.seconds) * 1e6, 2)


def choices_of(plan: Plan) -> list[Row]:
    """Return the choices of a plan's problems, as `Choice.as_dict` gives them.

    What no choice describes, such as a plan of NumPy, is an implementation's name.
    """
    plans = getattr(plan, "plans", (plan,))
    found: list[Row] = []
    for one in plans:
        if isinstance(one, OneDNNPlan):
            found += [candidate.choice.as_dict() for candidate in one.candidates]
        else:
            found.append({"implementation": one.implementation})
    return found


def in_words(choices: Sequence[Row]) -> str:
    known = [(fields, Choice.from_dict(fields)) for fields in choices]
    return " and ".join(
        str(choice) if choice else str(fields.get("implementation", fields))
        for fields, choice in known
    )


def _facts() -> Row:
    return {"machine": str(machine_here())}


def recorded(drawn: Drawn, budget: float) -> list[Row]:
    """Return the times of every way to compute a drawn problem, a row for each of its problems.

    Parameters
    ----------
    drawn : Drawn
    budget : float
        Seconds for each problem, after which no further way is tried.

    Returns
    -------
    list of dict
        With the description of the problem, ``"problem"``, its `Problem.name`, and ``"ways"``: each
        a ``"choice"``, ``"microseconds"``, the median of ``"runs"``, and ``"least"``; ``"wrong"``
        where the results differ from the heuristic choice's. ``"complete"`` is false if the budget
        did not suffice.

    Raises
    ------
    OneDNNError
        If oneDNN does not compute the problem at all.
    """
    rows = []
    for case in drawn.cases:
        _start()
        problem = equivalent(case.problem(), current_engine().library.cpu_isa)
        described = {**drawn.to_json(), "direction": case.direction, "drawn": drawn.direction}
        rows.append({**described, **_facts(), **_ways(problem, budget)})
    return rows


def _ways(problem: Problem, budget: float) -> Row:
    begin = time.perf_counter()
    ONEDNN.prepare()
    engine = current_engine()
    tensors = integer_tensors(problem)
    results = [tensors[role] for role in _result_roles(problem)]
    plan = build_plan(engine, problem)
    heuristic = _Way(plan, tensors)
    heuristic.run()
    expected = [result.copy() for result in results]
    ways, wrong, complete = [heuristic], [], True
    best = _race(heuristic, float("inf"))
    for candidate in candidates(engine, problem):
        if candidate.choice == plan.choice:
            continue
        if time.perf_counter() - begin > budget:
            complete = False
            break
        for result in results:
            result.fill(0)
        try:
            way = _Way(OneDNNPlan(engine, candidate), tensors)
            first = way.timed()
        except OneDNNError:
            continue
        if not all(map(np.array_equal, results, expected)):
            wrong.append(way)
            continue
        ways.append(way)
        # The first run meets cold caches: it counts only where it is slow enough to be the last.
        if first <= 0.02 or first <= 2 * CLEARLY_BEHIND * best:
            way.seconds.clear()
            best = min(best, _race(way, best))
    _take_turns(ways, begin + 1.5 * budget)
    fastest = min(ways, key=lambda way: way.microseconds)
    return {
        "problem": problem.name,
        "heuristic": choices_of(heuristic.plan),
        "heuristic_microseconds": heuristic.microseconds,
        "measured": choices_of(fastest.plan),
        "microseconds": fastest.microseconds,
        "complete": complete,
        "ways": [
            {
                "choice": choices_of(way.plan)[0],
                "microseconds": way.microseconds,
                "least": round(min(way.seconds) * 1e6, 2),
                "runs": len(way.seconds),
                **({"wrong": True} if way in wrong else {}),
            }
            for way in (*ways, *wrong)
        ],
    }


def _race(way: _Way, best: float) -> float:
    """Run until a time is known well enough or clearly behind; return the least one."""
    for count in range(1, MOST_RUNS + 1):
        way.timed()
        if count >= RUNS_BEHIND and min(way.seconds) > CLEARLY_BEHIND * best:
            break
        if count >= LEAST_RUNS and sum(way.seconds) > ENOUGH:
            break
    return min(way.seconds)


def _take_turns(ways: Sequence[_Way], until: float) -> None:
    """Run the fastest ways and the heuristic choice, the first, alternately."""
    ordered = sorted(ways, key=lambda way: way.microseconds)
    best = ordered[0].microseconds
    close = [way for way in ordered[:MOST_FINALISTS] if way.microseconds <= CLOSE * best]
    if ways[0] not in close:
        close.append(ways[0])
    if len(close) == 1:
        return
    for way in close:
        way.seconds = []
    for turn in range(FINAL_TURNS):
        if turn and time.perf_counter() > until:
            break
        for way in close if turn % 2 == 0 else reversed(close):
            _turn(way, TURN_SECONDS / 2)


def _turn(way: _Way, seconds: float) -> None:
    begin = time.perf_counter()
    way.run()
    for count in range(MOST_A_TURN):
        if count >= LEAST_A_TURN and time.perf_counter() - begin > seconds:
            break
        way.timed()


def _result_roles(problem: Problem) -> list[str]:
    roles = [problem.result_role]
    if problem.result_role == "weights" and problem.bias is not None:
        roles.append("bias")
    return roles


def judged(drawn: Drawn, budget: float) -> list[Row]:
    """Return one row with the times of the heuristic and of the measured plan of a drawn problem.

    The plans are those that a call would make. After the measurement that chooses, both take turns
    on fresh tensors, so that the choice's luck does not count; the medians decide.

    Parameters
    ----------
    drawn : Drawn
    budget : float
        Seconds of the measurement for each problem.

    Raises
    ------
    OneDNNError
        If a plan fails.
    """
    _start()
    sub_problems = drawn.sub_problems
    plans = {"heuristic": _plan(sub_problems)}
    for sub_problem in sub_problems:
        if ONEDNN.supports(sub_problem.problem) is None:
            try:
                ONEDNN.measure(sub_problem.problem, budget)
            except OneDNNError as error:
                if error.status != "unimplemented":
                    raise
    onednn_py.cache_clear()
    # What was measured is known as wisdom now, which plans follow.
    plans["measured"] = _plan(sub_problems)
    choices = {name: choices_of(plan) for name, plan in plans.items()}
    if choices["heuristic"] == choices["measured"]:
        plans["measured"] = plans["heuristic"]
    microseconds = by_turns(sub_problems, plans)
    onednn_py.wisdom.forget()
    return [
        {
            **drawn.to_json(),
            **_facts(),
            **choices,
            "heuristic_microseconds": microseconds["heuristic"],
            "microseconds": microseconds["measured"],
        }
    ]


def by_turns(sub_problems: Sequence[SubProblem], plans: Mapping[str, Plan]) -> dict[str, float]:
    """Return the median microseconds of plans that take turns on fresh tensors, by name.

    One plan under several names is run once.
    """
    tensors = _fresh_tensors(sub_problems)
    ways = {id(plan): _Way(plan, tensors) for plan in plans.values()}
    for turn in range(TURNS if len(ways) > 1 else 1):
        for way in list(ways.values())[:: -1 if turn % 2 else 1]:
            _turn(way, TURN_SECONDS)
    return {name: ways[id(plan)].microseconds for name, plan in plans.items()}


def _start() -> None:
    """Forget what the previous problem left, in memory and on this machine's files of wisdom."""
    onednn_py.wisdom.forget()
    onednn_py.cache_clear()


def _plan(sub_problems: tuple[SubProblem, ...]) -> Plan:
    backend, state = prepared_backend("auto")
    if backend is FALLBACK:
        raise OneDNNError("dnnl_engine_create", "unimplemented", "no oneDNN library")
    return plan_call(sub_problems, backend, state, "heuristic")


def _fresh_tensors(sub_problems: Sequence[SubProblem]) -> dict[str, Array]:
    """Return normal numbers by the call's names, in memory of their own, as NumPy aligns it."""
    rng = np.random.default_rng(0)
    tensors: dict[str, Array] = {}
    for sub_problem in sub_problems:
        names = dict(sub_problem.names)
        for role, layout in sub_problem.problem.layouts.items():
            name = names.get(role, role)
            if name in tensors:
                continue
            dtype = DTYPES[sub_problem.problem.dtype]
            memory = np.empty(layout.extent * dtype.itemsize + PAGE, np.uint8)
            begin = (NUMPY_OFFSET - memory.ctypes.data) % PAGE
            flat = memory[begin : begin + layout.extent * dtype.itemsize].view(dtype)
            numbers = rng.standard_normal(2**16, np.float32).astype(dtype)
            for first in range(0, flat.size, numbers.size):
                part = flat[first : first + numbers.size]
                part[...] = numbers[: part.size]
            strides = tuple(stride * dtype.itemsize for stride in layout.strides)
            tensors[name] = np.ndarray(layout.shape, dtype, flat, 0, strides)
    return tensors
