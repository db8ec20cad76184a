"""Rules of families of problems, on CPUs with AVX-512 but not AMX: which problems they are for."""

from __future__ import annotations

import pytest

from onednn_py.backends.onednn.selection.rules.few_channels import FEW_CHANNELS
from onednn_py.backends.onednn.selection.rules.lines_and_volumes import (
    DILATED_VOLUMES,
    LINES_AND_VOLUMES,
)
from onednn_py.backends.onednn.selection.rules.patches import PATCHES
from onednn_py.backends.onednn.selection.rules.strided_1x1 import STRIDED_1X1
from tests.support.requirements import needs_onednn
from tests.support.rules import AMX, applying, assert_exact

OWN = (*DILATED_VOLUMES, *STRIDED_1X1, *PATCHES, *FEW_CHANNELS, *LINES_AND_VOLUMES)

# Each with the activations and the implementation of the rule that is asked first.
PROBLEMS = {
    "strided 1x1, f32": ("mb4ic192ih70oc2kh1sh2ph0 FWD_D f32 NCX", "any", "x64:gemm:jit"),
    "strided 1x1, bf16": (
        "mb16ic440iw76oc3kw1sw2pw0 FWD_B bf16 NCX",
        "any",
        "jit_bf16_1x1:avx512_core_bf16",
    ),
    "strided 1x1 of few inputs": ("mb2ic3ih64oc40kh1sh2ph0 FWD_D bf16 NCX", "any", "x64:gemm:jit"),
    "strided 1x1, channels last": (
        "mb4ic32ih40oc48kh1sh2ph0 FWD_B f32 NXC",
        "given",
        "jit:avx512_core",
    ),
    "strided 1x1, data": ("mb4ic32ih40oc48kh1sh2ph0 BWD_D f32 NXC", "given", "jit:avx512_core"),
    "strided 1x1, data, channels first": (
        "mb4ic32ih40oc48kh1sh2ph0 BWD_D f32 NCX",
        "any",
        "x64:gemm:jit",
    ),
    "strided 1x1 product, f32": ("mb4ic24iw308oc32kw1sw2pw0 BWD_W f32 NCX", "any", "x64:gemm:jit"),
    "strided 1x1 product, bf16": ("mb6ic24ih40oc17kh1sh2ph0 BWD_W bf16 NCX", "any", "x64:gemm:jit"),
    "strided 1x1 of few outputs": (
        "mb6ic152ih32oc80kh1sh2ph0 BWD_W bf16 NXC",
        "nxc",
        "jit_bf16_1x1:avx512_core_bf16",
    ),
    "strided 1x1 of an image": (
        "mb1ic544ih49oc16kh1sh2ph0 BWD_W bf16 NXC",
        "given",
        "jit_bf16_1x1:avx512_core_bf16",
    ),
    "strided 1x1 volume": ("mb2ic56id16oc576kd1sd2pd0 BWD_WB bf16 NXC", "nxc", "x64:gemm:jit"),
    "strided 1x1 of two inputs": (
        "mb8ic2iw3258oc96kw1sw2pw0 BWD_W bf16 NXC",
        "given",
        "jit_bf16:avx512_core_bf16",
    ),
    "strided 1x1 of arrays as they are": (
        "mb8ic104ih40oc21kh1sh2ph0 BWD_W f32 NXC",
        "given",
        "jit:avx512_core",
    ),
    "strided 1x1, depthwise": (
        "g64mb2ic64ih28oc64oh14kh1sh2ph0 BWD_WB bf16 NXC",
        "nxc",
        "jit_dw:avx512_core_bf16",
    ),
    "strided 1x1, depthwise, transposed": (
        "deconv:g64mb2ic64ih14oc64oh27kh1sh2ph0 BWD_W f32 NCX",
        "any",
        "jit_dw:avx512_core",
    ),
    "strided 1x1, depthwise, forward": (
        "g64mb2ic64ih28oc64oh14kh1sh2ph0 FWD_B f32 NCX",
        "any",
        "jit_dw:avx512_core",
    ),
    "patch embedding, data": ("mb1ic3ih64oc96kh16sh16ph0 BWD_D bf16 NXC", "any", "x64:gemm:jit"),
    "patch embedding, weights": (
        "mb1ic3ih64oc64kh16sh16ph0 BWD_W bf16 NCX",
        "any",
        "jit_bf16:avx512_core_bf16",
    ),
    "patches between stages": ("mb2ic64ih56oc128kh2sh2ph0 BWD_WB bf16 NCX", "any", "x64:gemm:jit"),
    "patches, channels last": (
        "mb2ic64ih28oc128kh2sh2ph0 BWD_W bf16 NXC",
        "given",
        "jit_bf16:avx512_core_bf16",
    ),
    "large patches": ("mb1ic4ih64oc64kh16sh16ph0 BWD_W f32 NCX", "nxc", "jit:avx512_core"),
    "small patches": ("mb2ic4ih64oc64kh4sh4ph0 BWD_W f32 NCX", "any", "x64:gemm:jit"),
    "patches of float32": ("mb2ic32ih56oc48kh2sh2ph0 BWD_W f32 NXC", "given", "jit:avx512_core"),
    "patch embedding": ("mb1ic3ih128oc192kh16sh16ph0 FWD_B bf16 NCX", "any", "x64:gemm:jit"),
    "first layer, weights": (
        "mb1ic3ih64oc32kh7sh2ph3 BWD_W bf16 NCX",
        "any",
        "jit_bf16:avx512_core_bf16",
    ),
    "first layer, data": ("mb1ic3ih64oc64kh7sh2ph3 BWD_D bf16 NXC", "any", "x64:gemm:jit"),
    "small first layer, data": ("mb1ic3ih64oc16kh3sh2ph1 BWD_D bf16 NCX", "any", "x64:gemm:jit"),
    "head": ("mb1ic32ih48oc3kh3ph1 FWD_B f32 NCX", "nxc", "brgconv:avx2"),
    "head of a large image, data": ("mb1ic64ih64oc3kh3ph1 BWD_D f32 NCX", "any", "x64:gemm:jit"),
    "head, data": ("mb1ic40ih32oc3kh3ph1 BWD_D f32 NCX", "any", "jit:avx2"),
    "head, weights": ("mb1ic32ih48oc3kh3ph1 BWD_WB f32 NCX", "any", "jit:avx2"),
    "matrix by a vector": ("mb2ic64ih28oc1kh1 FWD_D bf16 NXC", "given", "gemm:jit:bf16"),
    "vector by a matrix": ("mb2ic64ih28oc1kh1 BWD_W f32 NXC", "given", "gemm:jit:f32"),
    "long line": (
        "mb1ic32iw4000oc32kw5pw2 FWD_D bf16 NCX",
        "nxc",
        "brgconv:avx512_core_bf16",
    ),
    "long line, gradients": ("mb1ic24iw4000oc64kw3pw1 BWD_W bf16 NCX", "any", "x64:gemm:jit"),
    "volume of few inputs, data": ("mb1ic1id16oc24kd3pd1 BWD_D bf16 NCX", "any", "x64:gemm:jit"),
    "volume": (
        "mb1ic16id32oc32kd3pd1 FWD_D bf16 NCX",
        "nxc",
        "jit_bf16:avx512_core_bf16",
    ),
    "dilated volume": (
        "mb1ic48id12oc32od4kd3sd2pd0dd1 BWD_W f32 NXC",
        "given",
        "brg:avx512_core",
    ),
    "dilated volume of few inputs": (
        "mb2ic8id12oc16od4kd3sd2pd0dd1 BWD_WB bf16 NXC",
        "any",
        "x64:gemm:jit",
    ),
}

