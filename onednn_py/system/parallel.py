"""Python threads for NumPy's work: ufuncs and matrix products release the interpreter lock.

The calling thread and the workers of one small pool claim items of work in order. A call
never waits for an item that no thread has begun, so that calls from many threads at once
cannot block one another.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import product
from typing import Any, Generic, TypeVar

import numpy as np

from onednn_py.config import wanted_threads

from .forks import in_forked_child

__all__ = ["available_cpus", "boxes", "current_threads", "each", "follow", "spans"]

Item = TypeVar("Item")

_lock = threading.RLock()
_workers: ThreadPoolExecutor | None = None
_is_forked = False
_this_thread = threading.local()

# Read at import: an OpenMP runtime that binds its threads (OMP_PROC_BIND) binds the calling
# thread too, and threads started by that thread would share its CPU.
_cpus = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None


def available_cpus() -> int:
    """Return how many CPUs this process may use."""
    return len(_cpus) if _cpus else (os.cpu_count() or 1)


def current_threads() -> int:
    """Return how many threads a call may use.

    The number that the user set, else oneDNN's on the calling thread, else the number of CPUs;
    1 in a forked child.
    """
    if _is_forked:
        return 1
    return wanted_threads() or getattr(_this_thread, "onednn_threads", 0) or available_cpus()


def follow(number: int) -> None:
    """Use ``number`` threads, oneDNN's on the calling thread, unless the user sets a number."""
    _this_thread.onednn_threads = number


def spans(extent: int, length: int) -> Iterator[slice]:
    """Split ``range(extent)`` into slices of at most ``length``."""
    for first in range(0, extent, length):
        yield slice(first, min(first + length, extent))


def boxes(shape: Sequence[int], most: int) -> list[tuple[slice, ...]]:
    """Split a grid into boxes of at most ``most`` elements, outer axes before inner ones."""
    slices = []
    for extent in reversed(shape):
        whole = max(1, extent)
        parts = -(-whole // max(1, min(whole, most)))
        slices.append(list(spans(extent, -(-whole // parts))))
        most //= whole
    return list(product(*reversed(slices)))


def each(work: Callable[[Item], object], items: Iterable[Item], threads: int | None = None) -> None:
    """Call ``work`` with every item, in parallel, and return when all calls have returned.

    Workers take over the caller's ``np.errstate``. A call from inside ``work``, or from a signal
    handler or a destructor that interrupts this one, runs on the thread that makes it.

    Parameters
    ----------
    work : callable
        Takes one item; its result is dropped.
    items : iterable
        Free threads claim them in order.
    threads : int, optional
        The most threads to use; `current_threads` by default.

    Raises
    ------
    BaseException
        The first that ``work`` raised; items not begun by then are left out.
    """
    listed = list(items)
    wanted = current_threads() if threads is None else threads
    helpers = min(wanted, len(listed)) - 1
    if helpers <= 0 or getattr(_this_thread, "is_working", False):
        for item in listed:
            work(item)
        return
    queue = _WorkQueue(work, listed)
    try:
        # The executor's locks are not reentrant: a handler that started work would wait for ever.
        _this_thread.is_working = True
        _share(queue, helpers)
    finally:
        _this_thread.is_working = False
    if queue.error is not None:
        raise queue.error


def _share(queue: _WorkQueue[Any], helpers: int) -> None:
    """Do the items of the queue on this thread and on ``helpers`` workers."""
    started: list[Future[None]] = []
    try:
        _start(queue, helpers, started)
        queue.drain()
    except BaseException as error:
        queue.stop(error)
    finally:
        _wait_for_workers(queue, started)


class _WorkQueue(Generic[Item]):
    """Items that several threads claim in order, all with the error state of the first thread.

    Attributes
    ----------
    error : BaseException or None
        The first that an item raised.
    helpers : set of int
        Threads other than the first that may have an item in hand. When no item is left to be
        claimed, and none of them is here, all items are done.
    """

    def __init__(self, work: Callable[[Item], object], items: list[Item]) -> None:
        self.error: BaseException | None = None
        self.helpers: set[int] = set()
        self._work = work
        self._items = deque(items)
        self._errstate: Any = np.geterr()

    def drain(self) -> None:
        """Claim and do items until none is left or one has failed."""
        try:
            with np.errstate(**self._errstate):
                while self.error is None:
                    try:
                        item = self._items.popleft()
                    except IndexError:
                        return
                    self._work(item)
        except BaseException as error:
            self.stop(error)

    def help(self) -> None:
        """Do as `drain`, on a thread that the first one must wait for."""
        thread = threading.get_ident()
        self.helpers.add(thread)
        try:
            self.drain()
        finally:
            self.helpers.discard(thread)

    def stop(self, error: BaseException) -> None:
        """Keep the first error, and let no thread begin another item."""
        self.error = self.error or error


def _start(queue: _WorkQueue[Any], helpers: int, started: list[Future[None]]) -> None:
    global _workers
    try:
        with _lock:
            if _workers is None:
                # More threads than CPUs never help, whatever number the user set.
                count = max(1, available_cpus() - 1)
                _workers = ThreadPoolExecutor(count, "onednn_py", _begin_worker)
            workers = _workers
        for _ in range(helpers):
            started.append(workers.submit(queue.help))
    except RuntimeError as error:
        # The interpreter is shutting down or cannot start threads: the caller does the work. An
        # error of a signal's handler may be of a class of its own.
        if type(error) is not RuntimeError:
            raise


def _begin_worker() -> None:
    """Let this worker run on every CPU that the process had at its start."""
    _this_thread.is_working = True
    if _cpus:
        with contextlib.suppress(OSError):  # the process has lost CPUs since
            os.sched_setaffinity(0, _cpus)


def _wait_for_workers(queue: _WorkQueue[Any], started: Sequence[Future[None]]) -> None:
    """Wait until no worker writes to the caller's arrays, even if the wait is interrupted.

    The interrupt becomes the error of the queue.
    """
    # A worker that has not begun would find the queue empty, so it is cancelled.
    pending = [future for future in started if not future.cancel()]
    while pending or queue.helpers:
        try:
            wait(pending)
            pending.clear()
            # Where the system gave no further thread, work was submitted, and a worker may do it,
            # but there is no future of it.
            while queue.helpers:
                time.sleep(1e-4)
        except BaseException as error:
            queue.stop(error)


@in_forked_child
def _reset() -> None:
    global _lock, _workers, _is_forked, _this_thread
    _lock = threading.RLock()
    _workers = None
    _is_forked = True
    _this_thread = threading.local()
