"""The idle worker threads of BLAS libraries: how long they spin before they sleep.

An idle worker of OpenBLAS spins for 2^26 cycles after a product, some 20 ms, and keeps the core
that a thread of OpenMP needs. OpenBLAS reads the exponent from the environment, and its workers
take it over when they start: they are ended, and the next product starts new ones.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from .c_environment import HAS_C_ENVIRONMENT, c_variable
from .threadpools import ThreadpoolController
from .waiting_threads import call_while_others_wait, first_at_work

__all__ = ["BLOCKTIME", "TIMEOUT", "TIMEOUT_VARIABLE", "Workers", "find_workers", "shorten"]

# The binary logarithm of the cycles. With 14 to 17 products alone are as fast as with 26, and with
# 16 or 17 small products between convolutions are faster than with 14: fewer workers have to be
# woken. With 10 and less, workers sleep between the products of a loop; with 20 they hinder OpenMP.
TIMEOUT = 17
TIMEOUT_VARIABLE = "OPENBLAS_THREAD_TIMEOUT"

# Milliseconds for Intel's OpenMP, whose own number is 200. With 0 products take up to 1.4 times as
# long, with 1 no longer.
BLOCKTIME = 1

# Variables by which a user of Intel's OpenMP decides how long threads spin.
_BLOCKTIME_VARIABLES = ("KMP_BLOCKTIME", "OMP_WAIT_POLICY")


class Workers(NamedTuple):
    """The workers of one BLAS.

    Attributes
    ----------
    name : str
        The library's name and version.
    path : str
    threads : int
        The number of threads of a product.
    reason : str or None
        Why the workers have to stay as they are, None if they can spin for a shorter time.
    openblas, openmp
        What has the functions for that: OpenBLAS itself, or MKL's OpenMP runtime.
    """

    name: str
    path: str
    threads: int
    reason: str | None
    openblas: ctypes.PyDLL | None = None
    openmp: ctypes.CDLL | None = None


def find_workers(openmp_path: str | None = None) -> list[Workers]:
    """Return the workers of every BLAS that is loaded, of the kinds that are known.

    Parameters
    ----------
    openmp_path : str, optional
        The OpenMP runtime of oneDNN; a BLAS that uses it has no workers of its own.
    """
    controllers = ThreadpoolController().lib_controllers
    found = []
    for controller in controllers:
        if controller.internal_api == "openblas":
            found.append(_openblas(controller))
        elif controller.internal_api == "mkl":
            found.append(_mkl(controller, controllers, openmp_path))
    return found


def shorten(found: Sequence[Workers]) -> str | None:
    """Let workers spin for a shorter time from now on, or return why that has to wait.

    Parameters
    ----------
    found : sequence of Workers
        Those without a reason to stay as they are.
    """
    for workers in found:
        if workers.openmp is not None:
            # It applies to products of the calling thread.
            workers.openmp.kmp_set_blocktime(BLOCKTIME)
    libraries = [workers.openblas for workers in found if workers.openblas is not None]
    at_work = first_at_work() if libraries else None
    if at_work is not None or not libraries:
        return at_work
    with c_variable(TIMEOUT_VARIABLE, str(TIMEOUT)):
        for library in libraries:
            library.openblas_read_env()
    if call_while_others_wait([library.blas_thread_shutdown_ for library in libraries]):
        return None
    # A fork starts new workers, too: they spin as before.
    for library in libraries:
        library.openblas_read_env()
    return first_at_work() or "another thread was at work"


def _openblas(controller: Any) -> Workers:
    threads = int(controller.num_threads or 1)
    library = _functions(controller.filepath)
    functions = ("blas_thread_shutdown_", "openblas_read_env", "openblas_thread_timeout")
    reason = None
    if controller.threading_layer != "pthreads":
        reason = f"its threads are those of {controller.threading_layer}"
    elif not HAS_C_ENVIRONMENT or not all(hasattr(library, name) for name in functions):
        reason = "it has no functions that end its workers"
    elif library.openblas_thread_timeout() or os.environ.get(TIMEOUT_VARIABLE):
        reason = f"{TIMEOUT_VARIABLE} is set"
    elif threads == 1:
        reason = "one thread"
    name = f"OpenBLAS {controller.version or ''}".rstrip()
    return Workers(name, controller.filepath, threads, reason, openblas=library)


def _mkl(controller: Any, controllers: Sequence[Any], openmp_path: str | None) -> Workers:
    threads = int(controller.num_threads or 1)
    runtimes = [one for one in controllers if one.prefix == "libiomp"]
    variable = next((name for name in _BLOCKTIME_VARIABLES if os.environ.get(name)), None)
    reason = None
    if controller.threading_layer != "intel" or len(runtimes) != 1:
        reason = f"its threads are those of {controller.threading_layer}"
    elif runtimes[0].filepath == openmp_path:
        reason = "its threads are those of oneDNN"
    elif variable is not None:
        reason = f"{variable} is set"
    elif runtimes[0].dynlib.kmp_get_blocktime() <= BLOCKTIME:
        reason = "its threads sleep early"
    name = f"MKL {controller.version or ''}".rstrip()
    openmp = runtimes[0].dynlib if reason is None else None
    return Workers(name, controller.filepath, threads, reason, openmp=openmp)


def _functions(path: str) -> ctypes.PyDLL:
    """Return the functions of a library that is loaded; calls keep the interpreter lock."""
    return ctypes.PyDLL(path, getattr(os, "RTLD_NOLOAD", 0) | ctypes.DEFAULT_MODE)
