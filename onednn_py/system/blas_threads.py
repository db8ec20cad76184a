"""The threads of NumPy's own BLAS, which the matrix products of the NumPy backend use.

A BLAS has one thread pool in a process, so one number is in force at a time: that of the
``limited`` block entered last, on any thread, else that of ``set_limit``, else the pool's own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .threadpools import ThreadpoolController

__all__ = ["limited", "set_limit"]

# Reentrant: a fork takes it, and the forking thread may hold it.
_lock = threading.RLock()
_pools: list[Any] | None = None
_process_limit: int | None = None
_block_limits: dict[object, int] = {}
# The pools' own numbers, while a limit is in force.
_original: list[int] | None = None
# Whether the thread that holds the lock is at work, and whether a limit has changed meanwhile: a
# signal handler may compute between any two lines, and threadpoolctl's own lock is not reentrant.
_is_applying = False
_has_changed = False


def set_limit(number: int) -> None:
    """Let NumPy's BLAS use ``number`` threads from now on."""
    global _process_limit
    with _lock:
        _process_limit = number
        _apply()


@contextmanager
def limited(number: int) -> Iterator[None]:
    """Let NumPy's BLAS use ``number`` threads inside the ``with`` block."""
    block = object()
    try:
        with _lock:
            _block_limits[block] = number
            _apply()
        yield
    finally:
        with _lock:
            _block_limits.pop(block, None)
            _apply()


def _apply() -> None:
    global _is_applying, _has_changed
    _has_changed = True
    if _is_applying:
        return
    _is_applying = True
    try:
        while _has_changed:
            _has_changed = False
            _set_number()
    finally:
        _is_applying = False


def _set_number() -> None:
    global _pools, _original
    if _pools is None:
        _pools = _find_pools()
    limit = [_process_limit, *_block_limits.values()][-1]
    if limit is None:
        numbers, _original = _original or [], None
    else:
        numbers = [limit] * len(_pools)
        _original = _original or [pool.num_threads for pool in _pools]
    for pool, number in zip(_pools, numbers, strict=False):
        if pool.num_threads != number:
            pool.set_num_threads(number)
            # Newer versions of threadpoolctl let only one thread set OpenBLAS's number, and
            # would ignore the next thread.
            getattr(pool, "clear_controlling_thread", lambda: None)()


def _find_pools() -> list[Any]:
    """Return controllers of the BLAS in NumPy's own folders, else of every loaded BLAS."""
    found = ThreadpoolController().select(user_api="blas").lib_controllers
    loaded = [controller for controller in found if controller.num_threads]
    package = os.path.dirname(np.__file__)
    folders = (f"{package}.libs{os.sep}", f"{package}{os.sep}")
    return [pool for pool in loaded if pool.filepath.startswith(folders)] or loaded


def _after_fork_in_child() -> None:
    global _lock, _is_applying
    _lock, _is_applying = threading.RLock(), False


if hasattr(os, "register_at_fork"):
    # OpenBLAS changes its number of threads under a lock of its own. A child forked meanwhile
    # would find it held for ever, so no thread changes the number during a fork.
    os.register_at_fork(
        before=lambda: _lock.acquire(),
        after_in_parent=lambda: _lock.release(),
        after_in_child=_after_fork_in_child,
    )
