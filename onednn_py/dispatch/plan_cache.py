"""A bounded cache of plans: least recently used out first, each plan built once.

Keys are whole frozen values, compared by equality. Building is atomic per key: threads
that miss the same key at once wait for a single build; other keys build at the same time.

A signal handler or a destructor may compute while its own thread builds or looks up a plan: its
call never waits for that.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, Protocol, TypeVar

__all__ = ["CacheInfo", "PlanCache"]


class Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


PlanT = TypeVar("PlanT", bound=Sized)


class CacheInfo(NamedTuple):
    """Counters of a plan cache; ``bytes`` is the memory that the cached plans keep alive."""

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
        self._plans: OrderedDict[Hashable, PlanT] = OrderedDict()
        # The bytes that each plan was counted with, since plans may grow.
        self._counted: dict[Hashable, int] = {}
        self._building: dict[Hashable, _Build] = {}
        self._bytes = self._hits = self._misses = 0

    def get_or_build(self, key: Hashable, build: Callable[[], PlanT]) -> PlanT:
        """Return the plan of ``key``, building it if needed; an error of ``build`` is not kept."""
        while True:
            with self._lock:
                plan = self._plans.get(key)
                if plan is not None:
                    self._plans.move_to_end(key)
                    self._hits += 1
                    return plan
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
            key = next((key for key, kept in self._plans.items() if kept is plan), None)
            if key is not None:
                self._count(key)
                self._evict()

    def _count(self, key: Hashable) -> None:
        nbytes = self._plans[key].nbytes
        self._bytes += nbytes - self._counted.get(key, 0)
        self._counted[key] = nbytes

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
                    self._plans[key] = plan
                    self._count(key)
                    self._evict()
            return plan
        finally:
            mine.done.set()
            with self._lock:
                if self._building.get(key) is mine:
                    del self._building[key]

    def _evict(self) -> None:
        while len(self._plans) > 1 and (
            len(self._plans) > self._entries or self._bytes > self._bytes_limit
        ):
            key, _ = self._plans.popitem(last=False)
            self._bytes -= self._counted.pop(key)

    def clear(self) -> None:
        """Drop all plans and set the counters to zero; builds under way are not kept."""
        with self._lock:
            self._plans.clear()
            self._counted.clear()
            self._building.clear()
            self._bytes = self._hits = self._misses = 0

    def set_limit(self, entries: int | None = None, bytes: int | None = None) -> None:  # noqa: A002
        with self._lock:
            if entries is not None:
                self._entries = entries
            if bytes is not None:
                self._bytes_limit = bytes
            self._evict()

    def info(self) -> CacheInfo:
        with self._lock:
            return CacheInfo(
                self._hits,
                self._misses,
                len(self._plans),
                self._bytes,
                self._entries,
                self._bytes_limit,
            )
