"""The results of a benchmark as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from onednn_py.tools.benchdnn.case import Case

from .results import EXPECTED, OK, Group, Result

__all__ = [
    "CaseColumn",
    "CaseTable",
    "aligned",
    "counted",
    "failure_lines",
    "gap_lines",
    "group_lines",
    "tiny_lines",
    "tiny_rows",
]

# Characters of a problem's name; longer names are cut.
WIDEST_NAME = 40

GROUP_HEADING = ("type", "format", "direction", "against", "cases", "mean", "faster", "worst", "")

# Names of the competitors in the table of the tiny problem.
TINY_NAMES = {"ours": "plain call", "plan": "plan, out=", "native": "native", "torch": "PyTorch"}


class CaseColumn:
    """The first column of a table that is printed while its cases are measured.

    Parameters
    ----------
    cases : sequence of Case
        All cases of the table; they set the column's width.
    """

    def __init__(self, cases: Sequence[Case]) -> None:
        names = ("problem", *(_name(case) for case in cases))
        self._name_width = min(max(map(len, names)), WIDEST_NAME)
        self._category_width = max((len(_category(case)) for case in cases), default=0)

    def heading(self) -> str:
        return self._cell("problem", "")

    def cell(self, case: Case) -> str:
        name = _name(case)
        if len(name) > self._name_width:
            name = name[: self._name_width - 3] + "..."
        return self._cell(name, _category(case))

    def _cell(self, name: str, category: str) -> str:
        return f"{name:{self._name_width}}  {category:{self._category_width}}"


class CaseTable:
    """A table of ratios, printed while the cases are measured.

    Parameters
    ----------
    cases : sequence of Case
        All cases of the table.
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
        others = "".join(f"  {_cell(result.ratio(other), '-'):>9}" for other in self._others)
        return f"{problem}  {times}  {percent}{others}  {result.own.detail}"


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


def _name(case: Case) -> str:
    return case.descriptor.name or str(case.descriptor)


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


def aligned(rows: Sequence[Sequence[str]], numbers: int = 0) -> list[str]:
    """Return rows as lines, with columns as wide as their longest cell.

    Parameters
    ----------
    rows : sequence of sequence of str
    numbers : int
        How many columns, from the left, are aligned to the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = ">" * numbers + "<" * (len(widths) - numbers)
    return [
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def counted(number: int, name: str) -> str:
    """Return a number and a name, in the plural where the number is not 1."""
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
