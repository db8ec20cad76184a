"""Small holes between large blocks of glibc's heap: filled while small blocks that stay are taken.

glibc 2.36 (`_int_memalign` of its malloc.c) cuts an aligned block, such as that of a PyTorch
tensor, out of a larger one, and hands the cuttings of 32 to 112 bytes to the next small request. A
small block there that outlives its large neighbour makes the place too narrow for another one of
the neighbour's size. In each step of a training a few more places are lost, and the process grows.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from .allocator import freed_memory_is_kept

__all__ = ["small_holes_filled"]

# Bytes of the cuttings, of which 8 are glibc's own.
CUTTINGS = range(32, 128, 16)
OWN_BYTES = 8

# Holes of each size that are filled. Where there are fewer, glibc cuts the rest of the blocks out
# of other free memory.
EACH = 32


@contextmanager
def small_holes_filled() -> Iterator[None]:
    """Have small blocks that are taken inside the ``with`` block lie together.

    It takes a quarter of a millisecond. Nothing is done unless glibc keeps freed memory
    (`onednn_py.system.allocator.keep_freed_memory`), which a program may have refused.
    """
    if not freed_memory_is_kept():
        yield
        return
    malloc, free = _allocator()
    blocks: list[int | None] = []
    try:
        for size in CUTTINGS:
            for _ in range(EACH):
                blocks.append(malloc(size - OWN_BYTES))
        yield
    finally:
        while blocks:
            free(blocks.pop())


@cache
def _allocator() -> tuple[Any, Any]:
    # Calls that keep the interpreter's lock: another thread may hold it for 5 ms each time.
    process = ctypes.PyDLL(None)
    malloc, free = process.malloc, process.free
    malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    return malloc, free
