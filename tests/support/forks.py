"""Forked children, which end whatever happens in them."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

__all__ = ["child_while_held", "exit_code_of_child", "needs_fork"]

# Seconds, after which a child that hangs shows where its threads are, and ends.
PATIENCE = 60


def needs_fork(test: Any) -> Any:
    """Skip a test where there is no fork, and let it fork beside threads without a warning."""
    warned = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    return pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")(
        warned(test)
    )


def exit_code_of_child(good: Callable[[], Any]) -> int:
    """Return the exit code of a forked child: 0 if ``good()``, 1 if not, negative if it hung."""
    pid = os.fork()
    if pid == 0:
        # Not `dump_traceback_later`, which waits for the thread of its parent's last call.
        faulthandler.register(signal.SIGALRM, sys.__stderr__, chain=True)
        signal.alarm(PATIENCE)
        code = 1
        try:
            code = 0 if good() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def child_while_held(lock: AbstractContextManager[Any], good: Callable[[], Any]) -> int:
    """Return the exit code of a child that is forked while another thread holds ``lock``."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    held.wait()
    try:
        return exit_code_of_child(good)
    finally:
        done.set()
        thread.join(PATIENCE)
