"""Heuristics: a choice without measuring, from rules that measurements justify."""

from __future__ import annotations

from collections.abc import Iterator

from ..problem import Choice, Problem

__all__ = ["preferences"]


def preferences(problem: Problem) -> Iterator[Choice]:
    """Yield what to try first, best first."""
    yield Choice(problem.dtype)
