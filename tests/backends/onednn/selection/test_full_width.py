"""Rules where a CPU without AMX has AVX-512 units of full width."""

from __future__ import annotations

import pytest

from onednn_py.backends.onednn.selection import rules as package
from onednn_py.backends.onednn.selection.rules import ANY_NAME, Rule
from onednn_py.backends.onednn.selection.rules.rule import always, never
from tests.support.requirements import needs_onednn
from tests.support.rules import AMX, WITHOUT_AMX, applying, assert_exact, shape_of

EVERY = [
    rule
    for table in vars(package).values()
    if isinstance(table, tuple)
    for rule in table
    if isinstance(rule, Rule)
]

# Rules that such CPUs leave out, or ask for some of their problems only.
LIMITED = [rule for rule in EVERY if rule.on_full_width is not always]

# Each with whether the first limited rule that applies elsewhere is asked on full width, too.
PROBLEMS = {
    "mb1ic8ih28oc8kh3ph1 BWD_D f32 NCX": False,
    "mb1ic8ih28oc8kh3ph1 BWD_D f32 NXC": False,
    "mb4ic4ih60oc3kh5ph2 BWD_D bf16 NXC": False,
    "mb8ic64ih30oc4kh3ph1 BWD_W f32 NCX": False,
    "mb2ic128ih60oc128kh3ph1 BWD_W f32 NXC": True,
    "mb2ic16ih60oc128kh3ph1 BWD_W f32 NXC": False,
    "mb4ic100ih14oc100oh7kh1sh2ph0 BWD_D f32 NXC": True,
    "mb4ic100ih14oc20oh7kh1sh2ph0 BWD_D f32 NXC": False,
    "mb2ic256ih14oc256kh1 BWD_W f32 NXC": True,
    "mb1ic3ih8oc20kh3ph1 BWD_W f32 NCX": False,
    "mb1ic8ih6oc20kh3ph1 BWD_W f32 NCX": True,
}


@pytest.mark.parametrize("text", PROBLEMS)
def test_what_is_asked(text: str) -> None:
    first = applying(LIMITED, text)[0]
    asked = applying([first], text, halves_avx512=False)
    assert asked == ([first] if PROBLEMS[text] else [])


def test_where_the_width_counts() -> None:
    """Not with AMX, where these rules were fitted."""
    rule = Rule(lambda shape: True, "any", ANY_NAME, "", on_full_width=never)
    text = "mb1ic8ih28oc8kh3ph1 BWD_D f32 NCX"
    for cpu_isa, halves, holds in (
        (AMX, False, True),
        (AMX, True, True),
        (WITHOUT_AMX, True, True),
        (WITHOUT_AMX, False, False),
        ("avx2", False, True),
    ):
        assert holds == rule.holds(shape_of(text, cpu_isa, halves_avx512=halves))


@needs_onednn
@pytest.mark.parametrize("text", PROBLEMS)
def test_results_are_exact(text: str) -> None:
    assert_exact(text)
