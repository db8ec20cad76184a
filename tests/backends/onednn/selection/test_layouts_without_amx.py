"""Rules by layout, on CPUs with AVX-512 but not AMX: which problems they are for."""

from __future__ import annotations

import pytest

from onednn_py.backends.onednn.selection.rules.first_without_amx import (
    FIRST_WITHOUT_AMX,
    LINES_WITHOUT_AMX,
)
from onednn_py.backends.onednn.selection.rules.last_without_amx import LAST_WITHOUT_AMX
from tests.support.requirements import needs_onednn
from tests.support.rules import AMX, applying, assert_exact

OWN = (*LAST_WITHOUT_AMX, *FIRST_WITHOUT_AMX, *LINES_WITHOUT_AMX)

# Each with the activations and the implementation of every rule of these that applies.
PROBLEMS = {
    "weights, bf16": (
        "mb2ic32ih14oc48kh3ph1 BWD_W bf16 NXC",
        [("given", "jit_bf16:avx512_core_bf16")],
    ),
    "weights of 1x1, bf16": (
        "mb2ic32ih8oc16kh1 BWD_W bf16 NXC",
        [("given", "jit_bf16_1x1:avx512_core_bf16")],
    ),
    "weights, f32": ("mb2ic32ih14oc48kh3ph1 BWD_WB f32 NXC", [("given", "jit:avx512_core")]),
    "strided weights, f32": (
        "mb2ic96ih14oc64kh3sh2ph1 BWD_W f32 NXC",
        [("given", "jit:avx512_core")],
    ),
    "strided data, bf16": (
        "mb2ic64ih14oc48kh3sh2ph1 BWD_D bf16 NXC",
        [("given", "jit_bf16:avx512_core_bf16")],
    ),
    "strided data, f32": (
        "mb2ic64ih14oc48kh3sh2ph1 BWD_D f32 NXC",
        [("given", "jit:avx512_core")],
    ),
    "data of transposed strided 1x1": (
        "deconv:mb2ic32ih7oc48oh13kh1sh2ph0 BWD_D bf16 NXC",
        [("given", "jit_bf16:avx512_core_bf16")],
    ),
    "data of transposed depthwise": (
        "deconv:g32mb2ic32ih14oc32oh14kh3ph1 BWD_D f32 NXC",
        [("given", "jit_dw:avx512_core")],
    ),
    "data of 1x1 in groups": (
        "g4mb4ic32ih42oc64oh42kh1ph0 BWD_D f32 NXC",
        [("given", "brg_fwd:avx2+brgconv_1x1:avx2")],
    ),
    "strided forward, bf16": (
        "mb2ic3ih17oc32kh3sh2ph1 FWD_B bf16 NCX",
        [("any", "jit_bf16:avx512_core_bf16")],
    ),
    "strided forward, f32": ("mb2ic5ih14oc8kh5sh2ph2 FWD_D f32 NCX", [("any", "jit:avx512_core")]),
    "weights of transposed in groups": (
        "deconv:g4mb2ic16ih12oc16oh12kh3ph1 BWD_W bf16 NCX",
        [("nxc", "jit_bf16:avx512_core_bf16")],
    ),
    "data in groups of few channels": (
        "g8mb2ic32ih12oc16oh10kh3ph0 BWD_D f32 NCX",
        [("any", "jit:avx512_core"), ("nxc", "jit:avx512_core")],
    ),
    "transposed in groups": (
        "deconv:g4mb2ic16ih9oc64oh11kh3ph0 FWD_D bf16 NCX",
        [("any", "jit_bf16:avx512_core_bf16"), ("nxc", "jit_bf16:avx512_core_bf16")],
    ),
    "dilated line": (
        "mb1ic32iw200oc48ow200kw7pw96dw31 FWD_B bf16 NCX",
        [("any", "jit_bf16:avx512_core_bf16"), ("nxc", "brgconv:avx512_core_bf16")],
    ),
}

OTHERS = [
    "mb2ic2ih14oc48kh3ph1 BWD_W bf16 NXC",
    "mb2ic16ih8oc32kh1 BWD_W bf16 NXC",
    "mb2ic512ih56oc512kh3ph1 BWD_W f32 NXC",
    "mb16ic128ih56oc128kh3sh2ph1 BWD_W f32 NXC",
    "mb2ic128ih32oc256oh16kh4sh2ph1 BWD_D bf16 NXC",
    "mb16ic128ih56oc128kh3sh2ph1 BWD_D f32 NXC",
    "mb2ic32ih14oc48kh3ph1 BWD_D f32 NXC",
    "deconv:g32mb2ic32iw140oc32ow140kw3pw1 BWD_D f32 NXC",
    "g4mb1ic32ih15oc64oh15kh1ph0 BWD_D f32 NXC",
    "mb2ic20ih17oc4kh3sh2ph1 FWD_D f32 NCX",
    "mb2ic20ih17oc12kh3sh2ph1 FWD_D bf16 NCX",
    "deconv:g4mb2ic32ih12oc16oh12kh3ph1 BWD_W bf16 NCX",
    "deconv:g4mb2ic16ih12oc16oh13kh2ph0 BWD_W bf16 NCX",
    "g4mb2ic8ih12oc32oh12kh3ph1 BWD_D f32 NCX",
    "deconv:g4mb2ic16ih9oc4oh11kh3ph0 FWD_D bf16 NCX",
    "mb1ic8iw200oc48ow200kw7pw96dw31 FWD_B bf16 NCX",
]


@pytest.mark.parametrize("name", PROBLEMS)
def test_layouts_have_rules(name: str) -> None:
    text, expected = PROBLEMS[name]
    for rule, (activations, implementation) in zip(applying(OWN, text), expected, strict=True):
        assert rule.activations == activations
        assert rule.family.search(implementation)
    assert not applying(OWN, text, AMX)


def test_every_rule_applies_to_a_problem() -> None:
    assert {id(rule) for text, _ in PROBLEMS.values() for rule in applying(OWN, text)} == set(
        map(id, OWN)
    )


@pytest.mark.parametrize("text", OTHERS)
def test_other_problems_are_left_to_other_rules(text: str) -> None:
    assert not applying(OWN, text)


@needs_onednn
@pytest.mark.parametrize("name", PROBLEMS)
def test_results_are_exact(name: str) -> None:
    assert_exact(PROBLEMS[name][0])
