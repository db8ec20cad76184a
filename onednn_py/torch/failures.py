"""Errors inside a kernel: ours, which PyTorch's kernel makes up for, and the program's own."""

from __future__ import annotations

import os
import sys
import warnings
from traceback import walk_tb

__all__ = ["RAISE", "failed", "is_of_memory", "is_of_program"]

# Where this environment variable is set, an error of ours is raised instead of counted.
RAISE = "ONEDNN_PY_TORCH_RAISE"

# The packages, beside Python's own, whose code and errors a kernel can meet.
_PACKAGES = frozenset(
    ("cffi", "ml_dtypes", "numpy", "onednn_py", "platformdirs", "threadpoolctl"),
)

# Python's own modules that no kernel enters, but debuggers, other threads and handlers do.
_NOT_ENTERED = frozenset(("asyncio", "bdb", "concurrent", "multiprocessing", "pdb", "signal"))

# PyTorch's modules that kernels enter. Others have handlers of signals, as those of data loaders.
_OF_TORCH = frozenset(("_C", "_library", "_ops", "_tensor", "_utils", "backends"))

# What PyTorch's allocator says where there is no memory; its class is any error's.
_NO_MEMORY = "DefaultCPUAllocator: "

_warned = False


def is_of_program(error: Exception) -> bool:
    """Whether an error only came up while a kernel ran, and must reach the program.

    The handlers of signals run between any two instructions of Python, and other threads may have
    an error raised there (``PyThreadState_SetAsyncExc``): timeouts are made so. Such an error is of
    a class that kernels do not raise, or comes from code that they do not enter. Where another
    thread has a class raised that Python itself raises, such as ``RuntimeError``, nothing tells it
    from an error of ours, except for ``TimeoutError``, which is never ours.
    """
    if isinstance(error, TimeoutError) or not _is_raised_here(type(error).__module__):
        return True
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    return not all(_is_entered(frame.f_globals.get("__name__", "")) for frame in frames)


def _is_raised_here(module: str) -> bool:
    return module == "builtins" or module.partition(".")[0] in _PACKAGES


def _is_entered(module: str) -> bool:
    package, _, rest = module.partition(".")
    if package == "torch":
        return not rest or rest.partition(".")[0] in _OF_TORCH
    if package in _NOT_ENTERED:
        return False
    return (
        package in _PACKAGES
        or package in sys.stdlib_module_names
        or module.startswith("namedtuple_")
    )


def is_of_memory(error: Exception) -> bool:
    """Whether there was no memory, for this package or for PyTorch."""
    return isinstance(error, MemoryError) or _NO_MEMORY in str(error)


def failed(error: Exception) -> str:
    """Return the reason to count where a kernel of ours ended with an error of its own.

    Warns the first time, unless the error says that the program lacks memory or calls too deeply:
    those are no defects, and PyTorch's kernel may do with less.

    Raises
    ------
    Exception
        The error, where `RAISE` is set and it is a defect.
    """
    global _warned
    if is_of_memory(error):
        return "not enough memory"
    if isinstance(error, RecursionError):
        return "too deep in calls"
    if os.environ.get(RAISE):
        raise error
    if not _warned:
        _warned = True
        warnings.warn(
            "onednn_py.torch left a convolution to PyTorch after an error of its own: "
            f"{error!r:.400}",
            RuntimeWarning,
            stacklevel=4,
        )
    return "an error of onednn_py"
