"""Rules of depthwise volumes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.selection.decide import decide
from onednn_py.backends.onednn.selection.rules import Rule, Shape
from onednn_py.backends.onednn.selection.rules.amx_f32_first import AMX_F32_FIRST
from onednn_py.backends.onednn.selection.rules.depthwise_volumes import (
    DEPTHWISE_VOLUMES,
    LARGER_DEPTHWISE_VOLUMES,
)
from onednn_py.backends.onednn.selection.rules.grouped import GROUPED
from tests.support.requirements import needs_onednn
from tests.support.rules import (
    AMX,
    AVX2,
    WITHOUT_AMX,
    applying,
    assert_exact,
    problem_in,
    shape_of,
)

RULES = (*DEPTHWISE_VOLUMES, *LARGER_DEPTHWISE_VOLUMES)

# Each with the position of the rule that is asked first.
FIRST = {
    "g32mb2ic32id14oc32od14kd3pd1 FWD_B f32 NXC": 0,
    "deconv:g64mb1ic64id8oc64od15kd3sd2pd1 FWD_D f32 NXC": 0,
    "g32mb2ic32id14oc32od14kd1pd0 BWD_D f32 NXC": 0,
    "g32mb2ic32id4oc32od4kd3pd1 BWD_D f32 NXC": 1,
    "g16mb2ic16id8oc16od8kd3pd1 BWD_W f32 NXC": 1,
    "g64mb2ic64id8oc64od4kd2sd2pd0 FWD_D f32 NXC": 1,
    "g32mb2ic32id14oc32od14kd3pd1 BWD_WB f32 NCX": 2,
    "g32mb2ic32id14oc32od14kd1pd0 BWD_W f32 NCX": 2,
    "g24mb2ic24id7oc24od7kd3pd1 BWD_D f32 NCX": 3,
    "deconv:g16mb2ic16id7oc16od13kd3sd2pd1 BWD_W f32 NCX": 3,
    "g64mb4ic64id6oc64od3kd3sd2pd1 FWD_D f32 NCX": 3,
    "g32mb2ic32id14oc32od7kd2sd2pd0 FWD_D f32 NCX": 3,
    "g64mb2ic64id8oc64od8kd1pd0 FWD_D f32 NCX": 4,
    "g32mb2ic32id12oc32od12kd5pd2 BWD_W f32 NXC": 5,
    "g32mb2ic32id7oc32od7kd5pd2 BWD_WB f32 NXC": 6,
    "deconv:g32mb2ic32id9oc32od9kd5pd2 BWD_W f32 NCX": 7,
    "g32mb2ic32id4oc32od4kd5pd2 BWD_W f32 NCX": 8,
}
OTHERS = [
    "g32mb2ic32id14oc32od14kd3pd1 FWD_B bf16 NXC",
    "g32mb2ic32ih14oc32oh14kh3ph1 FWD_B f32 NXC",
    "g16mb2ic32id14oc32od14kd3pd1 FWD_B f32 NXC",
    "g8mb2ic8id14oc8od14kd3pd1 FWD_B f32 NXC",
    "g32mb2ic32id3oc32od3kd1pd0 FWD_B f32 NXC",
    "g32mb4ic32id4oc32od2kd3sd2pd1 BWD_W f32 NXC",
    "g32mb2ic32id28oc32od14kd2sd2pd0 BWD_D f32 NCX",
    "g64mb2ic64id14oc64od14kd1pd0 BWD_D f32 NCX",
]


@pytest.mark.parametrize("text", FIRST)
def test_each_rule_has_a_problem(text: str) -> None:
    for cpu_isa in (WITHOUT_AMX, AMX):
        for halves in (False, True):
            found = applying(RULES, text, cpu_isa, halves_avx512=halves)
            assert RULES[FIRST[text]] in found
    found = applying(RULES, text, AVX2)
    assert not set(map(id, found)) & set(map(id, DEPTHWISE_VOLUMES))
    assert (RULES[FIRST[text]] in found) == (FIRST[text] >= len(DEPTHWISE_VOLUMES))


def test_fewer_channels_on_avx2() -> None:
    text = "g8mb2ic8id12oc8od12kd5pd2 BWD_W f32 NCX"
    assert applying(RULES, text, AVX2)
    assert not applying(RULES, text)


@needs_onednn
@pytest.mark.parametrize("text", FIRST)
def test_the_first_rule_that_has_a_kernel_decides(text: str) -> None:
    """Kernels of planes take 3x3 and smaller alone, so that the rules for larger ones are last."""
    asked: list[Rule] = []

    def noted(_: Shape) -> Iterator[Rule]:
        shape = shape_of(text, WITHOUT_AMX, halves_avx512=False)
        for rule in RULES:
            if rule.holds(shape):
                asked.append(rule)
                yield rule

    decide(current_engine(), problem_in(text), rules=noted)
    assert asked[-1] is RULES[FIRST[text]]


def test_there_is_no_rule_without_a_problem() -> None:
    assert set(FIRST.values()) == set(range(len(RULES)))


@pytest.mark.parametrize("text", OTHERS)
def test_other_problems(text: str) -> None:
    assert not applying(RULES, text)


def test_rules_of_planes_are_not_for_volumes() -> None:
    """Small volumes, which the rules above leave out, have no `dst_as_weights`, either."""
    text = "g64mb32ic64id8oc64od4kd3sd2pd1 BWD_W f32 NCX"
    assert not shape_of(text, AMX, halves_avx512=False).large_depthwise
    for rules, cpu_isa in ((AMX_F32_FIRST, AMX), (GROUPED, WITHOUT_AMX)):
        found = applying(rules, text, cpu_isa)
        assert all(rule.formulation != "dst_as_weights" for rule in found)
    plane = "g64mb32ic64ih24oc64oh12kh5sh2ph2 BWD_W f32 NCX"
    assert shape_of(plane, AMX, halves_avx512=False).large_depthwise
    assert "dst_as_weights" in {rule.formulation for rule in applying(AMX_F32_FIRST, plane, AMX)}


@needs_onednn
@pytest.mark.parametrize("text", FIRST)
def test_results_are_exact(text: str) -> None:
    assert_exact(text)
