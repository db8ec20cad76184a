"""Ratios, groups and JSON of a benchmark's results."""

from __future__ import annotations

import json

import pytest

from onednn_py.tools.benchmark.report import gap_lines, group_lines
from onednn_py.tools.benchmark.results import Result, Timing, grouped, to_json
from tests.support.bench_cases import case, four_results, timed


def test_ratios_are_of_medians() -> None:
    first = four_results()[0]
    assert first.ratio("native") == pytest.approx(2)
    assert first.ratio("torch") is None
    assert first.rate == pytest.approx(first.case.descriptor.flops / 0.2)
    assert first.peak_share == pytest.approx(first.rate / 1e9)


def test_groups() -> None:
    channels_first, channels_last, same = grouped(four_results())
    assert channels_first.ratios == pytest.approx((2, 0.5, 8))
    assert channels_first.geometric_mean == pytest.approx(2)
    assert channels_first.faster == 2
    assert channels_first.worst.name == "1"
    assert channels_last.geometric_mean == pytest.approx(3)
    assert (same.other, same.ratios) == ("native", pytest.approx((2,)))
    assert "same implementation" in same.note


def test_a_case_without_a_time_is_in_no_group() -> None:
    failed = Timing("unimplemented", "")
    results = [
        Result(case(), {"ours": timed(1.0), "torch": failed}),
        Result(case(), {"ours": Timing("failed", "why"), "torch": timed(1.0)}),
    ]
    assert grouped(results) == []
    assert group_lines(grouped(results)) == []
    assert [result.as_expected for result in results] == [True, False]
    assert gap_lines(results) == ["torch: 1 unimplemented"]


def test_json() -> None:
    written = json.loads(json.dumps(to_json(four_results())))
    assert [group["worst"] for group in written["groups"]] == pytest.approx([0.5, 3, 2])
    assert written["groups"][0] == {
        **{"dtype": "f32", "format": "NCX", "direction": "BWD_D", "other": "native"},
        **{"note": "", "cases": 3, "faster": 2, "worst": 0.5, "worst_case": "1"},
        "geometric_mean": pytest.approx(2),
    }
    first = written["cases"][0]
    assert first["descriptor"] == 'mb1ic4ih6oc8oh4kh3ph0n"0"'
    assert first["timings"]["ours"] == {
        **{"status": "ok", "detail": "jit"},
        **{"median": 0.2, "least": 0.1, "runs": 3},
    }
    assert first["ratios"] == {"native": pytest.approx(2)}
