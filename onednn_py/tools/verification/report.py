"""What a verification found, as text in benchdnn's habit, as JSON and as JUnit XML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from .verifier import STATUSES, Outcome

__all__ = ["outcome_line", "succeeded", "summary", "summary_lines", "to_json", "to_junit"]

# Statuses after which the case's result was computed and compared.
RUN = ("passed", "mistrusted", "unimplemented")

# What XML 1.0 has no way to write.
_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def succeeded(outcomes: Sequence[Outcome]) -> bool:
    """Whether nothing failed and something ran."""
    statuses = {outcome.status for outcome in outcomes}
    return "failed" not in statuses and bool(statuses & set(RUN))


def outcome_line(number: int, outcome: Outcome, command: str) -> str:
    """Return benchdnn's line of a test: number, status, reason, and how to run it again.

    Parameters
    ----------
    number : int
    outcome : Outcome
    command : str
        The command line in front of the case's own options.
    """
    reason = f" ({outcome.reason})" if outcome.reason else ""
    return f"{number}:{outcome.status.upper()}{reason} {command} {outcome.case.options}"


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return benchdnn's last line."""
    counts = Counter(outcome.status for outcome in outcomes)
    return " ".join(
        [f"tests:{len(outcomes)}", *(f"{status}:{counts[status]}" for status in STATUSES)]
    )


def summary_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """Return counts by type, by what was compared and by reason, and the summary."""
    lines = []
    by_dtype = dict.fromkeys(outcome.case.dtype for outcome in outcomes)
    if len(by_dtype) > 1:
        for dtype in by_dtype:
            some = [outcome for outcome in outcomes if outcome.case.dtype == dtype]
            lines.append(f"{dtype:4}  {summary(some)}")
    equal = Counter(who for outcome in outcomes for who in outcome.equal)
    if equal:
        listed = ", ".join(f"{who} {number}" for who, number in equal.items())
        lines.append(f"equal to the reference: {listed}")
    for number, note in _common(note for outcome in outcomes for note in outcome.notes):
        lines.append(f"not compared: {number} with {note}")
    skipped = (outcome.reason for outcome in outcomes if outcome.status == "skipped")
    lines.extend(f"skipped: {number}, {reason}" for number, reason in _common(skipped))
    return [*lines, summary(outcomes)]


def _common(texts: Any) -> list[tuple[int, str]]:
    return [(number, text) for text, number in Counter(texts).most_common()]


def to_json(outcomes: Sequence[Outcome], command: str) -> dict[str, Any]:
    """Return all outcomes and their counts as what the json module writes."""
    counts = Counter(outcome.status for outcome in outcomes)
    return {
        "summary": {"tests": len(outcomes), **{status: counts[status] for status in STATUSES}},
        "tests": [
            {
                "operation": outcome.case.descriptor.operation,
                "descriptor": str(outcome.case.descriptor),
                "name": outcome.case.descriptor.name,
                "direction": outcome.case.direction,
                "dtype": outcome.case.dtype,
                "format": outcome.case.data_format,
                "status": outcome.status,
                "reason": outcome.reason,
                "implementation": outcome.implementation,
                "equal": list(outcome.equal),
                "notes": list(outcome.notes),
                "seconds": outcome.seconds,
                "command": f"{command} {outcome.case.options}",
            }
            for outcome in outcomes
        ],
    }


def to_junit(outcomes: Sequence[Outcome], command: str) -> str:
    """Return JUnit XML: one test case each, what neither passed nor failed as skipped."""
    counts = Counter(outcome.status for outcome in outcomes)
    attributes = {
        "name": "onednn_py verify",
        "tests": str(len(outcomes)),
        "failures": str(counts["failed"]),
        "errors": "0",
        "skipped": str(len(outcomes) - counts["passed"] - counts["failed"]),
        "time": f"{sum(outcome.seconds for outcome in outcomes):.3f}",
    }
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    for outcome in outcomes:
        case = outcome.case
        test = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"{case.descriptor.operation}.{case.direction}.{case.dtype}"
            f".{case.data_format}",
            name=_writable(str(case.descriptor)),
            time=f"{outcome.seconds:.3f}",
        )
        if outcome.status == "failed":
            failure = ElementTree.SubElement(test, "failure", message=_writable(outcome.reason))
            failure.text = _writable(f"{command} {case.options}")
        elif outcome.status != "passed":
            message = _writable(f"{outcome.status}: {outcome.reason}")
            ElementTree.SubElement(test, "skipped", message=message)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _writable(text: str) -> str:
    return _UNWRITABLE.sub("\ufffd", text)
