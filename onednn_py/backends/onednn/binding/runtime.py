"""The engine of the library in use, its threads, and forked children.

GNU OpenMP deadlocks in a forked child that enters a parallel region after its parent
used one. A child therefore computes on one thread, with primitives of its own: those
that the parent built for several threads must not run there.
"""

from __future__ import annotations

import threading

from onednn_py.config import wanted_threads
from onednn_py.system.forks import forks_wait, in_forked_child
from onednn_py.system.parallel import available_cpus

from .engine import Engine
from .library import Library, library
from .openmp import OpenMP, find_openmp

__all__ = ["apply_threads", "current_engine", "generation", "openmp_path", "reset_threads"]


# Reentrant here and in other modules: a signal handler or a destructor may compute while its thread
# holds the lock.
_lock = threading.RLock()
_engine: Engine | None = None
_generation = 0
_openmp: OpenMP | None = None
_openmp_of: Library | None = None


def current_engine() -> Engine:
    """Return the engine of the library in use, opening the library at the first call.

    Raises
    ------
    LibraryNotFoundError
    """
    global _engine
    if _engine is None:
        opened = library()
        with forks_wait, _lock:  # in this order, as in `library`
            if _engine is None:
                _engine = Engine(opened)
    return _engine


def generation() -> int:
    """Return how many forks lie between this process and the one that imported the package."""
    return _generation


def apply_threads(opened: Library) -> int:
    """Put the number of threads of `config` in force on the calling thread, and return it.

    It is called before every call, because OpenMP keeps the number per thread. A forked
    child gets 1, on the runtime that libdnnl itself is bound to.
    """
    global _openmp, _openmp_of
    if _openmp_of is not opened:
        _openmp = find_openmp(opened) if opened.uses_openmp else None
        _openmp_of = opened
    if _openmp is not None:
        return _openmp.apply(1 if _generation else wanted_threads())
    return 1 if opened.has_one_thread else available_cpus()


def openmp_path() -> str | None:
    """Return the file of the OpenMP runtime that libdnnl is bound to, None if it is not known."""
    return None if _openmp is None else _openmp.path


def reset_threads() -> None:
    """Give the calling thread the number of threads that is in force now, if it had another."""
    if _openmp is not None and _openmp.is_applied:
        apply_threads(library())


@in_forked_child
def _reset() -> None:
    global _lock, _engine, _generation
    _lock = threading.RLock()
    _engine = None
    _generation += 1
