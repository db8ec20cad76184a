"""Signal handlers that compute while their own thread computes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from onednn_py.system import blas_threads, parallel
from onednn_py.system.memory_pool import Pool

# New sizes are planned and known ones are looked up while the handler does the same.
PROGRAM = """
import contextlib, signal, sys, time
import numpy as np
import onednn_py

settings = contextlib.ExitStack()
settings.enter_context(onednn_py.use_backend(sys.argv[1]))
settings.enter_context(onednn_py.use_effort(sys.argv[2]))
onednn_py.set_cache_limit(entries=8)
weights = np.ones((3, 3, 4, 5), np.float32)
busy, computed = False, 0

def compute(size):
    src = np.ones((1, size, size, 4), np.float32)
    dst = onednn_py.convolution(src, weights)
    grads = onednn_py.convolution_backward(src, weights, dst)
    assert dst[0, 0, 0, 0] == 36, dst[0, 0, 0, 0]
    assert grads.diff_src[0, 0, 0, 0] == 180, grads.diff_src[0, 0, 0, 0]

def interrupt(number, frame):
    global busy, computed
    if not busy:
        busy = True
        compute(20 + computed % 9)
        computed += 1
        busy = False

signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
began, size = time.monotonic(), 0
while time.monotonic() - began < 2 or computed < 20:
    compute(20 + size % 12)
    size += 1
signal.setitimer(signal.ITIMER_REAL, 0)
print(computed)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers of signals")
@pytest.mark.parametrize("effort", ["heuristic", "measure"])
def test_a_handler_computes_what_its_thread_computes(backend: str, effort: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, backend, effort],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 20


def test_a_call_that_interrupts_the_pools_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal handler may compute between any two lines, on the thread that holds the lock."""
    pool = Pool()
    kept = pool.acquire(2**20)
    pool.release(kept)
    collect, interrupted = pool._collect_now, []

    def interrupt() -> None:
        block, workspace = pool.acquire(2**20), pool.borrow(2**22)
        interrupted.append(block is not kept and workspace.nbytes >= 2**22)
        pool.release(block)
        pool.give_back(workspace)
        pool.clear()
        assert pool.idle_bytes >= 0
        collect()

    def work() -> None:
        pool._recent.clear()
        pool._idle, pool._idle_bytes = [kept], kept.nbytes
        monkeypatch.setattr(pool, "_collect_now", interrupt)
        assert pool.acquire(2**20) is kept
        monkeypatch.undo()
        pool.set_limit(2**30)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert interrupted == [True]
    assert pool.idle_bytes == sum(block.nbytes for block in pool._idle)


def test_a_worker_finds_the_pools_lock_held_by_whom_it_works_for() -> None:
    """The handler that interrupted the pool's work waits for workers, which need memory."""
    pool, acquired = Pool(), []
    worker = threading.Thread(target=lambda: acquired.append(pool.acquire(2**20)), daemon=True)
    with pool._lock:
        worker.start()
        worker.join(30)
        assert not worker.is_alive()
    assert acquired[0].nbytes == 2**20
    pool.release(acquired[0])
    assert pool.idle_bytes == 2**20


def test_work_that_interrupts_the_start_of_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors hold locks meanwhile that are not reentrant."""
    here, start, inner = threading.get_ident(), parallel._start, []

    def interrupted(*arguments: Any) -> None:
        monkeypatch.undo()
        parallel.each(lambda item: inner.append((item, threading.get_ident())), range(5), 2)
        start(*arguments)

    monkeypatch.setattr(parallel, "_start", interrupted)
    outer: list[int] = []
    parallel.each(outer.append, range(9), 2)
    assert inner == [(item, here) for item in range(5)]
    assert sorted(outer) == list(range(9))


def test_a_limit_of_threads_that_interrupts_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """threadpoolctl holds a lock while it sets a number, which is not reentrant."""

    class Controller:
        num_threads = 2

        def set_num_threads(self, number: int) -> None:
            assert lock.acquire(blocking=False)
            Controller.num_threads = number
            if number == 1:
                with blas_threads.limited(3):
                    pass
                lasting.__enter__()
            lock.release()

    lock, lasting = threading.Lock(), blas_threads.limited(4)
    monkeypatch.setattr(blas_threads, "_pools", [Controller()])
    monkeypatch.setattr(blas_threads, "_original", None)
    monkeypatch.setattr(blas_threads, "_process_limit", None)
    with blas_threads.limited(1):
        assert Controller.num_threads == 4
    assert Controller.num_threads == 4
    lasting.__exit__(None, None, None)
    assert Controller.num_threads == 2
