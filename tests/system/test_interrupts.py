"""Signal handlers that compute while their own thread computes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from onednn_py.system.memory_pool import Pool

# New sizes are planned and known ones are looked up while the handler does the same.
PROGRAM = """
import signal, sys, time
import numpy as np
import onednn_py

onednn_py.use_effort(sys.argv[1])
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
while time.monotonic() - began < 4 or computed < 20:
    compute(20 + size % 12)
    size += 1
signal.setitimer(signal.ITIMER_REAL, 0)
print(computed)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers of signals")
@pytest.mark.parametrize("effort", ["heuristic", "measure"])
def test_a_handler_computes_what_its_thread_computes(effort: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, effort],
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
