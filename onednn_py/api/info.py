"""Versions, the library in use, CPU, threads, and the libraries that were rejected."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TypedDict

import ml_dtypes
import numpy as np

from onednn_py.backends.onednn import library, openmp_path, rejections, support
from onednn_py.config import backend_setting, check_environment, explicit_library
from onednn_py.errors import LibraryNotFoundError
from onednn_py.system import idle_threads
from onednn_py.system.allocator import freed_memory_state
from onednn_py.system.threadpools import ThreadpoolController

from .threads import get_num_threads

__all__ = ["IdleThreadsInfo", "Info", "RejectedLibrary", "info", "package_version"]


class RejectedLibrary(TypedDict):
    """A library that was not used, and why."""

    path: str
    source: str
    reason: str


class IdleThreadsInfo(TypedDict):
    """A BLAS, or the OpenMP runtime of oneDNN, and how long its idle threads spin."""

    library: str
    path: str
    threads: int
    state: str


class Info(TypedDict):
    """The facts that `info` returns; those about the library are None without a library.

    ``backend`` is None where calls that name no backend fail.
    """

    onednn_py: str
    python: str
    numpy: str
    cffi: str
    ml_dtypes: str
    backend: str | None
    library: str | None
    source: str | None
    version: str | None
    hash: str | None
    cpu_isa: str | None
    runtime: str | None
    threads: int
    threads_note: str | None
    openmp: list[str]
    freed_memory: str
    idle_threads: list[IdleThreadsInfo]
    supports: dict[str, bool] | None
    error: str | None
    rejected: list[RejectedLibrary]


def package_version() -> str:
    """Return the installed version of this package."""
    try:
        return version("onednn_py")
    except PackageNotFoundError:
        return "unknown (not installed)"


def info() -> Info:
    """Return versions, library path, hash, CPU ISA, threading runtime, threads, rejections.

    Returns
    -------
    dict
        ``backend`` is what computes a call that names none: as `use_backend` or the environment
        variable ``ONEDNN_PY_BACKEND`` says, None if such a call fails. ``library`` is None, and
        ``error`` says why, if no oneDNN can be used. ``threads_note`` says why the number of
        threads is not one that `set_num_threads` sets, for builds on other runtimes than OpenMP.
        ``openmp`` lists the OpenMP runtimes of this process: where there are several, a number of
        threads that is set for PyTorch may not reach oneDNN. ``freed_memory`` says what the C
        allocator does with freed memory, which ``onednn_py.torch`` changes. ``supports`` says
        which data types oneDNN computes itself on this CPU, without a cast, and whether the library
        has the Graph API. ``rejected`` lists libraries as dicts of path, source and reason.
        ``idle_threads`` lists every BLAS, and the GNU OpenMP of oneDNN, as dicts of library, path,
        threads, and what was done that they sleep early, see
        `set_idle_threads`.

    Raises
    ------
    AttributeValueError
        If an environment variable of the package has a value that is not accepted.

    Examples
    --------
    >>> import onednn_py
    >>> sorted(onednn_py.info())[:4]
    ['backend', 'cffi', 'cpu_isa', 'error']
    """
    check_environment()
    found, error = None, None
    try:
        found = library()
    except LibraryNotFoundError as failure:
        error = str(failure)
    threads = get_num_threads()
    return {
        "onednn_py": package_version(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cffi": version("cffi"),
        "ml_dtypes": ml_dtypes.__version__,
        "backend": _backend_in_use(found is not None),
        "library": found.path if found else None,
        "source": found.source if found else None,
        "version": found.version_text if found else None,
        "hash": found.hash if found else None,
        "cpu_isa": found.cpu_isa if found else None,
        "runtime": found.runtime if found else None,
        "threads": threads,
        "threads_note": found.thread_note if found else None,
        "openmp": _openmp_runtimes(),
        "freed_memory": freed_memory_state(),
        "idle_threads": [
            {"library": one.library, "path": one.path, "threads": one.threads, "state": one.state}
            for one in idle_threads.states(openmp_path(), threads)
        ],
        "supports": support(found) if found else None,
        "error": error,
        "rejected": [
            {"path": path, "source": source, "reason": reason}
            for path, source, reason in rejections()
        ],
    }


def _openmp_runtimes() -> list[str]:
    controllers = ThreadpoolController().select(user_api="openmp").lib_controllers
    return sorted(controller.filepath for controller in controllers)


def _backend_in_use(has_library: bool) -> str | None:
    chosen = backend_setting.current()
    if chosen == "auto" and (has_library or explicit_library() is None):
        return "onednn" if has_library else "numpy"
    return chosen if has_library or chosen not in ("auto", "onednn") else None
