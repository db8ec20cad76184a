"""Settings of backend, effort, fpmath mode, threads and library.

Order of precedence: the call's own argument, the innermost ``with`` block of the current
context, the environment variable, the default. The environment is read when a call needs
it, never at import.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Literal, SupportsIndex, get_args

from .errors import AttributeValueError, brief

__all__ = [
    "BACKENDS",
    "EFFORTS",
    "FPMATH_MODES",
    "MOST_THREADS",
    "VARIABLES",
    "BackendName",
    "Effort",
    "FpmathMode",
    "IdleThreads",
    "Setting",
    "accept_backend",
    "backend_setting",
    "check_environment",
    "checked_threads",
    "effort_setting",
    "explicit_library",
    "fpmath_mode_setting",
    "freed_memory_setting",
    "leaves_idle_threads",
    "set_idle_threads",
    "set_threads",
    "unknown_variables",
    "use_backend",
    "use_effort",
    "use_fpmath_mode",
    "use_threads",
    "wanted_threads",
]

BackendName = Literal["auto", "onednn", "numpy"]
Effort = Literal["heuristic", "measure"]
FpmathMode = Literal["strict", "bf16", "tf32", "f16", "any"]
IdleThreads = Literal["shorten", "leave"]

# Backends add their names, see `accept_backend`.
BACKENDS = ["auto"]
EFFORTS = get_args(Effort)
FPMATH_MODES = get_args(FpmathMode)
MOST_THREADS = 1024
VARIABLES = (
    "ONEDNN_PY_BACKEND",
    "ONEDNN_PY_EFFORT",
    "ONEDNN_PY_FREED_MEMORY",
    "ONEDNN_PY_IDLE_THREADS",
    "ONEDNN_PY_LIBRARY",
    "ONEDNN_PY_TORCH_RAISE",
    "ONEDNN_PY_WISDOM",
)
_PREFIX = "ONEDNN_PY_"
# Of the package's own tests.
_TEST_PREFIX = "ONEDNN_PY_TEST_"


def _presence_test(variable: str) -> Callable[[], bool]:
    """Return a function that tells whether an environment variable may be set.

    Every call asks. A missing variable takes ``os.environ`` half a microsecond, and the mapping
    inside it a thirtieth of that.
    """
    data = getattr(os.environ, "_data", None)
    if not isinstance(data, dict):
        return lambda: True
    key = os.environ.encodekey(variable)
    return lambda: key in data


class Setting:
    """A choice between names, the first of which is the default."""

    def __init__(self, name: str, accepted: Sequence[str], variable: str | None = None) -> None:
        self._name = name
        self._accepted = accepted
        self._variable = variable
        self._is_set = _presence_test(variable or "")
        self._chosen: ContextVar[str | None] = ContextVar(f"onednn_py_{name}", default=None)

    def current(self, value: str | None = None, operation: str = "") -> str:
        """Return ``value`` if a call names one, otherwise what is in force in this context.

        Parameters
        ----------
        value : str or None
        operation : str
            Of the call, for the error.

        Raises
        ------
        AttributeValueError
            If the name is not accepted.
        """
        if value is not None:
            return self._checked(value, f"{operation}: {self._name}" if operation else self._name)
        chosen = self._chosen.get()
        if chosen is not None:
            return chosen
        if self._variable is not None and self._is_set():
            from_environment = os.environ.get(self._variable)
            if from_environment:
                return self._checked(from_environment, f"environment variable {self._variable}")
        return self._accepted[0]

    def use(self, value: str) -> AbstractContextManager[None]:
        """Put a name in force inside the ``with`` block, in this context (thread or task).

        Raises
        ------
        AttributeValueError
            At once, if the name is not accepted.
        """
        return self._in_force(self._checked(value, f"use_{self._name}"))

    @contextmanager
    def _in_force(self, value: str) -> Iterator[None]:
        token = self._chosen.set(value)
        try:
            yield
        finally:
            self._chosen.reset(token)

    def check_environment(self) -> None:
        """Raise the error of `current` if the environment variable has a wrong value."""
        if self._variable is not None and (value := os.environ.get(self._variable)):
            self._checked(value, f"environment variable {self._variable}")

    def _checked(self, value: object, origin: str) -> str:
        if isinstance(value, str) and value.lower() in self._accepted:
            return value.lower()
        raise AttributeValueError(
            f"{origin}: expected one of {', '.join(self._accepted)}; got {brief(value)}"
        )


backend_setting = Setting("backend", BACKENDS, "ONEDNN_PY_BACKEND")
effort_setting = Setting("effort", EFFORTS, "ONEDNN_PY_EFFORT")
fpmath_mode_setting = Setting("fpmath_mode", FPMATH_MODES)
_idle_threads_setting = Setting("idle_threads", get_args(IdleThreads), "ONEDNN_PY_IDLE_THREADS")
freed_memory_setting = Setting("freed_memory", ("keep", "return"), "ONEDNN_PY_FREED_MEMORY")


def check_environment() -> None:
    """Check the environment variables that calls may never ask, because a setting precedes them.

    Raises
    ------
    AttributeValueError
        Naming the variable and the values that it accepts.
    """
    for setting in (
        backend_setting,
        effort_setting,
        _idle_threads_setting,
        freed_memory_setting,
    ):
        setting.check_environment()


def unknown_variables() -> list[str]:
    """Return the names in the environment that look like the package's variables, and are not."""
    return sorted(
        name
        for name in os.environ
        if name.startswith(_PREFIX) and not name.startswith(_TEST_PREFIX) and name not in VARIABLES
    )


