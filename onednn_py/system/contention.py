"""Whether the threads of this process wait for one another's cores."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from .parallel import available_cpus

__all__ = ["Contention"]

# Where Linux tells, for a thread, the nanoseconds that it has waited for a core, second of three.
_TASKS = Path("/proc/self/task")

# Threads wait for cores for at least this share of the time, which they do not on an idle machine,
# and the process keeps at least this share of its cores busy, so that no other process has them.
WAITING, BUSY = 0.3, 0.9


class Contention:
    """The waiting of all threads since the object was made."""

    def __init__(self) -> None:
        self._start = _now()

    def is_high(self) -> bool:
        """Whether threads have waited for cores of which this process held nearly all.

        Always False where the system does not tell.
        """
        if self._start is None:
            return False
        now = _now()
        if now is None:
            return False
        wall, busy, waited = (end - start for end, start in zip(now, self._start, strict=True))
        return wall > 0 and waited > WAITING * wall and busy > BUSY * available_cpus() * wall


def _now() -> tuple[float, float, float] | None:
    """Return seconds: of the clock, of all threads on cores, and of all threads' waiting for them.

    None where the system does not tell.
    """
    waited = 0
    try:
        for task in os.listdir(_TASKS):
            with contextlib.suppress(FileNotFoundError):  # a thread that has ended meanwhile
                waited += int((_TASKS / task / "schedstat").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return time.perf_counter(), time.process_time(), waited * 1e-9
