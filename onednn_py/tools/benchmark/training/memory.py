"""The most memory that a process has held which trains a network."""

from __future__ import annotations

import sys

from .step import Training
from .timing import Sides

__all__ = ["peak_memory"]

# A process grows in its first steps: only peaks of as many steps can be compared.
STEPS = 20


def peak_memory(training: Training, sides: Sides, side: str) -> int | None:
    """Return the bytes that this process has held at the most, steps of training included.

    The number is that of the whole process since it began, so each side needs a process of its
    own. None where the system does not tell.
    """
    with sides(side):
        for _ in range(STEPS):
            training.step()
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
