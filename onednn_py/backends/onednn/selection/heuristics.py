"""Heuristics: a choice without measuring."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from onednn_py.problem.problem import Choice, Problem

from .rules import ANY_NAME, RULES, Shape
from .thresholds import good_pieces, is_small

__all__ = ["Wish", "preferences"]


@dataclass(frozen=True, slots=True)
class Wish:
    """A choice, and more about it.

    Attributes
    ----------
    choice : Choice
    family : re.Pattern
        What the implementation's name matches.
    frugal : bool
        Whether it may not take any memory that it likes.
    pieces : int
        In how many to cut the minibatch if activations are reordered.
    cuts : bool
        Whether what is greedy is computed in pieces: in the fewest that are frugal, or where it
        need not be frugal in those that take least.
    """

    choice: Choice
    family: re.Pattern[str] = ANY_NAME
    frugal: bool = True
    pieces: int = 1
    cuts: bool = False


def preferences(problem: Problem) -> Iterator[Wish]:
    """Yield what to try first, best first."""
    threads = 1 if is_small(problem) else 0
    for dtype in dict.fromkeys((problem.dtype, "f32")):
        pieces = good_pieces(problem, dtype)
        # In float32 there mostly is an implementation that takes less memory, and time: greedy
        # ones in pieces take 1.8 times as long for 3-D backward data with channels last, 1.2
        # times for a forward 1x1. In the smaller types all take much.
        cuts = problem.dtype != "f32"
        shape = Shape(problem, dtype)
        for rule in RULES:
            if rule.applies(shape):
                choice = Choice(dtype, rule.formulation, rule.activations, "any", threads=threads)
                yield Wish(choice, rule.family, pieces=pieces, cuts=cuts)
                break
        for formulation in ("direct", "exchanged"):
            yield Wish(Choice(dtype, formulation, threads=threads), pieces=pieces, cuts=cuts)
