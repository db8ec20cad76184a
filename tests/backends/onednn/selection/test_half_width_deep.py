"""Rules of layers between many channels where AVX-512 units have half the registers' width."""

from __future__ import annotations

import pytest

from onednn_py.backends.onednn.selection.rules.half_width_deep import HALF_WIDTH_DEEP
from tests.support.requirements import needs_onednn
from tests.support.rules import applying, assert_exact, assert_own

# Each with the activations and an implementation of the rule that decides it.
OWN = {
    "deconv:mb2ic64ih12oc32oh24kh4sh2ph1 FWD_D f32 NCX": ("any", "jit:avx512_core"),
    "deconv:mb4ic64ih12oc32oh24kh4sh2ph1 FWD_D f32 NXC": ("given", "jit:avx512_core"),
    "mb2ic64ih24oc64oh12kh1sh2ph0 FWD_D f32 NCX": ("any", "jit_1x1:avx512_core"),
    "mb2ic64ih25oc192oh13kh1sh2ph0 FWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "mb4ic128ih91oc64oh46kh1sh2ph0 BWD_D f32 NXC": ("given", "x64:gemm:jit"),
    "mb8ic128ih64oc128oh32kh1sh2ph0 BWD_W f32 NXC": ("given", "jit_1x1:avx512_core"),
    "mb2ic64ih48oc32oh24kh1sh2ph0 BWD_W f32 NCX": ("any", "jit_1x1:avx512_core"),
    "mb1ic32id6oc128od6kd3pd1 BWD_W f32 NCX": ("nxc", "jit:avx512_core"),
    "deconv:mb2ic64ih8oc160oh16kh2sh2ph0 BWD_W bf16 NCX": (
        "any",
        "conv:any+jit_bf16:avx512_core_bf16",
    ),
    "mb4ic64ih24oc64oh12kh1sh2ph0 BWD_W bf16 NXC": ("given", "jit_bf16_1x1:avx512_core_bf16"),
    "mb2ic320ih16oc64oh8kh1sh2ph0 BWD_D bf16 NCX": ("any", "jit_bf16_1x1:avx512_core_bf16"),
    "mb2ic64ih24oc32oh12kh1sh2ph0 FWD_D bf16 NCX": ("any", "jit_bf16:avx512_core_bf16"),
}

# Of odd sides, which the first rule's implementation lacks: formulation and implementation of the
# second.
ODD = {
    "mb4ic64ih25oc64oh13kh1sh2ph0 BWD_W bf16 NXC": ("matmul", "gemm:jit:bf16"),
    "mb1ic96ih41oc64oh21kh1sh2ph0 FWD_D bf16 NCX": ("direct", "jit_bf16:avx512_core_bf16"),
}

# Of sizes that the rules leave out.
OTHERS = [
    "deconv:mb1ic64ih10oc32oh20kh4sh2ph1 FWD_D f32 NCX",
    "deconv:mb2ic512ih12oc32oh24kh2sh2ph0 FWD_D f32 NCX",
    "deconv:mb2ic64ih12oc32oh24kh4sh2ph1 FWD_D f32 NXC",
    "deconv:mb4ic512ih12oc64oh24kh2sh2ph0 FWD_D f32 NXC",
    "deconv:mb4ic256ih32oc128oh64kh4sh2ph1 FWD_D f32 NXC",
    "mb2ic64ih18oc64oh9kh1sh2ph0 FWD_D f32 NCX",
    "mb2ic64ih24oc176oh12kh1sh2ph0 FWD_D f32 NCX",
    "mb2ic1024ih14oc2048oh7kh1sh2ph0 FWD_D f32 NCX",
    "mb2ic128ih64oc64oh32kh1sh2ph0 BWD_D f32 NXC",
    "mb4ic128ih91oc1024oh46kh1sh2ph0 BWD_D f32 NXC",
    "mb8ic128ih64oc96oh32kh1sh2ph0 BWD_W f32 NXC",
    "mb2ic64ih40oc32oh20kh1sh2ph0 BWD_W f32 NCX",
    "mb1ic32id6oc96od6kd3pd1 BWD_W f32 NCX",
    "mb1ic32id20oc128od20kd3pd1 BWD_W f32 NCX",
    "mb32ic32id6oc128od6kd3pd1 BWD_W f32 NCX",
    "mb1ic32id6oc128od4kd3pd0 BWD_W f32 NCX",
    "mb128ic128ih20oc64oh10kh1sh2ph0 BWD_D f32 NXC",
    "deconv:mb2ic64ih8oc128oh16kh2sh2ph0 BWD_W bf16 NCX",
    "mb2ic64ih24oc64oh12kh1sh2ph0 BWD_W bf16 NXC",
    "mb2ic256ih16oc64oh8kh1sh2ph0 BWD_D bf16 NCX",
    "mb2ic64ih24oc96oh12kh1sh2ph0 FWD_D bf16 NCX",
    "mb2ic24ih24oc64oh12kh1sh2ph0 FWD_D f32 NCX",
    "g2mb2ic64ih24oc64oh12kh1sh2ph0 FWD_D f32 NCX",
]


@pytest.mark.parametrize("text", OWN)
def test_rules_of_half_width_deep(text: str) -> None:
    assert_own("half width", HALF_WIDTH_DEEP, text, OWN[text])


@pytest.mark.parametrize("text", ODD)
def test_odd_sides_have_a_second_rule(text: str) -> None:
    _, rule = applying(HALF_WIDTH_DEEP, text)
    formulation, implementation = ODD[text]
    assert rule.formulation == formulation
    assert rule.family.search(implementation)


def test_each_rule_has_a_problem() -> None:
    found = {id(applying(HALF_WIDTH_DEEP, text)[0]) for text in OWN}
    found |= {id(applying(HALF_WIDTH_DEEP, text)[1]) for text in ODD}
    assert found == set(map(id, HALF_WIDTH_DEEP))


@pytest.mark.parametrize("text", OTHERS)
def test_problems_that_none_of_them_is_for(text: str) -> None:
    assert not applying(HALF_WIDTH_DEEP, text)


@needs_onednn
@pytest.mark.parametrize("text", [*OWN, *ODD])
def test_results_are_exact(text: str) -> None:
    assert_exact(text)
