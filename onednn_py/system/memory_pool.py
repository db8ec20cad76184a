"""A pool of memory blocks for results and workspaces.

A fresh page costs more than the arithmetic on it, so blocks return to a pool: workspaces
when their execution ends, results when the last array that uses them is gone. Large blocks
are aligned to huge pages and, on Linux, advised as such.
"""

from __future__ import annotations

import contextlib
import mmap
import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from .forks import in_forked_child

__all__ = ["ALIGNMENT", "SMALLEST_LEASE", "Block", "Pool", "aligned", "pool", "size_class"]

# Bytes of a cache line, and of the widest vector that oneDNN loads.
ALIGNMENT = 64

# Smaller results come from NumPy, whose own allocator reuses small blocks.
SMALLEST_LEASE = 2**16

HUGE_PAGE = 2**21

# The blocks that came back last are taken without the lock and the search, which take 25 us after
# a millisecond of oneDNN's work, when the interpreter's own data have left the caches.
MOST_RECENT = 4

# Seconds that a call waits for the lock before it allocates instead. The lock is held for a few
# microseconds, unless a signal handler that interrupted its holder waits for this very call.
LONGEST_WAIT = 0.01

Block = npt.NDArray[np.uint8]


def aligned(nbytes: int) -> int:
    """Round up to a multiple of `ALIGNMENT`."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def size_class(nbytes: int) -> int:
    """Round up by an eighth at the most, so that similar sizes share blocks."""
    step = max(4096, 1 << max(0, nbytes.bit_length() - 4))
    return -(-nbytes // step) * step


def _allocate(nbytes: int) -> Block:
    slack = HUGE_PAGE if nbytes >= HUGE_PAGE else ALIGNMENT
    raw: npt.NDArray[Any]
    if nbytes >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            # Private: a forked child must not write into its parent's results.
            mapped = mmap.mmap(-1, nbytes + slack, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError) as error:
            raise MemoryError(f"cannot allocate {nbytes} bytes: {error}") from None
        raw = np.frombuffer(mapped, np.uint8)
        start = -raw.__array_interface__["data"][0] % slack
        whole = nbytes - nbytes % HUGE_PAGE
        with contextlib.suppress(OSError):  # a kernel without huge pages
            mapped.madvise(mmap.MADV_HUGEPAGE, start, whole)
            # A huge page at the end would take up to 2 MiB that nobody asked for.
            mapped.madvise(mmap.MADV_NOHUGEPAGE, start + whole, nbytes + slack - start - whole)
    else:
        raw = np.empty(nbytes + slack, np.uint8)
        start = -raw.__array_interface__["data"][0] % slack
    return raw[start : start + nbytes]


class Pool:
    """Idle blocks, bounded in bytes; the longest unused are freed first.

    Parameters
    ----------
    limit : int
        Most bytes of idle blocks to keep.
    """

    def __init__(self, limit: int = 2**30) -> None:
        self._limit = limit
        self._reserved = 0
        self._room = limit
        # By their addresses, the references that tell when a result is gone, and their blocks.
        self._lent: dict[int, tuple[weakref.ref[Any], Block]] = {}
        self.reset()

    def reset(self) -> None:
        """Forget all blocks and the lock, which a forked child may find held for ever."""
        # Reentrant, since a signal handler or a destructor may compute while its thread holds it;
        # whoever finds the pool at work leaves the idle blocks alone.
        self._lock = threading.RLock()
        self._at_work = False
        self._idle: list[Block] = []
        self._idle_bytes = 0
        # By size, at most one of each.
        self._recent: dict[int, Block] = {}
        # Destructors return blocks, and may run while their thread holds the lock.
        self._returned: deque[Block] = deque()
        # Idle ones, the last that came back at the right.
        self._workspaces: deque[Block] = deque()

    def acquire(self, nbytes: int) -> Block:
        """Return an uninitialised block of at least ``nbytes``, aligned to `ALIGNMENT`."""
        return self._acquire(size_class(nbytes))

    def borrow(self, nbytes: int) -> Block:
        """Return a workspace: an uninitialised block of at least ``nbytes``, aligned as others.

        The layers of a network share one, since each brings it back by `give_back` when its
        execution ends. A larger one replaces a smaller one, so that there are as many as there are
        executions at a time.
        """
        try:
            block = self._workspaces.pop()  # each step is atomic, so that no lock is needed
        except IndexError:
            return _allocate(size_class(nbytes))
        if block.nbytes >= nbytes:
            return block
        for _ in range(len(self._workspaces)):
            try:
                other = self._workspaces.popleft()
            except IndexError:  # other threads took the rest
                break
            if other.nbytes >= nbytes:
                self._workspaces.append(block)
                return other
            self._workspaces.append(other)
        del block
        return _allocate(size_class(nbytes))

    def give_back(self, workspace: Block) -> None:
        """Return a block of `borrow` that is no longer used."""
        self._workspaces.append(workspace)
        if workspace.nbytes * MOST_RECENT > self._room:
            with self._lock:
                self._collect()

    def _acquire(self, size: int) -> Block:
        """Return a block of a size that `size_class` has rounded."""
        recent = self._recent.pop(size, None)
        if recent is not None:
            return recent
        if self._lock.acquire(timeout=LONGEST_WAIT):
            try:
                self._collect()
                idle = self._take_idle(size)
            finally:
                self._lock.release()
            if idle is not None:
                return idle
        return _allocate(size)

    def _take_idle(self, size: int) -> Block | None:
        if self._at_work:
            return None
        self._at_work = True
        try:
            for index in range(len(self._idle) - 1, -1, -1):
                if self._idle[index].nbytes == size:
                    block = self._idle.pop(index)
                    self._idle_bytes -= size
                    return block
        finally:
            self._at_work = False
        return None

    def release(self, block: Block) -> None:
        """Return a block that is no longer used."""
        size, recent = block.nbytes, self._recent
        if (
            size * MOST_RECENT <= self._room
            and len(recent) < MOST_RECENT
            and recent.setdefault(size, block) is block
        ):
            return
        self._returned.append(block)
        # If another call holds the lock, the next call that takes it collects the block.
        if self._lock.acquire(blocking=False):
            try:
                self._collect()
            finally:
                self._lock.release()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return an uninitialised C-contiguous array whose block returns to the pool by itself."""
        return self.maker(shape, dtype)()

    def _lend(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], count: int, size: int
    ) -> npt.NDArray[Any]:
        """Return an array on a block of a size that `size_class` has rounded."""
        block = self._acquire(size)
        flat = np.frombuffer(block.data, dtype, count)
        # A memoryview of its own, which all views of the result keep alive.
        reference = weakref.ref(flat.base, self._give_back)
        self._lent[id(reference)] = (reference, block)
        return flat.reshape(shape)

    def _give_back(self, reference: weakref.ref[Any]) -> None:
        self.release(self._lent.pop(id(reference))[1])

    def maker(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], npt.NDArray[Any]]:
        """Return a function that makes uninitialised arrays as `empty` does."""
        count = prod(shape)
        nbytes = count * dtype.itemsize
        if nbytes < SMALLEST_LEASE:
            return partial(np.empty, shape, dtype)
        return partial(self._lend, shape, dtype, count, size_class(nbytes))

    @property
    def limit(self) -> int:
        """Most bytes of idle blocks, together with the bytes that are reserved."""
        return self._limit

    def set_limit(self, limit: int) -> None:
        with self._lock:
            self._limit = limit
            self._collect()

    def reserve(self, nbytes: int) -> None:
        """Count ``nbytes`` that are held elsewhere, by cached plans, as part of the limit."""
        with self._lock:
            self._reserved = nbytes
            self._collect()

    def clear(self) -> None:
        """Free all idle blocks."""
        with self._lock:
            self._recent.clear()
            self._returned.clear()
            self._workspaces.clear()
            if not self._at_work:
                self._idle.clear()
                self._idle_bytes = 0

    @property
    def idle_bytes(self) -> int:
        with self._lock:
            self._collect()
            return self._idle_bytes + self._workspace_bytes()

    def _collect(self) -> None:
        """Take blocks that came back among the idle ones, and free what is over the limit."""
        if self._at_work:
            return
        self._at_work = True
        try:
            self._collect_now()
        finally:
            self._at_work = False

    def _collect_now(self) -> None:
        limit = self._limit - self._reserved
        while self._returned:
            self._keep(self._returned.popleft())
        for size in tuple(self._recent):
            block = self._recent.pop(size, None)
            if block is not None:  # otherwise another thread has it
                self._keep(block)
        room = limit - self._idle_bytes - self._workspace_bytes()
        while self._idle and room < 0:
            freed = self._idle.pop(0).nbytes
            self._idle_bytes -= freed
            room += freed
        while room < 0 and self._workspaces:
            with contextlib.suppress(IndexError):  # another thread took it
                self._workspaces.popleft()
            room = limit - self._workspace_bytes()
        self._room = room

    def _workspace_bytes(self) -> int:
        return sum(block.nbytes for block in tuple(self._workspaces))

    def _keep(self, block: Block) -> None:
        self._idle.append(block)
        self._idle_bytes += block.nbytes


pool = Pool()
in_forked_child(pool.reset)
