"""Measures cases: competitors take turns, in rounds, with one case after the other.

Only one process works at a time, all with the same number of threads. A round gives each
competitor its turn, in the opposite order of the round before, so that what slows the machine
down for a while falls on all of them; the median over all rounds counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from onednn_py.tools.benchdnn.case import Case

from .bounds import bandwidth_size
from .competitors import Competitor
from .results import OK, Result, Timing
from .worker_process import WorkerFailure

__all__ = ["Benchmark", "Schedule", "schedule", "turns"]

# Seconds between two turns: threads of oneDNN and PyTorch spin for milliseconds after their
# work, and would take the cores from the next competitor.
PAUSE = 0.01

# Seconds of calls at the beginning of a turn that are not timed: they meet cold caches, sleeping
# threads and, after the pause, a slow clock.
WARM_UP = 0.02

ROUNDS = 5
LEAST_RUNS = 5
MOST_RUNS = 2000

# Runs of a call that alone exceeds the time budget.
FEWEST_RUNS = 3

# Seconds of timed calls in a turn. A turn is one request, which `competitors.TIMEOUT` ends; it has
# one call alone where a call takes longer than this.
LONGEST_TURN = 60.0

# Runs whose median estimates the time of a short call.
ESTIMATING_RUNS = 5

# Types whose matrix product gives the peak, in order of preference: a float16 convolution runs in
# float32 where the CPU has no float16 arithmetic.
PEAK_TYPES = {"f32": ("f32",), "bf16": ("bf16",), "f16": ("f16", "f32")}


class Schedule(NamedTuple):
    """Calls at the beginning of each turn that are not timed, and timed calls of each round."""

    warm: int
    counts: tuple[int, ...]


def schedule(estimate: float, budget: float) -> Schedule:
    """Return the runs that take about ``budget`` seconds, if a call takes ``estimate`` seconds.

    A turn begins with a call that is not timed, so that nobody's calls are colder than another's.
    Calls of more than `LONGEST_TURN` seconds have none: cold caches change their time little.
    """
    estimate = max(estimate, 1e-9)
    if estimate > min(budget, LONGEST_TURN):
        runs = FEWEST_RUNS
    else:
        seconds = min(budget, ROUNDS * LONGEST_TURN)
        runs = max(int(min(seconds / estimate, MOST_RUNS)), LEAST_RUNS)
    warm = min(max(1, math.ceil(WARM_UP / estimate)), MOST_RUNS) if estimate <= LONGEST_TURN else 0
    each, rest = divmod(runs, ROUNDS)
    return Schedule(warm, tuple(each + (number < rest) for number in range(ROUNDS)))


def turns(names: Sequence[str], number: int) -> list[str]:
    """Return the order of a round: as given in even rounds, reversed in odd rounds."""
    return list(names if number % 2 == 0 else reversed(names))


class Benchmark:
    """Measures cases; compares the first competitor with the others.

    Parameters
    ----------
    budget : float
        Seconds for each competitor and each case, without preparation.

    Attributes
    ----------
    versions : dict of str to str
        Names and versions of what is compared, by competitor.
    peaks : dict of str to (float or None)
        What `peak` returned, by data type.
    bandwidths : dict of int to (float or None)
        What `bandwidth` returned, by the bytes that `bandwidth_size` gives.
    gaps : dict of str to str
        Why a peak or a bandwidth is missing, by what is missing.
    """

    def __init__(self, competitors: Sequence[Competitor], *, budget: float) -> None:
        self._competitors = {competitor.name: competitor for competitor in competitors}
        self._budget = budget
        self.versions = {competitor.name: competitor.version for competitor in competitors}
        self.peaks: dict[str, float | None] = {}
        self.bandwidths: dict[int, float | None] = {}
        self.gaps: dict[str, str] = {}

    def measure(self, case: Case) -> Result:
        """Return the times of a case; a competitor's failure is its outcome."""
        timings: dict[str, Timing] = {}
        schedules: dict[str, Schedule] = {}
        for name in self._competitors:
            timings[name], estimate = self._prepare(name, case)
            if timings[name].status == OK:
                schedules[name] = schedule(estimate, self._budget)
        seconds: dict[str, list[float]] = {name: [] for name in schedules}
        for number in range(ROUNDS):
            for name in turns(list(seconds), number):
                warm, counts = schedules[name]
                try:
                    seconds[name] += self._run(name, warm, counts[number])
                except WorkerFailure as failure:
                    del seconds[name]
                    timings[name] = Timing(failure.status, failure.detail)
        for name, measured in seconds.items():
            timings[name] = Timing(OK, timings[name].detail, tuple(measured))
        return Result(case, timings, self.peak(case.dtype), self.bandwidth(case.nbytes))

    def peak(self, dtype: str) -> float | None:
        """Return floating-point operations a second of oneDNN's own matrix product.

        None where native does not take part, or the library has no such product.
        """
        if dtype not in self.peaks:
            self.peaks[dtype] = self._measured_peak(dtype)
        return self.peaks[dtype]

    def bandwidth(self, nbytes: int) -> float | None:
        """Return bytes a second of oneDNN's primitives that only copy, on about so many bytes.

        Half of the bytes are read, half written. Few bytes stay in the caches from call to call,
        as a problem's tensors do. None as for `peak`.
        """
        size = bandwidth_size(nbytes)
        if size not in self.bandwidths:
            self.bandwidths[size] = self._asked_native("the bandwidth", f"bandwidth {size}")
        return self.bandwidths[size]

    def _measured_peak(self, dtype: str) -> float | None:
        requests = [f"peak {name}" for name in PEAK_TYPES[dtype]]
        return self._asked_native(f"the peak of {dtype}", *requests)

    def _asked_native(self, what: str, *requests: str) -> float | None:
        """Return native's first answer; None without one, with the reason among the gaps."""
        reason = "native, which measures it, takes no part"
        if native := self._competitors.get("native"):
            for request in requests:
                try:
                    return float(native.process.ask(request))
                except WorkerFailure as failure:
                    reason = f"native: {failure.detail or failure.status}"
        self.gaps[what] = reason
        return None

    def _prepare(self, name: str, case: Case) -> tuple[Timing, float]:
        """Return the implementation or why there is none, and the seconds of a call."""
        competitor = self._competitors[name]
        if defect := competitor.defect(case):
            return Timing("defect", defect), 0.0
        try:
            implementation = competitor.process.ask(f"prepare {competitor.request(case)}")
            (estimate,) = self._run(name, 0, 1)
            if estimate * 2 * ESTIMATING_RUNS < self._budget:
                estimate = median(self._run(name, 0, ESTIMATING_RUNS))
        except WorkerFailure as failure:
            return Timing(failure.status, failure.detail), 0.0
        return Timing(OK, implementation), estimate

    def _run(self, name: str, warm: int, count: int) -> list[float]:
        if not count:
            return []
        if len(self._competitors) > 1:
            time.sleep(PAUSE)
        answer = self._competitors[name].process.ask(f"run {warm} {count}")
        return [float(word) for word in answer.split()]
