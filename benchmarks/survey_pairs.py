"""What rules are worth: the time of a choice with a rule over that of the choice without it."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from survey_draw import Drawn
from survey_measure import by_turns, in_words

from onednn_py.backends import ONEDNN
from onednn_py.backends.onednn.binding.engine import Engine
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection import rules as library
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.decide import decide
from onednn_py.backends.onednn.selection.equivalents import equivalent
from onednn_py.backends.onednn.selection.rules import Rule, Shape, rules_of
from onednn_py.problem.call_spec import SubProblem
from onednn_py.problem.problem import Problem
from onednn_py.tools.text import aligned

__all__ = ["Pairs", "is_pair", "named_rules", "pair_lines", "read_rules", "without_limits"]

Row = dict[str, Any]

# A ratio from which a rule counts as lost on a problem.
LOST = 1.1
WORST_SHOWN = 10


def named_rules(wanted: Sequence[str] = ()) -> dict[str, Rule]:
    """Return the library's rules by table and position, such as ``"DATA[3]"``.

    Parameters
    ----------
    wanted : sequence of str, optional
        Tables or single rules; all tables if there are none.

    Raises
    ------
    ValueError
        If there is no such table or rule.
    """
    tables = {
        name: table
        for name, table in vars(library).items()
        if isinstance(table, tuple) and table and all(isinstance(one, Rule) for one in table)
    }
    members = {
        name: [f"{name}[{position}]" for position in range(len(table))]
        for name, table in tables.items()
    }
    every = {rule: [rule] for rules in members.values() for rule in rules}
    unknown = [name for name in wanted if name not in members and name not in every]
    if unknown:
        known = ", ".join(sorted(members))
        raise ValueError(f"no table or rule {', '.join(unknown)}; the tables are {known}")
    names = [one for name in wanted or members for one in (members | every)[name]]
    return {
        name: tables[name.partition("[")[0]][int(name[:-1].partition("[")[2])] for name in names
    }


def read_rules(path: Path) -> dict[str, Rule]:
    """Return the rules of a Python file's ``RULES``, which are asked before the library's.

    Raises
    ------
    ValueError
        If there is no such Python file, or it has no ``RULES``.
    """
    spec = importlib.util.spec_from_file_location("rules_to_try", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"there is no Python file {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, "RULES", ())
    if not found:
        raise ValueError(f"{path} has no RULES, a tuple of rules")
    return {f"RULES[{position}]": rule for position, rule in enumerate(found)}


def without_limits(shape: Shape) -> Iterator[Rule]:
    """Yield the rules for AVX-512 units of half the registers' width, without limits by width."""
    shape.has_full_width = shape.has_half_width = False
    return rules_of(shape)


@dataclass
class Pairs:
    """Times pairs of choices on drawn problems, for each rule on as many as are wanted.

    Attributes
    ----------
    rules : dict of str to Rule
        The rules whose problems are timed, by name.
    most : int
        How many problems to time for each rule.
    own : tuple of Rule
        Rules that the library does not have, which are asked before its own.
    by_width : bool
        Whether the choice of this CPU is compared with that by `without_limits`, and not with the
        choice without a rule.
    counts : Counter
        Problems timed for each rule.
    """

    rules: dict[str, Rule]
    most: int
    own: tuple[Rule, ...] = ()
    by_width: bool = False
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def is_complete(self) -> bool:
        return all(self.counts[name] >= self.most for name in self.rules)

    def rows(self, drawn: Drawn) -> list[Row]:
        """Return a row for each of a drawn problem's parts for which two choices differ.

        Raises
        ------
        OneDNNError
            If a plan fails.
        """
        ONEDNN.prepare()
        cpu_isa = current_engine().library.cpu_isa
        found = [
            self._row(drawn, case.direction, equivalent(case.problem(), cpu_isa))
            for case in drawn.cases
        ]
        return [row for row in found if row is not None]

    def _row(self, drawn: Drawn, direction: str, problem: Problem) -> Row | None:
        engine = current_engine()
        differing = self._differing(engine, problem)
        if differing is None:
            return None
        name, candidate, other = differing
        plans = {"with": OneDNNPlan(engine, candidate), "without": OneDNNPlan(engine, other)}
        microseconds = by_turns((SubProblem(problem),), plans)
        self.counts[name] += 1
        return {
            **drawn.to_json(),
            "direction": direction,
            "rule": name,
            "with": candidate.choice.as_dict(),
            "without": other.choice.as_dict(),
            "with_microseconds": microseconds["with"],
            "without_microseconds": microseconds["without"],
        }

    def _differing(
        self, engine: Engine, problem: Problem
    ) -> tuple[str, Candidate, Candidate] | None:
        """Return the rule that decides, the candidate, and that which it is compared with."""
        asked: list[Rule] = []

        def noted(rules: Iterable[Rule]) -> Iterator[Rule]:
            for rule in rules:
                asked.append(rule)
                yield rule

        # Rules are asked one by one until a rule's choice exists: the last that was asked decides.
        order = without_limits if self.by_width else self._order
        decided = decide(engine, problem, rules=lambda shape: noted(order(shape)))
        last = asked[-1] if asked else None
        name = next((name for name, rule in self.rules.items() if rule is last), None)
        if name is None or self.counts[name] >= self.most:
            return None
        if self.by_width:
            candidate, other = decide(engine, problem), decided
        else:
            candidate = decided
            other = decide(
                engine,
                problem,
                rules=lambda shape: (rule for rule in self._order(shape) if rule is not last),
            )
        return None if candidate.choice == other.choice else (name, candidate, other)

    def _order(self, shape: Shape) -> Iterator[Rule]:
        return chain((rule for rule in self.own if rule.holds(shape)), rules_of(shape))


def is_pair(row: Row) -> bool:
    return "with_microseconds" in row


def pair_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table by rule, and the problems that lose most: time with the rule / without."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["rule"], []).append(row)
    table = [("rule", "problems", "mean", "best", "worst", f"over {LOST}")]
    for name, members in (*groups.items(), ("all", rows)):
        ratios = [_ratio(row) for row in members]
        lost = sum(one > LOST for one in ratios)
        numbers = (geometric_mean(ratios), min(ratios), max(ratios))
        table.append((name, str(len(ratios)), *(f"{one:.2f}" for one in numbers), str(lost)))
    yield from aligned(table, "<>>>>>")
    yield ""
    yield f"the worst, with / without in microseconds (of {len(rows)}):"
    for row in sorted(rows, key=_ratio, reverse=True)[:WORST_SHOWN]:
        yield (
            f"{_ratio(row):6.2f}  {row['with_microseconds']:.0f} /"
            f" {row['without_microseconds']:.0f}  {row['rule']}, seed {row['seed']}:"
            f" {row['operation']} {row['descriptor']} {row['direction']} {row['dtype']}"
            f" {row['format']}"
        )
        yield f"        with:    {in_words([row['with']])}"
        yield f"        without: {in_words([row['without']])}"


def _ratio(row: Row) -> float:
    return float(row["with_microseconds"] / row["without_microseconds"])
