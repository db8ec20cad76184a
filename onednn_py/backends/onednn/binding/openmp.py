"""The OpenMP runtime that libdnnl uses: how many threads it gives the calling thread.

OpenMP keeps the number of threads per thread, and a process may hold several OpenMP runtimes;
only the one that libdnnl is bound to counts. The number of `config` is applied to a thread when
the thread calls, and the number that it had before is put back when the setting ends.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from onednn_py.system import parallel
from onednn_py.system.forks import forks_wait
from onednn_py.system.threadpools import ThreadpoolController

from .declarations import c_type, ffi
from .library import Library

__all__ = ["OpenMP", "find_openmp"]


class _Applied(threading.local):
    """The number of threads that was applied to one thread.

    Attributes
    ----------
    wanted : int or None
        The number asked for.
    number : int
        The number that the runtime gave.
    before : int
        The number that the thread had.
    """

    wanted: int | None = None
    number = 0
    before = 0


_applied = _Applied()


class OpenMP:
    """An OpenMP runtime.

    Parameters
    ----------
    functions
        A ctypes or cffi library with OpenMP's functions.
    path : str, optional
        The runtime's file, if it is known.
    """

    def __init__(self, functions: Any, path: str | None = None) -> None:
        self.path = path
        self._get = functions.omp_get_max_threads
        self._set = functions.omp_set_num_threads
        if isinstance(functions, ctypes.CDLL):
            # Through cffi: ctypes takes twice as long for a call.
            cast = ffi().cast
            self._get = cast(c_type("int (*)(void)"), _address(functions))
            self._set = cast(c_type("void (*)(int)"), _address(functions, "omp_set_num_threads"))
        self.set_now: Callable[[int], None] = self._set

    def number(self) -> int:
        """Return the number of threads that the calling thread has at the moment."""
        number: int = self._get()
        return number

    @contextmanager
    def on(self, number: int) -> Iterator[None]:
        """Give the calling thread another number inside the ``with`` block; 0 leaves it."""
        if not number:
            yield
            return
        before = self._get()
        try:
            self._set(number)
            yield
        finally:
            self._set(before)

    @property
    def is_applied(self) -> bool:
        """Whether a number is applied to the calling thread."""
        return _applied.wanted is not None

    def apply(self, wanted: int | None) -> int:
        """Give the calling thread a number of threads, and return the number that it has then.

        Parameters
        ----------
        wanted : int or None
            None for the number that the thread had before any was applied.
        """
        applied = _applied
        number: int = self._get()
        if number == applied.number and wanted == applied.wanted:
            return number
        # Each step leaves what the next call, after an interrupt between any two, puts right.
        if applied.wanted is not None and number == applied.number:
            number = applied.before
            self._set(number)
        if wanted is not None:
            # Others may have set it meanwhile: their number is put back.
            applied.before = number
            if number != wanted:
                parallel.follow(wanted)
                applied.wanted, applied.number = wanted, wanted
                self._set(wanted)
                # A runtime may have a limit of its own.
                number = self._get()
        parallel.follow(number)
        applied.wanted, applied.number = wanted, number
        return number


@functools.cache
def find_openmp(opened: Library) -> OpenMP | None:
    """Return the OpenMP runtime that a library is bound to, None if that cannot be found out."""
    with forks_wait:  # the loader has locks of its own
        return _find_openmp(opened)


def _find_openmp(opened: Library) -> OpenMP | None:
    controllers = ThreadpoolController().select(user_api="openmp").lib_controllers
    try:
        functions: Any = opened.lib
        address = _address(functions)
    except AttributeError:
        # Windows finds functions in a library itself only, not in what it is linked to.
        first = controllers[0] if len(controllers) == 1 else None
        return OpenMP(first.dynlib, first.filepath) if first else None
    preferred = _global_functions()
    if preferred is not None and _address(preferred) != address:
        functions, address = preferred, _address(preferred)
    for controller in controllers:
        if _address(controller.dynlib) == address:
            return OpenMP(controller.dynlib, controller.filepath)
    # threadpoolctl does not know this runtime by its file's name.
    return OpenMP(functions)


def _global_functions() -> ctypes.CDLL | None:
    """Return the process's global scope if it has OpenMP functions.

    The loader of ELF systems binds a library to the global scope first (what the program is
    linked to, LD_PRELOAD, RTLD_GLOBAL), and only then to the library's own dependencies,
    which are all that a look through its handle sees. This holds for what was there when the
    library was opened, a moment ago.
    """
    if sys.platform in ("win32", "darwin"):
        return None
    scope = ctypes.CDLL(None)
    return scope if hasattr(scope, "omp_get_max_threads") else None


def _address(functions: Any, name: str = "omp_get_max_threads") -> int:
    if isinstance(functions, ctypes.CDLL):
        return ctypes.cast(getattr(functions, name), ctypes.c_void_p).value or 0
    return int(ffi().cast(c_type("uintptr_t"), ffi().addressof(functions, name)))
