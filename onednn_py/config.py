"""Settings: what a call may override, a ``with`` block may set, and the environment defaults.

Order of precedence: the call's own argument, the innermost ``with`` block of the current
context, the environment variable, the default. The environment is read when a call needs
it, never at import.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .errors import AttributeValueError

__all__ = ["BACKENDS", "current_backend", "explicit_library", "use_backend"]

BACKENDS = ("auto", "onednn", "numpy")

_backend: ContextVar[str | None] = ContextVar("onednn_py_backend", default=None)


def _checked_backend(name: object, origin: str) -> str:
    if isinstance(name, str) and name.lower() in BACKENDS:
        return name.lower()
    raise AttributeValueError(f"{origin}: expected one of {', '.join(BACKENDS)}; got {name!r}")


def current_backend(backend: str | None = None) -> str:
    """Return the backend in force, ``backend`` itself if the call names one.

    Raises
    ------
    AttributeValueError
        If the name is none of ``"auto"``, ``"onednn"``, ``"numpy"``.
    """
    if backend is not None:
        return _checked_backend(backend, "backend")
    chosen = _backend.get()
    if chosen is not None:
        return chosen
    from_environment = os.environ.get("ONEDNN_PY_BACKEND")
    if from_environment:
        return _checked_backend(from_environment, "environment variable ONEDNN_PY_BACKEND")
    return "auto"


@contextmanager
def use_backend(backend: str) -> Iterator[None]:
    """Use ``backend`` for all calls inside the ``with`` block, in this context (thread or task).

    Parameters
    ----------
    backend : {"auto", "onednn", "numpy"}

    Raises
    ------
    AttributeValueError
        If the name is none of these.

    Examples
    --------
    >>> import onednn_py
    >>> with onednn_py.use_backend("numpy"):
    ...     pass
    """
    token = _backend.set(_checked_backend(backend, "use_backend"))
    try:
        yield
    finally:
        _backend.reset(token)


def explicit_library() -> str | None:
    """Return the path that ``ONEDNN_PY_LIBRARY`` names, None if it is unset or empty."""
    return os.environ.get("ONEDNN_PY_LIBRARY") or None
