"""A pool of memory blocks for results and workspaces.

A fresh page costs more than the arithmetic on it, so blocks return to a pool: workspaces
when their execution ends, results when the last array that uses them is gone. Large blocks
are aligned to huge pages and, on Linux, advised as such.
"""

from __future__ import annotations

import contextlib
import mmap
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from math import inf, prod
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

# The blocks that came back last are taken without a search among the idle ones.
MOST_RECENT = 4

# Recent blocks and workspaces take a half each of what is free.
SHARES = 2

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

    There is no lock: a signal handler or a destructor may compute between any two lines, and what
    an interrupt leaves locked stays locked. Each step on a container is a single call of C, which
    decides what thread gets a block. Where threads count at the same time, idle blocks may exceed
    the limit until the next count.

    Parameters
    ----------
    limit : int
        Most bytes of idle blocks to keep.
    """

    def __init__(self, limit: int = 2**30) -> None:
        self._limit = limit
        self._reserved = 0
        # By their addresses, the references that tell when a result is gone, and their blocks.
        self._lent: dict[int, tuple[weakref.ref[Any], Block]] = {}
        self.reset()

    def reset(self) -> None:
        """Forget all idle blocks, whose pages a forked child would have to copy."""
        # Bytes below the limit when the idle blocks were last counted.
        self._room = self._limit - self._reserved
        # By size, each with the number by which it came back.
        self._idle: dict[int, deque[tuple[int, Block]]] = {}
        self._next = count()
        # By size, at most one of each.
        self._recent: dict[int, Block] = {}
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
            block = self._workspaces.pop()
        except IndexError:
            return self._fresh(size_class(nbytes))
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
        return self._fresh(size_class(nbytes))

    def give_back(self, workspace: Block) -> None:
        """Return a block of `borrow` that is no longer used."""
        workspaces = self._workspaces
        workspaces.append(workspace)
        if sum([block.nbytes for block in list(workspaces)]) * SHARES > self._room:
            self._trim()

    def _acquire(self, size: int) -> Block:
        """Return a block of a size that `size_class` has rounded."""
        recent = self._recent.pop(size, None)
        if recent is not None:
            return recent
        idle = self._idle.get(size)
        if idle:
            with contextlib.suppress(IndexError):  # another thread took the last one
                return idle.pop()[1]
        return self._fresh(size)

    def _fresh(self, nbytes: int) -> Block:
        """Return a block of memory from the system, for which idle blocks make room if need be."""
        try:
            return _allocate(nbytes)
        except MemoryError:
            self.clear()
        return _allocate(nbytes)

    def release(self, block: Block) -> None:
        """Return a block that is no longer used."""
        recent = self._recent
        if (
            len(recent) < MOST_RECENT
            and block.nbytes * MOST_RECENT * SHARES <= self._room
            and recent.setdefault(block.nbytes, block) is block
        ):
            return
        self._flush_recent()
        self._keep(block)
        self._trim()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return an uninitialised C-contiguous array whose block returns to the pool by itself."""
        return self.maker(shape, dtype)()

    def _lend(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], elements: int, size: int
    ) -> npt.NDArray[Any]:
        """Return an array on a block of a size that `size_class` has rounded."""
        block = self._acquire(size)
        flat = np.frombuffer(block.data, dtype, elements)
        # A memoryview of its own, which all views of the result keep alive.
        reference = weakref.ref(flat.base, self._give_back)
        self._lent[id(reference)] = (reference, block)
        return flat.reshape(shape)

    def _give_back(self, reference: weakref.ref[Any]) -> None:
        lent = self._lent.pop(id(reference), None)
        if lent is not None:  # otherwise an interrupt came before the block was noted
            self.release(lent[1])

    def maker(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], npt.NDArray[Any]]:
        """Return a function that makes uninitialised arrays as `empty` does."""
        elements = prod(shape)
        nbytes = elements * dtype.itemsize
        if nbytes < SMALLEST_LEASE:
            return partial(np.empty, shape, dtype)
        return partial(self._lend, shape, dtype, elements, size_class(nbytes))

    @property
    def limit(self) -> int:
        """Most bytes of idle blocks, together with the bytes that are reserved."""
        return self._limit

    def set_limit(self, limit: int) -> None:
        self._limit = limit
        self._trim()

    def reserve(self, nbytes: int) -> None:
        """Count ``nbytes`` that are held elsewhere, by cached plans, as part of the limit."""
        self._reserved = nbytes
        self._trim()

    def clear(self) -> None:
        """Free all idle blocks."""
        self._recent.clear()
        self._idle.clear()
        self._workspaces.clear()
        self._trim()

    @property
    def idle_bytes(self) -> int:
        self._trim()
        return self._counted()

    def _counted(self) -> int:
        """Return the bytes of all idle blocks."""
        # Sizes as lists: until Python 3.11, making a tuple of a dict may run the garbage collector,
        # whose destructors return blocks, between two keys.
        blocks = (*self._recent.values(), *self._workspaces)
        of_sizes = [size * len(self._idle.get(size, ())) for size in list(self._idle)]
        return sum([block.nbytes for block in blocks]) + sum(of_sizes)

    def _keep(self, block: Block) -> None:
        """Add a block to the idle ones."""
        self._idle.setdefault(block.nbytes, deque()).append((next(self._next), block))

    def _flush_recent(self) -> None:
        """Move the recent blocks among the idle ones."""
        for size in list(self._recent):
            block = self._recent.pop(size, None)
            if block is not None:  # otherwise another thread has it
                self._keep(block)

    def _trim(self) -> None:
        """Free what is over the limit: results' blocks before workspaces."""
        self._flush_recent()
        room = self._limit - self._reserved - self._counted()
        while room < 0 and (freed := self._take_oldest()) is not None:
            room += freed.nbytes
        with contextlib.suppress(IndexError):  # there is none left
            while room < 0:
                room += self._workspaces.popleft().nbytes
        self._room = room

    def _take_oldest(self) -> Block | None:
        """Return the idle block that came back first, None if there is none."""
        while idle := [blocks for size in list(self._idle) if (blocks := self._idle.get(size))]:
            with contextlib.suppress(IndexError):  # another thread took the last one
                return min(idle, key=_first_number).popleft()[1]
        return None


def _first_number(blocks: deque[tuple[int, Block]]) -> float:
    try:
        return blocks[0][0]
    except IndexError:
        return inf


pool = Pool()
in_forked_child(pool.reset)
