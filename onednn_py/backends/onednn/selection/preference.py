"""Preference: a choice to try first, and when to take it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from .choice import Choice
from .defects import is_reference
from .rules import ANY_NAME

__all__ = ["OverLimit", "Preference"]


class OverLimit(Enum):
    """What becomes of a candidate that takes more memory than the workspace limit."""

    PASSED_OVER = auto()
    SPLIT = auto()  # into the fewest chunks that fit; passed over where none do
    SPLIT_OR_LEAST = auto()  # where no chunks fit, into those that take least memory
    TAKEN = auto()


@dataclass(frozen=True, slots=True)
class Preference:
    """A choice to try, and under which conditions a candidate is taken.

    Attributes
    ----------
    choice : Choice
    family : re.Pattern
        What the implementation's name matches.
    over_limit : OverLimit
    minibatch_chunks : int
        Into how many chunks to split the minibatch if activations are reordered.
    gemm_threads : int or None
        Threads, as in `Choice`, for gemm where it is worth another number than others.
    """

    choice: Choice
    family: re.Pattern[str] = ANY_NAME
    over_limit: OverLimit = OverLimit.PASSED_OVER
    minibatch_chunks: int = 1
    gemm_threads: int | None = None

    def means(self, implementation: str) -> bool:
        """Return whether an implementation of this name may be taken."""
        named = self.choice.implementation
        if named:
            is_meant = implementation == named
        else:
            is_meant = self.choice.reference or not is_reference(implementation)
        return is_meant and self.family.search(implementation) is not None
