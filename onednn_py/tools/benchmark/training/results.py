"""The results of timed training steps, and what they come to over all networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import geometric_mean, median
from typing import Any

from .networks import NETWORKS
from .settings import Settings

__all__ = ["Call", "StepResult", "from_json", "mean_ratio", "to_json"]


@dataclass(frozen=True)
class Call:
    """The calls of a step that are alike.

    Attributes
    ----------
    shapes, arguments : str
    count : int
        Calls a step.
    seconds : mapping of str to float
        Of all of them, by side: ``"plain"`` or ``"enabled"``.
    """

    operation: str
    shapes: str
    arguments: str
    count: int
    seconds: Mapping[str, float]

    @property
    def lost(self) -> float:
        """Seconds a step that these calls take more than PyTorch's own."""
        return self.seconds["enabled"] - self.seconds["plain"]


@dataclass(frozen=True)
class StepResult:
    """The times of a network's training step, or why there are none.

    Attributes
    ----------
    failure : str
        Empty where the steps ran.
    shapes : sequence of str
        Of the samples.
    seconds : mapping of str to sequence of float
        Of each timed step, by side.
    share : float
        Of the plain step that is spent in convolutions.
    calls : sequence of Call
    taken : mapping of str to int
        Convolutions of an enabled step that run here, by operation.
    left : mapping of str to int
        Convolutions that PyTorch runs itself, by reason.
    peaks : mapping of str to (int or None)
        Most bytes of a process that trains, by side; empty if it was not measured.
    memory_failure : str
        Why there are no peaks though they were asked for, otherwise empty.
    """

    settings: Settings
    failure: str = ""
    shapes: Sequence[str] = field(default_factory=list)
    seconds: Mapping[str, Sequence[float]] = field(default_factory=dict)
    share: float = 0.0
    calls: Sequence[Call] = field(default_factory=list)
    taken: Mapping[str, int] = field(default_factory=dict)
    left: Mapping[str, int] = field(default_factory=dict)
    peaks: Mapping[str, int | None] = field(default_factory=dict)
    memory_failure: str = ""

    @property
    def title(self) -> str:
        return NETWORKS[self.settings.network].title

    def median(self, side: str) -> float:
        """Seconds of a step."""
        return median(self.seconds[side])

    @property
    def ratio(self) -> float | None:
        """Time of the plain step over that of the enabled one."""
        return self.median("plain") / self.median("enabled") if self.seconds else None

    @property
    def memory_ratio(self) -> float | None:
        """Peak of the enabled process over that of the plain one."""
        plain, enabled = (self.peaks.get(side) for side in ("plain", "enabled"))
        return enabled / plain if plain and enabled else None

    @property
    def slower_calls(self) -> list[Call]:
        """The calls that take longer than PyTorch's own, those that lose most first."""
        slower = [call for call in self.calls if call.lost > 0]
        return sorted(slower, key=lambda call: -call.lost)


def mean_ratio(results: Sequence[StepResult]) -> float | None:
    """Return the geometric mean of the ratios."""
    ratios = [result.ratio for result in results if result.ratio]
    return geometric_mean(ratios) if ratios else None


def to_json(results: Sequence[StepResult]) -> dict[str, Any]:
    """Return the results as values for the json module; times are in seconds, peaks in bytes."""
    ratios = {result.ratio: result.settings.network for result in results if result.ratio}
    return {
        "geometric_mean": mean_ratio(results),
        "worst": min(ratios, default=None),
        "worst_network": ratios[min(ratios)] if ratios else None,
        "networks": [
            {
                "title": result.title,
                "ratio": result.ratio,
                "memory_ratio": result.memory_ratio,
                "median": {side: median(seconds) for side, seconds in result.seconds.items()},
                **asdict(result),
            }
            for result in results
        ],
    }


def from_json(content: Mapping[str, Any]) -> list[StepResult]:
    """Return the results that `to_json` wrote."""
    derived = ("title", "ratio", "memory_ratio", "median", "settings", "calls")
    return [
        StepResult(
            settings=Settings.from_json(fields["settings"]),
            calls=[Call(**call) for call in fields["calls"]],
            **{name: value for name, value in fields.items() if name not in derived},
        )
        for fields in content["networks"]
    ]
