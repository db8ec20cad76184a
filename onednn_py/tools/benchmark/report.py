"""What a benchmark found, as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from onednn_py.tools.benchdnn.case import Case

from .results import EXPECTED, OK, Group, Result

__all__ = [
    "CaseColumn",
    "CaseTable",
    "aligned",
    "fault_lines",
    "gap_lines",
    "group_lines",
    "group_rows",
    "tiny_lines",
    "tiny_rows",
]

# Characters that a problem's name may take before it is cut.
WIDEST_NAME = 40

GROUP_HEADING = ("type", "format", "direction", "against", "cases", "mean", "faster", "worst", "")

# How a person calls the competitors of the tiny problem.
TINY_NAMES = {"ours": "plain call", "plan": "plan, out=", "native": "native", "torch": "PyTorch"}


class CaseColumn:
    """The first column of a table that is printed while its cases are measured, of set width.

    Parameters
    ----------
    cases : sequence of Case
        All that will come.
    """

    def __init__(self, cases: Sequence[Case]) -> None:
        names = ("problem", *(_name(case) for case in cases))
        self._name = min(max(map(len, names)), WIDEST_NAME)
        self._kind = max((len(_kind(case)) for case in cases), default=0)

    def heading(self) -> str:
        return f"{'problem':{self._name}}  {'':{self._kind}}"

    def cell(self, case: Case) -> str:
        name = _name(case)
        if len(name) > self._name:
            name = name[: self._name - 3] + "..."
        return f"{name:{self._name}}  {_kind(case):{self._kind}}"


class CaseTable:
    """A table of ratios, printed while the cases are measured.

    Parameters
    ----------
    cases : sequence of Case
        All that will come.
    others : sequence of str
        The competitors to compare with.
    """

    def __init__(self, cases: Sequence[Case], others: Sequence[str]) -> None:
        self._column = CaseColumn(cases)
        self._others = others

    def heading(self) -> str:
        others = "".join(f"  {f'vs {other}':>9}" for other in self._others)
        return f"{self._column.heading()}       ms   GF/s  peak{others}  implementation"

    def line(self, result: Result) -> str:
        problem = self._column.cell(result.case)
        if not result.own.seconds:
            return f"{problem}  {result.own.status}: {result.own.detail}"
        rate, share = result.rate or 0.0, result.peak_share
        times = f"{1e3 * result.own.median:7.2f}  {rate / 1e9:5.0f}"
        percent = "   -" if share is None else f"{share:4.0%}"
        others = "".join(f"  {_other(result, other):>9}" for other in self._others)
        return f"{problem}  {times}  {percent}{others}  {result.own.detail}"


def fault_lines(result: Result) -> list[str]:
    """Return what went wrong with competitors, for the lines below the case's own."""
    return [
        f"    {other} {timing.status}: {timing.detail}"
        for other, timing in result.others.items()
        if timing.status not in EXPECTED
    ]


def gap_lines(results: Sequence[Result]) -> list[str]:
    """Return how often a competitor has no time, and why."""
    counts = Counter(
        (other, timing.status if timing.status != "defect" else f"defect, {timing.detail}")
        for result in results
        for other, timing in result.others.items()
        if timing.status != OK
    )
    return [f"{other}: {number} {reason}" for (other, reason), number in counts.items()]


def _name(case: Case) -> str:
    return case.descriptor.name or str(case.descriptor)


def _kind(case: Case) -> str:
    return f"{case.direction} {case.dtype} {case.data_format}"


def _other(result: Result, other: str) -> str:
    ratio = result.ratio(other)
    return f"{ratio:.2f}" if ratio is not None else "-"


def group_rows(groups: Sequence[Group]) -> list[tuple[str, ...]]:
    """Return a row for each group, for the columns of `GROUP_HEADING`."""
    return [
        (
            *(group.dtype, group.data_format, group.direction),
            group.other + (f" ({group.note})" if group.note else ""),
            str(len(group.ratios)),
            f"{group.geometric_mean:.2f}",
            f"{group.faster}",
            f"{min(group.ratios):.2f}",
            group.worst.name,
        )
        for group in groups
    ]


def group_lines(groups: Sequence[Group]) -> list[str]:
    """Return a table of geometric means and worst cases, no line without groups."""
    return [] if not groups else aligned([GROUP_HEADING, *group_rows(groups)])


def tiny_rows(result: Result) -> list[tuple[str, ...]]:
    """Return name, microseconds, and the ratios to native and PyTorch, of each competitor."""
    rows: list[tuple[str, ...]] = []
    for name, timing in result.timings.items():
        if not timing.seconds:
            rows.append((TINY_NAMES[name], timing.status, "", ""))
            continue
        ratios = []
        for other in ("native", "torch"):
            theirs = result.timings.get(other)
            known = theirs is not None and theirs.seconds and other != name
            ratios.append(f"{theirs.median / timing.median:.2f}" if known and theirs else "")
        rows.append((TINY_NAMES[name], f"{1e6 * timing.median:.1f}", *ratios))
    return rows


def tiny_lines(result: Result) -> list[str]:
    """Return a table of the time of calls rather than of arithmetic."""
    d = result.case.descriptor
    title = f"{d} {result.case.direction} {result.case.dtype} {result.case.data_format}"
    heading = ("", "µs", "vs native", "vs torch")
    return [title, *aligned([heading, *tiny_rows(result)])]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines, with columns as wide as they need."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
