"""A bounded cache of plans: least recently used out first, each plan built once.

Keys are whole frozen values, compared by equality. Building is atomic per key: threads
that miss the same key at once wait for a single build; other keys build at the same time.

A signal handler or a destructor may compute while its own thread builds or looks up a plan: its
call never waits for that. It may add, drop and clear plans between any two steps here, and while a
key is compared, so each step takes what it finds: copies are walked through, and what is to be
dropped may be gone.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import Generic, NamedTuple, Protocol, TypeVar

__all__ = ["CacheInfo", "PlanCache"]


class Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


PlanT = TypeVar("PlanT", bound=Sized)


class CacheInfo(NamedTuple):
    """Counters of a plan cache.

    Attributes
    ----------
    hits, misses : int
        Calls whose plan was in the cache, and calls whose plan was built.
    size : int
        Plans in the cache.
    bytes : int
        What the plans keep alive; `cache_info` adds the idle blocks of memory.
    entries_limit, bytes_limit : int
        The most plans, and the most bytes.
    """

    hits: int
    misses: int
    size: int
    bytes: int
    entries_limit: int
    bytes_limit: int


class _Build:
    """A build under way: another thread that finds it waits for the event and looks again."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.thread = threading.get_ident()


class _Kept(Generic[PlanT]):
    """A plan, the bytes that it was counted with, since plans may grow, and when it was used."""

    __slots__ = "key", "nbytes", "plan", "used"

    def __init__(self, key: Hashable, plan: PlanT, used: int) -> None:
        self.key, self.plan, self.nbytes, self.used = key, plan, plan.nbytes, used


# Called for each of hundreds of plans whenever a plan is made: without a frame of Python's.
_nbytes_of, _use_of = attrgetter("nbytes"), attrgetter("used")


class PlanCache(Generic[PlanT]):
    """Bounded, thread-safe get-or-build.

    Parameters
    ----------
    entries : int
        Plans kept at the most.
    bytes : int
        Sum of the plans' ``nbytes`` kept at the most; the newest plan always stays.
    """

    def __init__(self, entries: int = 512, bytes: int = 256 * 2**20) -> None:  # noqa: A002
        self._entries = entries
        self._bytes_limit = bytes
        self.reset()

    def reset(self) -> None:
        """Forget everything, the locks too: for a child process, whose locks may be held."""
        self._lock = threading.RLock()
        self._plans: dict[Hashable, _Kept[PlanT]] = {}
        self._building: dict[Hashable, _Build] = {}
        self._uses = itertools.count()
        self._hits = self._misses = 0

    def get_or_build(self, key: Hashable, build: Callable[[], PlanT]) -> PlanT:
        """Return the plan of ``key``, building it if needed; an error of ``build`` is not kept."""
        while True:
            with self._lock:
                kept = self._plans.get(key)
                if kept is not None:
                    kept.used = next(self._uses)
                    self._hits += 1
                    return kept.plan
                under_way = self._building.get(key)
            if under_way is None or under_way.done.is_set():
                built = self._build(key, build, under_way)
                if built is not None:
                    return built
            elif under_way.thread == threading.get_ident():
                return build()
            else:
                under_way.done.wait()

    def count_hit(self) -> None:
        """Count the use of a plan that its user has at hand."""
        self._hits += 1

    def recount(self, plan: PlanT) -> None:
        """Count the bytes of a plan again, if it is kept, after it has made parts of itself."""
        with self._lock:
            for kept in list(self._plans.values()):
                if kept.plan is plan:
                    kept.nbytes = plan.nbytes
            self._evict()

    def _build(
        self, key: Hashable, build: Callable[[], PlanT], stale: _Build | None
    ) -> PlanT | None:
        """Build and keep a plan; None if another thread has begun to.

        An interrupt may fall between any two lines: what is left in ``_building`` then has
        its event set, and the next caller takes its place.
        """
        mine = _Build()
        try:
            with self._lock:
                if self._building.get(key) is not stale or key in self._plans:
                    return None
                self._building[key] = mine
                self._misses += 1
            plan = build()
            with self._lock:
                if self._building.get(key) is mine:
                    self._plans[key] = _Kept(key, plan, next(self._uses))
                    self._evict()
            return plan
        finally:
            mine.done.set()
            with self._lock:
                if self._building.get(key) is mine:
                    self._building.pop(key, None)

    def _evict(self) -> None:
        kept = list(self._plans.values())
        size, nbytes = len(kept), sum(map(_nbytes_of, kept))
        if size <= self._entries and nbytes <= self._bytes_limit:
            return
        kept.sort(key=_use_of)
        for oldest in kept[:-1]:
            self._plans.pop(oldest.key, None)
            size, nbytes = size - 1, nbytes - oldest.nbytes
            if size <= self._entries and nbytes <= self._bytes_limit:
                return

    def clear(self) -> None:
        """Drop all plans and set the counters to zero; builds under way are not kept."""
        with self._lock:
            self._plans.clear()
            self._building.clear()
            self._hits = self._misses = 0

    def set_limit(self, entries: int | None = None, bytes: int | None = None) -> None:  # noqa: A002
        with self._lock:
            if entries is not None:
                self._entries = entries
            if bytes is not None:
                self._bytes_limit = bytes
            self._evict()

    def info(self) -> CacheInfo:
        with self._lock:
            kept = list(self._plans.values())
            return CacheInfo(
                self._hits,
                self._misses,
                len(kept),
                sum(map(_nbytes_of, kept)),
                self._entries,
                self._bytes_limit,
            )
