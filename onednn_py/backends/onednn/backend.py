"""The oneDNN backend: problems to plans, by wisdom, by rules or by measuring."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from onednn_py.backends.base import Backend, BiasPlan, Plan, sequence
from onednn_py.errors import LibraryNotFoundError, OneDNNError
from onednn_py.problem.call_spec import SubProblem
from onednn_py.problem.problem import Problem
from onednn_py.system import idle_threads

from .autotune import DEFAULT_BUDGET, Measured, measure
from .binding.engine import Engine
from .binding.library import Library, library
from .binding.runtime import apply_threads, current_engine, generation, openmp_path
from .execution.plan import OneDNNPlan
from .selection.candidate import Candidate, share_tensors
from .selection.choice import Choice
from .selection.decide import decide
from .selection.equivalents import equivalent
from .selection.limits import unsupported
from .selection.select import chosen, with_equal_threads
from .selection.validity import invalid
from .selection.workspace import workspace_exceeds_limit
from .wisdom import Entry, Machine, store

__all__ = ["Known", "OneDNNBackend", "machine_here", "recall"]

_log = logging.getLogger("onednn_py")


class _Decision(NamedTuple):
    """How a problem is computed, and how long the candidates took if they were measured.

    Without wisdom and without measuring, rules alone have decided.
    """

    candidate: Candidate
    is_by_rules: bool = False
    timings: Sequence[tuple[str, float]] = ()


class Known(NamedTuple):
    """What wisdom has for a problem: how it is computed, and the times that were measured."""

    choice: Choice
    entry: Entry
    candidate: Candidate


class OneDNNBackend:
    """Plans of oneDNN's primitives.

    Parameters
    ----------
    reference : Backend
        Asked for the right result where candidates that are measured differ.
    """

    name = "onednn"

    def __init__(self, reference: Backend) -> None:
        self._reference = reference

    def prepare(self) -> Hashable:
        """See `Backend.prepare`; the state is the threads, the forks and the wisdom."""
        threads = apply_threads(library())
        if idle_threads.has_to_look and threads > 1:
            idle_threads.shorten(openmp_path())
        return threads, generation(), store.revision()

    def supports(self, problem: Problem) -> str | None:
        """See `Backend.supports`."""
        return unsupported(problem)

    def plan(self, sub_problems: tuple[SubProblem, ...], effort: str) -> Plan:
        """See `Backend.plan`; both gradients share the tensors that they read, where they can."""
        idle_threads.look_again_if_scipy_came()
        decided = [
            None if sub_problem.only_bias else self._decide(sub_problem.problem, effort)
            for sub_problem in sub_problems
        ]
        shared = _sharing_plan(sub_problems, decided)
        if shared is not None:
            return shared
        engine = current_engine()
        plans = [
            BiasPlan() if one is None else OneDNNPlan(engine, one.candidate, timings=one.timings)
            for one in decided
        ]
        return sequence(sub_problems, plans)

    def measure(self, problem: Problem, budget: float = DEFAULT_BUDGET) -> Measured:
        """Measure the candidates of a problem; the fastest becomes wisdom.

        Parameters
        ----------
        problem : Problem
            A problem that the backend supports.
        budget : float
            Seconds after which no further candidate is tried.

        Raises
        ------
        LibraryNotFoundError
        OneDNNError
            With status ``unimplemented`` if oneDNN has no implementation.
        """
        self.prepare()
        engine = current_engine()
        problem = equivalent(problem, engine.library.cpu_isa)
        reference = self._reference.plan((SubProblem(problem),), "heuristic")
        measured = measure(engine, problem, reference.execute, budget)
        choice = measured.plan.choice.as_dict()
        entry = Entry(choice, measured.microseconds, measured.heuristic_microseconds)
        store.remember(_machine(engine.library), problem.name, entry)
        return measured

    def _decide(self, problem: Problem, effort: str) -> _Decision:
        known = recall(problem)
        if known is not None:
            return _Decision(known.candidate)
        if effort == "measure":
            plan = self.measure(problem).plan
            return _Decision(plan.candidates[0], timings=plan.timings)
        engine = current_engine()
        candidate = decide(engine, equivalent(problem, engine.library.cpu_isa))
        return _Decision(candidate, is_by_rules=True)


def _sharing_plan(
    sub_problems: tuple[SubProblem, ...], decided: Sequence[_Decision | None]
) -> OneDNNPlan | None:
    """Return a single plan of all problems of a call, None where each needs its own plan."""
    if not any(sub_problem.names for sub_problem in sub_problems):
        return None
    candidates, timings, are_by_rules = [], [], True
    for sub_problem, one in zip(sub_problems, decided, strict=True):
        if one is None:
            return None
        candidates.append(one.candidate.named(dict(sub_problem.names)))
        are_by_rules = are_by_rules and one.is_by_rules
        operation = one.candidate.formulation.asked.operation
        timings += [(f"{operation}: {name}", us) for name, us in one.timings]
    if are_by_rules:
        candidates = with_equal_threads(current_engine(), candidates)
    if not share_tensors(candidates):
        return None
    shared = OneDNNPlan(current_engine(), *candidates, timings=timings)
    # The candidates run one after the other, in the same workspace.
    return None if workspace_exceeds_limit(candidates, shared.workspace_bytes) else shared


def recall(problem: Problem) -> Known | None:
    """Return what wisdom has for a problem on this machine, None if it has nothing that works.

    Wisdom of another version of this package may name a candidate that is over a limit now, or has
    a known defect; a file may have been edited.
    """
    if store.is_empty():
        return None
    engine = current_engine()
    problem = equivalent(problem, engine.library.cpu_isa)
    entry = store.recall(_machine(engine.library), problem.name)
    if entry is None:
        return None
    choice = Choice.from_dict(entry.choice)
    if choice is None:
        found: Candidate | str = f"{dict(entry.choice)} is no choice"
    else:
        found = invalid(problem, choice) or _known_candidate(engine, problem, choice)
    if choice is None or isinstance(found, str):
        _log.warning("wisdom: ignored for %s: %s", problem.name, found)
        return None
    return Known(choice, entry, found)


def _known_candidate(engine: Engine, problem: Problem, choice: Choice) -> Candidate | str:
    """Return the candidate of a choice, or the reason why there is none."""
    try:
        found = chosen(engine, problem, choice)
        if found is None:
            # The rules may go beyond the limit of memory, where nothing keeps it.
            ruled = decide(engine, problem)
            found = ruled if ruled.choice == choice else None
    except OneDNNError as error:
        return str(error)
    return found or f"oneDNN has no {choice}, or it takes too much memory"


def machine_here() -> Machine | None:
    """Return the machine that wisdom is bound to on this thread, None without a library."""
    try:
        return _machine(library())
    except LibraryNotFoundError:
        return None


def _machine(opened: Library) -> Machine:
    return Machine(opened.version_text, opened.hash, opened.cpu_isa, apply_threads(opened))
