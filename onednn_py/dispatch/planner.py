"""Dispatch: Problems to a backend's cached plan; the only fallback policy."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy.typing as npt

from onednn_py import wisdom
from onednn_py.backends.numpy import NumpyPlan
from onednn_py.backends.onednn.autotune import DEFAULT_BUDGET, Measured, measure
from onednn_py.backends.onednn.binding.library import Library, find_library, library
from onednn_py.backends.onednn.binding.runtime import generation, runtime, threads
from onednn_py.backends.onednn.execution.plan import NativePlan
from onednn_py.backends.onednn.selection.candidate import Part, shares_tensors
from onednn_py.backends.onednn.selection.select import build_plan, is_possible
from onednn_py.backends.onednn.selection.workspace import are_greedy
from onednn_py.errors import LibraryNotFoundError, OneDNNError
from onednn_py.problem.problem import Choice, Problem
from onednn_py.system import memory_pool as memory
from onednn_py.system.casting import sum_into_bias

from .plan_cache import PlanCache

__all__ = [
    "NO_IMPLEMENTATION",
    "BackendPlan",
    "Job",
    "PlanSequence",
    "known",
    "machine_here",
    "measure_problem",
    "native_state",
    "plan_cache",
    "plan_jobs",
    "plan_problem",
    "unfit",
]

_log = logging.getLogger("onednn_py")

Array = npt.NDArray[Any]

# oneDNN's kernels keep offsets into an image in 32 bits, padding included, and crash where
# it makes them overflow. Nobody pads like that; NumPy does it right.
NATIVE_REACH = 2**31
LARGEST_STEP = 2**15
BYTES_PER_ELEMENT = 4

NO_IMPLEMENTATION = "oneDNN has no implementation"

_warned_lock = threading.Lock()
_warned = False


@dataclass(frozen=True)
class Job:
    """A problem of a call, and what the call names its tensors.

    Attributes
    ----------
    problem : Problem
    names : tuple of (str, str)
        Role in the problem, and the tensor's name in the call, where it is another.
    only_bias : bool
        Of a weights gradient, whether its bias alone is computed.
    """

    problem: Problem
    names: tuple[tuple[str, str], ...] = ()
    only_bias: bool = False

    def tensors(self, named: Mapping[str, Array]) -> dict[str, Array]:
        """Return the call's tensors by their roles in the problem."""
        names = dict(self.names)
        return {
            role: named[names.get(role, role)]
            for role in ("src", "weights", "dst", "bias")
            if getattr(self.problem, role) is not None and names.get(role, role) in named
        }


class BiasPlan:
    """The bias gradient alone, a sum that needs no primitive."""

    backend = "numpy"
    implementation = "numpy sum"
    nbytes = 64

    def __repr__(self) -> str:
        return "bias: numpy, the sum of diff_dst"

    def execute(self, tensors: Mapping[str, Array]) -> None:
        sum_into_bias(tensors["bias"], tensors["dst"])


OnePlan = NativePlan | NumpyPlan | BiasPlan


class PlanSequence:
    """Plans of several problems that run one after the other."""

    needs_arrays = True

    def __init__(self, jobs: tuple[Job, ...], plans: Sequence[OnePlan]) -> None:
        self._jobs, self._plans = jobs, plans
        self.backend = " and ".join(dict.fromkeys(plan.backend for plan in plans))
        self.implementation = " and ".join(dict.fromkeys(plan.implementation for plan in plans))

    @property
    def nbytes(self) -> int:
        return sum(plan.nbytes for plan in self._plans)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._plans))

    def execute(self, tensors: Mapping[str, Array]) -> None:
        for job, plan in zip(self._jobs, self._plans, strict=True):
            plan.execute(job.tensors(tensors))


BackendPlan = NativePlan | NumpyPlan | PlanSequence

plan_cache: PlanCache[BackendPlan] = PlanCache()


def plan_problem(problem: Problem, backend: str, effort: str = "heuristic") -> BackendPlan:
    """Return the cached plan of one problem, as `plan_jobs` does."""
    return plan_jobs((Job(problem),), backend, effort)


def plan_jobs(jobs: tuple[Job, ...], backend: str, effort: str) -> BackendPlan:
    """Return the cached plan of a call's problems on a backend, building it if needed.

    NumPy takes over where oneDNN has no implementation for a problem, and for what
    oneDNN does not do at all: float64, empty tensors, sizes beyond its integers. It never
    hides any other status.
    """
    state = native_state(backend)
    if state is None:
        if backend != "numpy":
            _warn_once()
        reason = "" if backend == "numpy" else "no oneDNN library"
        key: tuple[Any, ...] = (jobs, "numpy", reason)
        return plan_cache.get_or_build(key, lambda: _kept(_numpy_plan(jobs, reason)))
    key = (jobs, state, effort)
    return plan_cache.get_or_build(key, lambda: _kept(_native_plan(jobs, effort)))


def native_state(backend: str) -> tuple[int, ...] | None:
    """Return what a plan depends on besides its problem; None where NumPy runs it.

    The number of threads is put in force on the calling thread.

    Raises
    ------
    LibraryNotFoundError
        If ``backend`` asks for oneDNN and there is no library.
    """
    if backend == "numpy":
        return None
    opened = find_library() if backend == "auto" else runtime().library
    if opened is None:
        return None
    return (threads(opened), generation(), wisdom.revision())


def _kept(plan: BackendPlan) -> BackendPlan:
    # Idle memory and plans share one limit; the plans' part has grown.
    memory.pool.reserve(plan_cache.info().bytes + plan.nbytes)
    return plan


