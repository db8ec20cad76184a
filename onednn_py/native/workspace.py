"""Workspaces: one block of memory for all that an execution needs besides the tensors.

A block belongs to one execution in flight and goes back afterwards, so that threads
never share one and repeated calls meet memory whose pages are already there.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ALIGNMENT", "Layout", "WorkspacePool"]

# A cache line, and the widest vector that oneDNN loads.
ALIGNMENT = 64

Block = npt.NDArray[np.uint8]


class Layout:
    """Offsets of several buffers inside one block."""

    def __init__(self) -> None:
        self.nbytes = 0

    def add(self, nbytes: int) -> int:
        """Reserve ``nbytes`` and return their offset, aligned."""
        offset = self.nbytes
        self.nbytes += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return offset


class WorkspacePool:
    """Idle blocks, bounded in bytes; the longest unused go first.

    Parameters
    ----------
    limit : int
        Bytes of idle blocks kept at the most.
    """

    def __init__(self, limit: int = 512 * 2**20) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._idle: list[Block] = []
        self._idle_bytes = 0

    def acquire(self, nbytes: int) -> Block:
        """Return a block of at least ``nbytes``, aligned to `ALIGNMENT`."""
        with self._lock:
            fitting = [b for b in self._idle if nbytes <= b.nbytes <= 2 * nbytes + 4096]
            if fitting:
                block = min(fitting, key=lambda b: b.nbytes)
                self._remove(block)
                return block
        raw: npt.NDArray[Any] = np.empty(nbytes + ALIGNMENT, np.uint8)
        start = -raw.__array_interface__["data"][0] % ALIGNMENT
        return raw[start : start + nbytes]

    def release(self, block: Block) -> None:
        """Give a block back once nothing runs on it any more."""
        with self._lock:
            self._idle.append(block)
            self._idle_bytes += block.nbytes
            while self._idle and self._idle_bytes > self._limit:
                self._remove(self._idle[0])

    def clear(self) -> None:
        with self._lock:
            self._idle.clear()
            self._idle_bytes = 0

    def _remove(self, block: Block) -> None:
        index = next(i for i, idle in enumerate(self._idle) if idle is block)
        del self._idle[index]
        self._idle_bytes -= block.nbytes
