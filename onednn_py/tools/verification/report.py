"""Outcomes of a verification as JSON and as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from onednn_py.testing.report import Outcome, counts
from onednn_py.tools.benchdnn.case import row

__all__ = ["to_json", "to_junit"]

# Characters that XML 1.0 cannot hold.
_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_json(outcomes: Sequence[Outcome], command: str) -> dict[str, Any]:
    """Return all outcomes and their counts as JSON objects.

    ``command`` runs a case again, with the options that select the case.
    """
    return {
        "summary": counts(outcomes),
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
    found = counts(outcomes)
    attributes = {
        "name": "onednn_py verify",
        "tests": str(found["tests"]),
        "failures": str(found["failed"]),
        "errors": "0",
        "skipped": str(found["tests"] - found["passed"] - found["failed"]),
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
