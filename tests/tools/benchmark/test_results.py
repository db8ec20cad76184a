"""Ratios, groups and JSON of a benchmark's results."""

from __future__ import annotations

import json

import pytest

from onednn_py.tools.benchmark.report import gap_lines, group_lines
from onednn_py.tools.benchmark.results import Result, Timing, from_json, grouped, to_json
from tests.support.bench_cases import case, four_results, timed


def test_ratios_are_of_medians() -> None:
    first = four_results()[0]
    assert first.ratio("native") == pytest.approx(2)
    assert first.ratio("torch") is None
    assert first.rate == pytest.approx(first.case.descriptor.flops / 0.2)
    assert first.peak_share == pytest.approx(first.rate / 1e9)


def test_the_bound_is_of_arithmetic_or_of_memory() -> None:
    # 2 x 4 x 8 x 9 x 16 operations; float32 tensors of 4 x 36, 8 x 16 and 8 x 4 x 9 elements.
    fields = case("mb1ic4ih6oc8kh3"), {"ours": timed(3e-6)}
    flops, nbytes = 9216, 4 * (144 + 128 + 288)
    assert (fields[0].descriptor.flops, fields[0].nbytes) == (flops, nbytes)
    slow = Result(*fields, 9.216e9, 1e12)
    assert slow.bound == pytest.approx(1e-6)
    assert slow.bound_share == pytest.approx(1 / 3)
    assert slow.lost == pytest.approx(2e-6)
    assert not slow.is_bound_by_memory
    narrow = Result(*fields, 9.216e9, nbytes / 2e-6)
    assert narrow.bound == pytest.approx(2e-6)
    assert narrow.is_bound_by_memory
    for unknown in (Result(*fields, None, 1e9), Result(*fields, 1e9, None)):
        assert unknown.bound is unknown.bound_share is unknown.lost is None
        assert not unknown.is_bound_by_memory
    failed = Result(fields[0], {"ours": Timing("failed", "why")}, 1e9, 1e9)
    assert failed.bound_share is failed.lost is None


def test_what_is_written_is_read_back() -> None:
    results = [Result(case(), {"ours": timed(3e-6)}, 1e9, 2e9)]
    written = {"peak": {"f32": 1e9}, **to_json(results)}
    (found,) = from_json(json.loads(json.dumps(written)))
    assert (found.bound, found.own.median) == (results[0].bound, 3e-6)
    # A file of an older version has no bandwidth.
    del written["cases"][0]["bandwidth"]
    assert from_json(written)[0].bound is None


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
