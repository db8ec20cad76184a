"""Kinds of problems: leaving out what cannot hold changes no choice."""

from __future__ import annotations

from itertools import product

import pytest

from onednn_py.backends.onednn.selection import rules as package
from onednn_py.backends.onednn.selection.rules import ANY_NAME, Rule, Shape, rules_of
from onednn_py.backends.onednn.selection.rules.kind import FACTS, facts_of, kind_of, may_hold
from tests.support.rules import AMX, WITHOUT_AMX, shape_of

CPUS = ((AMX, False), (WITHOUT_AMX, True), (WITHOUT_AMX, False), ("avx2", False))

DESCRIPTORS = (
    "mb2ic64ih14oc64kh3ph1",
    "mb16ic512ih8oc1024oh4kh4sh2ph1",
    "mb8ic3ih56oc64kh7sh2ph3",
    "mb4ic256ih14oc64kh1",
    "mb4ic256ih14oc512oh7kh1sh2ph0",
    "g64mb2ic64ih28oc64kh3ph1",
    "g8mb2ic64ih14oc64kh3ph1",
    "mb2ic16iw4096oc32kw5pw2",
    "mb1ic8id16oc8kd3pd1",
    "mb1ic1ih28oc1kh5ph2",
    "deconv:mb4ic64ih14oc32oh28kh4sh2ph1",
    "deconv:mb2ic32ih7oc32oh14kh2sh2ph0",
    "deconv:g32mb2ic32ih14oc32oh14kh3ph1",
    "deconv:g4mb2ic32ih14oc64oh14kh3ph1",
)

SHAPES = [
    shape_of(f"{text} {direction} {dtype} {data_format}", cpu_isa, halves_avx512=halves)
    for text, direction, dtype, data_format, (cpu_isa, halves) in product(
        DESCRIPTORS, ("FWD_B", "BWD_D", "BWD_W", "BWD_WB"), ("f32", "bf16"), ("NCX", "NXC"), CPUS
    )
]


def all_that_hold(shape: Shape) -> list[Rule]:
    return [rule for table in package._tables(shape) for rule in table if rule.holds(shape)]


def test_nothing_that_holds_is_left_out() -> None:
    for shape in SHAPES:
        expected, found = all_that_hold(shape), list(rules_of(shape))
        assert list(map(id, found)) == list(map(id, expected))


def test_most_rules_are_left_out() -> None:
    """Otherwise kinds would be worth nothing."""
    every = sum(len(table) for shape in SHAPES for table in package._tables(shape))
    kept = sum(len(package._rules_of_kind(kind_of(shape))) for shape in SHAPES)
    assert kept < every / 3


def test_facts_are_those_of_the_shape_and_no_more() -> None:
    shape = SHAPES[0]
    facts = facts_of(kind_of(shape))
    assert vars(facts) == {name: getattr(shape, name) for name in FACTS}


@pytest.mark.parametrize(
    ("rule", "may"),
    [
        (Rule(lambda s: s.bf16, "any", ANY_NAME, ""), False),
        (Rule(lambda s: not s.bf16, "any", ANY_NAME, ""), True),
        (Rule(lambda s: s.inputs > 10**9, "any", ANY_NAME, ""), True),
        (Rule(lambda s: s.bf16 and s.inputs > 4, "any", ANY_NAME, ""), False),
        (Rule(lambda s: s.inputs > 4 and s.bf16, "any", ANY_NAME, ""), True),
        (Rule(lambda s: True, "any", ANY_NAME, "", on_full_width=lambda s: s.bf16), False),
        (Rule(lambda s: True, "any", ANY_NAME, "", on_full_width=lambda s: s.small), True),
    ],
)
def test_what_may_hold(rule: Rule, may: bool) -> None:
    shape = shape_of("mb2ic64ih14oc64kh3ph1 BWD_D f32 NCX", WITHOUT_AMX, halves_avx512=False)
    assert may_hold(rule, facts_of(kind_of(shape))) == may


def test_a_rule_of_an_unknown_name_is_still_an_error() -> None:
    rule = Rule(lambda s: s.inptus > 4, "any", ANY_NAME, "")  # type: ignore[attr-defined]
    assert may_hold(rule, facts_of(kind_of(SHAPES[0])))
    with pytest.raises(AttributeError, match="inptus"):
        rule.holds(SHAPES[0])
