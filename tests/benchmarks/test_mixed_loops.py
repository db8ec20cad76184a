"""benchmarks/mixed_loops.py: its settings run, and its table has their medians and ratios."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

SCRIPT = ROOT / "benchmarks" / "mixed_loops.py"

pytestmark = pytest.mark.skipif(
    not SCRIPT.is_file(), reason="an installed package has no benchmarks/"
)

SETTINGS = ("default", "leave", "OPENBLAS_NUM_THREADS=1")


def run(*arguments: str) -> str:
    command = [sys.executable, str(SCRIPT), "--seconds=0", "--cases=32, 16, 8", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120, cwd=ROOT
    ).stdout


def test_the_table() -> None:
    header, _, *rows = run("--rounds=1", "--settings", *SETTINGS).splitlines()
    names = [cell.strip() for cell in header.strip("|").split("|")]
    assert names[1:] == [*SETTINGS, "default / leave", "default / best of the others"]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[0] for row in cells] == ["loop 32, 16, 8, 32", "gradients alone 32, 16, 8"]
    for _, *texts in cells:
        default, leave, other, *ratios = map(float, texts)
        expected = [default / leave, default / other]
        for ratio, exact in zip(ratios, expected, strict=True):
            # Both times are rounded to three digits, and the ratio to two behind the point.
            assert ratio == pytest.approx(exact, abs=0.01 * exact + 0.006)


def test_every_round() -> None:
    rounds = json.loads(run("--rounds=2", "--settings", "default", "--json"))
    assert [len(times) for times in rounds["default"]] == [2, 2]
    assert all(time > 0 for times in rounds["default"] for time in times.values())
