"""The script that compares single calls of PyTorch on drawn problems."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

SCRIPT = ROOT / "benchmarks" / "torch_calls.py"

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.skipif(not SCRIPT.is_file(), reason="an installed package has no benchmarks/"),
]


@pytest.fixture
def torch_calls(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import torch_calls

    return torch_calls


def test_seeds_are_measured_once_and_a_cut_off_line_again(tmp_path: Path) -> None:
    out = tmp_path / "calls.jsonl"
    tables = []
    for seeds in ("0:4", "0:5"):
        command = [sys.executable, SCRIPT, "--seeds", seeds, "--out", out]
        done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=300)
        tables.append(done.stdout)
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        pairs = [(row["seed"], row.get("call")) for row in rows]
        assert len(pairs) == len(set(pairs)) > 0
        assert {row["seed"] for row in rows} == set(range(int(seeds[2:])))
        timed = [row for row in rows if "untimed" not in row]
        assert timed
        assert all(row["seconds"]["plain"] > 0 < row["seconds"]["enabled"] for row in timed)
        with out.open("a", encoding="utf-8") as file:
            file.write('{"seed": 4, "fam')
    assert len(tables[0].splitlines()) < len(tables[1].splitlines())


@pytest.mark.parametrize("seed", range(40))
def test_calls_are_those_of_the_drawn_problem(torch_calls: Any, seed: int) -> None:
    """The problem's products, for PyTorch's own shapes of results."""
    drawn = torch_calls.draw(seed)
    calls = torch_calls.calls_of(drawn, torch_calls.DTYPES["f32"])
    sizes = drawn.cases[0].descriptor
    if not calls:
        assert sizes.pads_begin != sizes.pads_end
        return
    assert calls["forward"]().shape == (sizes.minibatch, sizes.outputs, *sizes.dst)
    diff_src, diff_weights, diff_bias = calls["backward"]()
    assert (diff_src is None) == drawn.direction.startswith("BWD_W")
    assert (diff_weights is None) == (drawn.direction == "BWD_D")
    if diff_weights is not None:
        assert diff_weights.shape[2:] == sizes.kernel
    assert (diff_bias is not None) == drawn.direction.endswith("B")


def test_a_report_counts_what_is_slower(torch_calls: Any) -> None:
    common = {"dtype": "f32", "format": "NCX", "call": "forward", "seed": 7, "descriptor": "ic3"}
    rows = [
        {**common, "seconds": {"plain": 1e-3, "enabled": enabled}, "left": left}
        for enabled, left in ((5e-4, ""), (2e-3, ""), (1e-3, "a reason"))
    ]
    rows.append({**common, "untimed": "another reason"})
    _, _, line, untimed, *slowest = torch_calls.report_lines(rows)
    assert untimed == "1 not timed: another reason"
    assert line == "| f32 NCX forward | 3 | 1 | 1.00 | 0.55 | 0.50 | 1 |"
    assert slowest[0].startswith("0.50  1000 us by PyTorch, 2000 us enabled  seed 7 forward f32")


def test_the_first_calls_of_a_block_are_not_counted(
    torch_calls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call takes as long as a clock is moved on by it, the first ones ten times as long."""
    clock = [0.0]
    takes = iter([10.0] * torch_calls.UNCOUNTED + [1.0] * 3)

    def call() -> None:
        clock[0] += next(takes)

    monkeypatch.setattr(torch_calls.time, "perf_counter", lambda: clock[0])
    assert torch_calls._block(call, 3) == 1.0
    assert next(takes, None) is None
