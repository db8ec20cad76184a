"""Outcomes of a verification as text in benchdnn's style, as JSON and as JUnit XML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from onednn_py.tools.benchdnn.case import row

from .verifier import STATUSES, Outcome

__all__ = ["outcome_line", "succeeded", "summary_lines", "to_json", "to_junit"]

# Characters that XML 1.0 cannot hold.
_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def succeeded(outcomes: Sequence[Outcome]) -> bool:
    """Whether no case failed and at least one was not skipped."""
    statuses = {outcome.status for outcome in outcomes}
    return "failed" not in statuses and not statuses <= {"skipped"}


def outcome_line(number: int, outcome: Outcome, command: str) -> str:
    """Return number, status and reason of a test, and the command that runs it again.

    ``command`` is without the options that select the case.
    """
    reason = f" ({outcome.reason})" if outcome.reason else ""
    return f"{number}:{outcome.status.upper()}{reason} {command} {outcome.case.options}"


def _counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    counts = Counter(outcome.status for outcome in outcomes)
    return {"tests": len(outcomes), **{status: counts[status] for status in STATUSES}}


def _summary(outcomes: Sequence[Outcome]) -> str:
    return " ".join(f"{name}:{count}" for name, count in _counts(outcomes).items())


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


def to_json(outcomes: Sequence[Outcome], command: str) -> dict[str, Any]:
    """Return all outcomes and their counts as JSON objects; ``command`` as for `outcome_line`."""
    return {
        "summary": _counts(outcomes),
        "tests": [
            {
                **row(outcome),
                "equal": list(outcome.equal),
                "notes": list(outcome.notes),
                "command": f"{command} {outcome.case.options}",
            }
            for outcome in outcomes
        ],
    }


def to_junit(outcomes: Sequence[Outcome], command: str) -> str:
    """Return JUnit XML, in which cases that neither passed nor failed are skipped."""
    counts = _counts(outcomes)
    attributes = {
        "name": "onednn_py verify",
        "tests": str(counts["tests"]),
        "failures": str(counts["failed"]),
        "errors": "0",
        "skipped": str(counts["tests"] - counts["passed"] - counts["failed"]),
        "time": f"{sum(outcome.seconds for outcome in outcomes):.3f}",
    }
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    for outcome in outcomes:
        case = outcome.case
        test = ElementTree.SubElement(
            suite,
            "testcase",
            classname=".".join(
                (case.descriptor.operation, case.direction, case.dtype, case.data_format)
            ),
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
