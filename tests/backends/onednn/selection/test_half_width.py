"""Rules where a CPU without AMX has AVX-512 units of half the registers' width."""

from __future__ import annotations

import pytest

from onednn_py.backends.onednn.selection.rules.half_width_bf16 import HALF_WIDTH_BF16
from onednn_py.backends.onednn.selection.rules.half_width_blocks import HALF_WIDTH_BLOCKS
from onednn_py.backends.onednn.selection.rules.half_width_f32 import HALF_WIDTH_F32
from onednn_py.backends.onednn.selection.rules.half_width_groups import HALF_WIDTH_GROUPS
from tests.support.requirements import needs_onednn
from tests.support.rules import applying, assert_exact, assert_own

HALF_WIDTH = (*HALF_WIDTH_GROUPS, *HALF_WIDTH_BLOCKS, *HALF_WIDTH_BF16, *HALF_WIDTH_F32)

# Each with the activations and an implementation of the rule that only such CPUs ask.
OWN = {
    "deconv:mb2ic128ih14oc4oh14kh3ph1 FWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "deconv:mb2ic128ih14oc4oh14kh3ph1 BWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "mb8ic8ih28oc8kh3ph1 BWD_W f32 NCX": ("nxc", "jit:avx2"),
    "deconv:mb8ic8ih56oc32oh56kh3ph1 BWD_W f32 NCX": ("any", "jit:avx2"),
    "mb4ic3ih28oc8kh5ph2 FWD_D f32 NCX": ("nxc", "brgconv:avx2"),
    "mb4ic12ih28oc8oh28kh3ph1 FWD_D f32 NCX": ("nxc", "brgconv:avx2"),
    "mb2ic64ih28oc96kh1 BWD_W f32 NCX": ("given", "brg:avx512_core"),
    "mb1ic6ih11oc3oh11kh5ph2 FWD_D f32 NCX": ("any", "jit:avx512_core"),
    "mb4ic8ih28oc64kh1 BWD_D f32 NXC": ("given", "jit_1x1:avx2"),
    "mb4ic6ih28oc16kh3ph1 BWD_D f32 NXC": ("given", "jit:avx2"),
    "deconv:mb1ic8ih14oc8oh14kh3ph1 FWD_D f32 NXC": ("given", "jit:avx2"),
    "mb4ic64ih28oc64kh1 FWD_D f32 NXC": ("given", "brgconv_1x1:avx512_core"),
    "deconv:mb1ic8ih14oc8oh14kh3ph1 BWD_D f32 NXC": ("given", "jit:avx512_core"),
    "mb2ic32ih14oc8kh3ph1 BWD_W f32 NXC": ("given", "jit:avx2"),
    "mb8ic64ih28oc64kh3ph1 BWD_W f32 NXC": ("given", "jit:avx512_core"),
    "deconv:mb8ic32ih56oc32oh56kh3ph1 BWD_W f32 NXC": ("given", "jit:avx512_core"),
    "deconv:mb4ic8ih28oc16oh28kh3ph1 BWD_D f32 NXC": ("given", "brgconv:avx2"),
    "g4mb8ic32ih28oc32kh3ph1 BWD_W f32 NXC": ("given", "jit:avx2"),
    "deconv:mb6ic16id10oc4od30kd3sd3pd0 BWD_WB f32 NXC": ("given", "jit:avx512_core"),
    "deconv:mb6ic4ih24oc96oh47kh3sh2ph1 BWD_W f32 NXC": ("given", "jit:avx2"),
    "mb8ic2ih40oc3oh12kh5sh3ph0dh2 BWD_D f32 NXC": ("any", "x64:gemm:jit"),
    "deconv:g4mb2ic4ih12oc32oh14kh3ph0 FWD_D f32 NCX": ("nxc", "jit:avx512_core"),
    "g4mb4ic32ih15oc4oh15kh3ph1 BWD_D f32 NCX": ("nxc", "jit:avx512_core"),
    "g8mb4ic16ih15oc64oh15kh3ph1 BWD_D f32 NXC": ("given", "jit:avx2"),
    "deconv:g4mb4ic16ih31oc16oh61kh3sh2ph1 BWD_W f32 NXC": ("given", "jit:avx2"),
    "g4mb4ic16ih15oc64oh15kh3ph1 BWD_W f32 NXC": ("given", "jit:avx512_core"),
    "deconv:g32mb4ic32ih15oc32oh29kh3sh2ph1 BWD_D f32 NXC": ("given", "jit_dw:avx512_core"),
    "deconv:g96mb4ic96ih15oc96oh15kh3ph1 BWD_WB f32 NXC": ("given", "jit_dw:avx512_core"),
    "deconv:g32mb1ic32ih33oc32oh33kh1ph0 FWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "g32mb1ic32ih33oc32oh33kh1ph0 BWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "deconv:g4mb2ic8ih12oc32oh24kh4sh2ph1 FWD_D bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "g4mb4ic32ih15oc4oh15kh3ph1 BWD_D bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "deconv:g32mb4ic32ih15oc32oh29kh3sh2ph1 BWD_D bf16 NXC": (
        "given",
        "jit_dw:avx512_core_bf16",
    ),
    "mb4ic16ih14oc48oh7kh3sh2ph1 BWD_D bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "deconv:mb4ic64ih14oc4oh14kh3ph1 FWD_D bf16 NCX": ("any", "x64:gemm:jit"),
    "deconv:mb8ic20ih28oc20oh28kh3ph1 FWD_D bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "g96mb4ic96ih14oc96kh3ph1 FWD_D bf16 NCX": ("any", "jit_dw:avx512_core_bf16"),
    "g16mb4ic32ih7oc32kh3ph1 FWD_D bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "mb8ic3ih28oc8kh3ph1 BWD_W bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "mb4ic12ih28oc32kh3ph1 BWD_W bf16 NCX": ("any", "jit_bf16:avx512_core_bf16"),
    "deconv:mb8ic4ih28oc8oh28kh3ph1 BWD_W bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "deconv:mb4ic24ih28oc24oh28kh1 BWD_W bf16 NCX": ("any", "x64:gemm:jit"),
    "mb4ic16iw1000oc24kw5pw2 BWD_D bf16 NXC": ("given", "jit_bf16:avx512_core_bf16"),
    "mb4ic64ih7oc96kh1 FWD_D bf16 NXC": ("given", "brg:avx512_core_bf16"),
    "mb8ic16ih28oc4kh3ph1 BWD_D bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "g8mb8ic64ih28oc64kh3ph1 BWD_W bf16 NCX": ("nxc", "jit_bf16:avx512_core_bf16"),
    "g24mb4ic24ih28oc24oh28kh3ph1 FWD_D f32 NCX": ("any", "jit_dw:avx2"),
    "g40mb4ic40ih28oc40oh28kh5ph2 BWD_D f32 NCX": ("any", "jit_dw:avx2"),
    "g24mb4ic24ih28oc24oh28kh3ph1 BWD_W f32 NCX": ("any", "jit_dw:avx2"),
    "g72mb8ic72ih28oc72oh28kh5ph2 BWD_W f32 NCX": ("any", "jit_dw:avx2"),
    "mb4ic3ih56oc24oh28kh3sh2ph1 FWD_D f32 NCX": ("any", "jit:avx2"),
    "mb4ic8ih28oc24oh28kh3ph1 BWD_D f32 NCX": ("any", "jit:avx2"),
    "mb4ic16ih28oc8oh28kh3ph1 BWD_W f32 NCX": ("any", "jit:avx2"),
    "mb8ic32ih7oc64oh7kh1ph0 FWD_D f32 NCX": ("given", "brg:avx512_core"),
    "mb2ic1ih40oc4oh40kh5ph2 FWD_D bf16 NCX": ("any", "jit_bf16:avx512_core_bf16"),
    "mb2ic1ih112oc4oh112kh7ph3 FWD_D bf16 NXC": ("nxc", "jit:avx512_core"),
    "mb8ic64ih14oc8oh14kh1ph0 BWD_D bf16 NXC": ("given", "jit_bf16_1x1:avx512_core_bf16"),
    "mb1ic32ih8oc320oh8kh3ph1 BWD_W bf16 NCX": ("any", "x64:gemm:jit"),
}
OTHERS = [
    "mb16ic384ih7oc512oh7kh1ph0 FWD_D f32 NCX",
    "mb2ic32ih14oc32kh3ph1 BWD_D f32 NCX",
    "mb2ic1024ih7oc1024kh1 FWD_D f32 NXC",
    "mb2ic1ih60oc64kh3ph1 BWD_W f32 NXC",
    "mb8ic2ih40oc64oh12kh5sh3ph0dh2 BWD_D f32 NXC",
    "mb8ic4ih40oc3oh12kh5sh3ph0dh2 BWD_D f32 NXC",
    "g128mb2ic128ih56oc128kh3ph1 FWD_D bf16 NCX",
    "g4mb4ic32ih15oc16oh15kh3ph1 BWD_D f32 NCX",
    "g32mb1ic32ih33oc32oh33kh1ph0 FWD_D f32 NCX",
    "deconv:g4mb2ic16ih12oc32oh14kh3ph0 FWD_D f32 NCX",
    "deconv:g4mb2ic8ih12oc32oh24kh2sh2ph0 FWD_D f32 NCX",
    "deconv:g4mb2ic4iw50oc32ow53kw4pw0 FWD_D f32 NCX",
    "mb2ic32ih14oc32kh3ph1 BWD_D bf16 NXC",
    "mb4ic64ih14oc96kh1 FWD_D bf16 NXC",
    "g32mb4ic32ih28oc32oh28kh3ph1 FWD_D f32 NCX",
    "g24mb4ic24iw1000oc24ow1000kw3pw1 BWD_W f32 NCX",
    "mb4ic3ih56oc32oh28kh3sh2ph1 FWD_D f32 NCX",
    "mb4ic8ih28oc20oh28kh3ph1 BWD_D f32 NCX",
    "mb4ic8ih29oc256oh14kh3sh2ph0 BWD_D f32 NCX",
    "mb6ic4id21oc8od11kd3sd2pd1 FWD_D f32 NCX",
    "mb4ic20ih28oc8oh28kh3ph1 BWD_W f32 NCX",
    "mb4ic32ih28oc64oh28kh1ph0 FWD_D f32 NCX",
    "mb4ic12ih56oc8oh28kh3sh2ph1 FWD_D f32 NCX",
    "mb2ic64ih56oc96oh28kh1sh2ph0 BWD_W f32 NCX",
    "mb1ic6ih33oc64oh33kh5ph2 FWD_D f32 NCX",
    "mb2ic1ih112oc4oh112kh5ph2 FWD_D bf16 NXC",
    "mb8ic64ih14oc24oh14kh1ph0 BWD_D bf16 NXC",
    "mb1ic32ih8oc256oh8kh3ph1 BWD_W bf16 NCX",
]


@pytest.mark.parametrize("text", OWN)
def test_rules_of_half_width(text: str) -> None:
    assert_own("half width", HALF_WIDTH, text, OWN[text])


def test_each_rule_has_a_problem() -> None:
    found = {id(applying(HALF_WIDTH, text)[0]) for text in OWN}
    assert found == set(map(id, HALF_WIDTH))


@pytest.mark.parametrize("text", OTHERS)
def test_problems_that_none_of_them_is_for(text: str) -> None:
    assert not applying(HALF_WIDTH, text)


@pytest.mark.parametrize(
    "text",
    ["g40mb4ic40ih28oc40oh28kh3ph1 FWD_D f32 NXC", "g40mb4ic40ih28oc40oh28kh1ph0 BWD_D f32 NCX"],
)
def test_half_blocks_that_no_reorder_reads(text: str) -> None:
    """Kernels read channels last in place, and gemm reads 1x1 kernels' operands as they are."""
    assert not applying(HALF_WIDTH_BLOCKS, text)


@needs_onednn
@pytest.mark.parametrize("text", OWN)
def test_results_are_exact(text: str) -> None:
    assert_exact(text)
