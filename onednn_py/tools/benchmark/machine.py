"""What machine this is, and whether it is free for a measurement."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

from onednn_py.system.cpu import processor_facts

__all__ = ["busy_cores", "busy_cores_warning", "cpu_name"]

STATISTICS = Path("/proc/stat")

# Columns of the first line of /proc/stat in which nothing is computed (proc_stat(5)).
IDLE, WAITING = 3, 4

# Cores that other processes may keep busy without a warning.
MOST_BUSY_CORES = 0.2


def busy_cores(seconds: float = 0.5) -> float | None:
    """Return how many cores are busy, over some seconds in which the caller does nothing.

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


def busy_cores_warning(busy: float | None) -> str:
    """Return what `busy_cores` means for times, empty where they are undisturbed or it is None."""
    if busy is None or busy <= MOST_BUSY_CORES:
        return ""
    return f"other processes keep {busy:.1f} cores busy: the times will be disturbed"


def cpu_name() -> str | None:
    """Return the processor's name, with family and model where the system tells them.

    Some hosts give generations that differ by a factor of two the same name.
    """
    facts = processor_facts()
    name = facts.get("model name")
    if name and {"cpu family", "model"} <= facts.keys():
        return f"{name}, family {facts['cpu family']} model {facts['model']}"
    return name or platform.processor() or None


def _ticks() -> tuple[int, int]:
    """Return the ticks of all cores since the start: those without work, and all of them."""
    line = STATISTICS.read_text(encoding="ascii").splitlines()[0]
    counts = [int(word) for word in line.split()[1:]]
    return counts[IDLE] + counts[WAITING], sum(counts)
