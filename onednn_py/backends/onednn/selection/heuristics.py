"""Heuristics: what to try first without measuring."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from onednn_py.problem.problem import Problem

from .choice import Choice
from .limits import compute_dtypes
from .rules import ANY_NAME, Shape, rules_of
from .thresholds import is_small, minibatch_chunks

__all__ = ["Preference", "fallbacks", "preferences"]


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
    """

    choice: Choice
    family: re.Pattern[str] = ANY_NAME
    within_limit: bool = True
    minibatch_chunks: int = 1
    splits: bool = False


def preferences(problem: Problem, available: int = 0) -> Iterator[Preference]:
    """Yield what to try first, best first.

    Parameters
    ----------
    problem : Problem
    available : int, optional
        The number of threads that the call has; 0 for several.
    """
    threads = 1 if is_small(problem) else 0
    for dtype in compute_dtypes(problem):
        chunks = minibatch_chunks(problem, dtype)
        # In float32 there mostly is an implementation that takes less memory, and time: those
        # over the limit take, in chunks, 1.8 times as long for 3-D backward data with channels
        # last, 1.2 times for a forward 1x1. In the smaller types all take much.
        splits = problem.dtype != "f32"
        shape = Shape(problem, dtype, available=available)
        for rule in rules_of(shape):
            compute = rule.compute_dtype or dtype
            number = chunks if compute == dtype else minibatch_chunks(problem, compute)
            choice = Choice(
                compute,
                rule.formulation,
                rule.activations,
                rule.weights,
                threads=0 if rule.several_threads else threads,
            )
            yield Preference(choice, rule.family, minibatch_chunks=number, splits=splits)
        for formulation in ("direct", "as_convolution"):
            choice = Choice(dtype, formulation, threads=threads)
            yield Preference(choice, minibatch_chunks=chunks, splits=splits)


def fallbacks(problem: Problem) -> Iterator[Preference]:
    """Yield the ways to compute any problem, the first that exists to be taken.

    The tensors' own type comes before float32, the family's own primitive before another
    formulation, any candidate within the workspace limit before those over it, and reference
    implementations only at the end.
    """
    dtypes = compute_dtypes(problem)
    choices = [
        Choice(dtype, formulation)
        for dtype in dtypes
        for formulation in ("direct", "as_convolution")
    ]
    for choice in choices:
        yield Preference(choice, splits=True)
    for choice in (*choices, *(Choice(dtype, reference=True) for dtype in dtypes)):
        yield Preference(choice, within_limit=False, splits=True)
