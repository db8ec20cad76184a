"""The measurement: the competitors' processes, run in turns on one case after the other.

Only one of them works at a time, all with the same number of threads. A round gives each its
turn, in the opposite order of the round before, so that what slows the machine down for a
while falls on all of them; the median over all rounds is what counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from onednn_py.tools.benchdnn.case import Case

from .contestants import Contestant
from .processes import WorkerFailure
from .results import OK, Result, Timing

__all__ = ["Benchmark", "Schedule", "schedule", "turns"]

# Seconds between two turns: threads of oneDNN and PyTorch spin for milliseconds after their
# work, and would take the cores from whoever is next.
PAUSE = 0.01

# Seconds of calls at the beginning of a turn that are not timed: it finds cold caches, sleeping
# threads and, after the pause, a slow clock.
WARM_UP = 0.02

ROUNDS = 5
LEAST_RUNS = 5
MOST_RUNS = 2000

# Runs where a single one exceeds the time budget.
FEWEST_RUNS = 3

# Runs whose median estimates a short call.
ESTIMATING_RUNS = 5

# A float16 convolution runs in float32 where the CPU has no float16 arithmetic.
PEAK_TYPES = {"f32": ("f32",), "bf16": ("bf16",), "f16": ("f16", "f32")}


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often a competitor runs a case.

    Attributes
    ----------
    warm : int
        Calls at the beginning of each turn that are not timed.
    counts : tuple of int
        Timed calls of each round.
    """

    warm: int
    counts: tuple[int, ...]


def schedule(estimate: float, budget: float) -> Schedule:
    """Return the runs that take about ``budget`` seconds, where one takes ``estimate``."""
    estimate = max(estimate, 1e-9)
    if estimate > budget:
        runs = FEWEST_RUNS
    else:
        runs = min(max(int(budget / estimate), LEAST_RUNS), MOST_RUNS)
    each, rest = divmod(runs, ROUNDS)
    warm = 0 if estimate > budget else min(max(1, math.ceil(WARM_UP / estimate)), MOST_RUNS)
    return Schedule(warm, tuple(each + (number < rest) for number in range(ROUNDS)))


def turns(names: Sequence[str], number: int) -> list[str]:
    """Return the order of a round: there and back."""
    return list(names) if number % 2 == 0 else list(reversed(names))


class Benchmark:
    """Measures cases.

    Parameters
    ----------
    contestants : sequence of Contestant
        The first one is compared with the others.
    budget : float
        Seconds for each of them and each case, without preparation.
    """

    def __init__(self, contestants: Sequence[Contestant], *, budget: float) -> None:
        self._contestants = {one.name: one for one in contestants}
        self._budget = budget
        self._peaks: dict[str, float | None] = {}

    @property
    def names(self) -> list[str]:
        """The competitors, the first one being compared with the others."""
        return list(self._contestants)

    @property
    def peaks(self) -> dict[str, float | None]:
        """What `peak` returned, by data type."""
        return dict(self._peaks)

    @property
    def versions(self) -> dict[str, str]:
        """Names and versions of what is compared, by competitor."""
        return {name: one.version for name, one in self._contestants.items()}

    def measure(self, case: Case) -> Result:
        """Return the times of a case; one that a competitor fails on is its outcome."""
        timings: dict[str, Timing] = {}
        schedules: dict[str, Schedule] = {}
        for name in self._contestants:
            timings[name], estimate = self._prepare(name, case)
            if timings[name].status == OK:
                schedules[name] = schedule(estimate, self._budget)
        seconds: dict[str, list[float]] = {name: [] for name in schedules}
        for number in range(ROUNDS):
            for name in turns(list(seconds), number):
                try:
                    one = schedules[name]
                    seconds[name] += self._run(name, one.warm, one.counts[number])
                except WorkerFailure as failure:
                    del seconds[name]
                    timings[name] = Timing(failure.status, failure.detail)
        for name, found in seconds.items():
            timings[name] = Timing(OK, timings[name].detail, tuple(found))
        return Result(case, timings, self.peak(case.dtype))

    def peak(self, dtype: str) -> float | None:
        """Return floating-point operations a second of oneDNN's own matrix product.

        Returns
        -------
        float or None
            None where native does not take part, or the library has no such product.
        """
        if dtype not in self._peaks:
            self._peaks[dtype] = self._measured_peak(dtype)
        return self._peaks[dtype]

    def _measured_peak(self, dtype: str) -> float | None:
        native = self._contestants.get("native")
        for name in PEAK_TYPES[dtype] if native else ():
            assert native is not None
            try:
                return float(native.worker.ask(f"peak {name}"))
            except WorkerFailure:
                # The share of the peak is worth no more than a gap in a table.
                continue
        return None

    def _prepare(self, name: str, case: Case) -> tuple[Timing, float]:
        """Return the implementation or why there is none, and the seconds of a call."""
        one = self._contestants[name]
        if defect := one.defect(case):
            return Timing("defect", defect), 0.0
        try:
            detail = one.worker.ask(f"prepare {one.request(case)}")
            (estimate,) = self._run(name, 0, 1)
            if estimate * 2 * ESTIMATING_RUNS < self._budget:
                estimate = median(self._run(name, 0, ESTIMATING_RUNS))
        except WorkerFailure as failure:
            return Timing(failure.status, failure.detail), 0.0
        return Timing(OK, detail), estimate

    def _run(self, name: str, warm: int, count: int) -> list[float]:
        if not count:
            return []
        if len(self._contestants) > 1:
            time.sleep(PAUSE)
        answer = self._contestants[name].worker.ask(f"run {warm} {count}")
        return [float(word) for word in answer.split()]
