"""Shares of the bound: by group, and where most time is lost."""

from __future__ import annotations

import json

import pytest

from onednn_py.tools.benchmark.bounds import (
    bandwidth_size,
    bound_groups,
    bounds_to_json,
    most_lost,
)
from onednn_py.tools.benchmark.report import bound_lines
from onednn_py.tools.benchmark.results import Result
from tests.support.bench_cases import case, timed


def result(name: str, seconds: float, direction: str = "BWD_D", **more: str) -> Result:
    """Return a result with a bound of 1 ms, by its arithmetic."""
    made = case(f"mb1ic4ih6oc8kh3n{name}", direction, **more)
    return Result(made, {"ours": timed(seconds)}, made.descriptor.flops / 1e-3, 1e12)


RESULTS = [
    result("a:1", 2e-3),
    result("a:2", 8e-3),
    result("a:1", 1e-3, "BWD_W"),
    result("b:1", 4e-3),
    result("b:1", 0.5e-3, data_format="NXC"),
]


@pytest.mark.parametrize(
    ("nbytes", "size"),
    [(0, 2**20), (1000, 2**20), (2**20 + 9, 2**20), (1_500_000, 1_482_910), (2**24, 2**24)],
)
def test_bandwidths_are_measured_in_steps(nbytes: int, size: int) -> None:
    assert bandwidth_size(nbytes) == size
    assert bandwidth_size(2**40) == 2**28


def test_groups_begin_with_what_loses_most() -> None:
    groups = bound_groups([Result(case(), {"ours": timed(1.0)}), *RESULTS])
    assert [tuple(group.key) for group in groups] == [
        ("f32", "NCX", "a", "BWD_D"),
        ("f32", "NCX", "b", "BWD_D"),
        ("f32", "NCX", "a", "BWD_W"),
        ("f32", "NCX", "all", ""),
        ("f32", "NXC", "b", "BWD_D"),
    ]
    assert [group.share for group in groups] == pytest.approx([0.25, 0.25, 1, 64 ** (-1 / 4), 2])
    assert [group.lost for group in groups] == pytest.approx([8e-3, 3e-3, 0, 11e-3, -0.5e-3])
    assert groups[3].seconds == pytest.approx(15e-3)


def test_the_worst_are_named() -> None:
    assert [one.name for one in most_lost(RESULTS, 2)] == ["a:2", "b:1"]
    lines = list(bound_lines(RESULTS, {"the peak of bf16": "native: no such product"}))
    assert lines[2].split() == ["f32", "NCX", "a", "BWD_D", "2", "0.25", "10.0", "8.0"]
    worst = lines[lines.index("most is lost in:") + 1].split("  ")[1:]
    expected = ("a:2", "BWD_D f32 NCX", "7.00 ms of 8.00", "12% of the bound", "by arithmetic")
    assert tuple(map(str.strip, worst)) == expected
    assert lines[-1] == "no bound without the peak of bf16: native: no such product"


def test_without_bounds_there_is_only_the_reason() -> None:
    unknown = [Result(case(), {"ours": timed(1.0)})]
    assert list(bound_lines(unknown, {"the bandwidth": "why"})) == [
        "no bound without the bandwidth: why"
    ]
    assert bounds_to_json(unknown) == []


def test_json() -> None:
    written = json.loads(json.dumps(bounds_to_json(RESULTS)))
    assert written[0] == {
        **{"dtype": "f32", "format": "NCX", "suite": "a", "direction": "BWD_D", "cases": 2},
        **{"geometric_mean": pytest.approx(0.25), "worst_case": "a:2"},
        **{"seconds": pytest.approx(10e-3), "lost": pytest.approx(8e-3)},
    }
