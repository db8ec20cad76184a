"""The results of a benchmark as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.text import aligned

from .bounds import bound_groups, most_lost
from .results import EXPECTED, OK, Group, Result

__all__ = [
    "bound_lines",
    "case_labels",
    "failure_lines",
    "gap_lines",
    "group_lines",
    "result_heading",
    "result_line",
    "tiny_lines",
    "tiny_rows",
]

# Characters of a problem's name; longer names are cut.
WIDEST_NAME = 40

GROUP_HEADING = ("type", "format", "direction", "against", "cases", "mean", "faster", "worst", "")

BOUND_HEADING = ("type", "format", "suite", "direction", "cases", "bound", "ms", "ms lost")

# How many cases the summary names that lose most time against their bounds.
MOST_LOST = 5

# Names of the competitors in the table of the tiny problem.
TINY_NAMES = {"ours": "plain call", "plan": "plan, out=", "native": "native", "torch": "PyTorch"}


def case_labels(cases: Sequence[Case]) -> list[str]:
    """Return a heading and a label for each case, all of one width."""
    names = [case.descriptor.name or str(case.descriptor) for case in cases]
    shown = [f"{name[: WIDEST_NAME - 3]}..." if len(name) > WIDEST_NAME else name for name in names]
    labels = aligned([("problem", ""), *zip(shown, map(_category, cases), strict=True)])
    width = max(map(len, labels))
    return [label.ljust(width) for label in labels]


def result_heading(others: Sequence[str]) -> str:
    """Return the heading of `result_line` for the competitors to compare with."""
    columns = "".join(f"  {f'vs {other}':>9}" for other in others)
    return f"     ms   GF/s  peak  bound{columns}  implementation"


def result_line(result: Result, others: Sequence[str]) -> str:
    """Return time, speed and ratios of a case, to stand behind its label."""
    if not result.own.seconds:
        return f"{result.own.status}: {result.own.detail}"
    rate = result.rate or 0.0
    shares = f"{_percent(result.peak_share):>4}  {_percent(result.bound_share):>5}"
    ratios = "".join(f"  {_cell(result.ratio(other), '-'):>9}" for other in others)
    times = f"{1e3 * result.own.median:7.2f}  {rate / 1e9:5.0f}"
    return f"{times}  {shares}{ratios}  {result.own.detail}"


def failure_lines(result: Result) -> list[str]:
    """Return a line for each competitor that failed, to stand below the case's own line."""
    return [
        f"    {other} {timing.status}: {timing.detail}"
        for other, timing in result.others.items()
        if timing.status not in EXPECTED
    ]


def gap_lines(results: Sequence[Result]) -> list[str]:
    """Return how many cases a competitor was not timed on, by reason."""
    counts = Counter(
        (other, timing.status if timing.status != "defect" else f"defect, {timing.detail}")
        for result in results
        for other, timing in result.others.items()
        if timing.status != OK
    )
    return [f"{other}: {number} {reason}" for (other, reason), number in counts.items()]


def bound_lines(results: Sequence[Result], gaps: Mapping[str, str]) -> Iterator[str]:
    """Yield the shares of the bound by group, where most time is lost, and why some are missing.

    Parameters
    ----------
    results : sequence of Result
    gaps : mapping of str to str
        Why the machine's peak or bandwidth is not known, by what is missing.
    """
    groups = bound_groups(results)
    if groups:
        rows = [
            (
                *group.key,
                str(len(group.results)),
                f"{group.share:.2f}",
                f"{1e3 * group.seconds:.1f}",
                f"{1e3 * group.lost:.1f}",
            )
            for group in groups
        ]
        yield "share of the bound, and milliseconds lost against it:"
        yield from aligned([BOUND_HEADING, *rows], "<<<<>>>>")
        yield "most is lost in:"
        worst = [
            (
                result.name,
                _category(result.case),
                f"{1e3 * (result.lost or 0.0):.2f} ms of {1e3 * result.own.median:.2f}",
                f"{_percent(result.bound_share)} of the bound",
                "by bandwidth" if result.is_bound_by_memory else "by arithmetic",
            )
            for result in most_lost(results, MOST_LOST)
        ]
        yield from (f"  {line}" for line in aligned(worst, "<<>>"))
    yield from (f"no bound without {what}: {reason}" for what, reason in gaps.items())


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _category(case: Case) -> str:
    return f"{case.direction} {case.dtype} {case.data_format}"


def _cell(ratio: float | None, missing: str) -> str:
    return missing if ratio is None else f"{ratio:.2f}"


def group_lines(groups: Sequence[Group]) -> list[str]:
    """Return a table of geometric means and worst cases, no line without groups."""
    rows = [
        (
            *group.category,
            group.other + (f" ({group.note})" if group.note else ""),
            str(len(group.ratios)),
            f"{group.geometric_mean:.2f}",
            str(group.faster),
            f"{min(group.ratios):.2f}",
            group.worst.name,
        )
        for group in groups
    ]
    return aligned([GROUP_HEADING, *rows]) if rows else []


def tiny_rows(result: Result) -> list[tuple[str, ...]]:
    """Return name, microseconds, and the ratios to native and PyTorch, of each competitor."""
    rows: list[tuple[str, ...]] = []
    for name, timing in result.timings.items():
        if timing.seconds:
            others = [other if other != name else "" for other in ("native", "torch")]
            ratios = [_cell(result.ratio(other, name), "") for other in others]
            rows.append((TINY_NAMES[name], f"{1e6 * timing.median:.1f}", *ratios))
        else:
            rows.append((TINY_NAMES[name], timing.status, "", ""))
    return rows


def tiny_lines(result: Result) -> list[str]:
    """Return a table for a problem whose time is mostly the overhead of a call."""
    heading = ("", "µs", "vs native", "vs torch")
    title = f"{result.case.descriptor} {_category(result.case)}"
    return [title, *aligned([heading, *tiny_rows(result)])]
