"""Children forked while another thread of their parent holds a lock."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

__all__ = ["child_while_held", "needs_fork"]


def needs_fork(test: Any) -> Any:
    """Skip a test where there is no fork, and let it fork beside threads without a warning."""
    warned = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    return pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")(
        warned(test)
    )


def child_while_held(lock: AbstractContextManager[Any], good: Callable[[], Any]) -> int:
    """Return the exit code of a child forked while a thread holds ``lock``: 0 if ``good()``.

    A child that waits for the lock is killed after 30 s, with a negative code.
    """
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        code = 1
        try:
            code = 0 if good() else 1
        finally:
            os._exit(code)
    done.set()
    thread.join()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
