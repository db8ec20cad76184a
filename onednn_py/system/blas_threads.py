"""The threads of NumPy's own BLAS, which the matrix products of the NumPy backend use.

A BLAS has one pool in a process, so that one number is in force at a time: that of the
block entered last, wherever it runs, else the lasting one, else what the pool had.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import threadpoolctl

__all__ = ["limited", "set_limit"]

# Reentrant: a fork takes it, wherever the forking thread is.
_lock = threading.RLock()
_pools: list[Any] | None = None
_lasting: int | None = None
_blocks: dict[object, int] = {}
# Of each pool, while a limit is in force.
_before: list[int] | None = None


def set_limit(number: int) -> None:
    """Let NumPy's BLAS use ``number`` threads from now on."""
    global _lasting
    with _lock:
        _lasting = number
        _apply()


@contextmanager
def limited(number: int) -> Iterator[None]:
    """Let NumPy's BLAS use ``number`` threads inside the ``with`` block."""
    block = object()
    try:
        with _lock:
            _blocks[block] = number
            _apply()
        yield
    finally:
        with _lock:
            _blocks.pop(block, None)
            _apply()


def _apply() -> None:
    global _pools, _before
    if _pools is None:
        _pools = _find_pools()
    wish = next(reversed(_blocks.values()), _lasting)
    if wish is not None:
        if _before is None:
            _before = [pool.num_threads for pool in _pools]
        wanted = [wish] * len(_pools)
    else:
        wanted, _before = _before or [], None
    for pool, number in zip(_pools, wanted, strict=False):
        if pool.num_threads != number:
            pool.set_num_threads(number)
            # Newer versions of threadpoolctl let one thread alone set OpenBLAS's number,
            # and would do nothing here from the next one on.
            getattr(pool, "clear_controlling_thread", lambda: None)()


def _find_pools() -> list[Any]:
    """Return the controllers of the BLAS in NumPy's own folders, else of all that are loaded."""
    found = threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers
    loaded = [controller for controller in found if controller.num_threads]
    package = os.path.dirname(np.__file__)
    homes = (f"{package}.libs{os.sep}", f"{package}{os.sep}")
    return [pool for pool in loaded if pool.filepath.startswith(homes)] or loaded


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    # OpenBLAS changes its number of threads under a lock of its own, which a child would find
    # taken for ever: nobody changes it while a process forks.
    os.register_at_fork(
        before=lambda: _lock.acquire(),
        after_in_parent=lambda: _lock.release(),
        after_in_child=_after_fork_in_child,
    )
