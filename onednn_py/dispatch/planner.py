"""From a call's problems to a backend's cached plan; the only fallback policy."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Hashable

from onednn_py.backends import BACKENDS, FALLBACK
from onednn_py.backends.base import Backend, Plan, sequence
from onednn_py.config import explicit_library
from onednn_py.errors import LibraryNotFoundError, OneDNNError
from onednn_py.problem.call_spec import SubProblem
from onednn_py.system.forks import in_forked_child
from onednn_py.system.memory_pool import pool

from .plan_cache import PlanCache

__all__ = ["NO_IMPLEMENTATION", "plan_cache", "plan_call", "prepared_backend", "recount"]

_log = logging.getLogger("onednn_py")

NO_IMPLEMENTATION = "oneDNN has no implementation"

_warned_lock = threading.RLock()
_warned = False

_FIRST = next(iter(BACKENDS.values()))
_WITHOUT_LIBRARY = FALLBACK.instead("no oneDNN library")

plan_cache: PlanCache[Plan] = PlanCache()


def prepared_backend(name: str) -> tuple[Backend, Hashable]:
    """Return the backend of a call, prepared on the calling thread, and the backend's state.

    Parameters
    ----------
    name : str
        ``"auto"`` is the first backend, or NumPy where that cannot be used.

    Raises
    ------
    LibraryNotFoundError
        If the backend that is named, or the library that ``ONEDNN_PY_LIBRARY`` names, cannot be
        used.
    """
    backend = _FIRST if name == "auto" else BACKENDS[name]
    try:
        return backend, backend.prepare()
    except LibraryNotFoundError as error:
        # A library that the user names is never replaced by something else.
        if name != "auto" or explicit_library() is not None:
            raise
        _warn_once(error)
    return _WITHOUT_LIBRARY, _WITHOUT_LIBRARY.prepare()


def plan_call(
    sub_problems: tuple[SubProblem, ...], backend: Backend, state: Hashable, effort: str
) -> Plan:
    """Return the cached plan of a call's problems, building it if needed.

    NumPy takes over the problems that the backend does not support or has no implementation for.
    No other failure is hidden.

    Parameters
    ----------
    sub_problems : tuple of SubProblem
    backend, state
        As `prepared_backend` returns them.
    effort : {"heuristic", "measure"}
    """
    key = (sub_problems, backend.name, state, effort)
    return plan_cache.get_or_build(key, lambda: _counted(_build(sub_problems, backend, effort)))


def _build(sub_problems: tuple[SubProblem, ...], backend: Backend, effort: str) -> Plan:
    reasons = [backend.supports(one.problem) for one in sub_problems if not one.only_bias]
    reason = next(filter(None, reasons), None)
    if reason is None:
        try:
            return backend.plan(sub_problems, effort)
        except OneDNNError as error:
            if error.status != "unimplemented":
                raise _about(sub_problems, error) from error
            _log.debug("%s runs on NumPy: %s", sub_problems[0].problem.operation, error)
            reason = NO_IMPLEMENTATION
    if len(sub_problems) == 1:
        return FALLBACK.instead(reason).plan(sub_problems, effort)
    # The backend may take some of them.
    alone = [SubProblem(one.problem, only_bias=one.only_bias) for one in sub_problems]
    return sequence(sub_problems, [_build((one,), backend, effort) for one in alone])


def _about(sub_problems: tuple[SubProblem, ...], error: OneDNNError) -> OneDNNError:
    """Return the error with the problems whose plan failed."""
    problems = " and ".join(one.problem.name for one in sub_problems)
    detail = f"{error.detail}, {problems}" if error.detail else problems
    return type(error)(error.function, error.status, detail)


def _counted(plan: Plan) -> Plan:
    # Idle memory and plans share one limit; the plans' part has grown.
    pool.reserve(plan_cache.info().bytes + plan.nbytes)
    return plan


def recount(plan: Plan) -> None:
    """Count the memory of a plan again that may have made parts of itself."""
    plan_cache.recount(plan)
    pool.reserve(plan_cache.info().bytes)


def _warn_once(error: LibraryNotFoundError) -> None:
    global _warned
    if _warned:
        return
    with _warned_lock:
        if _warned:
            return
        _warned = True
    warnings.warn(f"computing on NumPy: {error}", RuntimeWarning, stacklevel=_outside_the_package())


def _outside_the_package() -> int:
    """Stack level of the caller's own line, as ``warnings.warn`` counts it."""
    folder = os.path.dirname(os.path.dirname(__file__))
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(folder):
        frame, level = frame.f_back, level + 1
    return level


@in_forked_child
def _reset() -> None:
    global _warned_lock
    _warned_lock = threading.RLock()
    plan_cache.reset()
