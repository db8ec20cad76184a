"""Rules where a CPU has AVX2 and no AVX-512."""

from __future__ import annotations

import pytest

from onednn_py.backends.onednn.selection.formulations import formulate
from onednn_py.backends.onednn.selection.rules.avx2_deep import AVX2_DEEP, AVX2_DEEP_REST
from onednn_py.backends.onednn.selection.rules.avx2_deep_first import AVX2_DEEP_FIRST
from onednn_py.backends.onednn.selection.rules.avx2_depthwise import AVX2_DEPTHWISE
from onednn_py.backends.onednn.selection.rules.avx2_few_inputs import AVX2_FEW_INPUTS
from onednn_py.backends.onednn.selection.rules.avx2_first import AVX2_FIRST
from onednn_py.backends.onednn.selection.rules.avx2_forward import AVX2_FORWARD
from onednn_py.backends.onednn.selection.rules.avx2_gradients import AVX2_GRADIENTS
from onednn_py.backends.onednn.selection.rules.avx2_last import AVX2_LAST
from onednn_py.backends.onednn.selection.rules.avx2_merged import AVX2_MERGED
from onednn_py.backends.onednn.selection.rules.avx2_padded import AVX2_PADDED
from onednn_py.backends.onednn.selection.rules.avx2_pixels import AVX2_PIXELS
from onednn_py.backends.onednn.selection.rules.avx2_powers import AVX2_POWERS
from onednn_py.backends.onednn.selection.rules.avx2_strided_1x1 import AVX2_STRIDED_1X1
from onednn_py.backends.onednn.selection.rules.avx2_upsampling import AVX2_UPSAMPLING
from onednn_py.backends.onednn.selection.rules.avx2_volumes import AVX2_VOLUMES
from tests.support.requirements import needs_onednn
from tests.support.rules import AVX2, applying, assert_exact, assert_own, problem_in, problem_of

RULES = (
    *AVX2_VOLUMES,
    *AVX2_PIXELS,
    *AVX2_GRADIENTS,
    *AVX2_POWERS,
    *AVX2_UPSAMPLING,
    *AVX2_DEEP,
    *AVX2_DEEP_FIRST,
    *AVX2_STRIDED_1X1,
    *AVX2_PADDED,
    *AVX2_FEW_INPUTS,
    *AVX2_DEPTHWISE,
    *AVX2_MERGED,
    *AVX2_FORWARD,
    *AVX2_FIRST,
    *AVX2_LAST,
    *AVX2_DEEP_REST,
)

