"""Scripts name what is wrong with an argument, and measure nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT

FOLDER = ROOT / "benchmarks"

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="an installed package has no benchmarks/"
)


@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        ("survey", ["report", "missing.jsonl"], "there is no file missing.jsonl"),
        ("survey", ["search", "missing.jsonl", "--out=x.py"], "there is no file missing.jsonl"),
        ("training", ["missing.json"], "there is no file missing.json"),
        ("mixed_loops", ["--cases=unknown"], "no case's name contains 'unknown'; cases: loop 32,"),
        pytest.param(
            *("dask_volume", ["--memory=much"], "expected a size such as 700MiB, got 'much'"),
            marks=pytest.mark.frameworks,
        ),
        pytest.param(
            *("dask_volume", ["--only=unknown"], "no operation's name contains 'unknown'"),
            marks=pytest.mark.frameworks,
        ),
    ],
)
def test_the_message(script: str, arguments: list[str], message: str) -> None:
    done = subprocess.run(
        [sys.executable, FOLDER / f"{script}.py", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
    assert done.stdout == ""
