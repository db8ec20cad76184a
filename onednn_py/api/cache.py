"""The plan cache and the idle memory: what they hold, and how much they may."""

from __future__ import annotations

import operator
from typing import Any

from onednn_py.dispatch.call_cache import forget_calls
from onednn_py.dispatch.plan_cache import CacheInfo
from onednn_py.dispatch.planner import plan_cache
from onednn_py.errors import AttributeValueError, brief
from onednn_py.system.memory_pool import pool

__all__ = ["cache_clear", "cache_info", "set_cache_limit"]


def cache_info() -> CacheInfo:
    """Return hits, misses, size and bytes of the plan cache, and its limits.

    ``bytes`` counts what the plans keep alive and the idle blocks of memory, and ``bytes_limit`` is
    the most that both may take.
    """
    found = plan_cache.info()
    return found._replace(bytes=found.bytes + pool.idle_bytes, bytes_limit=pool.limit)


def cache_clear() -> None:
    """Drop all cached plans, all bound calls, and the idle memory."""
    forget_calls()
    plan_cache.clear()
    pool.reserve(0)
    pool.clear()


def set_cache_limit(*, entries: int | None = None, bytes: int | None = None) -> None:  # noqa: A002
    """Bound the plan cache.

    Parameters
    ----------
    entries : int, optional
        Plans kept at the most.
    bytes : int, optional
        Bytes that the kept plans and idle blocks of memory may hold together.

    Raises
    ------
    AttributeValueError
        If a limit is no positive integer.
    """
    plans, memory = _checked_limit("entries", entries), _checked_limit("bytes", bytes)
    plan_cache.set_limit(plans, memory)
    if memory is not None:
        pool.set_limit(memory)
    pool.reserve(plan_cache.info().bytes)


def _checked_limit(label: str, limit: Any) -> int | None:
    if limit is None:
        return None
    try:
        # True is a flag that went astray, not a number.
        checked = 0 if isinstance(limit, bool) else operator.index(limit)
    except TypeError:
        checked = 0
    if checked <= 0:
        raise AttributeValueError(
            f"set_cache_limit: {label}: expected a positive integer, got {brief(limit)}"
        )
    return checked
