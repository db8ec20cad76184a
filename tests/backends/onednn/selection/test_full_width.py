"""Rules where a CPU without AMX has AVX-512 units of full width."""

from __future__ import annotations

import pytest

from onednn_py.backends.onednn.selection.rules.full_width_bf16 import FULL_WIDTH_BF16
from onednn_py.backends.onednn.selection.rules.full_width_f32 import FULL_WIDTH_F32
from tests.support.requirements import needs_onednn
from tests.support.rules import applying, assert_exact, assert_own

FULL_WIDTH = (*FULL_WIDTH_BF16, *FULL_WIDTH_F32)

# Each with the activations and an implementation of the rule that only such CPUs ask.
OWN = {
    "mb2ic32ih7oc48kh1 BWD_W bf16 NXC": ("given", "brg:avx512_core_bf16"),
    "g8mb2ic64ih14oc64kh3ph1 BWD_W bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "mb2ic8ih28oc48kh3ph1 BWD_D bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "deconv:g32mb2ic32ih14oc32oh14kh3ph1 BWD_D bf16 NXC": ("given", "jit_dw:avx512_core_bf16"),
    "mb2ic32ih7oc256kh3ph1 BWD_D bf16 NCX": ("any", "x64:gemm:jit"),
    "mb16ic10ih28oc96kh3ph1 BWD_D bf16 NCX": ("any", "x64:gemm:jit"),
    "deconv:mb8ic32ih28oc16oh28kh1 FWD_B bf16 NCX": ("any", "x64:gemm:jit"),
    "deconv:mb4ic32ih14oc32oh14kh3ph1 FWD_B bf16 NCX": (
        "nxc",
        "brg_conv:avx512_core_bf16+brgconv:avx512_core_bf16",
    ),
    "deconv:mb4ic12ih14oc12oh14kh5ph2 FWD_D bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "deconv:g16mb4ic32ih14oc32oh14kh3ph1 FWD_D bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "mb4ic8ih28oc32kh3ph1 BWD_W bf16 NCX": ("any", "jit_bf16:avx512_core_bf16"),
    "mb2ic32ih14oc384kh3ph1 BWD_W bf16 NCX": ("any", "x64:gemm:jit"),
    "deconv:mb4ic8ih28oc16oh28kh3ph1 BWD_W bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "deconv:mb2ic96ih14oc48oh14kh3ph1 BWD_W bf16 NCX": ("given", "conv:any+x64:gemm:jit"),
    "deconv:mb4ic16ih14oc24oh14kh1 BWD_W bf16 NCX": ("any", "x64:gemm:jit"),
    "mb4ic32ih28oc64kh1 FWD_B bf16 NCX": ("any", "x64:gemm:jit"),
    "mb4ic24ih28oc16kh3ph1 BWD_D bf16 NXC": ("given", "jit_bf16:avx512_core_bf16"),
    "mb2ic64ih7oc128kh3ph1 BWD_D bf16 NXC": ("given", "x64:gemm:jit"),
    "mb4ic64ih14oc96kh1 FWD_D bf16 NXC": ("given", "brg:avx512_core_bf16"),
    "mb8ic128ih14oc160oh7kh3sh2ph1 BWD_W bf16 NXC": ("given", "gemm:jit:bf16"),
    "mb2ic32ih14oc120kh3ph1 BWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "g16mb4ic16ih28oc16kh3ph1 BWD_D f32 NCX": ("nxc", "jit_dw:avx512_core"),
    "deconv:mb4ic64ih14oc12oh14kh3ph1 FWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "mb2ic16ih7oc128kh3ph1 FWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "mb4ic24ih80oc40kh3ph1 FWD_D f32 NCX": ("nxc", "brgconv:avx512_core"),
    "deconv:mb4ic96ih14oc16oh14kh3ph1 BWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "mb4ic3ih28oc8kh1 BWD_W f32 NCX": ("any", "x64:gemm:jit"),
    "mb4ic3ih80oc4kh5ph2 BWD_W f32 NCX": ("nxc", "jit:avx512_core"),
    "deconv:mb4ic12ih28oc32oh28kh1 BWD_W f32 NCX": ("given", "conv:any+x64:gemm:jit"),
    "deconv:mb8ic32ih28oc16oh28kh3ph1 BWD_W f32 NCX": ("nxc", "jit:avx512_core"),
    "deconv:mb1ic128ih14oc16oh14kh3ph1 BWD_W f32 NCX": ("given", "conv:any+x64:gemm:jit"),
    "deconv:mb4ic32ih28oc4oh28kh3ph1 FWD_D f32 NXC": ("any", "x64:gemm:jit"),
    "deconv:mb4ic32ih14oc32oh14kh3ph1 FWD_D f32 NXC": ("given", "jit:avx512_core"),
    "mb4ic6ih28oc12kh3ph1 FWD_D f32 NXC": ("given", "jit:avx512_core"),
    "g4mb4ic160ih14oc160kh3ph1 FWD_D f32 NXC": ("given", "brgconv:avx2"),
    "deconv:mb4ic32ih14oc12oh14kh3ph1 BWD_D f32 NXC": ("given", "jit:avx512_core"),
    "mb16ic24ih28oc256kh3ph1 BWD_W f32 NXC": ("given", "x64:gemm:jit"),
    "deconv:mb8ic32ih28oc32oh28kh3ph1 BWD_W f32 NXC": ("given", "jit:avx512_core"),
    "deconv:g64mb8ic64ih28oc64oh28kh3ph1 BWD_W f32 NXC": ("given", "jit_dw:avx512_core"),
}
OTHERS = [
    "mb2ic32ih7oc48kh1 BWD_WB bf16 NXC",
    "mb2ic32ih7oc48kh1 BWD_W bf16 NCX",
    "mb8ic64ih28oc96kh1 BWD_W f32 NXC",
    "mb8ic64ih28oc96kh1 BWD_W bf16 NXC",
    "g8mb2ic128ih14oc128kh3ph1 BWD_W bf16 NCX",
    "mb2ic8ih28oc48kh3sh2ph1 BWD_D bf16 NCX",
    "mb2ic4ih28oc48kh3ph1 BWD_D bf16 NCX",
    "mb2ic8ih28oc64kh3ph1 BWD_D bf16 NCX",
    "mb32ic8ih128oc48kh3ph1 BWD_D bf16 NCX",
    "deconv:g32mb2ic32ih14oc32oh14kh3ph1 BWD_D f32 NXC",
]


@pytest.mark.parametrize("text", OWN)
def test_rules_of_full_width(text: str) -> None:
    assert_own("full width", FULL_WIDTH, text, OWN[text])


def test_each_rule_has_a_problem() -> None:
    found = {id(applying(FULL_WIDTH, text, halves_avx512=False)[0]) for text in OWN}
    assert found == set(map(id, FULL_WIDTH))


@pytest.mark.parametrize("text", OTHERS)
def test_problems_that_none_of_them_is_for(text: str) -> None:
    assert not applying(FULL_WIDTH, text, halves_avx512=False)


@needs_onednn
@pytest.mark.parametrize("text", OWN)
def test_results_are_exact(text: str) -> None:
    assert_exact(text)
