"""Processes that die, hang or talk nonsense, and the environment that all of them get."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from onednn_py.tools.benchmark.worker_process import (
    WorkerFailure,
    WorkerProcess,
    worker_environment,
)


def python_worker(code: str, timeout: float = 30) -> WorkerProcess:
    return WorkerProcess([sys.executable, "-c", code], worker_environment(1), timeout)


def test_one_that_dies_is_started_again() -> None:
    worker = python_worker(
        "import os, sys\nprint('ok\\thello', flush=True)\n"
        "for line in sys.stdin:\n"
        "    if line == 'die\\n':\n"
        "        print('first\\nlast words', file=sys.stderr, flush=True); os.abort()\n"
        "    print('ok', line.strip().upper(), sep='\\t', flush=True)"
    )
    assert worker.start() == "hello"
    assert worker.ask("one") == "ONE"
    with pytest.raises(WorkerFailure, match="died: by SIGABRT; last words") as caught:
        worker.ask("die")
    assert caught.value.status == "died"
    assert worker.ask("two") == "TWO"
    worker.close()
    worker.close()


def test_one_that_hangs_is_ended() -> None:
    worker = python_worker("import time; print('ok', flush=True); time.sleep(60)", timeout=1.5)
    with pytest.raises(WorkerFailure, match=r"timed out: after 1\.5 s"):
        worker.ask("anything")
    worker.close()


def test_one_that_talks_nonsense_is_ended() -> None:
    with pytest.raises(WorkerFailure, match="failed: no answer: hello"):
        python_worker("print('hello'); input()").start()


def test_one_that_ends_at_once() -> None:
    with pytest.raises(WorkerFailure, match="died: exit status 3; why"):
        python_worker("import sys; print('why', file=sys.stderr); sys.exit(3)").start()


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(WorkerFailure, match="cannot be run"):
        WorkerProcess([str(tmp_path / "missing")], {}, 1).start()


def test_all_get_the_same_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_VERBOSE", "1")
    environment = worker_environment(3, ONEDNN_PY_EFFORT="measure")
    assert environment["OMP_NUM_THREADS"] == environment["OPENBLAS_NUM_THREADS"] == "3"
    assert environment["ONEDNN_PY_EFFORT"] == "measure"
    assert environment["OMP_PROC_BIND"] == "true"
    assert "ONEDNN_VERBOSE" not in environment
    assert "OMP_PROC_BIND" not in worker_environment(3, False)
    monkeypatch.setenv("OMP_PROC_BIND", "spread")
    assert worker_environment(3)["OMP_PROC_BIND"] == "spread"
