"""Python threads for NumPy's work: ufuncs and matrix products let go of the interpreter lock.

Items of work are claimed one after the other by the calling thread and by the workers of
one small pool. A call never waits for an item that nobody has begun, so that calls from
many threads at once cannot block one another.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import product
from typing import Any, Generic, TypeVar

import numpy as np

from onednn_py.config import wanted_threads

__all__ = ["available_cpus", "boxes", "current_threads", "each", "follow", "spans"]

Item = TypeVar("Item")

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_forked = False
_inside = threading.local()

# Asked for at the start: an OpenMP runtime that binds its threads (OMP_PROC_BIND) binds the one
# that calls it too, and threads that this one starts would share its CPU.
_cpus = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None


def available_cpus() -> int:
    """Return how many CPUs this process may use."""
    return len(_cpus) if _cpus else (os.cpu_count() or 1)


def current_threads() -> int:
    """Return how many threads a call may use.

    What was asked for, else as many as oneDNN on this thread, else one a CPU; 1 after a fork.
    """
    if _forked:
        return 1
    return wanted_threads() or getattr(_inside, "followed", 0) or available_cpus()


def follow(number: int) -> None:
    """Use as many threads as oneDNN does on the calling thread, unless others are asked for."""
    _inside.followed = number


def spans(extent: int, length: int) -> Iterator[slice]:
    """Cut ``range(extent)`` into slices of at most ``length``."""
    for first in range(0, extent, length):
        yield slice(first, min(first + length, extent))


def boxes(shape: Sequence[int], most: int) -> list[tuple[slice, ...]]:
    """Cut a grid into boxes of at most ``most`` elements, each whole along the inner axes."""
    cuts = []
    for extent in reversed(shape):
        whole = max(1, extent)
        parts = -(-whole // max(1, min(whole, most)))
        cuts.append(list(spans(extent, -(-whole // parts))))
        most //= whole
    return list(product(*reversed(cuts)))


def each(work: Callable[[Item], object], items: Iterable[Item], threads: int | None = None) -> None:
    """Call ``work`` with every item, in parallel, and return when all calls have returned.

    Workers take over the caller's ``np.errstate``. A call from inside ``work`` runs on the
    thread that makes it.

    Parameters
    ----------
    work : callable
        Takes one item; what it returns is dropped.
    items : iterable
        Claimed in order, by whichever thread is free.
    threads : int, optional
        At most so many; `current_threads` of them by default.

    Raises
    ------
    BaseException
        The first that ``work`` raised; items that nobody had begun by then are left out.
    """
    listed = list(items)
    wanted = current_threads() if threads is None else threads
    helpers = min(wanted, len(listed)) - 1
    if helpers <= 0 or getattr(_inside, "work", False):
        for item in listed:
            work(item)
        return
    claims = _Claims(work, listed)
    started: list[Future[None]] = []
    try:
        _start(claims, helpers, np.geterr(), started)
        claims.work_off()
    except BaseException as error:
        claims.stop(error)
    finally:
        _settle(claims, started)
    if claims.error is not None:
        raise claims.error


class _Claims(Generic[Item]):
    """Items that several threads claim one at a time."""

    def __init__(self, work: Callable[[Item], object], items: list[Item]) -> None:
        self.error: BaseException | None = None
        self._work = work
        self._items = deque(items)

    def work_off(self) -> None:
        """Claim and do items until none is left or one has failed."""
        _inside.work = True
        try:
            while self.error is None:
                try:
                    item = self._items.popleft()
                except IndexError:
                    return
                self._work(item)
        except BaseException as error:
            self.stop(error)
        finally:
            _inside.work = False

    def stop(self, error: BaseException) -> None:
        """Let nobody begin another item."""
        self.error = self.error or error

    def help(self, errstate: Any) -> None:
        with np.errstate(**errstate):
            self.work_off()


def _use_all_cpus() -> None:
    """Let the calling thread run on every CPU that the process had at its start."""
    if _cpus:
        with contextlib.suppress(OSError):  # taken from the process since
            os.sched_setaffinity(0, _cpus)


def _settle(claims: _Claims[Any], started: Sequence[Future[None]]) -> None:
    """Return when no worker is at it any more, not even where the wait is interrupted.

    What they write to may be given to others by then. The interrupt becomes the error.
    """
    # One that has not begun finds nothing left to do: nobody waits for it.
    pending = [future for future in started if not future.cancel()]
    while pending:
        try:
            wait(pending)
            return
        except BaseException as error:
            claims.stop(error)


def _start(claims: _Claims[Any], helpers: int, errstate: Any, started: list[Future[None]]) -> None:
    global _pool
    try:
        with _lock:
            if _pool is None:
                # More threads than CPUs never help, whatever number was asked for.
                workers = max(1, available_cpus() - 1)
                _pool = ThreadPoolExecutor(workers, "onednn_py", _use_all_cpus)
            pool = _pool
        for _ in range(helpers):
            started.append(pool.submit(claims.help, errstate))
    except RuntimeError:
        # The interpreter is shutting down, or starts no more threads: do without.
        pass


def _after_fork_in_child() -> None:
    global _lock, _pool, _forked, _inside
    _lock = threading.Lock()
    _pool = None
    _forked = True
    _inside = threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
