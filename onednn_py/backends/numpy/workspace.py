"""Temporary arrays of one execution: each thread has its own, and reuses them for every tile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.system.memory_pool import Block, pool

__all__ = ["Workspace", "borrowed_workspace"]

Array = npt.NDArray[Any]


class Workspace(threading.local):
    """Named temporary arrays of the calling thread, and the settings of one execution.

    Attributes
    ----------
    dtype : numpy.dtype
        Data type of the sums.
    threads : int
        Number of threads that the execution may use.
    """

    def __init__(self, borrowed: list[Block], dtype: np.dtype[Any], threads: int) -> None:
        self.dtype, self.threads = dtype, threads
        self._borrowed = borrowed
        self._blocks: dict[str, Block] = {}

    def empty(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any] | None = None) -> Array:
        """Return an uninitialised array, of the sums' type by default.

        It takes the memory of this thread's previous array of the same name.
        """
        dtype = dtype or self.dtype
        nbytes = prod(shape) * dtype.itemsize
        block = self._blocks.get(name)
        if block is None or block.nbytes < nbytes:
            block = self._blocks[name] = pool.acquire(nbytes)
            self._borrowed.append(block)
        return np.ndarray(shape, dtype, block)

    def empty_like(self, name: str, matrices: Array) -> Array:
        """Return an uninitialised array like ``matrices``, column-major if they are."""
        groups, rows, columns = matrices.shape
        if matrices.strides[1] < matrices.strides[2]:
            return self.empty(name, (groups, columns, rows)).swapaxes(1, 2)
        return self.empty(name, matrices.shape)

    def shared(self, shape: tuple[int, ...]) -> Array:
        """Return an uninitialised array of the sums' type that all threads may use."""
        return pool.empty(shape, self.dtype)


@contextmanager
def borrowed_workspace(dtype: np.dtype[Any], threads: int) -> Iterator[Workspace]:
    """Borrow memory from the pool for all threads that work inside the ``with`` block."""
    borrowed: list[Block] = []
    try:
        yield Workspace(borrowed, dtype, threads)
    finally:
        for block in borrowed:
            pool.release(block)
