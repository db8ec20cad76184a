"""Counts of a run reach its summary from every worker of pytest-xdist."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.paths import ROOT
from tests.support.totals import Totals


class Lines:
    """What a terminal shows."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write_line(self, line: str) -> None:
        self.lines.append(line)


def shown(totals: Totals) -> list[str]:
    terminal = Lines()
    totals.pytest_terminal_summary(terminal)
    return terminal.lines


def sent(totals: Totals) -> SimpleNamespace:
    """Return a worker that ended, with what its process sent."""
    session = SimpleNamespace(config=SimpleNamespace(workeroutput={}))
    totals.pytest_sessionfinish(session)
    return SimpleNamespace(workeroutput=session.config.workeroutput)


def test_counts_of_workers_are_added() -> None:
    first, second = Totals({"graph": {"same": 2}}), Totals({"graph": {"same": 3, "other": 1}})
    for worker in (first, second):
        worker.left_out_tests = 4
        worker.left_out_files = {Path("tests/torch/test_it.py")}
    whole = Totals({})
    whole.pytest_testnodedown(sent(first))
    whole.pytest_testnodedown(sent(second))
    assert whole.compared == {"graph": {"same": 5, "other": 1}}
    graph, left_out = shown(whole)
    assert graph == "graph: {'same': 5, 'other': 1}"
    assert left_out.startswith("left out: 4 tests and 1 test files that need PyTorch")


def test_a_worker_that_crashed_has_sent_nothing() -> None:
    whole = Totals({"graph": {"same": 2}})
    whole.pytest_testnodedown(SimpleNamespace())
    assert shown(whole) == ["graph: {'same': 2}"]


def test_a_run_of_its_own_sends_nothing() -> None:
    session = SimpleNamespace(config=SimpleNamespace())
    Totals({}).pytest_sessionfinish(session)
    assert vars(session.config) == {}


@pytest.mark.parametrize("workers", [0, 2])
def test_what_workers_leave_out_is_said_once(workers: int) -> None:
    pytest.importorskip("xdist", reason="no pytest-xdist here")
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "-p", "no:cacheprovider",
         "tests/problem/test_frameworks.py"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout + done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("left out"))
    assert int(line.split()[2]) > 10
