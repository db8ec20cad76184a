"""The backends: oneDNN, and NumPy where no oneDNN library can be used.

`BACKENDS` holds them by name. ``"auto"`` is the first of them, or NumPy where that cannot be used;
NumPy also computes the problems that a backend refuses. `register` adds a backend.
"""

from onednn_py.config import accept_backend

from .base import Backend
from .numpy import NumPyBackend
from .onednn import OneDNNBackend

__all__ = ["BACKENDS", "FALLBACK", "ONEDNN", "register"]

BACKENDS: dict[str, Backend] = {}


def register(backend: Backend) -> None:
    """Let calls choose a backend by its name."""
    accept_backend(backend.name)
    BACKENDS[backend.name] = backend


# NumPy computes the problems that other backends do not support, and judges their results.
FALLBACK = NumPyBackend()
ONEDNN = OneDNNBackend(reference=FALLBACK)

register(ONEDNN)
register(FALLBACK)