# Each with the activations and an implementation of the rule that only such CPUs ask.
OWN = {
    "mb4ic128ih10oc32oh5kh3sh2ph1 BWD_D f32 NXC": ("given", "x64:gemm:jit"),
    "deconv:mb4ic96ih13oc4oh25kh1sh2ph0 BWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "deconv:mb8ic6iw1360oc2ow2719kw3sw2pw1 FWD_B f32 NXC": ("any", "x64:gemm:jit"),
    # Beyond limits of the rule before: steps, kernel, inputs, outputs.
    "deconv:mb4ic8ih20oc4oh40kh2sh2ph0 FWD_D f32 NXC": ("given", "jit:avx2"),
    "deconv:mb4ic8ih20oc4oh39kh3sh2ph1 FWD_D f32 NXC": ("given", "jit:avx2"),
    "deconv:mb4ic8ih20oc7oh41kh5sh2ph1 FWD_D f32 NXC": ("given", "jit:avx2"),
    "deconv:mb4ic9ih20oc6oh41kh5sh2ph1 FWD_D f32 NXC": ("given", "jit:avx2"),
    "g16mb6ic16id9oc16od9kd1pd0 FWD_D f32 NXC": ("nxc", "jit_dw:avx2"),
    "mb2ic100ih46oc3oh23kh3sh2ph1 BWD_D f32 NXC": ("given", "jit:avx2"),
    "deconv:mb4ic12ih66oc12oh66kh1ph0 BWD_WB f32 NCX": ("any", "x64:gemm:jit"),
    "mb2ic4ih16oc24oh8kh3sh2ph1 FWD_B f32 NCX": ("any", "jit:avx2"),
    # Beyond limits of AVX2_FORWARD: images, outputs, size of weights, pixels, neighbours.
    "mb3ic16ih9oc96oh4kh3sh2ph0 FWD_D f32 NCX": ("nxc", "brgconv:avx2"),
    "mb1ic16ih9oc95oh4kh3sh2ph0 FWD_D f32 NCX": ("nxc", "brgconv:avx2"),
    "mb1ic512ih9oc512oh4kh3sh2ph0 FWD_D f32 NCX": ("nxc", "brgconv:avx2"),
    "mb2ic16ih19oc96oh9kh3sh2ph0 FWD_B f32 NCX": ("nxc", "brgconv:avx2"),
    "mb1ic128ih9oc128oh9kh3ph1 FWD_B f32 NCX": ("nxc", "brgconv:avx2"),
    # Too small for the last rule of AVX2_FEW_INPUTS.
    "mb1ic2iw6500oc48ow1625kw3sw4pw1 FWD_D f32 NCX": ("any", "jit:avx2"),
    "mb2ic128ih12oc512oh4kh3sh3ph1 FWD_B f32 NCX": ("any", "x64:gemm:jit"),
    "g32mb6ic32ih136oc32oh68kh1sh2ph0 BWD_WB f32 NXC": ("nxc", "jit_dw:avx2"),
    "mb2ic84ih16iw16oc112oh16ow16kh1kw5ph0pw2 BWD_D f32 NCX": ("nxc", "brgconv:avx2"),
    "mb8ic16iw800oc9ow800kw7pw24dw7 BWD_D f32 NCX": ("nxc", "brgconv:avx2"),
    "mb32ic1iw300oc12ow75kw3sw4pw1 BWD_D f32 NXC": ("any", "x64:gemm:jit"),
    "mb2ic4ih72oc16oh36kh7sh2ph3 BWD_D f32 NXC": ("any", "x64:gemm:jit"),
    "mb16ic9ih21oc16oh21kh1ph0 BWD_W f32 NXC": ("given", "gemm:jit:f32"),
    "deconv:g4mb2ic4ih12oc32oh14kh3ph0 FWD_D f32 NCX": ("nxc", "jit:avx2"),
    "deconv:g64mb4ic64ih23oc64oh23kh3ph1 BWD_WB f32 NXC": ("given", "jit_dw:avx2"),
    "mb16ic48ih1oc192oh1kh1ph0 BWD_D f32 NXC": ("given", "gemm:jit:f32"),
    "g256mb4ic256ih6oc256oh3kh2sh2ph0 BWD_D f32 NCX": ("nxc", "jit_dw:avx2"),
    "g32mb2ic32id14oc32od14kd1pd0 BWD_D f32 NXC": ("nxc", "jit_dw:avx2"),
    "g4mb1ic16ih111oc4oh109kh3ph0 BWD_D f32 NCX": ("nxc", "jit:avx2"),
    "g8mb2ic32ih14oc32oh14kh3ph1 BWD_D f32 NCX": ("nxc", "jit:avx2"),
    "mb8ic3ih11oc48oh6kh3sh2ph1 BWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "mb2ic2id7ih4iw13oc25od7oh4ow13kd3kh3kw3pd1ph1pw1 BWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "deconv:mb1ic512ih6oc12oh6kh3ph1 FWD_B f32 NCX": ("any", "x64:gemm:jit"),
    "deconv:g4mb6ic16ih6oc32oh16kh3sh3ph1 FWD_B f32 NCX": ("nxc", "jit:avx2"),
    "deconv:mb1ic32id6oc1od6kd3pd1 FWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "mb16ic256iw66oc4ow32kw4sw2pw0 FWD_B f32 NCX": ("nxc", "brgconv:avx2"),
    "mb4ic7ih8iw16oc4oh8ow16kh5kw5ph2pw2 FWD_D f32 NCX": ("nxc", "brgconv:avx2"),
    "mb16ic2ih6oc96oh3kh1sh2ph0 FWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "g32mb6ic32ih6oc32oh5kh2ph0 FWD_D f32 NCX": ("nxc", "jit_dw:avx2"),
    "deconv:mb2ic1ih20oc32oh77kh7sh4ph3 BWD_D f32 NCX": ("nxc", "brgconv:avx2"),
    "deconv:mb1ic512iw235oc8ow469kw3sw2pw1 BWD_D f32 NCX": ("given", "conv:any+x64:gemm:jit"),
    "deconv:mb32ic3iw72oc64ow72kw3pw1 BWD_D f32 NCX": ("nxc", "brgconv:avx2"),
    "mb6ic2id14oc12od6kd3sd2pd0 BWD_W f32 NCX": ("any", "x64:gemm:jit"),
    "mb6ic4ih9oc100oh8kh4ph1 BWD_WB f32 NCX": ("any", "x64:gemm:jit"),
    "mb1ic16ih34oc16oh34kh1ph0 BWD_W f32 NCX": ("any", "x64:gemm:jit"),
    "mb2ic2ih20oc8oh20kh5ph2 BWD_W f32 NCX": ("nxc", "jit:avx2"),
    "mb2ic16id24oc4od5kd3sd4pd0dd2 BWD_W f32 NXC": ("any", "x64:gemm:jit"),
    "deconv:mb6ic4ih14oc1oh27kh3sh2ph1 BWD_WB f32 NCX": ("given", "conv:any+x64:gemm:jit"),
    "deconv:mb16ic6ih27oc64oh53kh1sh2ph0 BWD_WB f32 NCX": ("any", "x64:gemm:jit"),
    "deconv:mb4ic128ih10oc4oh19kh3sh2ph1 BWD_W f32 NCX": ("given", "conv:any+x64:gemm:jit"),
    "mb8ic3ih98oc24oh49kh5sh2ph2 BWD_D f32 NXC": ("any", "x64:gemm:jit"),
    "mb1ic376ih7oc448oh7kh1ph0 BWD_D f32 NXC": ("given", "x64:gemm:jit"),
    "mb6ic192iw45oc3ow45kw1pw0 BWD_D f32 NXC": ("given", "jit_1x1:avx2"),
    "mb6ic3ih16oc256oh7kh3sh2ph0 BWD_D f32 NXC": ("given", "x64:gemm:jit"),
    "mb1ic6ih158oc12oh158kh5ph4dh1 BWD_D f32 NXC": ("given", "jit:avx2"),
    "deconv:mb8ic40ih12oc40oh24kh1sh2ph0 FWD_D f32 NXC": ("given", "jit_1x1:avx2"),
    "deconv:mb2ic256ih40oc16oh80kh3sh2ph1 FWD_D f32 NXC": ("any", "brgconv_strided:avx2"),
    "deconv:mb8ic16ih10oc1oh20kh4sh2ph1 FWD_B f32 NXC": ("any", "x64:gemm:jit"),
    "deconv:mb2ic272ih8oc16oh16kh3sh2ph1 BWD_W f32 NXC": ("given", "conv:any+x64:gemm:jit"),
    "deconv:mb2ic160ih20oc48oh40kh1sh2ph0 BWD_W f32 NXC": ("nxc", "x64:gemm:jit"),
    "deconv:mb4ic32id7oc32od14kd1sd2pd0 BWD_D f32 NXC": ("nxc", "jit_1x1:avx2"),
    "deconv:mb8ic32ih17oc8oh34kh4sh2ph1 BWD_D f32 NXC": ("given", "jit:avx2"),
    "deconv:mb6ic512ih10oc2oh11kh2ph0 FWD_D f32 NXC": ("given", "x64:gemm:jit"),
    "deconv:mb6ic8ih11oc2oh11kh5ph2 FWD_D f32 NXC": ("given", "jit:avx2"),
    "deconv:mb6ic64ih9oc3oh36kh4sh4ph0 FWD_D f32 NXC": ("any", "x64:gemm:jit"),
    "mb4ic32ih5oc128oh5kh1ph0 FWD_B f32 NXC": ("given", "jit_1x1:avx2"),
    "deconv:mb32ic256iw11oc1ow22kw3sw2pw1 BWD_D f32 NXC": ("given", "jit:avx2"),
    "deconv:mb1ic46ih15oc14oh15kh1ph0 BWD_D f32 NXC": ("given", "jit_1x1:avx2"),
    "mb8ic29ih5oc2oh3kh5sh2ph2 BWD_W f32 NXC": ("any", "x64:gemm:jit"),
    "mb1ic16ih6oc512oh6kh7ph3 BWD_W f32 NXC": ("given", "x64:gemm:jit"),
    "mb4ic16ih24oc32oh8kh3sh3ph0 BWD_WB f32 NXC": ("given", "jit:avx2"),
    "mb6ic2iw1124oc128ow1124kw3pw1 BWD_W f32 NXC": ("given", "x64:gemm:jit"),
    "mb4ic24ih19oc16oh19kh3ph2dh1 BWD_W f32 NXC": ("any", "x64:gemm:jit"),
    "g16mb16ic128ih47iw34oc128oh24ow17kh5kw5sh2sw2ph2pw2 BWD_W f32 NXC": ("any", "jit:avx2"),
    "deconv:mb1ic100ih6oc12oh11kh3sh2ph1 BWD_WB f32 NXC": ("given", "conv:any+x64:gemm:jit"),
    "deconv:mb6ic160ih33oc16oh65kh3sh2ph1 BWD_W f32 NXC": ("any", "jit:avx2"),
    "mb1ic1024ih39oc48oh39kh1ph0 BWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "mb32ic64ih8oc768oh8kh1ph0 BWD_D f32 NCX": ("any", "jit_1x1:avx2"),
    "mb16ic48ih14oc512oh7kh3sh2ph1 BWD_D f32 NCX": ("any", "brgconv_strided:avx2"),
    "mb4ic512ih34oc96oh17kh1sh2ph0 FWD_D f32 NCX": ("any", "jit_1x1:avx2"),
    "mb1ic768ih9oc512oh5kh3sh2ph1 FWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "mb1ic192ih6oc512oh6kh5ph2 FWD_D f32 NCX": ("any", "jit:avx2"),
    "mb1ic64ih12oc512oh12kh5ph2 BWD_W f32 NCX": ("any", "x64:gemm:jit"),
    "mb6ic256ih48oc64oh24kh1sh2ph0 BWD_W f32 NXC": ("any", "jit_1x1:avx2"),
    "mb1ic512ih30oc768oh15kh1sh2ph0 BWD_W f32 NXC": ("given", "gemm:jit:f32"),
    "mb1ic192ih76oc320oh38kh1sh2ph0 FWD_D f32 NXC": ("given", "jit_1x1:avx2"),
    "deconv:mb1ic320ih8oc256oh16kh4sh2ph1 BWD_D f32 NXC": ("given", "gemm:jit:f32"),
    "deconv:mb16ic512ih10oc32oh20kh2sh2ph0 FWD_D f32 NCX": ("any", "jit_1x1:avx2"),
    "mb6ic768ih11oc512oh6kh1sh2ph0 BWD_D f32 NCX": ("any", "jit_1x1:avx2"),
    "mb32ic32ih34oc256oh17kh1sh2ph0 FWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "deconv:mb6ic512ih5oc320oh10kh2sh2ph0 BWD_W f32 NCX": ("any", "x64:gemm:jit"),
    "mb2ic96ih21oc768oh11kh3sh2ph1 BWD_D f32 NXC": ("given", "x64:gemm:jit"),
    "mb32ic320ih5oc256oh3kh3sh2ph1 BWD_W f32 NXC": ("given", "gemm:jit:f32"),
    "mb16ic512ih4oc256oh4kh3ph1 BWD_W f32 NXC": ("given", "gemm:jit:f32"),
    "mb1ic48ih29oc128oh29kh5ph2 BWD_W f32 NXC": ("any", "jit:avx2"),
    "deconv:mb2ic128ih22oc256oh44kh2sh2ph0 BWD_W f32 NXC": ("given", "x64:gemm:jit"),
    "mb8ic256ih8oc256oh4kh4sh2ph1 BWD_D f32 NXC": ("nxc", "brgconv:avx2"),
    "deconv:mb32ic96ih4oc512oh8kh4sh2ph1 BWD_D f32 NXC": ("given", "conv:any+brgconv:avx2"),
    "deconv:mb16ic96ih13oc96oh26kh2sh2ph0 FWD_D f32 NXC": ("nxc", "jit_1x1:avx2"),
    "mb6ic2ih49oc3oh49kh5ph2 BWD_W f32 NXC": ("given", "jit:avx2"),
    "mb2ic1ih56oc3oh56kh11ph5 BWD_W f32 NCX": ("nxc", "jit:avx2"),
    "g32mb1ic128ih12oc128oh12kh3ph1 FWD_B f32 NXC": ("given", "jit:avx2"),
    "g2mb8ic8ih22oc8oh22kh3ph1 FWD_D f32 NCX": ("any", "jit:avx2"),
    "g8mb4ic32ih24oc32oh24kh3ph1 BWD_D f32 NCX": ("any", "jit:avx2"),
    "g16mb8ic32ih15oc32oh15kh3ph1 BWD_WB f32 NCX": ("any", "jit:avx2"),
    "g64mb2ic256ih17oc256oh17kh3ph1 BWD_W f32 NCX": ("any", "jit:avx2"),
    "deconv:g16mb6ic64ih17oc128oh19kh3ph0 BWD_W f32 NCX": ("any", "jit:avx2"),
    "g16mb6ic32ih90oc64oh45kh1sh2ph0 BWD_W f32 NCX": ("any", "jit:avx2"),
    "g16mb8ic64ih13oc16oh9kh5ph0 BWD_W f32 NXC": ("given", "jit:avx2"),
    "deconv:g16mb1ic16ih55oc64oh55kh3ph1 BWD_D f32 NXC": ("given", "brgconv:avx2"),
    "deconv:g16mb1ic128ih21oc32oh22kh4ph1 BWD_D f32 NXC": ("given", "jit:avx2"),
    "deconv:g8mb1ic32ih41oc8oh42kh4ph1 BWD_D f32 NCX": ("any", "jit:avx2"),
    "g8mb2ic32ih32oc32oh28kh5ph0 BWD_W f32 NCX": ("any", "jit:avx2"),
    "g16mb6ic256iw63oc32ow61kw3pw0 BWD_W f32 NXC": ("any", "jit:avx2"),
    "mb4ic64iw8192oc128ow8192kw1pw0 BWD_D f32 NCX": ("given", "gemm:jit:f32"),
    "mb2ic32ih128oc96oh128kh1ph0 FWD_B f32 NCX": ("any", "jit_1x1:avx2"),
    "deconv:mb2ic96id8oc16od16kd2sd2pd0 FWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "deconv:mb1ic96ih9oc4oh18kh2sh2ph0 FWD_D f32 NXC": ("given", "x64:gemm:jit"),
    "mb2ic64ih32oc64oh32kh1ph0 BWD_W f32 NXC": ("given", "x64:gemm:jit"),
    "mb2ic64ih56oc1oh56kh3ph1 BWD_W f32 NXC": ("any", "jit:avx2"),
    "mb2ic64ih20oc1oh20kh3ph1 BWD_WB f32 NCX": ("any", "jit:avx2"),
    "deconv:mb2ic1ih10oc64oh20kh4sh2ph1 BWD_W f32 NCX": ("any", "jit:avx2"),
    "g32mb2ic32id8oc32od8kd3pd1 BWD_W f32 NCX": ("any", "jit_dw:avx2"),
    "g32mb2ic32id8oc32od8kd3pd1 FWD_B f32 NXC": ("nxc", "jit_dw:avx2"),
    "deconv:g32mb2ic32id8oc32od16kd2sd2pd0 BWD_D f32 NCX": ("any", "jit_dw:avx2"),
    "mb1ic32id16oc32od16kd3pd1 BWD_W f32 NCX": ("any", "jit:avx2"),
    "deconv:mb1ic64id8oc16od16kd4sd2pd1 BWD_WB f32 NXC": ("any", "jit:avx2"),
    "mb2ic4id12oc16od12kd3pd1 BWD_W f32 NCX": ("nxc", "jit:avx2"),
    "g4mb1ic16id10oc16od10kd3pd1 BWD_W f32 NXC": ("nxc", "jit:avx2"),
    "mb6ic16ih30oc32oh15kh1sh2ph0 FWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "mb8ic2ih135oc8oh68kh1sh2ph0 FWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "g8mb2ic32ih24oc64oh12kh1sh2ph0 FWD_B f32 NCX": ("any", "x64:gemm:jit"),
    "mb2ic96ih14oc64oh7kh1sh2ph0 BWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "mb6ic16ih44oc64oh22kh1sh2ph0 BWD_WB f32 NCX": ("any", "x64:gemm:jit"),
    "g4mb1ic16ih34oc32oh17kh1sh2ph0 BWD_WB f32 NCX": ("nxc", "jit:avx2"),
    "mb1ic32ih20oc64oh10kh1sh2ph0 BWD_D f32 NXC": ("given", "jit_1x1:avx2"),
    "mb8ic6ih76oc32oh38kh1sh2ph0 FWD_B f32 NXC": ("nxc", "jit_1x1:avx2"),
    "mb1ic8ih37oc100oh19kh1sh2ph0 BWD_W f32 NXC": ("nxc", "jit_1x1:avx2"),
    "mb2ic1ih56oc12oh56kh11ph5 BWD_W f32 NCX": ("nxc", "jit:avx2"),
    "mb4ic1ih181oc40oh181kh3ph1 BWD_W f32 NCX": ("any", "x64:gemm:jit"),
    "mb4ic3ih61oc72oh61kh3ph1 BWD_WB f32 NCX": ("any", "x64:gemm:jit"),
    "mb2ic3ih60oc80oh60kh3ph1 BWD_W f32 NXC": ("given", "x64:gemm:jit"),
    "g4mb8ic64id8oc16od8kd3pd1 FWD_B f32 NCX": ("nxc", "brgconv:avx2"),
    "g240mb2ic240ih12oc240oh12kh5ph2 BWD_W f32 NXC": ("any", "jit_dw:avx2"),
    "g512mb4ic512ih16oc512oh8kh5sh2ph2 BWD_W f32 NXC": ("any", "jit_dw:avx2"),
    "g512mb4ic512ih20oc512oh20kh3ph1 BWD_W f32 NXC": ("any", "jit_dw:avx2"),
    "g240mb8ic240ih14oc240oh14kh3ph1 BWD_D f32 NCX": ("any", "jit_dw:avx2"),
    "g480mb2ic480ih14oc480oh7kh5sh2ph2 BWD_D f32 NCX": ("nxc", "jit_dw:avx2"),
    "g8mb2ic32ih40oc96oh38kh3ph0 FWD_D f32 NCX": ("any", "jit:avx2"),
    "deconv:g8mb4ic32ih15oc64oh18kh4ph0 FWD_D f32 NCX": ("any", "jit:avx2"),
    "deconv:g4mb2ic32ih20oc16oh20kh7ph3 BWD_D f32 NCX": ("any", "jit:avx2"),
    "mb2ic320ih10oc512oh5kh3sh2ph1 BWD_W f32 NCX": ("given", "gemm:jit:f32"),
    "mb1ic768ih6oc768oh6kh3ph1 FWD_D f32 NCX": ("given", "gemm:jit:f32"),
    "mb32ic64ih9oc256oh9kh3ph1 FWD_D f32 NCX": ("nxc", "brgconv:avx2"),
    "mb16ic128id4oc512od4kd3pd1 FWD_D f32 NCX": ("nxc", "brgconv:avx2"),
    "mb4ic48id6oc512od6kd3pd1 BWD_D f32 NCX": ("nxc", "brg_fwd:avx2+brgconv:avx2"),
    "deconv:mb1ic512ih6oc384oh12kh4sh2ph1 BWD_D f32 NCX": ("given", "gemm:jit:f32"),
    "mb2ic256ih46oc96oh23kh4sh2ph1 BWD_D f32 NCX": ("any", "jit:avx2"),
    "mb8ic256ih10oc1oh5kh4sh2ph1 BWD_W f32 NXC": ("given", "jit:avx2"),
    "g32mb6ic32id4oc32od4kd1pd0 BWD_WB f32 NCX": ("nxc", "jit_dw:avx2"),
    "mb2ic768ih6oc768oh6kh3ph1 FWD_D f32 NCX": ("nxc", "brgconv:avx2"),
    "mb1ic768ih6oc768oh6kh3ph1 FWD_B f32 NCX": ("nxc", "brgconv:avx2"),
    "mb1ic320ih8oc512oh8kh3ph1 FWD_D f32 NCX": ("nxc", "brgconv:avx2"),
    "mb1ic512ih4oc512oh4kh3ph1 FWD_D f32 NCX": ("nxc", "brgconv:avx2"),
    "deconv:mb2ic512ih6oc384oh12kh4sh2ph1 BWD_D f32 NCX": ("nxc", "conv:any+brgconv:avx2"),
    "g32mb6ic32id4oc32od4kd1pd0 BWD_WB f32 NXC": ("nxc", "jit_dw:avx2"),
    "mb16ic64id4oc48od2kd3sd3pd1 BWD_D f32 NXC": ("given", "x64:gemm:jit"),
    "mb4ic2iw6500oc48ow1625kw3sw4pw1 FWD_D f32 NCX": ("any", "x64:gemm:jit"),
    "deconv:mb4ic33ih19oc9oh38kh3sh2ph1 BWD_D f32 NCX": ("nxc", "conv:any+brgconv:avx2"),
    "mb4ic96ih13oc128oh13kh3ph1 BWD_W f32 NCX": ("any", "x64:gemm:jit"),
    "mb8ic448ih10oc256oh10kh1ph0 BWD_W f32 NXC": ("any", "jit_1x1:avx2"),
    "mb2ic64iw520oc32ow520kw3pw1 BWD_W f32 NXC": ("any", "jit:avx2"),
    "mb2ic256iw1200oc96ow1200kw5pw2 BWD_WB f32 NXC": ("any", "x64:gemm:jit"),
    "g8mb2ic64ih34oc32oh32kh3ph0 FWD_D f32 NXC": ("given", "brgconv:avx2"),
    "deconv:g8mb2ic64ih21oc128oh41kh3sh2ph1 BWD_WB f32 NXC": ("any", "jit:avx2"),
}
# Where sides are no multiple of the stride, the first rule's formulation has no layout in oneDNN.
# A large minibatch is left to the rule of deep layers.
BEHIND_STRIDED_1X1 = (
    "mb2ic16ih31oc32oh16kh1sh2ph0 FWD_D f32 NCX",
    "mb8ic64ih113oc128oh57kh1sh2ph0 FWD_D f32 NCX",
)
OTHERS = [
    # Too few flops for a rule of AVX2_UPSAMPLING.
    "deconv:mb1ic4ih4oc1oh9kh5sh2ph1 FWD_D f32 NXC",
    # Limits of the last two rules of AVX2_GRADIENTS: sides; lines, pixels, inputs, patches.
    "deconv:mb4ic96ih13oc4oh26kh1sh2ph0 BWD_D f32 NCX",
    "mb4ic128iw180oc32ow90kw3sw2pw1 BWD_D f32 NXC",
    "mb4ic128ih20oc32oh10kh3sh2ph1 BWD_D f32 NXC",
    "mb4ic60ih10oc32oh5kh3sh2ph1 BWD_D f32 NXC",
    "mb4ic128ih10oc32oh5kh2sh2ph0 BWD_D f32 NXC",
    "mb16ic64ih56oc64kh3ph1 BWD_D f32 NCX",
    "mb16ic64ih56oc64kh3ph1 FWD_D f32 NCX",
    "mb16ic256ih56oc128kh1 BWD_W f32 NXC",
    "mb1ic32id16oc32od14kd3pd0 BWD_W f32 NCX",
    "mb8ic3ih11oc48kh3sh2ph1 BWD_D bf16 NCX",
    "mb4ic32ih5oc128kh1 FWD_B bf16 NXC",
    "deconv:mb16ic64ih56oc64oh112kh2sh2 BWD_D f32 NCX",
    "g576mb4ic576ih14oc576kh3ph1 BWD_W f32 NXC",
    "g384mb16ic384ih28oc384kh3ph1 BWD_W f32 NXC",
    "g512mb24ic512ih14oc512oh7kh3sh2ph1 BWD_D f32 NCX",
    "g96mb16ic96ih28oc96kh5ph2 BWD_D f32 NCX",
    # Limits of rules of several tables.
    "mb8ic64ih40oc256oh40kh3ph1 FWD_D f32 NCX",
    "mb16ic32ih9oc512oh9kh3ph1 FWD_D f32 NCX",
    "mb1ic64id23oc128od23kd3pd1 FWD_D f32 NCX",
    "mb2ic256id4oc256od4kd3pd1 BWD_D f32 NCX",
    "mb4ic256ih46oc96oh23kh4sh2ph1 BWD_D f32 NCX",
    "mb1ic48id24oc8od12kd3sd2pd1 BWD_D f32 NXC",
    "mb8ic1iw7493oc64ow3745kw4sw2pw0 FWD_B f32 NCX",
    "deconv:mb1ic33ih19oc9oh38kh3sh2ph1 BWD_D f32 NCX",
    "mb2ic32ih11oc32oh11kh1ph0 BWD_W f32 NXC",
    # Limits of AVX2_DEEP_FIRST.
    "mb1ic768ih32oc768oh32kh3ph1 FWD_D f32 NCX",
    "mb7ic64ih12oc512oh12kh3ph1 FWD_D f32 NCX",
    "mb16ic512iw100oc512ow100kw3pw1 FWD_D f32 NCX",
    "mb32ic64ih9oc256oh9kh3ph1 BWD_D f32 NCX",
    "mb16ic48id4oc512od4kd3pd1 FWD_D f32 NCX",
    "mb4ic128id16oc256od8kd3sd2pd1 FWD_D f32 NCX",
    "deconv:mb16ic128id4oc512od4kd3pd1 BWD_D f32 NCX",
    "mb4ic64id6oc512od3kd3sd2pd1 BWD_D f32 NCX",
    "mb4ic48id6oc48od6kd3pd1 BWD_D f32 NCX",
    "mb4ic48id11oc64od11kd3pd1 BWD_D f32 NCX",
    "mb1ic48id6oc64od6kd3pd1 BWD_D f32 NCX",
    "deconv:mb1ic1024ih4oc384oh8kh4sh2ph1 BWD_D f32 NCX",
    "deconv:mb1ic512ih9oc384oh18kh4sh2ph1 BWD_D f32 NCX",
    "deconv:mb1ic512ih7oc512oh7kh3ph1 BWD_D f32 NCX",
    "deconv:mb1ic256ih6oc384oh12kh4sh2ph1 BWD_D f32 NCX",
    "deconv:mb1ic512ih6oc1024oh12kh2sh2ph0 BWD_D f32 NCX",
    "deconv:mb1ic512id3oc384od6kd4sd2pd1 BWD_D f32 NCX",
    "deconv:mb1ic1024iw60oc768ow120kw4sw2pw1 BWD_D f32 NCX",
    # Limits of the last rule of AVX2_DEEP_REST.
    "mb2ic256ih46oc128oh23kh4sh2ph1 BWD_D f32 NCX",
    "mb2ic256id8oc96od4kd4sd2pd1 BWD_D f32 NCX",
    "mb2ic256ih46oc24oh23kh4sh2ph1 BWD_D f32 NCX",
    "mb2ic256ih10oc96oh5kh4sh2ph1 BWD_D f32 NCX",
    # Limits of the last rule of AVX2_GRADIENTS.
    "deconv:mb16ic16id11oc3od11kd1pd0 BWD_W f32 NCX",
    "deconv:mb4ic100ih7oc48oh7kh1ph0 BWD_WB f32 NXC",
    "deconv:mb4ic100ih7oc48oh7kh3ph1 BWD_WB f32 NCX",
    "deconv:mb4ic100ih7oc48oh14kh1sh2ph0 BWD_WB f32 NCX",
    "mb4ic100ih7oc48oh7kh1ph0 BWD_WB f32 NCX",
    # Limits of the last rule of AVX2_FEW_INPUTS.
    "mb4ic3iw6500oc48ow1625kw3sw4pw1 FWD_D f32 NCX",
    "mb8ic2iw26000oc16ow6500kw3sw4pw1 FWD_D f32 NCX",
    "mb4ic2iw6500oc48ow6500kw3pw1 FWD_D f32 NCX",
    # Limits of the last rule of AVX2_FIRST.
    "deconv:mb8ic33ih19oc1024oh37kh3sh2ph1 BWD_D f32 NCX",
    "deconv:mb4ic33ih19oc8oh38kh3sh2ph1 BWD_D f32 NCX",
    "deconv:mb4ic33ih24oc9oh47kh3sh2ph1 BWD_D f32 NCX",
    "deconv:mb4ic33iw19oc9ow37kw3sw2pw1 BWD_D f32 NCX",
    "deconv:mb4ic33id4oc9od7kd3sd2pd1 BWD_D f32 NCX",
    "deconv:mb4ic33ih19oc9oh19kh3ph1 BWD_D f32 NCX",
    "deconv:mb4ic33ih19oc9oh38kh2sh2ph0 BWD_D f32 NCX",
    # Limits of the last two rules of AVX2_VOLUMES.
    "mb1ic64id8oc48od4kd4sd2pd1 BWD_D f32 NXC",
    "mb1ic2id8oc12od4kd3sd2pd1 BWD_D f32 NXC",
    "mb1ic48id8oc2od4kd3sd2pd1 BWD_D f32 NXC",
    "mb1ic64id4oc48od4kd3pd1 BWD_D f32 NXC",
    "deconv:mb16ic64id4oc48od10kd3sd3pd1 FWD_D f32 NXC",
    "g32mb6ic32id4oc32od4kd1pd0 BWD_W f32 NCX",
    "g12mb6ic12id4oc12od4kd1pd0 BWD_WB f32 NCX",
    "g32mb6ic32id8oc32od8kd1pd0 BWD_WB f32 NCX",
    "g16mb32ic16id2oc16od2kd1pd0 BWD_WB f32 NCX",
    # Limits of AVX2_FORWARD.
    "mb2ic4ih33oc100oh17kh3sh2ph1 FWD_B f32 NCX",
    "mb1ic7ih9oc96oh4kh3sh2ph0 FWD_B f32 NCX",
    # Limits of AVX2_PADDED.
    "mb1ic2ih49oc3oh49kh5ph2 BWD_W f32 NXC",
    "mb2ic24ih30oc1oh30kh5ph2 BWD_W f32 NCX",
]


