"""What a benchmark found: times, ratios, and what many of them say together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, log
from statistics import median
from typing import Any

from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import Case

__all__ = ["EXPECTED", "OK", "Group", "Result", "Timing", "from_json", "grouped", "to_json"]

OK = "ok"

# Statuses that say something about a competitor, not about a benchmark that went wrong.
EXPECTED = (OK, "unimplemented", "unsupported", "defect")

# Seconds from which "the same implementation" is compared: below, calls decide.
LONG = 1e-3


@dataclass(frozen=True, slots=True)
class Timing:
    """What one competitor did with a case.

    Attributes
    ----------
    status : str
        ``"ok"``, ``"defect"`` (not run, for native may crash or hang), ``"unsupported"`` (it
        has no such call), ``"unimplemented"``, or how it failed.
    detail : str
        The implementation's name, or the reason for another status.
    seconds : tuple of float
        One for each timed call.
    """

    status: str
    detail: str
    seconds: tuple[float, ...] = ()

    @property
    def median(self) -> float:
        """Seconds of a call."""
        return median(self.seconds)


@dataclass(frozen=True, slots=True)
class Result:
    """The times of a case.

    Attributes
    ----------
    case : Case
    timings : mapping of str to Timing
        By competitor; the first one is compared with the others.
    peak : float or None
        Floating-point operations a second that the machine reaches in the case's type.
    """

    case: Case
    timings: Mapping[str, Timing]
    peak: float | None = None

    @property
    def own(self) -> Timing:
        return next(iter(self.timings.values()))

    @property
    def others(self) -> dict[str, Timing]:
        return dict(list(self.timings.items())[1:])

    def ratio(self, other: str) -> float | None:
        """Return the other's time over the first one's, None where there are not both."""
        timing = self.timings.get(other)
        if timing is None or not (timing.seconds and self.own.seconds):
            return None
        return timing.median / self.own.median

    @property
    def rate(self) -> float | None:
        """Floating-point operations a second, as benchdnn counts them."""
        return self.case.descriptor.flops / self.own.median if self.own.seconds else None

    @property
    def peak_share(self) -> float | None:
        return self.rate / self.peak if self.rate and self.peak else None

    @property
    def as_expected(self) -> bool:
        """Whether the first one ran, and no other failed."""
        statuses = {timing.status for timing in self.timings.values()}
        return self.own.status == OK and statuses <= set(EXPECTED)

    @property
    def name(self) -> str:
        """What to call the problem: its name, or else its descriptor."""
        return self.case.descriptor.name or str(self.case.descriptor)


@dataclass(frozen=True, slots=True)
class Group:
    """The ratios of many cases to one competitor.

    Attributes
    ----------
    dtype, data_format, direction : str
    other : str
        The competitor.
    note : str
        What the cases have in common besides; empty for all of them.
    ratios : tuple of float
        In the order of the cases.
    worst : Result
        The one with the smallest ratio.
    """

    dtype: str
    data_format: str
    direction: str
    other: str
    note: str
    ratios: tuple[float, ...]
    worst: Result

    @property
    def geometric_mean(self) -> float:
        return exp(fsum(map(log, self.ratios)) / len(self.ratios))

    @property
    def faster(self) -> int:
        """Cases in which the other one takes at least as long."""
        return sum(ratio >= 1 for ratio in self.ratios)


def grouped(results: Sequence[Result]) -> list[Group]:
    """Return the groups of equal type, format and direction, one for each competitor.

    For native, the problems of at least 1 ms for which both chose the same implementation are
    one more group, over all types, formats and directions alike.
    """
    keys = dict.fromkeys((*_kind(result), other) for result in results for other in result.others)
    groups = []
    for key in keys:
        some = [result for result in results if _kind(result) == key[:-1]]
        groups.append(_group(key, "", some))
    same = [result for result in results if _same_implementation(result)]
    groups.append(_group(("", "", "", "native"), "same implementation, 1 ms or more", same))
    return [group for group in groups if group is not None]


def _kind(result: Result) -> tuple[str, str, str]:
    return (result.case.dtype, result.case.data_format, result.case.direction)


def _group(key: tuple[str, str, str, str], note: str, results: Iterable[Result]) -> Group | None:
    other = key[-1]
    found = [(ratio, result) for result in results if (ratio := result.ratio(other)) is not None]
    if not found:
        return None
    worst = min(found, key=lambda pair: pair[0])[1]
    return Group(*key, note, tuple(ratio for ratio, _ in found), worst)


def _same_implementation(result: Result) -> bool:
    native = result.timings.get("native")
    return (
        native is not None
        and bool(result.own.seconds and native.seconds)
        and result.own.detail == native.detail
        and native.median >= LONG
    )


def to_json(results: Sequence[Result]) -> dict[str, Any]:
    """Return cases and groups as what the json module writes; times are in seconds."""
    return {
        "groups": [
            {
                "dtype": group.dtype,
                "format": group.data_format,
                "direction": group.direction,
                "other": group.other,
                "note": group.note,
                "cases": len(group.ratios),
                "faster": group.faster,
                "geometric_mean": group.geometric_mean,
                "worst": min(group.ratios),
                "worst_case": group.worst.name,
            }
            for group in grouped(results)
        ],
        "cases": [
            {
                "operation": result.case.descriptor.operation,
                "descriptor": str(result.case.descriptor),
                "name": result.case.descriptor.name,
                "direction": result.case.direction,
                "dtype": result.case.dtype,
                "format": result.case.data_format,
                "flops": result.case.descriptor.flops,
                "peak_share": result.peak_share,
                "timings": {name: _timing(timing) for name, timing in result.timings.items()},
                "ratios": {other: result.ratio(other) for other in result.others},
            }
            for result in results
        ],
    }


def _timing(timing: Timing) -> dict[str, Any]:
    found: dict[str, Any] = {"status": timing.status, "detail": timing.detail}
    if timing.seconds:
        found |= {
            "median": timing.median,
            "least": min(timing.seconds),
            "runs": len(timing.seconds),
        }
    return found


def from_json(content: Mapping[str, Any]) -> list[Result]:
    """Return the results that `to_json` wrote, each competitor with its median as its only time.

    Parameters
    ----------
    content : mapping
        What the command bench writes: ``cases``, and ``peak`` by data type if it is known.
    """
    peaks = content.get("peak", {})
    found = []
    for case in content["cases"]:
        transposed = case["operation"] == "deconv"
        descriptor = parse_descriptor(case["descriptor"], transposed=transposed)
        timings = {
            name: Timing(
                timing["status"],
                timing["detail"],
                (timing["median"],) if "median" in timing else (),
            )
            for name, timing in case["timings"].items()
        }
        one = Case(descriptor, case["direction"], case["dtype"], case["format"])
        found.append(Result(one, timings, peaks.get(case["dtype"])))
    return found
