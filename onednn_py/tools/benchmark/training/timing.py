"""Times training steps, with PyTorch's own convolutions and with ours, by turns in one process."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from onednn_py.config import Effort
from onednn_py.tools.benchmark.measurement import ROUNDS, schedule, turns

from .step import Training

__all__ = ["SIDES", "Sides", "count_calls", "time_steps"]

# PyTorch alone, and with `onednn_py.torch` enabled.
SIDES = ("plain", "enabled")

# Steps of each side before the first that is timed: they compile, plan, and meet fresh memory.
WARM_STEPS = 3


class Sides:
    """Puts a side in force inside a ``with`` block.

    Parameters
    ----------
    effort : {"heuristic", "measure"}
        Of the enabled side.
    """

    def __init__(self, effort: Effort) -> None:
        self._effort = effort

    def __call__(self, side: str) -> AbstractContextManager[Any]:
        import onednn_py.torch

        if side == "plain":
            return nullcontext()
        return onednn_py.torch.enabled(effort=self._effort)


def time_steps(training: Training, sides: Sides, budget: float) -> dict[str, list[float]]:
    """Return the seconds of each timed step, by side.

    The sides take turns in rounds, each round in the opposite order of the round before; a turn
    begins with a step that is not timed, for the memory that the other side has left.

    Parameters
    ----------
    budget : float
        Seconds of timed steps for each side; a step that alone takes longer runs three times.
    """
    schedules = {}
    for side in SIDES:
        with sides(side):
            *_, estimate = _run(training, WARM_STEPS)
        schedules[side] = schedule(estimate, budget)
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(ROUNDS):
        for side in turns(SIDES, number):
            warm, counts = schedules[side]
            if counts[number]:
                with sides(side):
                    _run(training, warm)
                    seconds[side] += _run(training, counts[number])
    return seconds


def count_calls(training: Training, sides: Sides) -> dict[str, Any]:
    """Return how many convolutions of one enabled step run here, and why others do not.

    Returns
    -------
    dict
        ``taken`` by operation, and ``left`` by reason.
    """
    import onednn_py.torch

    before = onednn_py.torch.statistics()
    with sides("enabled"):
        training.step()
    after = onednn_py.torch.statistics()
    left: Counter[str] = Counter()
    for operation, reasons in after.left.items():
        left.update(reasons)
        left.subtract(before.left.get(operation, {}))
    return {
        "taken": dict(Counter(after.taken) - Counter(before.taken)),
        "left": {reason: number for reason, number in left.items() if number},
    }


def _run(training: Training, count: int) -> list[float]:
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        training.step()
        seconds.append(time.perf_counter() - start)
    return seconds
