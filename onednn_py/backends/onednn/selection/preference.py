"""Preference: a choice to try first, and when to take it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .choice import Choice
from .defects import is_reference
from .rules import ANY_NAME

__all__ = ["Preference"]


@dataclass(frozen=True, slots=True)
class Preference:
    """A choice to try, and under which conditions a candidate is taken.

    Attributes
    ----------
    choice : Choice
    family : re.Pattern
        What the implementation's name matches.
    within_limit : bool
        Whether candidates over the workspace limit are passed over.
    minibatch_chunks : int
        Into how many chunks to split the minibatch if activations are reordered.
    splits : bool
        Whether candidates over the workspace limit are split: into the fewest chunks that fit,
        or where none do and ``within_limit`` is not set into those that take least memory.
    gemm_threads : int or None
        Threads, as in `Choice`, for gemm where it is worth another number than others.
    """

    choice: Choice
    family: re.Pattern[str] = ANY_NAME
    within_limit: bool = True
    minibatch_chunks: int = 1
    splits: bool = False
    gemm_threads: int | None = None

    def means(self, implementation: str) -> bool:
        """Return whether an implementation of this name may be taken."""
        named = self.choice.implementation
        if named:
            is_meant = implementation == named
        else:
            is_meant = self.choice.reference or not is_reference(implementation)
        return is_meant and self.family.search(implementation) is not None
