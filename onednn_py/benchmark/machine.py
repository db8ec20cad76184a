"""Whether the machine is free for a measurement."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["busy_cores"]

STATISTICS = Path("/proc/stat")

# Columns of the first line of /proc/stat in which nothing is computed (proc_stat(5)).
IDLE, WAITING = 3, 4


def busy_cores(seconds: float = 0.5) -> float | None:
    """Return how many cores are busy, over some seconds in which the caller does nothing.

    Returns
    -------
    float or None
        None where the system does not say.
    """
    try:
        before = _ticks()
        time.sleep(seconds)
        idle, total = (after - first for after, first in zip(_ticks(), before, strict=True))
    except (OSError, ValueError, IndexError):
        return None
    cores = os.cpu_count() or 1
    return cores * (1 - idle / total) if total > 0 else None


def _ticks() -> tuple[int, int]:
    """Return the ticks of all cores since the start: those without work, and all of them."""
    line = STATISTICS.read_text(encoding="ascii").splitlines()[0]
    counts = [int(word) for word in line.split()[1:]]
    return counts[IDLE] + counts[WAITING], sum(counts)
