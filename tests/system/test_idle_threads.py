"""Idle threads of real libraries, each time in a process of its own, and what users hear of it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import numpy as np
import pytest
import threadpoolctl

from onednn_py.backends.onednn.binding.library import library
from onednn_py.system import blas_workers, idle_threads
from onednn_py.system.blas_workers import TIMEOUT
from tests.support.forks import needs_fork
from tests.support.requirements import HAS_ONEDNN

VARIABLES = (
    "GOMP_SPINCOUNT",
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "ONEDNN_PY_IDLE_THREADS",
    "OPENBLAS_NUM_THREADS",
    "OPENBLAS_THREAD_TIMEOUT",
)


def is_openblas_with_workers() -> bool:
    folder = os.path.dirname(np.__file__)
    pools = threadpoolctl.threadpool_info()
    return any(
        pool["internal_api"] == "openblas"
        and pool["threading_layer"] == "pthreads"
        and pool["filepath"].startswith(folder)
        for pool in pools
    )


needs_workers = pytest.mark.skipif(
    not (HAS_ONEDNN and library().uses_openmp and is_openblas_with_workers()),
    reason="needs oneDNN with OpenMP and NumPy's own OpenBLAS",
)

PROGRAM = """
import ctypes, logging, os, sys, threading, time
import numpy as np
import onednn_py
from onednn_py.system import blas_threads, blas_workers, idle_threads, waiting_threads

getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
(pool,) = blas_threads._find_pools()
openblas = blas_workers._functions(pool.filepath)
FACTOR = np.random.default_rng(0).integers(-8, 8, (300, 300)).astype(np.float32)
PRODUCT = FACTOR @ FACTOR

def call(length=9):
    onednn_py.convolution(np.ones((1, length, 2), np.float32), np.ones((3, 2, 4), np.float32))

def timeout():
    return openblas.openblas_thread_timeout()

def state(library="OpenBLAS"):
    rows = onednn_py.info()["idle_threads"]
    return next(row["state"] for row in rows if row["library"].startswith(library))

def tasks():
    return len(os.listdir("/proc/self/task"))

pool.set_num_threads(3)
with onednn_py.num_threads(1):
    call()
assert timeout() == int(os.environ.get("OPENBLAS_THREAD_TIMEOUT", 0))
onednn_py.set_num_threads(3)
"""


def run(code: str, **environment: str) -> str:
    """Run a program after `PROGRAM`, with three threads, and return what it logs."""
    inherited = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM + code],
        capture_output=True, text=True, timeout=100, env={**inherited, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


@needs_workers
def test_a_program_with_one_thread() -> None:
    run(f"""
before, environment = (tasks() if sys.platform == "linux" else 0), dict(os.environ)
call()
assert timeout() == {TIMEOUT}, state()
assert state() == "sleep after 2^{TIMEOUT} cycles"
assert not idle_threads.has_to_look
# The environment is that of before, in C, too, and so is the number of threads.
assert getenv(b"OPENBLAS_THREAD_TIMEOUT") is None and getenv(b"GOMP_SPINCOUNT") is None
assert os.environ == environment
assert pool.num_threads == 3
for _ in range(20):
    np.testing.assert_array_equal(FACTOR @ FACTOR, PRODUCT)
    call()
assert pool.num_threads == 3
assert sys.platform != "linux" or tasks() >= before
with onednn_py.num_threads(1):
    assert pool.num_threads == 1
assert pool.num_threads == 3
""")


@needs_workers
@pytest.mark.parametrize(
    ("before", "environment"),
    [
        ("", {"ONEDNN_PY_IDLE_THREADS": "leave"}),
        ("onednn_py.set_idle_threads('leave')", {}),
        ("onednn_py.set_idle_threads('leave')", {"ONEDNN_PY_IDLE_THREADS": "shorten"}),
    ],
)
def test_a_setting_leaves_them(before: str, environment: dict[str, str]) -> None:
    run(
        f"""
{before}
call()
assert timeout() == 0
assert state() == "unchanged: by the setting idle_threads"
assert not idle_threads.has_to_look
onednn_py.set_idle_threads("shorten")
call()
assert timeout() == {TIMEOUT}
""",
        **environment,
    )


@needs_workers
def test_the_users_own_timeout_stays() -> None:
    run(
        """
call()
assert timeout() == 20
assert state() == "unchanged: OPENBLAS_THREAD_TIMEOUT is set"
""",
        OPENBLAS_THREAD_TIMEOUT="20",
    )


@needs_workers
def test_threads_that_wait_are_no_hindrance() -> None:
    run(f"""
