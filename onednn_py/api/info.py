"""Versions, the library in use, CPU, threads, and the libraries that were rejected."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TypedDict

import ml_dtypes
import numpy as np

from onednn_py.backends.onednn import library, rejections, support
from onednn_py.errors import LibraryNotFoundError

from .threads import get_num_threads

__all__ = ["Info", "RejectedCandidate", "info", "package_version"]


class RejectedCandidate(TypedDict):
    """A library that was not used, and why."""

    path: str
    source: str
    reason: str


class Info(TypedDict):
    """The facts that `info` returns; those about the library are None without a library."""

    onednn_py: str
    python: str
    numpy: str
    cffi: str
    ml_dtypes: str
    backend: str
    library: str | None
    source: str | None
    version: str | None
    hash: str | None
    cpu_isa: str | None
    runtime: str | None
    threads: int
    supports: dict[str, bool] | None
    error: str | None
    rejected: list[RejectedCandidate]


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
        ``backend`` is what ``"auto"`` computes with. ``library`` is None, and ``error`` says
        why, if no oneDNN can be used.
        ``supports`` says which data types oneDNN computes itself on this CPU, without a cast,
        and whether the library has the Graph API. ``rejected`` lists candidates as dicts of
        path, source and reason.

    Examples
    --------
    >>> import onednn_py
    >>> sorted(onednn_py.info())[:4]
    ['backend', 'cffi', 'cpu_isa', 'error']
    """
    found, error = None, None
    try:
        found = library()
    except LibraryNotFoundError as failure:
        error = str(failure)
    return {
        "onednn_py": package_version(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cffi": version("cffi"),
        "ml_dtypes": ml_dtypes.__version__,
        "backend": "onednn" if found else "numpy",
        "library": found.path if found else None,
        "source": found.source if found else None,
        "version": found.version_text if found else None,
        "hash": found.hash if found else None,
        "cpu_isa": found.cpu_isa if found else None,
        "runtime": found.runtime if found else None,
        "threads": get_num_threads(),
        "supports": support(found) if found else None,
        "error": error,
        "rejected": [
            {"path": path, "source": source, "reason": reason}
            for path, source, reason in rejections()
        ],
    }
