"""Recorded problems as a search for rules sees them: facts, and times of what a rule may say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

from survey_draw import Drawn

from onednn_py.backends import ONEDNN
from onednn_py.backends.onednn import machine_here
from onednn_py.backends.onednn.binding.engine import Engine
from onednn_py.backends.onednn.binding.layouts import layout_name
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.decide import decide
from onednn_py.backends.onednn.selection.descriptors import queries
from onednn_py.backends.onednn.selection.equivalents import equivalent
from onednn_py.backends.onednn.selection.preference import OverLimit, Preference
from onednn_py.backends.onednn.selection.rules import Rule, Shape, rules_of
from onednn_py.backends.onednn.selection.select import candidate_of
from onednn_py.errors import OneDNNError
from onednn_py.problem.problem import Problem

__all__ = ["Action", "Timed", "timed_problems"]

Row = dict[str, Any]
Kind = tuple[str, ...]

# An action is tried on a kind of problems where it is so close to the fastest way for so many.
CLOSE = 1.05
LEAST_CLOSE = 4
MOST_ACTIONS = 32


class Action(NamedTuple):
    """What a rule says, apart from the problems that it is for: fields of a choice."""

    compute_dtype: str
    formulation: str
    activations: str
    weights: str
    implementation: str

    @classmethod
    def of(cls, choice: Choice) -> Action:
        return cls(*(getattr(choice, name) for name in cls._fields))

    def rule(self, dtype: str) -> Rule:
        """Return a rule that says this of every problem of a data type."""
        return Rule(
            lambda _: True,
            self.activations,
            re.compile(f"^{re.escape(self.implementation)}$"),
            "",
            formulation=self.formulation,
            compute_dtype="" if self.compute_dtype == dtype else self.compute_dtype,
            weights=self.weights,
        )


@dataclass(frozen=True)
class Timed:
    """A recorded problem: what rules may know of it, and logarithms of times.

    Attributes
    ----------
    seed : int
    kind : tuple of str
        Conditions that every rule names: data type, layout, direction, transposed or not, groups.
    shape : Shape
    rules_take : float
        By the choice of the package's rules.
    least : float
        By the fastest way.
    actions : dict of Action to float
        By the choice of a rule that has this action.
    """

    seed: int
    kind: Kind
    shape: Shape
    rules_take: float
    least: float
    actions: Mapping[Action, float]


def timed_problems(rows: Sequence[Row]) -> Iterator[Timed]:
    """Yield what rows of `survey_measure.recorded` tell, but for those of another machine.

    Chunks, threads and a bias apart are left to the package, as rules leave them.
    """
    ONEDNN.prepare()
    engine, machine = current_engine(), str(machine_here())
    found = [
        (row, problem, _shape_of(engine, problem))
        for row in rows
        if row.get("machine") == machine and (problem := _problem_of(row)) is not None
    ]
    actions = _close_actions((row, _kind_of(shape), shape) for row, _, shape in found)
    for row, problem, shape in found:
        kind = _kind_of(shape)
        times = _times(engine, problem, _right(row))
        decided = times.get(_signature(engine, decide(engine, problem)))
        if decided is not None:
            said = {
                action: time
                for action in actions[kind]
                if (time := _time_of(engine, problem, action, times)) is not None
            }
            yield Timed(row["seed"], kind, shape, decided, min(times.values()), said)


def _problem_of(row: Row) -> Problem | None:
    """Return the problem of a row, None if it is drawn or described otherwise by now."""
    if "ways" not in row:
        return None
    drawn = Drawn.from_json({**row, "direction": row["drawn"]})
    case = next((one for one in drawn.cases if one.direction == row["direction"]), None)
    problem = None if case is None else equivalent(case.problem(), current_engine().library.cpu_isa)
    return problem if problem is not None and problem.name == row["problem"] else None


def _shape_of(engine: Engine, problem: Problem) -> Shape:
    """Return what this CPU's rules are asked about first."""
    shapes: list[Shape] = []

    def noted(shape: Shape) -> Iterable[Rule]:
        shapes.append(shape)
        return rules_of(shape)

    decide(engine, problem, rules=noted)
    return shapes[0]


def _kind_of(shape: Shape) -> Kind:
    return (
        "s.bf16" if shape.bf16 else "not s.bf16",
        "s.channels_last" if shape.channels_last else "not s.channels_last",
        "s.data" if shape.data else "s.weights" if shape.weights else "s.forward",
        "s.transposed" if shape.transposed else "not s.transposed",
        "s.dense" if shape.dense else "s.depthwise" if shape.depthwise else "s.in_groups",
    )


def _right(row: Row) -> list[tuple[Choice, float]]:
    """Return choices and microseconds of the ways whose results were right."""
    known = [(Choice.from_dict(way["choice"]), way) for way in row["ways"] if "wrong" not in way]
    return [(choice, way["microseconds"]) for choice, way in known if choice is not None]


def _close_actions(found: Iterable[tuple[Row, Kind, Shape]]) -> dict[Kind, list[Action]]:
    """Return the actions that are among the fastest for several problems, by kind."""
    close: dict[Kind, Counter[Action]] = {}
    for row, kind, shape in found:
        ways = _right(row)
        best = min(time for _, time in ways)
        threads = 1 if shape.small else 0
        close.setdefault(kind, Counter()).update(
            {
                Action.of(choice)
                for choice, time in ways
                if time <= CLOSE * best and choice.threads == threads
            }
        )
    return {
        kind: [one for one, number in counts.most_common(MOST_ACTIONS) if number >= LEAST_CLOSE]
        for kind, counts in close.items()
    }


def _times(
    engine: Engine, problem: Problem, ways: Sequence[tuple[Choice, float]]
) -> dict[object, float]:
    """Return logarithms of times by signature; choices of one signature are one way."""
    times: dict[object, float] = {}
    for choice, microseconds in ways:
        try:
            candidate = candidate_of(
                engine, problem, Preference(choice, over_limit=OverLimit.TAKEN)
            )
        except OneDNNError:
            continue
        if candidate is not None:
            key = _signature(engine, candidate)
            times[key] = min(times.get(key, float("inf")), log(microseconds))
    return times


def _time_of(
    engine: Engine, problem: Problem, action: Action, times: Mapping[object, float]
) -> float | None:
    """Return the time that a problem takes if a rule says so, None if that is not known."""
    rule = action.rule(problem.dtype)
    try:
        candidate = decide(engine, problem, rules=lambda _: (rule,))
    except OneDNNError:
        return None
    if Action.of(candidate.choice) != action:
        return None
    return times.get(_signature(engine, candidate))


def _signature(engine: Engine, candidate: Candidate) -> object:
    """Return what tells ways apart: "any" and "given" may mean the same layouts."""
    choice = candidate.choice
    problem, descriptor = next(iter(candidate.descriptors.items()))
    layouts = tuple(
        layout_name(engine.library, engine.desc_of(descriptor, query))
        for query in queries(problem).values()
    )
    axis = choice.split_axis if choice.chunks > 1 else ""
    return (
        *(choice.compute_dtype, choice.formulation, choice.implementation, choice.threads),
        *(choice.chunks, axis, choice.bias_apart, layouts),
    )
