"""Deciding: the candidate of a given choice, or else that of the rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import chain

from onednn_py.backends.onednn.binding.engine import Engine
from onednn_py.problem.problem import Problem
from onednn_py.system.cpu import halves_avx512

from .candidate import Candidate
from .choice import Choice
from .heuristics import preferences
from .preference import Preference
from .rules import Rule, Shape, rules_of
from .select import select

__all__ = ["decide"]


def decide(
    engine: Engine,
    problem: Problem,
    choice: Choice | None = None,
    *,
    without: Collection[str] = (),
    rules: Callable[[Shape], Iterable[Rule]] = rules_of,
) -> Candidate:
    """Return the candidate of ``choice`` if it is given and exists, otherwise that of the rules.

    Parameters
    ----------
    engine : Engine
    problem : Problem
    choice : Choice, optional
    without : collection of str, optional
        Formulations that the rules may not choose.
    rules : callable, optional
        The rules for a shape, best first; a survey compares other rules with the library's.

    Raises
    ------
    OneDNNError
        As `select` does.
    """
    first = () if choice is None else (Preference(choice),)
    threads = engine.number_of_threads()
    ruled = preferences(
        problem, threads, engine.library.cpu_isa, halves_avx512=halves_avx512(), rules=rules
    )
    wanted = (one for one in ruled if one.choice.formulation not in without)
    return select(engine, problem, chain(first, wanted))
