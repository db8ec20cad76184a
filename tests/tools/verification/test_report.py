"""Reports of outcomes: JSON and JUnit XML."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from onednn_py.testing import Outcome
from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.verification.report import to_json, to_junit


def case(text: str = "ic4iw3oc8kw3", dtype: str = "f32") -> Case:
    return Case(parse_descriptor(text), "BWD_D", dtype, "NXC")


PASSED = Outcome(case(), "passed", implementation="jit", equal=("onednn", "numpy"))
FAILED = Outcome(
    case('ic4iw3oc8kw3n"<&\u00e9\U0001f600>"'),
    "failed",
    "NumPy: diff_src: 1 of 8 elements differ\x00",
    "jit",
    ("onednn",),
    ("native: known defect, uxlfoundation/oneDNN#6035",),
)
SKIPPED = Outcome(case("mb0ic4iw3oc8kw3", "bf16"), "skipped", "no elements to compute")


def test_json() -> None:
    report = to_json([PASSED, FAILED, SKIPPED], "run")
    assert json.loads(json.dumps(report)) == report
    assert report["summary"] == {
        "tests": 3, "passed": 1, "skipped": 1, "mistrusted": 0, "unimplemented": 0, "failed": 1,
    }  # fmt: skip
    assert report["tests"][0] == {
        "operation": "conv",
        "descriptor": "mb2ic4iw3oc8ow1kw3pw0",
        "name": "",
        "direction": "BWD_D",
        "dtype": "f32",
        "format": "NXC",
        "status": "passed",
        "reason": "",
        "implementation": "jit",
        "equal": ["onednn", "numpy"],
        "notes": [],
        "seconds": 0.0,
        "command": f"run {PASSED.case.options}",
    }
    assert report["tests"][1]["name"] == FAILED.case.descriptor.name


def test_junit_keeps_every_name_and_reason_readable() -> None:
    suite = ElementTree.fromstring(to_junit([PASSED, FAILED, SKIPPED], "run")).find("testsuite")
    assert [suite.get(name) for name in ("tests", "failures", "skipped")] == ["3", "1", "1"]
    passed, failed, skipped = suite
    assert passed.get("classname") == "conv.BWD_D.f32.NXC"
    assert not list(passed)
    assert failed.get("name") == str(FAILED.case.descriptor)
    message = failed.find("failure").get("message")
    assert message == "NumPy: diff_src: 1 of 8 elements differ\ufffd"
    assert failed.find("failure").text == f"run {FAILED.case.options}"
    assert skipped.find("skipped").get("message") == "skipped: no elements to compute"
