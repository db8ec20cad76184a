"""Reports: lines, counts, and the exit condition of `verify`."""

from __future__ import annotations

from onednn_py.testing import Outcome, Report
from onednn_py.testing.report import outcome_line, succeeded, summary_lines
from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import Case


def case(text: str = "ic4iw3oc8kw3", dtype: str = "f32") -> Case:
    return Case(parse_descriptor(text), "BWD_D", dtype, "NXC")


PASSED = Outcome(case(), "passed", implementation="jit", equal=("onednn", "numpy"))
FAILED = Outcome(
    case("ic4iw3oc8kw3nname"),
    "failed",
    "diff_src: 1 of 8 elements differ",
    equal=("onednn",),
    notes=("native: known defect, uxlfoundation/oneDNN#6035",),
)
SKIPPED = Outcome(case("mb0ic4iw3oc8kw3", "bf16"), "skipped", "no elements to compute")
MISTRUSTED = Outcome(case(), "mistrusted", "5% of dst is not zero", "jit", ("onednn", "numpy"))
UNIMPLEMENTED = Outcome(case(), "unimplemented", "no groups")


def test_lines() -> None:
    assert outcome_line(1, PASSED, "run it") == "1:PASSED run it"
    assert outcome_line(2, MISTRUSTED, "run") == "2:MISTRUSTED (5% of dst is not zero) run"
    assert summary_lines([PASSED]) == [
        "equal to the reference: onednn 1, numpy 1",
        "tests:1 passed:1 skipped:0 mistrusted:0 unimplemented:0 failed:0",
    ]
    assert summary_lines([PASSED, FAILED, SKIPPED, MISTRUSTED]) == [
        "f32   tests:3 passed:1 skipped:0 mistrusted:1 unimplemented:0 failed:1",
        "bf16  tests:1 passed:0 skipped:1 mistrusted:0 unimplemented:0 failed:0",
        "equal to the reference: onednn 3, numpy 2",
        "not compared: 1 with native: known defect, uxlfoundation/oneDNN#6035",
        "skipped: 1, no elements to compute",
        "tests:4 passed:1 skipped:1 mistrusted:1 unimplemented:0 failed:1",
    ]


def test_success_needs_a_case_that_ran_and_no_failure() -> None:
    assert succeeded([PASSED, SKIPPED])
    assert succeeded([MISTRUSTED])
    assert succeeded([UNIMPLEMENTED])
    assert not succeeded([PASSED, FAILED])
    assert not succeeded([SKIPPED])
    assert not succeeded([])


def test_a_report_counts_and_prints_what_a_person_has_to_see() -> None:
    report = Report((PASSED, FAILED, SKIPPED, MISTRUSTED, UNIMPLEMENTED, PASSED))
    numbers = (report.passed, report.failed, report.skipped)
    assert (*numbers, report.mistrusted, report.unimplemented) == (2, 1, 1, 1, 1)
    tags = "--dt=f32 --stag=axb --dtag=axb"
    failure = (
        f"2:FAILED (diff_src: 1 of 8 elements differ) --conv --dir=BWD_D {tags}"
        " 'mb2ic4iw3oc8ow1kw3pw0n\"name\"'"
    )
    assert report.failures == (failure,)
    lines = str(report).splitlines()
    assert lines[:3] == [
        failure,
        f"4:MISTRUSTED (5% of dst is not zero) {MISTRUSTED.case.id}",
        f"5:UNIMPLEMENTED (no groups) {UNIMPLEMENTED.case.id}",
    ]
    last = "tests:6 passed:2 skipped:1 mistrusted:1 unimplemented:1 failed:1"
    assert lines[-1] == last
    assert repr(report) == f"<Report: {last}>"
    assert str(Report(())).startswith("tests:0 passed:0 ")
