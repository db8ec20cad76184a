"""Buffers of one execution: every thread has its own, and keeps them from tile to tile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.system.memory_pool import Block, pool

__all__ = ["Means", "Scratch", "means"]

Array = npt.NDArray[Any]


class Scratch(threading.local):
    """Named buffers of the calling thread, from the pool."""

    def __init__(self, borrowed: list[Block]) -> None:
        self._borrowed = borrowed
        self._blocks: dict[str, Block] = {}

    def empty(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an array on the buffer ``name``, whose last array is overwritten by it."""
        nbytes = prod(shape) * dtype.itemsize
        block = self._blocks.get(name)
        if block is None or block.nbytes < nbytes:
            block = self._blocks[name] = pool.acquire(nbytes)
            self._borrowed.append(block)
        return np.ndarray(shape, dtype, block)


@dataclass(frozen=True, slots=True)
class Means:
    """What one execution computes with: buffers, the type of its sums, threads."""

    memory: Scratch
    dtype: np.dtype[Any]
    threads: int

    def empty(self, name: str, shape: tuple[int, ...]) -> Array:
        """Return an uninitialised array in the type of the sums, see `Scratch.empty`."""
        return self.memory.empty(name, shape, self.dtype)

    def empty_like(self, name: str, matrices: Array) -> Array:
        """Return the same for matrices, by columns where those are."""
        groups, rows, columns = matrices.shape
        if matrices.strides[1] < matrices.strides[2]:
            return self.empty(name, (groups, columns, rows)).swapaxes(1, 2)
        return self.empty(name, matrices.shape)

    def shared(self, shape: tuple[int, ...]) -> Array:
        """Return an uninitialised array in the type of the sums, for all threads."""
        return pool.empty(shape, self.dtype)


@contextmanager
def means(dtype: np.dtype[Any], threads: int) -> Iterator[Means]:
    """Lend buffers to all threads that work inside the ``with`` block."""
    borrowed: list[Block] = []
    try:
        yield Means(Scratch(borrowed), dtype, threads)
    finally:
        for block in borrowed:
            pool.release(block)