def _numpy_plan(jobs: tuple[Job, ...], reason: str) -> BackendPlan:
    plans = [BiasPlan() if job.only_bias else NumpyPlan(job.problem, reason) for job in jobs]
    return _together(jobs, plans)


def _together(jobs: tuple[Job, ...], plans: Sequence[OnePlan]) -> BackendPlan:
    if len(plans) == 1 and not jobs[0].names and not isinstance(plans[0], BiasPlan):
        return plans[0]
    return PlanSequence(jobs, plans)


def _native_plan(jobs: tuple[Job, ...], effort: str) -> BackendPlan:
    plans = [BiasPlan() if job.only_bias else _plan_one(job.problem, effort) for job in jobs]
    if not any(job.names for job in jobs):
        return _together(jobs, plans)
    parts: list[Part] = []
    timings: list[tuple[str, float]] = []
    for job, plan in zip(jobs, plans, strict=True):
        if isinstance(plan, NativePlan):
            parts.append(plan.parts[0].named(dict(job.names)))
            timings += [(f"{plan.problem.operation}: {name}", us) for name, us in plan.timings]
    if len(parts) == len(plans) and shares_tensors(parts):
        shared = NativePlan(runtime(), *parts, timings=timings)
        # One after the other they need room for one at a time.
        if not are_greedy(parts, shared.workspace_bytes):
            return shared
    return _together(jobs, plans)


def _plan_one(problem: Problem, effort: str) -> NativePlan | NumpyPlan:
    reason = unfit(problem)
    if reason:
        return NumpyPlan(problem, reason)
    api = runtime()
    try:
        found = known(problem)
        if found is None and effort == "measure":
            return measure_problem(problem).plan
        return build_plan(api, problem, None if found is None else found[0])
    except OneDNNError as error:
        if error.status != "unimplemented":
            raise
        _log.debug("%s runs on NumPy: %s", problem.operation, error)
        return NumpyPlan(problem, NO_IMPLEMENTATION)


def known(problem: Problem) -> tuple[Choice, wisdom.Entry] | None:
    """Return what wisdom has for a problem on this machine, None if it has nothing of use."""
    entry = wisdom.recall(_machine(runtime().library), problem.name)
    if entry is None:
        return None
    choice = Choice.from_dict(entry.choice)
    if choice is None or not is_possible(problem, choice):
        _log.warning("wisdom: ignored: %s is no choice", dict(entry.choice))
        return None
    return choice, entry


def measure_problem(problem: Problem, budget: float = DEFAULT_BUDGET) -> Measured:
    """Measure the ways in which oneDNN can compute a problem; the fastest becomes wisdom.

    Parameters
    ----------
    problem : Problem
        One that oneDNN can take, see `unfit`.
    budget : float
        Seconds after which no further way is tried.

    Raises
    ------
    LibraryNotFoundError
    OneDNNError
        With status ``unimplemented`` if oneDNN has no implementation.
    """
    api = runtime()
    measured = measure(api, problem, NumpyPlan(problem).execute, budget)
    entry = wisdom.Entry(
        measured.plan.choice.as_dict(), measured.microseconds, measured.heuristic_microseconds
    )
    wisdom.remember(_machine(api.library), problem.name, entry)
    return measured


def machine_here() -> wisdom.Machine | None:
    """Return what wisdom is bound to on this thread, None without a library."""
    try:
        return _machine(library())
    except LibraryNotFoundError:
        return None


def _machine(opened: Library) -> wisdom.Machine:
    return wisdom.Machine(opened.version_text, opened.hash, opened.cpu_isa, threads(opened))


wisdom.identify_by(machine_here)


def unfit(problem: Problem) -> str:
    """Return why oneDNN cannot take the problem at all, an empty string if it can."""
    if problem.dtype == "f64":
        return "oneDNN has no float64 convolution"
    if problem.is_empty:
        return "empty tensors"
    if max(*problem.strides, *problem.dilations) >= LARGEST_STEP:
        return "strides or dilations beyond what oneDNN's kernels count"
    stepped = problem.dst if problem.transposed else problem.src
    sizes = stepped.shape[2:]
    if any(-end >= size for size, end in zip(sizes, problem.pads_end, strict=True)):
        return "no window meets the tensor"
    padded = [
        size + begin + max(end, 0)
        for size, begin, end in zip(sizes, problem.pads_begin, problem.pads_end, strict=True)
    ]
    image_bytes = prod(padded) * stepped.shape[1] * BYTES_PER_ELEMENT
    mostly_padding = prod(padded) > 4 * prod(sizes)
    if mostly_padding and (image_bytes >= NATIVE_REACH or max(padded) >= LARGEST_STEP):
        return "padding beyond what oneDNN's kernels count"
    return ""


def _warn_once() -> None:
    global _warned
    with _warned_lock:
        if _warned:
            return
        _warned = True
    try:
        runtime()
    except LibraryNotFoundError as error:
        warnings.warn(
            f"computing on NumPy: {error}", RuntimeWarning, stacklevel=_outside_the_package()
        )


def _outside_the_package() -> int:
    """Stack level of the caller's own line, as ``warnings.warn`` counts it."""
    folder = os.path.dirname(os.path.dirname(__file__))
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(folder):
        frame, level = frame.f_back, level + 1
    return level


def _after_fork_in_child() -> None:
    global _warned_lock
    _warned_lock = threading.Lock()
    plan_cache.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
