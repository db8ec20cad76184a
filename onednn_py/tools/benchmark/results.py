"""The results of a benchmark: times, ratios, and statistics of groups of cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import geometric_mean, median
from typing import Any, NamedTuple

from onednn_py.tools.benchdnn.case import Case

__all__ = [
    "EXPECTED",
    "OK",
    "Category",
    "Group",
    "Result",
    "Timing",
    "from_json",
    "grouped",
    "to_json",
]

OK = "ok"

# Statuses of a benchmark that went well: a competitor cannot compute every case.
EXPECTED = (OK, "unimplemented", "unsupported", "defect")

# Seconds from which times of the same implementation are compared: below, the overhead of a call
# decides.
LONG = 1e-3


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of one competitor on a case, or why there are none.

    Attributes
    ----------
    status : str
        ``"ok"``, ``"defect"`` (not run, for native may crash or hang), ``"unsupported"`` (the
        competitor has no such call), ``"unimplemented"``, or how it failed.
    detail : str
        The implementation's name, or the reason for another status.
    seconds : tuple of float
        Of each timed call.
    """

    status: str
    detail: str
    seconds: tuple[float, ...] = ()

    @property
    def median(self) -> float:
        """Seconds of a call."""
        return median(self.seconds)


class Category(NamedTuple):
    """The properties that are equal in all cases whose ratios are summarised together."""

    dtype: str
    data_format: str
    direction: str


@dataclass(frozen=True, slots=True)
class Result:
    """The times of a case.

    Attributes
    ----------
    timings : mapping of str to Timing
        By competitor; the first one is compared with the others.
    peak : float or None
        Floating-point operations a second that the machine reaches in the case's type.
    bandwidth : float or None
        Bytes a second that it copies, of as many bytes as the case has.
    """

    case: Case
    timings: Mapping[str, Timing]
    peak: float | None = None
    bandwidth: float | None = None

    @property
    def own(self) -> Timing:
        return next(iter(self.timings.values()))

    @property
    def others(self) -> dict[str, Timing]:
        return dict(list(self.timings.items())[1:])

    def ratio(self, other: str, base: str = "") -> float | None:
        """Return another competitor's time over that of ``base``, by default the first one.

        None where either has no time.
        """
        timing = self.timings.get(other)
        base_timing = self.timings.get(base) if base else self.own
        if not (timing and base_timing and timing.seconds and base_timing.seconds):
            return None
        return timing.median / base_timing.median

    @property
    def rate(self) -> float | None:
        """Floating-point operations a second, as benchdnn counts them."""
        return self.case.descriptor.flops / self.own.median if self.own.seconds else None

    @property
    def peak_share(self) -> float | None:
        return self.rate / self.peak if self.rate and self.peak else None

    @property
    def bound(self) -> float | None:
        """Seconds that the case takes at least, at the machine's peak and bandwidth."""
        if not (self.peak and self.bandwidth):
            return None
        return max(self.case.descriptor.flops / self.peak, self.case.nbytes / self.bandwidth)

    @property
    def is_bound_by_memory(self) -> bool:
        """Whether the bandwidth decides on the bound, not the peak."""
        bound = self.bound
        return bound is not None and bound * (self.peak or 0.0) > self.case.descriptor.flops

    @property
    def bound_share(self) -> float | None:
        """The bound over the time; above 1 where the case reaches more bandwidth than a copy."""
        bound = self.bound
        return bound / self.own.median if bound and self.own.seconds else None

    @property
    def lost(self) -> float | None:
        """Seconds that the case takes more than its bound."""
        bound = self.bound
        return self.own.median - bound if bound and self.own.seconds else None

    @property
    def as_expected(self) -> bool:
        """Whether the first competitor ran, and no other failed."""
        statuses = {timing.status for timing in self.timings.values()}
        return self.own.status == OK and statuses <= set(EXPECTED)

    @property
    def name(self) -> str:
        """The problem's name, or else its descriptor."""
        return self.case.descriptor.name or str(self.case.descriptor)

    @property
    def suite(self) -> str:
        """The suite that the problem's name begins with; may be empty."""
        suite, colon, _ = self.case.descriptor.name.partition(":")
        return suite if colon else ""

    @property
    def category(self) -> Category:
        return Category(self.case.dtype, self.case.data_format, self.case.direction)


@dataclass(frozen=True, slots=True)
class Group:
    """The ratios of many cases to one competitor.

    Attributes
    ----------
    other : str
        The competitor.
    note : str
        What else the cases have in common; empty for all cases of the category.
    ratios : tuple of float
        In the order of the cases.
    worst : Result
        The result with the smallest ratio.
    """

    category: Category
    other: str
    note: str
    ratios: tuple[float, ...]
    worst: Result

    @property
    def geometric_mean(self) -> float:
        return geometric_mean(self.ratios)

    @property
    def faster(self) -> int:
        """Number of cases in which the competitor takes at least as long."""
        return sum(ratio >= 1 for ratio in self.ratios)


def grouped(results: Sequence[Result]) -> list[Group]:
    """Return groups of equal type, format and direction, one for each competitor.

    Against native there is one more group, over all types, formats and directions: the cases of
    at least 1 ms for which both chose the same implementation.
    """
    members: dict[tuple[Category, str, str], list[Result]] = {}
    for result in results:
        for other in result.others:
            members.setdefault((result.category, other, ""), []).append(result)
    everything = (Category("", "", ""), "native", "same implementation, 1 ms or more")
    members[everything] = [result for result in results if _same_implementation(result)]
    groups = []
    for (category, other, note), group in members.items():
        compared = [
            (ratio, result) for result in group if (ratio := result.ratio(other)) is not None
        ]
        if compared:
            ratios, _ = zip(*compared, strict=True)
            _, worst = min(compared, key=itemgetter(0))
            groups.append(Group(category, other, note, ratios, worst))
    return groups


def _same_implementation(result: Result) -> bool:
    if result.ratio("native") is None:
        return False
    native = result.timings["native"]
    return result.own.detail == native.detail and native.median >= LONG


def to_json(results: Sequence[Result]) -> dict[str, Any]:
    """Return groups and cases as values for the json module; times are in seconds."""
    return {
        "groups": [
            {
                "dtype": group.category.dtype,
                "format": group.category.data_format,
                "direction": group.category.direction,
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
                **result.case.to_json(),
                "flops": result.case.descriptor.flops,
                "nbytes": result.case.nbytes,
                "peak_share": result.peak_share,
                "bandwidth": result.bandwidth,
                "bound_share": result.bound_share,
                "timings": {name: _timing(timing) for name, timing in result.timings.items()},
                "ratios": {other: result.ratio(other) for other in result.others},
            }
            for result in results
        ],
    }


def _timing(timing: Timing) -> dict[str, Any]:
    written = {"status": timing.status, "detail": timing.detail}
    if not (seconds := timing.seconds):
        return written
    return {**written, "median": timing.median, "least": min(seconds), "runs": len(seconds)}


def from_json(content: Mapping[str, Any]) -> list[Result]:
    """Return the results of what the command bench wrote, with the medians as the only times."""
    peaks = content.get("peak", {})
    results = []
    for fields in content["cases"]:
        timings = {
            name: Timing(
                timing["status"],
                timing["detail"],
                (timing["median"],) if "median" in timing else (),
            )
            for name, timing in fields["timings"].items()
        }
        case, bandwidth = Case.from_json(fields), fields.get("bandwidth")
        results.append(Result(case, timings, peaks.get(fields["dtype"]), bandwidth))
    return results