@pytest.mark.parametrize("text", OWN)
def test_rules_of_avx2(text: str) -> None:
    assert_own("avx2", RULES, text, OWN[text])
    formulation = applying(RULES, text, AVX2)[0].formulation
    assert formulate(problem_in(text), "f32", formulation) is not None


def test_each_rule_has_a_problem() -> None:
    found = {id(applying(RULES, text, AVX2)[0]) for text in OWN}
    found |= {id(applying(RULES, text, AVX2)[1]) for text in BEHIND_STRIDED_1X1}
    assert found == set(map(id, RULES))


@pytest.mark.parametrize("text", BEHIND_STRIDED_1X1)
def test_rules_behind_strided_1x1(text: str) -> None:
    first, behind, *_ = applying(RULES, text, AVX2)
    assert (first.formulation, behind.formulation) == ("strided_1x1", "direct")
    problem = problem_of(*text.split())
    assert formulate(problem, "f32", first.formulation) is None
    assert formulate(problem, "f32", behind.formulation) is not None


@pytest.mark.parametrize("text", OTHERS)
def test_problems_that_none_of_them_is_for(text: str) -> None:
    assert not applying(RULES, text, AVX2)


@needs_onednn
@pytest.mark.parametrize("text", [*OWN, *BEHIND_STRIDED_1X1])
def test_results_are_exact(text: str) -> None:
    assert_exact(text)
