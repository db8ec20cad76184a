"""The library in use and what belongs to it: engine, workspaces, threads, forked children.

GNU OpenMP deadlocks in a forked child that enters a parallel region after its parent
used one. A child therefore computes on one thread, with primitives of its own: those
that the parent built for several threads must not run there.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

from .handles import Api
from .library import Library, library, reset_lock
from .workspace import WorkspacePool

__all__ = ["Runtime", "generation", "is_forked", "runtime", "started_runtime", "threads"]


@dataclass(frozen=True, slots=True)
class Runtime:
    """An engine on the library in use, and the workspaces for its executions."""

    api: Api
    pool: WorkspacePool


_lock = threading.Lock()
_runtime: Runtime | None = None
_generation = 0


def runtime() -> Runtime:
    """Return the runtime, opening the library at the first call.

    Raises
    ------
    LibraryNotFoundError
    """
    global _runtime
    if _runtime is None:
        opened = library()
        with _lock:
            if _runtime is None:
                _runtime = Runtime(Api(opened), WorkspacePool())
    return _runtime


def started_runtime() -> Runtime | None:
    """Return the runtime if a call has started it."""
    return _runtime


def generation() -> int:
    """Return how many forks lie between this process and the one that imported the package."""
    return _generation


def is_forked() -> bool:
    return _generation > 0


def threads(opened: Library) -> int:
    """Return the number of threads that a call on this thread uses.

    It is asked before every call, because OpenMP keeps the number per thread; in a
    forked child it is also set, on the runtime that libdnnl itself is linked to.
    """
    if not opened.uses_openmp:
        return 1 if opened.runtime == "sequential" else (os.cpu_count() or 1)
    try:
        if is_forked():
            opened.lib.omp_set_num_threads(1)
            return 1
        return int(opened.lib.omp_get_max_threads())
    except AttributeError:
        # Windows finds functions in a library itself only, not in what it is linked to.
        return os.cpu_count() or 1


def _after_fork_in_child() -> None:
    global _lock, _runtime, _generation
    _lock = threading.Lock()
    _runtime = None
    _generation += 1
    reset_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
