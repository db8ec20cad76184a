"""With the effort to measure: which of both computes calls of one signature faster."""

from __future__ import annotations

from statistics import median

__all__ = ["Contest"]

# Calls of each side whose times count; a first one, which plans and allocates, goes before.
ROUNDS = 3

# What ours may take of PyTorch's time: equal times are no reason to leave a call.
TOLERANCE = 1.02


class Contest:
    """Calls of one signature, computed by both sides in turn until the faster one is known.

    The calls are the program's own, so that nothing is computed twice.

    Attributes
    ----------
    is_decided : bool
    is_ours : bool
        Whether the next call is to be computed here.
    """

    def __init__(self) -> None:
        self.is_decided = False
        self.is_ours = True
        self._ours: list[float] = []
        self._theirs: list[float] = []

    def end(self) -> None:
        """Compute all further calls here: PyTorch raised an error."""
        self.is_ours = self.is_decided = True

    @property
    def reason(self) -> str:
        """Why a call is left to PyTorch."""
        return "faster in PyTorch, by measuring" if self.is_decided else "timed for comparison"

    def add(self, is_ours: bool, seconds: float) -> None:
        """Note how long a call took, here or in PyTorch; several threads may do so at once."""
        if self.is_decided:
            return
        (self._ours if is_ours else self._theirs).append(seconds)
        ours, theirs = self._ours[1:], self._theirs[1:]
        if min(len(ours), len(theirs)) >= ROUNDS:
            self.is_ours = median(ours) <= TOLERANCE * median(theirs)
            self.is_decided = True
        else:
            self.is_ours = len(self._ours) <= len(self._theirs)
