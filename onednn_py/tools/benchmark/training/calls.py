"""The convolutions of a training step, each call with its time on either side, by the profiler."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from torch.profiler import ProfilerActivity, profile

from .step import Training
from .timing import SIDES, Sides

__all__ = ["profile_calls"]

OPERATIONS = ("aten::convolution", "aten::convolution_backward")

# Tensors among the arguments of both operations, which come first.
TENSORS = 3

# Profiled steps of each side; the median counts.
STEPS = 3

# What tells calls apart: operation, shapes of the tensors, and the further arguments.
Key = tuple[str, str, str]


def profile_calls(training: Training, sides: Sides) -> dict[str, Any]:
    """Return the share of a step that PyTorch alone spends in convolutions, and all calls.

    The times are those inside of a step, where the results of other operations take caches and
    memory: a call that is timed in a loop of its own may look different.

    Returns
    -------
    dict
        ``share``; and ``calls``, a list of dicts with ``operation``, ``shapes``, ``arguments``,
        ``count`` (calls a step) and the seconds of all these calls by side.
    """
    steps: dict[str, list[dict[Key, list[float]]]] = {side: [] for side in SIDES}
    shares = []
    for _ in range(STEPS):
        for side in SIDES:
            with sides(side):
                training.step()
                found, total = _profiled(training)
            steps[side].append(found)
            if side == "plain":
                shares.append(sum(map(sum, found.values())) / total)
    calls = [
        {
            "operation": key[0].removeprefix("aten::"),
            "shapes": key[1],
            "arguments": key[2],
            "count": len(seconds),
            "seconds": {
                side: median(sum(step.get(key, ())) for step in steps[side]) for side in SIDES
            },
        }
        for key, seconds in steps["plain"][0].items()
    ]
    return {"share": median(shares), "calls": calls}


def _profiled(training: Training) -> tuple[dict[Key, list[float]], float]:
    """Return the seconds of each convolution of a step, and of the step's operations in all."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        training.step()
    found: dict[Key, list[float]] = {}
    total = 0.0
    for event in recorded.events():
        total += event.self_cpu_time_total
        if event.name in OPERATIONS:
            shapes, arguments = event.input_shapes[:TENSORS], event.concrete_inputs[TENSORS:]
            key = (event.name, " ".join(_sizes(shapes)), str(arguments))
            found.setdefault(key, []).append(1e-6 * event.cpu_time_total)
    return found, 1e-6 * total


def _sizes(shapes: list[Any]) -> Iterator[str]:
    """Yield shapes as 8x64x56x56; an absent bias has none."""
    return ("x".join(map(str, shape)) for shape in shapes if shape)
