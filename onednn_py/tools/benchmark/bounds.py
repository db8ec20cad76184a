"""The bound: the least time that the machine's peak and its bandwidth allow.

The bound of a case is the larger of its arithmetic over the peak and its bytes, each tensor once,
over the bandwidth. Both are measured. The bandwidth is that of a copy of about as many bytes, which
is ten times as fast where they fit into the caches as where they do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from operator import attrgetter
from statistics import geometric_mean
from typing import Any, NamedTuple

from .results import Result

__all__ = ["BoundGroup", "bandwidth_size", "bound_groups", "bounds_to_json", "most_lost"]

# The bandwidth is measured in steps of half a power of two. With fewer bytes than the least, the
# overhead of a call decides; more than the most are in no cache.
LEAST_SIZE, MOST_SIZE = 2**20, 2**28

# Name of the suite in the group of all suites.
ALL = "all"


def bandwidth_size(nbytes: int) -> int:
    """Return the number of bytes whose bandwidth counts for a case of ``nbytes`` bytes."""
    return min(max(round(2 ** (round(2 * log2(max(nbytes, 1))) / 2)), LEAST_SIZE), MOST_SIZE)


class BoundKey(NamedTuple):
    """The properties of the cases of a group; empty where they differ."""

    dtype: str
    data_format: str
    suite: str
    direction: str


@dataclass(frozen=True, slots=True)
class BoundGroup:
    """Cases of one suite and direction, or of all, and how far they are from their bounds.

    Attributes
    ----------
    results : tuple of Result
        Results that have a time and a bound.
    """

    key: BoundKey
    results: tuple[Result, ...]

    @property
    def share(self) -> float:
        """Geometric mean of the shares of the bound."""
        return geometric_mean([result.bound_share or 0.0 for result in self.results])

    @property
    def seconds(self) -> float:
        """Sum of the times."""
        return sum(result.own.median for result in self.results)

    @property
    def lost(self) -> float:
        """Seconds that the cases take, together, more than their bounds."""
        return sum(result.lost or 0.0 for result in self.results)


def bound_groups(results: Sequence[Result]) -> list[BoundGroup]:
    """Return a group for each type, format, suite and direction, and one of all suites.

    The groups are ordered by type and format; among them those in which most time is lost come
    first, and all suites last.
    """
    members: dict[BoundKey, list[Result]] = {}
    totals: dict[BoundKey, list[Result]] = {}
    for result in results:
        if result.bound_share is None:
            continue
        dtype, data_format, direction = result.category
        key = BoundKey(dtype, data_format, result.suite, direction)
        members.setdefault(key, []).append(result)
        totals.setdefault(BoundKey(dtype, data_format, ALL, ""), []).append(result)
    groups = []
    for total, every in totals.items():
        own = [
            BoundGroup(key, tuple(some)) for key, some in members.items() if key[:2] == total[:2]
        ]
        groups += sorted(own, key=attrgetter("lost"), reverse=True)
        if len(own) > 1:
            groups.append(BoundGroup(total, tuple(every)))
    return groups


def most_lost(results: Sequence[Result], number: int) -> list[Result]:
    """Return the cases that lose most time against their bounds, the worst first."""
    bounded = [result for result in results if result.lost is not None]
    return sorted(bounded, key=lambda result: result.lost or 0.0, reverse=True)[:number]


def bounds_to_json(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return the groups as values for the json module; times are in seconds."""
    return [
        {
            "dtype": group.key.dtype,
            "format": group.key.data_format,
            "suite": group.key.suite,
            "direction": group.key.direction,
            "cases": len(group.results),
            "geometric_mean": group.share,
            "seconds": group.seconds,
            "lost": group.lost,
            "worst_case": most_lost(group.results, 1)[0].name,
        }
        for group in bound_groups(results)
    ]
