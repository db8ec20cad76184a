"""The library in use and what belongs to it: engine, threads, forked children.

GNU OpenMP deadlocks in a forked child that enters a parallel region after its parent
used one. A child therefore computes on one thread, with primitives of its own: those
that the parent built for several threads must not run there.
"""

from __future__ import annotations

import os
import threading

from onednn_py.config import wanted_threads

from .engine import Api
from .library import Library, library, reset_lock
from .openmp import OpenMP, find_openmp

__all__ = ["generation", "gives_threads_back", "is_forked", "runtime", "threads"]


_lock = threading.Lock()
_runtime: Api | None = None
_generation = 0
_openmp: OpenMP | None = None
_openmp_of: Library | None = None


def runtime() -> Api:
    """Return the library in use, on its engine, opening the library at the first call.

    Raises
    ------
    LibraryNotFoundError
    """
    global _runtime
    if _runtime is None:
        opened = library()
        with _lock:
            if _runtime is None:
                _runtime = Api(opened)
    return _runtime


def generation() -> int:
    """Return how many forks lie between this process and the one that imported the package."""
    return _generation


def is_forked() -> bool:
    return _generation > 0


def threads(opened: Library) -> int:
    """Return the number of threads that a call on this thread uses, having applied the wish.

    It is asked before every call, because OpenMP keeps the number per thread. A forked
    child gets 1, on the runtime that libdnnl itself is bound to.
    """
    global _openmp, _openmp_of
    if not opened.uses_openmp:
        return 1 if opened.runtime == "sequential" else (os.cpu_count() or 1)
    if _openmp_of is not opened:
        _openmp, _openmp_of = find_openmp(opened), opened
    if _openmp is None:
        return os.cpu_count() or 1
    return _openmp.threads(1 if _generation else wanted_threads())


def gives_threads_back() -> bool:
    """Whether the calling thread has a number of threads from here that may have to change."""
    return _openmp is not None and _openmp.is_touched


def _after_fork_in_child() -> None:
    global _lock, _runtime, _generation
    _lock = threading.Lock()
    _runtime = None
    _generation += 1
    reset_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
