"""The plugin of pytest: benchdnn's line at the end where it is asked for, nothing elsewhere."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace

import pytest

import onednn_py
from onednn_py.testing import cases, compare, plugin
from onednn_py.testing.comparison import observers
from onednn_py.tools.benchdnn.case import row

TESTS = """
import onednn_py, pytest
from onednn_py.testing import assert_matches, cases

CASES = cases("ic4iw9oc4kw3", directions=("FWD_D", "BWD_D"))

@pytest.mark.parametrize("case", CASES)
def test_right(case):
    assert_matches(onednn_py, case, against="float64")

def test_wrong():
    wrong = {"convolution": lambda *tensors, **attributes: tensors[0]}
    assert_matches(wrong, CASES, against="float64")

def test_skipped():
    assert_matches({"convolution": print}, CASES[1], against="float64")
"""


def run(folder: Path, *options: str) -> str:
    (folder / "test_kernels.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_the_summary_is_the_last_of_a_run_that_asks_for_it(tmp_path: Path) -> None:
    printed = run(tmp_path, "-p", "onednn_py.testing.plugin")
    assert "compared with oneDNN" in printed
    assert "skipped: 2, no candidate for convolution_backward_data\n" in printed
    assert "tests:5 passed:2 skipped:2 mistrusted:0 unimplemented:0 failed:1\n" in printed
    assert "1 failed, 2 passed, 1 skipped" in printed
    assert "AssertionError: 1:FAILED (dst: float32 (2, 4, 9), expected" in printed


def test_without_the_option_there_is_none(tmp_path: Path) -> None:
    printed = run(tmp_path)
    assert "tests:5" not in printed
    assert "1 failed, 2 passed, 1 skipped" in printed
    assert not [e for e in entry_points(group="pytest11") if e.value.startswith("onednn_py")]


def test_a_run_without_comparisons_prints_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    printed = run(tmp_path, "-p", "onednn_py.testing.plugin", "test_nothing.py")
    assert "compared with oneDNN" not in printed
    assert "1 passed" in printed


def test_outcomes_of_xdists_workers_are_counted() -> None:
    report = compare(onednn_py, cases("ic4iw9oc4kw3", directions="BWD_D"), against="float64")
    worker, controller = plugin.Summary(), plugin.Summary()
    worker.observe(report)
    session = SimpleNamespace(config=SimpleNamespace(workeroutput={}))
    worker.pytest_sessionfinish(session)
    ((sent,),) = session.config.workeroutput.values()
    assert sent == row(report.outcomes[0])
    controller.pytest_testnodedown(SimpleNamespace(workeroutput=session.config.workeroutput))
    controller.pytest_testnodedown(SimpleNamespace())
    assert controller.outcomes == worker.outcomes


def test_it_leaves_no_observer(pytestconfig: pytest.Config) -> None:
    before = list(observers)
    plugin.pytest_configure(pytestconfig)
    assert len(observers) == len(before) + 1
    plugin.pytest_unconfigure(pytestconfig)
    assert observers == before