import selectors, socket
from concurrent.futures import ThreadPoolExecutor
reading, writing = socket.socketpair()
selector = selectors.DefaultSelector()
selector.register(reading, selectors.EVENT_READ)
end = threading.Event()
for wait in (selector.select, end.wait):
    threading.Thread(target=wait, daemon=True).start()
workers = ThreadPoolExecutor(2)
assert (workers.submit(np.matmul, FACTOR, FACTOR).result() == PRODUCT).all()
deadline = time.monotonic() + 60
while waiting_threads.first_at_work() and time.monotonic() < deadline:
    time.sleep(0.01)
call()
assert timeout() == {TIMEOUT}, state()
end.set()
""")


@needs_workers
def test_nothing_happens_beside_a_product() -> None:
    """Ending the workers during a product would hang the process. It is done afterwards."""
    run(f"""
stop = threading.Event()
wide = np.ones((600, 600), np.float32)
def compute():
    while not stop.is_set():
        for _ in range(20):
            wide @ wide
thread = threading.Thread(target=compute, name="products")
thread.start()
for length in range(9, 70):
    call(length)
assert timeout() == 0
assert state().startswith("unchanged so far: thread products in compute of "), state()
stop.set()
thread.join()
while idle_threads._calls < 1100 and idle_threads.has_to_look:
    call()
assert timeout() == {TIMEOUT}, state()
np.testing.assert_array_equal(FACTOR @ FACTOR, PRODUCT)
""")


@needs_workers
def test_a_thread_in_unknown_code() -> None:
    run("""
lock = threading.Lock()
lock.acquire()
def enter():
    lock.acquire()
threading.Thread(target=enter, name="unknown", daemon=True).start()
while waiting_threads.first_at_work() is None:
    time.sleep(0.01)
for _ in range(20):
    call()
assert timeout() == 0
assert state() == "unchanged so far: thread unknown in enter of <string>", state()
lock.release()
""")


@needs_workers
@needs_fork
def test_a_child_computes_after_it() -> None:
    run(f"""
call()
assert timeout() == {TIMEOUT}
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        same = (FACTOR @ FACTOR == PRODUCT).all()
        call()
        os._exit(0 if same and timeout() == {TIMEOUT} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    np.testing.assert_array_equal(FACTOR @ FACTOR, PRODUCT)
""")


@needs_workers
def test_a_blas_that_comes_later() -> None:
    pytest.importorskip("scipy.linalg")
    run(f"""
call()
import scipy.linalg
call(10)  # a plan is built
call(10)
rows = onednn_py.info()["idle_threads"]
openblas = [row for row in rows if row["library"].startswith("OpenBLAS")]
assert all(row["state"] == "sleep after 2^{TIMEOUT} cycles" for row in openblas), rows
factor = np.eye(200) * 2
np.testing.assert_allclose(scipy.linalg.inv(factor) @ factor, np.eye(200))
""")


@needs_workers
@pytest.mark.parametrize(
    ("variable", "value", "state"),
    [
        ("", "", "sleep after 30000 spins (GOMP_SPINCOUNT)"),
        ("GOMP_SPINCOUNT", "77", "unchanged: GOMP_SPINCOUNT is set"),
        ("OMP_WAIT_POLICY", "active", "unchanged: OMP_WAIT_POLICY is set"),
        ("ONEDNN_PY_IDLE_THREADS", "leave", "unchanged: by the setting idle_threads"),
    ],
)
def test_gnu_openmp(variable: str, value: str, state: str) -> None:
    environment = {variable: value} if variable else {}
    found = run(
        """
if "gomp" in (runtime := onednn_py.backends.onednn.openmp_path() or ""):
    sys.stderr.write(state("GNU OpenMP"))
""",
        **environment,
    )
    assert found in (state, "")


def test_calls_that_wait_are_told_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class High:
        def is_high(self) -> bool:
            return True

    looks = []

    def busy(found: object) -> str:
        looks.append(found)
        return "thread other in work of a.py"

    for name, value in {
        "has_to_look": True, "_calls": 0, "_reasons": {}, "_shortened": set(),
        "_has_warned": False, "_contention": None, "Contention": High,
    }.items():  # fmt: skip
        monkeypatch.setattr(idle_threads, name, value)
    monkeypatch.setattr(blas_workers, "find_workers", lambda path: [])
    monkeypatch.setattr(blas_workers, "shorten", busy)
    monkeypatch.setattr(idle_threads, "leaves_idle_threads", lambda: False)
    with caplog.at_level(logging.WARNING, "onednn_py"):
        for _ in range(200):
            idle_threads.shorten()
    assert idle_threads.has_to_look
    assert len(looks) == 8  # at calls 1, 2, 4 to 128
    (record,) = caplog.records
    assert f"OPENBLAS_THREAD_TIMEOUT={TIMEOUT}" in record.getMessage()