OTHERS = [
    "mb1ic48id12oc32od4kd3sd2pd0dd1 BWD_W f32 NCX",
    "mb1ic48id12oc32od4kd3sd2pd0dd1 BWD_D f32 NXC",
    "mb1ic48id12oc32od5kd3sd2pd0 BWD_W f32 NXC",
    "mb1ic48id12oc32od8kd3pd0dd1 BWD_W f32 NXC",
    "mb1ic48ih12oc32oh4kh3sh2ph0dh1 BWD_W bf16 NXC",
    "deconv:mb1ic48id4oc32od11kd3sd2pd0dd1 BWD_W f32 NXC",
    "mb4ic8iw308oc32kw1sw2pw0 BWD_W f32 NCX",
    "mb2ic24iw308oc32kw1sw2pw0 BWD_D bf16 NCX",
    "mb4ic32iw1000oc48kw1sw2pw0 FWD_D f32 NXC",
    "mb4ic32ih40oc48kh1sh2ph0 BWD_D bf16 NXC",
    "mb2ic32ih40oc48kh1sh2ph0 FWD_D f32 NCX",
    "mb4ic24iw308oc32kw1sw1pw0 BWD_W f32 NCX",
    "mb1ic4ih32oc360kh1sh2ph0 BWD_W bf16 NXC",
    "g64mb1ic64ih28oc64oh14kh1sh2ph0 BWD_W bf16 NXC",
    "g64mb2ic64iw900oc64ow450kw1sw2pw0 BWD_W f32 NCX",
    "mb2ic128ih28oc128kh2sh2ph0 BWD_W f32 NCX",
    "mb1ic3ih64oc48kh16sh16ph0 BWD_D bf16 NXC",
    "mb1ic3ih64oc64kh7sh2ph3 FWD_D bf16 NCX",
    "mb1ic64ih56oc64kh3ph1 BWD_W f32 NCX",
    "mb1ic64ih56oc64kh3sh2ph1 BWD_W bf16 NCX",
    "mb1ic32ih48oc3kh3sh2ph1 FWD_B f32 NCX",
    "mb2ic64ih28oc1kh1 BWD_D bf16 NXC",
    "mb1ic32iw1000oc32kw5pw2 FWD_D bf16 NCX",
    "mb1ic32iw4000oc32kw5sw2pw2 FWD_D bf16 NCX",
    "mb1ic16id12oc16kd3pd1 BWD_W f32 NCX",
    "mb1ic24iw4000oc64kw3pw1 BWD_D bf16 NCX",
    "mb1ic24id16oc24kd3pd1 FWD_D f32 NCX",
    "mb1ic64ih128oc4kh3ph1 BWD_D bf16 NCX",
    "mb1ic16id12oc16kd3pd1 BWD_D f32 NCX",
]


@pytest.mark.parametrize("name", PROBLEMS)
def test_families_have_rules(name: str) -> None:
    text, activations, implementation = PROBLEMS[name]
    rule = applying(OWN, text)[0]
    assert rule.activations == activations
    assert rule.family.search(implementation)
    assert not applying(OWN, text, AMX)


def test_every_rule_is_asked_first_for_a_problem() -> None:
    assert {id(applying(OWN, text)[0]) for text, _, _ in PROBLEMS.values()} == set(map(id, OWN))


@pytest.mark.parametrize("text", OTHERS)
def test_other_problems_are_left_to_other_rules(text: str) -> None:
    assert not applying(OWN, text)


@needs_onednn
@pytest.mark.parametrize("name", PROBLEMS)
def test_results_are_exact(name: str) -> None:
    assert_exact(PROBLEMS[name][0])
