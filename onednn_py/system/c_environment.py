"""A variable of the C environment for a moment, for a library that reads it then."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["HAS_C_ENVIRONMENT", "c_variable"]

# Windows has an environment for each C runtime.
HAS_C_ENVIRONMENT = os.name == "posix"


@contextmanager
def c_variable(name: str, value: str) -> Iterator[None]:
    """Set a variable of the C environment inside the ``with`` block.

    ``os.environ``, which is a copy, stays as it is. A child process that another thread starts
    meanwhile may inherit the variable.
    """
    scope = ctypes.PyDLL(None)
    scope.getenv.restype = ctypes.c_char_p
    key = name.encode()
    before = scope.getenv(key)
    scope.setenv(key, value.encode(), 1)
    try:
        yield
    finally:
        if before is None:
            scope.unsetenv(key)
        else:
            scope.setenv(key, before, 1)
