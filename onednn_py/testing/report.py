"""Outcomes of comparisons, their counts, and reports in benchdnn's style."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from onednn_py.tools.benchdnn.case import Case

__all__ = ["STATUSES", "Outcome", "Report", "counts", "outcome_line", "succeeded", "summary_lines"]

STATUSES = ("passed", "skipped", "mistrusted", "unimplemented", "failed")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of comparing one case.

    Attributes
    ----------
    case : Case
        The case as it ran, possibly with minibatch 1 instead of the requested one.
    status : {"passed", "skipped", "mistrusted", "unimplemented", "failed"}
    reason : str
        Why the case did not pass; empty if it did.
    implementation : str
        Implementation of oneDNN that took part; empty if none did.
    equal : tuple of str
        The compared results that equal the reference, by name.
    notes : tuple of str
        Omitted comparisons with their reasons.
    seconds : float
        Of the whole comparison.
    """

    case: Case
    status: str
    reason: str = ""
    implementation: str = ""
    equal: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """What ``compare`` found.

    ``str(report)`` has a line for each case that failed, was mistrusted or is unimplemented, and
    ends with benchdnn's line of counts.

    Attributes
    ----------
    outcomes : tuple of Outcome
        One for each case, in the order of the cases.
    """

    outcomes: tuple[Outcome, ...]

    @property
    def passed(self) -> int:
        """Number of cases that equal the reference."""
        return self._count("passed")

    @property
    def failed(self) -> int:
        """Number of cases that do not."""
        return self._count("failed")

    @property
    def skipped(self) -> int:
        """Number of cases that were not compared, each with its reason."""
        return self._count("skipped")

    @property
    def mistrusted(self) -> int:
        """Number of equal results with so many zeros that benchdnn would not trust them."""
        return self._count("mistrusted")

    @property
    def unimplemented(self) -> int:
        """Number of cases for which the candidate raised NotImplementedError."""
        return self._count("unimplemented")

    @property
    def failures(self) -> tuple[str, ...]:
        """A line for each case that failed."""
        return self._lines("failed")

    def _count(self, status: str) -> int:
        return counts(self.outcomes)[status]

    def _lines(self, *statuses: str) -> tuple[str, ...]:
        return tuple(
            outcome_line(number, outcome, outcome.case.id)
            for number, outcome in enumerate(self.outcomes, start=1)
            if outcome.status in statuses
        )

    def __str__(self) -> str:
        printed = self._lines("failed", "mistrusted", "unimplemented")
        return "\n".join([*printed, *summary_lines(self.outcomes)])

    def __repr__(self) -> str:
        return f"<Report: {_summary(self.outcomes)}>"


def succeeded(outcomes: Sequence[Outcome]) -> bool:
    """Whether no case failed and at least one was not skipped."""
    statuses = {outcome.status for outcome in outcomes}
    return "failed" not in statuses and not statuses <= {"skipped"}


def outcome_line(number: int, outcome: Outcome, how: str) -> str:
    """Return number, status and reason of an outcome, and how the case can be run again."""
    reason = f" ({outcome.reason})" if outcome.reason else ""
    return f"{number}:{outcome.status.upper()}{reason} {how}"


def counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Return how many outcomes there are, as ``tests``, and how many have each status."""
    found = Counter(outcome.status for outcome in outcomes)
    return {"tests": len(outcomes), **{status: found[status] for status in STATUSES}}


def _summary(outcomes: Sequence[Outcome]) -> str:
    return " ".join(f"{name}:{count}" for name, count in counts(outcomes).items())


def summary_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """Return counts by data type, implementation compared and reason, then benchdnn's last line."""
    lines = []
    dtypes = dict.fromkeys(outcome.case.dtype for outcome in outcomes)
    if len(dtypes) > 1:
        for dtype in dtypes:
            selected = [outcome for outcome in outcomes if outcome.case.dtype == dtype]
            lines.append(f"{dtype:4}  {_summary(selected)}")
    equal = Counter(name for outcome in outcomes for name in outcome.equal)
    if equal:
        listed = ", ".join(f"{name} {count}" for name, count in equal.items())
        lines.append(f"equal to the reference: {listed}")
    notes = Counter(note for outcome in outcomes for note in outcome.notes)
    lines += [f"not compared: {count} with {note}" for note, count in notes.most_common()]
    skipped = Counter(outcome.reason for outcome in outcomes if outcome.status == "skipped")
    lines += [f"skipped: {count}, {reason}" for reason, count in skipped.most_common()]
    return [*lines, _summary(outcomes)]
