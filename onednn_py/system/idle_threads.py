"""Idle threads that spin: BLAS workers and OpenMP's threads take each other's cores.

`shorten` is called before calls on several threads for as long as it has something to do: once in
most programs. Workers that cannot be ended safely at the moment are looked at again and again, in
intervals that grow. Meanwhile the calls that wait for a core are counted, and the user hears of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import sys
import threading
from collections.abc import Iterator
from typing import NamedTuple

from onednn_py.config import leaves_idle_threads

from . import blas_workers, waiting_threads
from .blas_workers import TIMEOUT, TIMEOUT_VARIABLE, Workers
from .c_environment import HAS_C_ENVIRONMENT, c_variable
from .contention import Contention
from .forks import in_forked_child

__all__ = [
    "State",
    "look_again",
    "look_again_if_scipy_came",
    "short_openmp_spin",
    "shorten",
    "states",
]

_log = logging.getLogger("onednn_py")

# How often a thread of GNU OpenMP looks for work before it sleeps, where the user has set nothing.
# Its own 300,000 looks take up to 17 ms, in which BLAS lacks a core: a loop with products takes 1.4
# times as long as with 30,000. With 10,000 threads sleep between the convolutions of a network,
# which takes 1.1 times as long, and with 3,000 between two calls in a loop of small ones (1.3).
OPENMP_SPINS = 30_000
_OPENMP_VARIABLES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")

# Modules that bring a BLAS of their own.
_BRINGS_BLAS = "scipy.linalg"

_LEFT = "unchanged: by the setting idle_threads"

# Calls over which the waiting for cores is measured.
WINDOW = 16

# Whether a call on several threads should ask `shorten`.
has_to_look = True

_lock = threading.Lock()
_calls = 0
_requests = 0  # to look; another one may come during a look
_has_scipy = False
_shortened: set[str] = set()
_reasons: dict[str, str] = {}
_openmp_state: str | None = None
_contention: Contention | None = None
_has_warned = False


class State(NamedTuple):
    """What happens with the idle threads of one library, in words."""

    library: str
    path: str
    threads: int
    state: str


def shorten(openmp_path: str | None = None) -> None:
    """Let the idle threads of BLAS libraries sleep earlier, once it is safe.

    Parameters
    ----------
    openmp_path : str, optional
        The OpenMP runtime of oneDNN.
    """
    # Another thread that is here does the same.
    if _lock.acquire(blocking=False):
        requests = _requests
        try:
            _shorten(openmp_path, requests)
        except (OSError, AttributeError, ValueError, RuntimeError) as error:
            # A library that cannot be opened again by its path, or lacks a function. A call does
            # not fail for that.
            _log.info("idle threads stay as they are: %s", error)
            _finish(requests)
        finally:
            _lock.release()


def _shorten(openmp_path: str | None, requests: int) -> None:
    global _calls, _contention
    if leaves_idle_threads():
        _finish(requests)
        return
    # Looks at calls 1, 2, 4, 8 and so on: in all they take no time that counts.
    _calls += 1
    since_last_look = _calls - (1 << _calls.bit_length() - 1)
    if since_last_look:
        if since_last_look == WINDOW and _contention is not None:
            _warn_if_calls_wait(_contention)
        return
    found = blas_workers.find_workers(openmp_path)
    to_do = [workers for workers in found if _is_open(workers)]
    reason = blas_workers.shorten(to_do)
    if reason is None:
        _shortened.update(workers.path for workers in to_do)
        _finish(requests)
    else:
        _log.info("idle threads of BLAS stay as they are for now: %s", reason)
        _contention = Contention()
    for workers in to_do:
        _reasons[workers.path] = reason or ""


def _finish(requests: int) -> None:
    """End the looking, unless another look was requested since ``requests`` were counted."""
    global has_to_look, _contention
    _contention = None
    if requests == _requests:
        has_to_look = False


def _is_open(workers: Workers) -> bool:
    return workers.reason is None and workers.path not in _shortened


def look_again_if_scipy_came() -> None:
    """Look again if SciPy has come, which brings a BLAS; called when a plan is built."""
    global _has_scipy
    if not _has_scipy and _BRINGS_BLAS in sys.modules:
        _has_scipy = True
        look_again()


def look_again() -> None:
    """Look again at the next call."""
    global has_to_look, _calls, _requests
    _requests += 1
    _calls = 0
    has_to_look = True


def _warn_if_calls_wait(contention: Contention) -> None:
    """Say once that calls wait for cores that threads of this process hold."""
    global _has_warned
    if not _has_warned and contention.is_high():
        _has_warned = True
        _log.warning(
            "calls wait for a core that other threads of this process hold. Idle threads of "
            "NumPy's BLAS may be among them, and they could not be ended (%s): set the environment "
            "variable %s=%d before Python starts",
            waiting_threads.first_at_work() or "another thread was at work",
            TIMEOUT_VARIABLE,
            TIMEOUT,
        )


@contextlib.contextmanager
def short_openmp_spin() -> Iterator[None]:
    """Let GNU OpenMP, if it is loaded inside the ``with`` block, spin for a short time."""
    global _openmp_state
    state = _openmp_trouble()
    _openmp_state = state or f"sleep after {OPENMP_SPINS} spins (GOMP_SPINCOUNT)"
    if state is not None:
        yield
        return
    with c_variable(_OPENMP_VARIABLES[0], str(OPENMP_SPINS)):
        yield


def _openmp_trouble() -> str | None:
    if leaves_idle_threads():
        return _LEFT
    variable = next((name for name in _OPENMP_VARIABLES if os.environ.get(name)), None)
    if variable is not None:
        return f"unchanged: {variable} is set"
    if not HAS_C_ENVIRONMENT or not hasattr(os, "RTLD_NOLOAD"):
        return "unchanged: not on this system"
    try:
        ctypes.CDLL("libgomp.so.1", os.RTLD_NOLOAD | ctypes.DEFAULT_MODE)
    except OSError:
        return None
    return "unchanged: the runtime was loaded before oneDNN"


def states(openmp_path: str | None, openmp_threads: int) -> list[State]:
    """Return the state of the idle threads of every BLAS, and of the OpenMP runtime of oneDNN."""
    found = []
    for workers in blas_workers.find_workers(openmp_path):
        if workers.path in _shortened:
            cycles, blocktime = f"2^{TIMEOUT} cycles", f"{blas_workers.BLOCKTIME} ms"
            state = f"sleep after {cycles if workers.openblas else blocktime}"
        elif workers.reason is not None:
            state = f"unchanged: {workers.reason}"
        elif leaves_idle_threads():
            state = _LEFT
        else:
            reason = _reasons.get(workers.path) or "no call of oneDNN on several threads"
            state = f"unchanged so far: {reason}"
        found.append(State(workers.name, workers.path, workers.threads, state))
    if openmp_path is not None and _openmp_state is not None and "gomp" in openmp_path:
        found.append(State("GNU OpenMP", openmp_path, openmp_threads, _openmp_state))
    return found


@in_forked_child
def _reset() -> None:
    global _lock, _contention
    _lock = threading.Lock()
    _contention = None
