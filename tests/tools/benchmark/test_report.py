"""Tables of a benchmark's results."""

from __future__ import annotations

from onednn_py.cli import bench
from onednn_py.tools.benchmark.report import (
    case_labels,
    result_heading,
    result_line,
    tiny_lines,
)
from onednn_py.tools.benchmark.results import Result, Timing
from tests.support.bench_cases import case, four_results, timed


def test_the_table_has_set_widths() -> None:
    results = four_results()
    labels = case_labels([result.case for result in results])
    columns = [result_heading(["native"]), *(result_line(r, ["native"]) for r in results)]
    lines = [f"{label}  {column}" for label, column in zip(labels, columns, strict=True)]
    assert lines[1].split() == [
        *("0", "BWD_D", "f32", "NCX", "200.00", "0", "0%", "-", "2.00", "jit")
    ]
    ends = {line.rindex("jit") for line in lines[1:]}
    assert ends == {lines[0].index("implementation")}


def test_a_long_name_is_cut_and_a_failure_is_a_line() -> None:
    failed = Result(case(f"mb1ic4ih6oc8kh3n{'x' * 99}"), {"ours": Timing("failed", "why")})
    heading, label = case_labels([failed.case])
    assert label == f"{'x' * 37}...  BWD_D f32 NCX"
    assert len(heading) == len(label)
    assert result_line(failed, []) == "failed: why"


def test_the_tiny_problem() -> None:
    timings = {"ours": timed(2e-5), "plan": timed(1e-5), "torch": timed(4e-5)}
    lines = tiny_lines(Result(bench.TINY, timings))
    assert [line.split() for line in lines[2:]] == [
        ["plain", "call", "20.0", "2.00"],
        ["plan,", "out=", "10.0", "4.00"],
        ["PyTorch", "40.0"],
    ]