def accept_backend(name: str) -> None:
    """Let calls and settings name a backend.

    Raises
    ------
    AttributeValueError
        If the name has capitals, which settings ignore, or is ``"auto"``.
    """
    if name != name.lower() or name == "auto":
        raise AttributeValueError(f"backend: expected another name in lower case, got {name!r}")
    if name not in BACKENDS:
        BACKENDS.append(name)


def use_backend(backend: BackendName) -> AbstractContextManager[None]:
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
    return backend_setting.use(backend)


def use_effort(effort: Effort) -> AbstractContextManager[None]:
    """Plan with ``effort`` inside the ``with`` block, in this context (thread or task).

    Parameters
    ----------
    effort : {"heuristic", "measure"}
        ``"measure"`` times the candidates of every new problem, keeps the fastest and
        remembers it as wisdom; ``"heuristic"`` never takes that time.

    Raises
    ------
    AttributeValueError
        If the name is none of these.

    Examples
    --------
    >>> import onednn_py
    >>> with onednn_py.use_effort("measure"):
    ...     pass
    """
    return effort_setting.use(effort)


def use_fpmath_mode(mode: FpmathMode) -> AbstractContextManager[None]:
    """Allow float32 products at lower precision inside the ``with`` block, in this context.

    Parameters
    ----------
    mode : {"strict", "bf16", "tf32", "f16", "any"}
        The type to which float32 tensors may be rounded before they are multiplied;
        ``"strict"`` allows no rounding. Sums are in float32 in every mode.

    Raises
    ------
    AttributeValueError
        If the name is none of these.

    Examples
    --------
    >>> import onednn_py
    >>> with onednn_py.use_fpmath_mode("bf16"):
    ...     pass
    """
    return fpmath_mode_setting.use(mode)


_process_threads: int | None = None
_context_threads: ContextVar[int | None] = ContextVar("onednn_py_threads", default=None)


def checked_threads(number: SupportsIndex, origin: str) -> int:
    """Return a number of threads as an int.

    Raises
    ------
    AttributeValueError
        If it is not an integer from 1 to 1024.
    """
    try:
        # bool is an int to Python, but True as a number of threads is a mistake.
        checked = 0 if isinstance(number, bool) else operator.index(number)
    except TypeError:
        checked = 0
    if not 0 < checked <= MOST_THREADS:
        raise AttributeValueError(
            f"{origin}: expected an integer from 1 to {MOST_THREADS}, got {brief(number)}"
        )
    return checked


def wanted_threads() -> int | None:
    """Return the number of threads that the user set, None if there is none."""
    return _context_threads.get() or _process_threads


def set_threads(number: int) -> None:
    """Set the number of threads of the process, which `use_threads` overrides."""
    global _process_threads
    _process_threads = number


@contextmanager
def use_threads(number: int) -> Iterator[None]:
    """Set the number of threads inside the ``with`` block, in this context."""
    token = _context_threads.set(number)
    try:
        yield
    finally:
        _context_threads.reset(token)


_process_idle_threads: str | None = None


def set_idle_threads(choice: str | None) -> None:
    """Set what is done with idle threads in this process; None for the environment's choice.

    Raises
    ------
    AttributeValueError
        If the choice is not accepted.
    """
    global _process_idle_threads
    if choice is not None:
        choice = _idle_threads_setting.current(choice, "set_idle_threads")
    _process_idle_threads = choice


def leaves_idle_threads() -> bool:
    """Whether idle threads of other libraries are to stay as they are."""
    return _idle_threads_setting.current(_process_idle_threads) == "leave"


def explicit_library() -> str | None:
    """Return the path that ``ONEDNN_PY_LIBRARY`` names, None if it is unset or empty."""
    return os.environ.get("ONEDNN_PY_LIBRARY") or None
