"""Errors inside a kernel: ours, which PyTorch's kernel makes up for, and the program's own."""

from __future__ import annotations

import os
import sys
import warnings
from traceback import walk_tb

__all__ = ["RAISE", "failed", "is_of_program"]

# Where this environment variable is set, an error of ours is raised instead of counted.
RAISE = "ONEDNN_PY_TORCH_RAISE"

# The packages whose code and errors a kernel can meet.
_KNOWN = sys.stdlib_module_names | {
    "cffi",
    "ml_dtypes",
    "numpy",
    "onednn_py",
    "platformdirs",
    "threadpoolctl",
    "torch",
}

_warned = False


def is_of_program(error: Exception) -> bool:
    """Whether an error only came up while a kernel ran, and must reach the program.

    The handlers of signals run between any two instructions of Python, and other threads may have
    an error raised there (``PyThreadState_SetAsyncExc``): timeouts are made so. Such an error is of
    a class, or comes from code, that no kernel knows.
    """
    if isinstance(error, TimeoutError) or not _is_known(type(error).__module__):
        return True
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    return not all(_is_known(frame.f_globals.get("__name__", "")) for frame in frames)


def _is_known(module: str) -> bool:
    return module.partition(".")[0] in _KNOWN or module.startswith("namedtuple_")


def failed(error: Exception) -> str:
    """Return the reason that an error of ours is counted under, after a warning, the first time."""
    global _warned
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
