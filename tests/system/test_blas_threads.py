"""The number of threads of NumPy's BLAS, and forks."""

from __future__ import annotations

import subprocess
import sys

from tests.support.forks import needs_fork


@needs_fork
def test_no_fork_while_the_number_of_threads_changes() -> None:
    """OpenBLAS holds a lock meanwhile, for which a child would wait for ever."""
    code = """
import os, threading, time
from onednn_py.system import blas_threads
taken, changed = threading.Event(), []
def change():
    with blas_threads._lock:
        taken.set()
        time.sleep(0.3)
        changed.append(True)
thread = threading.Thread(target=change)
thread.start()
taken.wait()
pid = os.fork()
if pid == 0:
    with blas_threads.limited(1):
        os._exit(0 if changed else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
thread.join()
with blas_threads.limited(1):
    pass
# A thread that holds the lock may fork.
with blas_threads._lock:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
