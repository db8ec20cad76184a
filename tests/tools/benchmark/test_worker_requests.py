"""What a worker is asked, and that it ends with its parent, in the middle of a request too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from onednn_py.system.waiting_threads import first_at_work
from onednn_py.tools.benchmark.worker_process import WorkerProcess, worker_environment
from onednn_py.tools.benchmark.worker_requests import requests_from

fcntl = pytest.importorskip("fcntl")

# Holds a lock on the file as long as it lives; each request takes a minute.
WORKER = """
import fcntl, sys, time
from onednn_py.tools.benchmark.worker_requests import requests_from
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("ok", flush=True)
for request in requests_from(sys.stdin):
    print("begun", file=file, flush=True)
    time.sleep(60)
"""

PARENT = """
import sys
from onednn_py.tools.benchmark.worker_process import WorkerProcess, worker_environment
worker = WorkerProcess([sys.executable, "-c", *sys.argv[1:]], worker_environment(1), 60)
worker.start()
print("started", flush=True)
worker.ask("anything")
"""


def is_held(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_ends_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "held"
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, WORKER, str(path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "started\n"
        assert is_held(path)
        until = time.monotonic() + 30
        while path.read_text() != "begun\n":
            assert time.monotonic() < until, "no request has begun"
            time.sleep(0.01)
        parent.send_signal(number)
    until = time.monotonic() + 30
    while is_held(path):
        assert time.monotonic() < until, "the worker still computes"
        time.sleep(0.05)


def test_a_worker_ends_by_itself_between_requests(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WORKER, str(tmp_path / "held")]
    worker = WorkerProcess(command, worker_environment(1), 30)
    worker.start()
    assert worker.close() == "exit status 0"


def test_lines_are_put_together_again() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as pipe:
        requests = requests_from(pipe)
        os.write(writing, b"one\ntwo\nthr")
        assert [next(requests), next(requests)] == ["one", "two"]
        # NumPy's idle threads can only be ended where all other threads wait.
        until = time.monotonic() + 30
        while first_at_work() is not None:
            assert time.monotonic() < until, first_at_work()
            time.sleep(0.01)
        os.write(writing, "ee\nfö".encode())
        os.close(writing)
        assert list(requests) == ["three", "fö"]
