"""An alternate stack for signal handlers, on threads that run kernels which move the stack.

Before v3.11.2, oneDNN's generated float32 products (`x64:gemm:jit` and what is built on it) point
the stack pointer of x86-64 at memory of the heap where a block of summands exceeds their stack
(uxlfoundation/oneDNN#4845). A signal handler that begins then writes over what lies in the heap
before it, and the process ends a little later. Handlers of Python run on the thread's alternate
stack if it has such a stack.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

__all__ = ["SignalStack", "signal_stack"]

# Bytes. The system saves up to 11 KB of registers there, with AMX; pages that no handler touches
# take no memory.
STACK_BYTES = 2**17
GUARD_BYTES = mmap.PAGESIZE

SS_DISABLE = 2
FAILED = ctypes.c_void_p(-1).value


class _StackT(ctypes.Structure):
    """``stack_t`` of Linux."""

    _fields_ = (
        ("ss_sp", ctypes.c_void_p),
        ("ss_flags", ctypes.c_int),
        ("ss_size", ctypes.c_size_t),
    )


class SignalStack(threading.local):
    """The alternate stack of the calling thread.

    Attributes
    ----------
    is_ensured : bool
        Whether the thread is known to have a stack, or could be given none.
    """

    is_ensured = False

    def ensure(self) -> None:
        """Give the calling thread an alternate stack, unless it has one; on Linux alone."""
        self.is_ensured = True
        if sys.platform != "linux" or _current(_scope()) is not None:
            return
        self._memory = _Memory(_scope())


signal_stack = SignalStack()


class _Memory:
    """An alternate stack of the thread that makes it, until the thread ends."""

    def __init__(self, scope: Any) -> None:
        self._scope, self._thread = scope, threading.get_ident()
        readable = mmap.PROT_READ | mmap.PROT_WRITE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._address = scope.mmap(None, GUARD_BYTES + STACK_BYTES, readable, flags, -1, 0)
        if self._address == FAILED:
            return
        # A handler that needs more meets a page without access, and no memory of others.
        scope.mprotect(self._address, GUARD_BYTES, 0)
        stack = _StackT(self._address + GUARD_BYTES, 0, STACK_BYTES)
        scope.sigaltstack(ctypes.byref(stack), None)

    def __del__(self, ends: Callable[[], bool] = sys.is_finalizing) -> None:
        if ends():  # this module's names may be gone, and the memory goes with the process
            return
        # A daemon still has it when the interpreter ends; others may have put theirs in its place.
        is_mine = threading.get_ident() == self._thread and self._address != FAILED
        if is_mine and _current(self._scope) == self._address + GUARD_BYTES:
            self._scope.sigaltstack(ctypes.byref(_StackT(None, SS_DISABLE, 0)), None)
            self._scope.munmap(self._address, GUARD_BYTES + STACK_BYTES)


def _current(scope: Any) -> int | None:
    """Return where the calling thread's alternate stack begins, None if it has none."""
    found = _StackT()
    scope.sigaltstack(None, ctypes.byref(found))
    return None if found.ss_flags & SS_DISABLE else found.ss_sp


@cache
def _scope() -> Any:
    """Return the C library's functions, through an object that declares them for this module."""
    scope = ctypes.CDLL(None)
    scope.mmap.restype = ctypes.c_void_p
    scope.mmap.argtypes = (
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
        ctypes.c_long,
    )
    scope.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    scope.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    scope.sigaltstack.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    return scope
