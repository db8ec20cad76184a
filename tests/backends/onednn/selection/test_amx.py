"""Rules of CPUs with AMX alone."""

from __future__ import annotations

import pytest

from onednn_py.backends.onednn.selection.rules.amx_bf16 import AMX_BF16_FIRST, AMX_BF16_LAST
from onednn_py.backends.onednn.selection.rules.amx_f32_first import AMX_F32_FIRST
from onednn_py.backends.onednn.selection.rules.amx_f32_last import AMX_F32_LAST
from onednn_py.backends.onednn.selection.rules.rule import exactly
from tests.support.requirements import needs_onednn
from tests.support.rules import AMX, applying, assert_exact, assert_own

WITH_AMX = (*AMX_F32_FIRST, *AMX_F32_LAST, *AMX_BF16_FIRST, *AMX_BF16_LAST)

# Each with the activations and an implementation of the rule that only such CPUs ask.
OWN = {
    "mb4ic4id9oc2od3kd5sd2pd0 FWD_B f32 NCX": ("any", "jit:avx512_core"),
    "deconv:mb6ic4ih7oc3oh8kh4ph1 FWD_B f32 NCX": ("nxc", "jit:avx512_core"),
    "deconv:mb2ic16id5oc6od5kd1pd0 FWD_B f32 NCX": ("any", "x64:gemm:jit"),
    "deconv:g2mb6ic8ih6oc2oh9kh4ph0 FWD_B f32 NCX": ("nxc", "jit:avx512_core"),
    "g64mb4ic64ih48oc64oh24kh4sh2ph1 BWD_W f32 NCX": ("any", "jit_dw:avx2"),
    "deconv:mb1ic32ih5oc3oh5kh7ph3 FWD_B f32 NCX": ("any", "x64:gemm:jit"),
    "mb1ic23ih8oc3oh8kh5ph2 BWD_W f32 NCX": ("any", "jit:avx2"),
    "mb2ic1ih59oc6oh59kh1ph0 BWD_W f32 NCX": ("given", "gemm:jit:f32"),
    "mb8ic3id8oc4od4kd7sd2pd3 BWD_D f32 NCX": ("nxc", "jit:avx512_core"),
    "mb1ic1id7oc16od7kd3pd1 BWD_W f32 NCX": ("any", "jit:avx512_core"),
    "deconv:mb1ic4ih6oc24oh6kh3ph1 BWD_W f32 NCX": ("any", "jit:avx2"),
    "mb1ic512ih35oc6oh18kh1sh2ph0 FWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "mb4ic2id13oc256od13kd1pd0 BWD_W f32 NCX": ("any", "x64:gemm:jit"),
    "deconv:g2mb32ic8ih31oc4oh32kh2ph0 BWD_W f32 NCX": ("nxc", "jit:avx2"),
    "deconv:mb16ic6ih14oc8oh20kh7ph0 BWD_W f32 NCX": ("nxc", "jit:avx512_core"),
    "deconv:mb4ic256ih7oc8oh7kh1ph0 BWD_W f32 NCX": ("given", "conv:any+x64:gemm:jit"),
    "mb16ic3id9oc2od3kd5sd4pd2 BWD_W f32 NXC": ("given", "jit:avx512_core"),
    "mb1ic16ih4oc96oh3kh4ph1 BWD_D f32 NXC": ("given", "jit:avx512_core"),
    "deconv:g64mb6ic64ih4oc64oh6kh3ph0 BWD_D f32 NXC": ("given", "jit_dw:avx512_core"),
    "mb4ic7ih8oc9oh8kh3ph1 FWD_D f32 NXC": ("given", "jit:avx512_core"),
    "mb1ic3iw47oc96ow44kw4pw0 FWD_D f32 NXC": ("given", "brgconv:avx512_core"),
    "mb1ic96ih28oc512oh14kh3sh2ph1 BWD_W f32 NXC": ("given", "x64:gemm:jit"),
    "deconv:mb2ic1id5oc8od5kd3pd1 FWD_B f32 NXC": ("given", "jit:avx512_core"),
    "deconv:mb32ic4id5oc4od9kd5pd0 BWD_W f32 NXC": ("given", "jit:avx512_core"),
    "g32mb8ic32ih52oc32oh52kh1ph0 BWD_D f32 NXC": ("given", "jit_dw:sse41"),
    "g16mb2ic64ih7oc64oh7kh3ph1 BWD_W f32 NXC": ("given", "jit:avx2"),
    "deconv:mb1ic3id6oc8od16kd3sd3pd1 FWD_B bf16 NCX": ("any", "jit_deconvolution:avx512_core_amx"),
    "mb4ic96id7oc4od6kd2pd0 FWD_D bf16 NCX": ("any", "jit:avx512_core_amx"),
    "g8mb2ic8id5oc64od5kd3pd1 BWD_W bf16 NCX": ("any", "brgconv_bwd_w:avx512_core_amx"),
    "deconv:mb32ic4id9oc1od9kd1pd0 BWD_W bf16 NCX": ("any", "x64:gemm:jit"),
    "mb1ic32id5oc6od2kd3sd3pd1 BWD_D bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "mb2ic2ih5oc128oh5kh3ph1 BWD_D bf16 NCX": ("any", "x64:gemm:jit"),
    "mb2ic64ih28oc96kh1 BWD_D bf16 NCX": ("given", "brg:avx512_core_amx"),
    "mb6ic32iw14oc2ow14kw5pw2 BWD_W bf16 NCX": ("any", "brgconv_bwd_w:avx512_core_amx"),
    "deconv:mb2ic3id9oc4od25kd3sd3pd1 FWD_D bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "deconv:g8mb1ic64ih13oc32oh13kh1ph0 BWD_W bf16 NCX": ("given", "conv:any+x64:gemm:jit"),
    "g2mb4ic16id4oc4od3kd4pd1 BWD_D bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "mb2ic3id4oc512od2kd4sd2pd1 FWD_D bf16 NCX": ("any", "x64:gemm:jit"),
    "g2mb6ic4ih6oc64oh5kh2ph0 FWD_D bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "deconv:mb8ic4ih9oc2oh25kh3sh3ph1 BWD_W bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "mb1ic4ih8oc19oh8kh3ph1 BWD_WB bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "deconv:mb16ic48id4oc1od8kd4sd2pd1 FWD_D bf16 NCX": ("given", "conv:any+x64:gemm:jit"),
    "mb8ic2ih8oc7oh8kh5ph2 FWD_D bf16 NCX": ("any", "jit_bf16:avx512_core_bf16"),
    "deconv:mb1ic6id7oc8od13kd5sd2pd2 FWD_D bf16 NXC": ("given", "jit_bf16:avx512_core_bf16"),
    "mb8ic3id5oc4od2kd7sd4pd3 BWD_D bf16 NXC": ("given", "jit_bf16:avx512_core_bf16"),
    "deconv:mb6ic7ih7oc2oh7kh3ph1 BWD_W bf16 NXC": ("given", "jit_bf16:avx512_core_bf16"),
    "mb1ic128id5oc24od5kd3pd1 FWD_D bf16 NXC": ("any", "jit:avx512_core_amx"),
    "g8mb4ic8id8oc16od2kd4sd4pd1 FWD_D bf16 NXC": ("given", "jit_bf16:avx512_core_bf16"),
    "mb1ic6id7oc24od7kd1pd0 FWD_D bf16 NXC": ("given", "brg:avx512_core_bf16"),
}
OTHERS = [
    "mb16ic128ih32oc256oh16kh4sh2ph1 BWD_D f32 NXC",
    "mb16ic256ih28oc256oh14kh3sh2ph1 FWD_D bf16 NCX",
    "mb16ic2048ih7oc512kh1 FWD_D bf16 NXC",
    "mb16ic512ih28oc1024oh14kh1sh2ph0 FWD_D f32 NCX",
    "mb16ic2048ih7oc512kh1 BWD_D f32 NCX",
    "g64mb16ic512ih7oc512kh3ph1 FWD_D f32 NXC",
    "deconv:mb2ic128ih32oc3oh64kh4sh2ph1 BWD_W bf16 NCX",
]


@pytest.mark.parametrize("text", OWN)
def test_rules_with_amx(text: str) -> None:
    assert_own("amx", WITH_AMX, text, OWN[text])


def test_each_rule_has_a_problem() -> None:
    found = {id(applying(WITH_AMX, text, AMX, halves_avx512=False)[0]) for text in OWN}
    assert found == set(map(id, WITH_AMX))


@pytest.mark.parametrize("text", OTHERS)
def test_problems_that_none_of_them_is_for(text: str) -> None:
    assert not applying(WITH_AMX, text, AMX, halves_avx512=False)


def test_a_family_of_one_implementation() -> None:
    family = exactly("jit_dw:avx2")
    assert family.search("jit_dw:avx2")
    others = ("jit_dw:avx2_vnni", "conv:any+jit_dw:avx2", "jit_dw:avx512_core", "jit:avx2")
    assert not any(family.search(other) for other in others)


@needs_onednn
@pytest.mark.parametrize("text", OWN)
def test_results_are_exact(text: str) -> None:
    assert_exact(text)
