"""Forked children: which locks they make new, and when a fork has to wait."""

from __future__ import annotations

import concurrent.futures.thread
import logging
import os
import threading
import time
from collections.abc import Callable
from types import ModuleType

__all__ = ["forks_wait", "in_forked_child"]

# Seconds that a fork waits at the most: a primitive may take a minute to build, and a program that
# forks then has to go on.
LONGEST_WAIT = 5.0

# Seconds between two looks.
PAUSE = 1e-4

# Modules that hold a lock of their own during a fork. They are imported before this one registers:
# what was registered last runs first, so that a fork waits for the sections before it takes these
# locks. In the other order a section that logs, or starts a worker, would wait for the fork.
LOCKED_IN_FORKS: tuple[ModuleType, ...] = (logging, concurrent.futures.thread)


def in_forked_child(reset: Callable[[], None]) -> Callable[[], None]:
    """Call a function in every forked child, before anything else runs there; a decorator.

    The order is that of the registrations. Where the system has no forks it is never called.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=reset)
    return reset


class _ForksWait:
    """Sections of code during which other threads cannot fork.

    A lock inside a C library that is held at the fork stays held in the child for ever, and
    nothing can release it there. The forking thread's own sections do not count, since that
    thread goes on in the child.
    """

    def __init__(self) -> None:
        self._inside: dict[int, int] = {}
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before, after_in_parent=self._after, after_in_child=self._renew
            )

    def __enter__(self) -> None:
        thread = threading.get_ident()
        before = self._inside.get(thread, 0)
        try:
            if before:
                self._inside[thread] = before + 1
            else:
                with self._forking:
                    self._inside[thread] = 1
        except BaseException:  # such as Ctrl-C, after which `with` calls no __exit__
            self._set(thread, before)
            raise

    def __exit__(self, *error: object) -> None:
        thread = threading.get_ident()
        self._set(thread, self._inside.get(thread, 1) - 1)

    def _set(self, thread: int, number: int) -> None:
        """Note in how many sections a thread is."""
        if number:
            self._inside[thread] = number
        else:
            self._inside.pop(thread, None)

    def _renew(self) -> None:
        # Reentrant: a signal handler may fork while its thread takes the lock.
        self._forking = threading.RLock()
        thread = threading.get_ident()
        self._inside = {thread: self._inside[thread]} if thread in self._inside else {}

    def _before(self) -> None:
        self._forking.acquire()
        own, latest = {threading.get_ident()}, time.monotonic() + LONGEST_WAIT
        while self._inside.keys() - own and time.monotonic() < latest:
            time.sleep(PAUSE)
        # No other fork waits for these sections, nor for the rest of what they contain. One of them
        # may have ended where Ctrl-C came before __exit__ began: every fork would wait for it, and
        # later sections of its thread would not wait for forks.
        for thread in self._inside.keys() - own:
            self._inside.pop(thread, None)

    def _after(self) -> None:
        self._forking.release()


forks_wait = _ForksWait()
