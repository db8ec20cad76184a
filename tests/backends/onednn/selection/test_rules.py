"""Rules: what they prefer for problems that no suite has, and on one thread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onednn_py.backends.onednn.selection.heuristics import preferences
from onednn_py.backends.onednn.selection.rules import Rule, Shape, rules_of
from onednn_py.backends.onednn.selection.rules.amx_bf16 import AMX_BF16_FIRST, AMX_BF16_LAST
from onednn_py.backends.onednn.selection.rules.amx_f32_first import AMX_F32_FIRST
from onednn_py.backends.onednn.selection.rules.amx_f32_last import AMX_F32_LAST
from onednn_py.backends.onednn.selection.rules.data import DATA
from onednn_py.backends.onednn.selection.rules.forward import FORWARD
from onednn_py.backends.onednn.selection.rules.grouped import GROUPED
from onednn_py.backends.onednn.selection.rules.grouped_rest import GROUPED_REST
from onednn_py.backends.onednn.selection.rules.im2col import IM2COL
from onednn_py.backends.onednn.selection.rules.one_channel import ONE_CHANNEL
from onednn_py.backends.onednn.selection.rules.products import PRODUCTS
from onednn_py.backends.onednn.selection.rules.small import SMALL
from onednn_py.backends.onednn.selection.rules.strided import STRIDED_DATA
from onednn_py.backends.onednn.selection.rules.transposed import TRANSPOSED
from onednn_py.backends.onednn.selection.rules.transposed_without_amx import (
    BF16_TRANSPOSED,
    F32_TRANSPOSED,
)
from onednn_py.backends.onednn.selection.rules.weights import WEIGHTS
from onednn_py.backends.onednn.selection.rules.without_amx_bf16 import BF16_WITHOUT_AMX
from onednn_py.backends.onednn.selection.rules.without_amx_f32 import F32_WITHOUT_AMX
from onednn_py.problem.problem import Problem
from tests.support.rules import AMX, AVX2, problem_of

OF_AMX = {id(rule) for rule in (*AMX_F32_FIRST, *AMX_F32_LAST, *AMX_BF16_FIRST, *AMX_BF16_LAST)}


def rules_behind(shape: Shape) -> Iterator[Rule]:
    """Yield the rules that apply to a problem, but for those that CPUs with AMX ask first."""
    return (rule for rule in rules_of(shape) if id(rule) not in OF_AMX)


def first_rule(problem: Problem, available: int = 2, cpu_isa: str = AMX) -> Rule:
    shape = Shape(problem, problem.dtype, available=available, cpu_isa=cpu_isa, halves_avx512=True)
    return next(rules_behind(shape))


@pytest.mark.parametrize(
    ("text", "direction", "dtype", "data_format", "expected"),
    [
        ("mb1ic1ih1024oc1kh7ph3", "BWD_D", "f32", "NCX", ("nxc", "direct", "jit:avx512_core")),
        ("mb1ic4ih400oc4kh3ph1", "BWD_D", "f32", "NXC", ("given", "direct", "jit:avx2")),
        ("mb4ic3ih120oc2kh7ph3", "BWD_D", "bf16", "NXC", ("any", "flipped", "jit:avx512_core_amx")),
        ("mb2ic3ih140oc34kh7sh2ph3", "BWD_D", "bf16", "NCX", ("any", "direct", "brgconv_strided")),
        ("g20mb4ic20ih19oc20kh7ph3", "BWD_D", "f32", "NCX", ("any", "direct", "jit_dw:avx2")),
        ("g144mb16ic144ih28oc144kh3ph1", "BWD_W", "f32", "NCX", ("any", "direct", "jit_dw:avx2")),
        ("mb1ic1ih400oc3kh5ph2", "BWD_W", "f32", "NCX", ("nxc", "direct", "jit:avx2")),
        ("mb2ic1ih64oc8kh3ph1", "BWD_W", "bf16", "NXC", ("nxc", "direct", "jit_bf16:any")),
        ("mb8ic8ih86oc32kh1", "FWD_D", "f32", "NCX", ("given", "matmul", "gemm:jit:f32")),
        ("mb6ic288ih80oc48kh3sh2ph1", "BWD_D", "f32", "NCX", ("any", "direct", "jit:avx512_core")),
        ("mb2ic10ih28oc48kh3sh2ph1", "BWD_D", "f32", "NCX", ("any", "direct", "x64:gemm:jit")),
        ("mb16ic192ih14oc192kh3ph1", "BWD_D", "f32", "NCX", ("nxc", "direct", "brgconv:any")),
        ("mb2ic3ih224oc64kh7sh2ph3", "BWD_D", "f32", "NCX", ("any", "direct", "x64:gemm:jit")),
        ("mb2ic1ih231oc80kh3sh2ph1", "BWD_D", "f32", "NXC", ("given", "direct", "x64:gemm:jit")),
        ("g32mb8ic32ih8oc32kh5ph2", "FWD_D", "f32", "NXC", ("given", "direct", "jit_dw:avx2")),
        ("mb2ic1ih222oc32kh5sh2ph2", "BWD_D", "bf16", "NCX", ("any", "direct", "x64:gemm:jit")),
        ("mb2ic3ih232oc16kh4sh4", "BWD_W", "bf16", "NCX", ("any", "direct", "jit_bf16:any")),
        ("g2mb16ic8ih21oc8kh1", "BWD_W", "f32", "NCX", ("any", "direct", "x64:gemm:jit")),
        ("g2mb16ic8ih21oc8kh1", "BWD_D", "bf16", "NCX", ("any", "direct", "x64:gemm:jit")),
        ("mb1ic220ih6oc288kh1", "BWD_W", "f32", "NCX", ("any", "direct", "x64:gemm:jit")),
        ("mb2ic80ih30oc96kh1sh2", "FWD_D", "bf16", "NCX", ("any", "strided_1x1", "x64:gemm:jit")),
        ("mb2ic20ih30oc24kh1sh2", "FWD_D", "bf16", "NCX", ("any", "direct", "x64:gemm:jit")),
        ("mb1ic1id32oc9kd3pd1", "BWD_D", "f32", "NCX", ("any", "direct", "x64:gemm:jit")),
        ("mb1ic2id40oc16kd3pd1", "BWD_D", "bf16", "NXC", ("any", "direct", "brgconv:any")),
        ("mb2ic3ih322oc32kh4sh4", "BWD_D", "bf16", "NXC", ("any", "direct", "x64:gemm:jit")),
        ("mb2ic6ih147oc25kh4sh4", "BWD_D", "f32", "NCX", ("any", "direct", "x64:gemm:jit")),
        ("mb32ic1ih66oc16kh3sh2ph1", "BWD_D", "f32", "NXC", ("any", "direct", "x64:gemm:jit")),
        ("mb2ic1ih229oc16kh11ph5", "BWD_D", "f32", "NXC", ("any", "direct", "x64:gemm:jit")),
        ("mb2ic4ih176oc32kh7sh2ph3", "BWD_W", "f32", "NCX", ("nxc", "direct", "jit:avx512_core")),
        ("mb1ic1ih264oc64kh3sh2ph1", "BWD_W", "bf16", "NCX", ("any", "direct", "x64:gemm:jit")),
        ("mb8ic2ih14oc11kh3ph1", "BWD_W", "bf16", "NCX", ("nxc", "direct", "jit_bf16:any")),
        ("mb2ic2ih6oc23kh3ph1", "BWD_W", "bf16", "NXC", ("given", "direct", "jit_bf16:any")),
        ("mb4ic34ih4oc2kh5ph2", "BWD_D", "bf16", "NCX", ("nxc", "direct", "jit_bf16:any")),
        ("mb4ic21ih5oc2kh3ph1", "BWD_D", "bf16", "NXC", ("given", "direct", "jit_bf16:any")),
        ("mb6ic1ih6oc46kh3ph1", "BWD_D", "f32", "NCX", ("any", "direct", "x64:gemm:jit")),
        ("mb8ic840ih8oc16kh1", "FWD_D", "f32", "NCX", ("any", "direct", "x64:gemm:jit")),
        ("mb32ic9ih44oc11kh1", "BWD_W", "bf16", "NXC", ("any", "direct", "brgconv_bwd_w:any")),
        (
            "mb2ic12iw2060oc16ow2060kw25pw768dw63",
            "FWD_D",
            "f32",
            "NCX",
            ("nxc", "direct", "brgconv:avx512_core"),
        ),
        ("g64mb6ic64ih92oc64kh7ph3", "BWD_D", "bf16", "NXC", ("given", "flipped", "brdgmm_dw")),
        ("g64mb6ic64ih92oc64kh7ph3", "BWD_D", "bf16", "NCX", ("nxc", "flipped", "brdgmm_dw")),
        (
            "mb2ic80ih30oc96kh1sh2",
            "FWD_D",
            "bf16",
            "NXC",
            ("any", "strided_1x1", "jit_1x1:avx512_core_amx"),
        ),
    ],
)
def test_first_preference(
    text: str, direction: str, dtype: str, data_format: str, expected: tuple[str, str, str]
) -> None:
    rule = first_rule(problem_of(text, direction, dtype, data_format))
    activations, formulation, name = expected
    assert (rule.activations, rule.formulation) == (activations, formulation)
    assert rule.family.search(name)


def test_weights_of_a_small_problem_are_not_reordered() -> None:
    rule = first_rule(problem_of("mb2ic10ih12oc48kh3ph1", "FWD_D", "f32", "NXC"))
    assert (rule.activations, rule.weights) == ("given", "given")


def test_weights_for_few_pixels_are_not_reordered() -> None:
    rule = first_rule(problem_of("mb1ic96ih5oc248kh3sh2ph1", "FWD_D", "f32", "NXC"))
    assert (rule.activations, rule.weights) == ("given", "given")


@pytest.mark.parametrize(
    ("direction", "dtype", "formulation"),
    [
        ("BWD_W", "f32", "as_convolution"),
        ("BWD_WB", "f32", "direct"),
        ("BWD_W", "bf16", "direct"),
        ("BWD_WB", "bf16", "as_convolution"),
    ],
)
def test_transposed_weights_with_and_without_bias(
    direction: str, dtype: str, formulation: str
) -> None:
    text = "mb4ic96ih28oc48oh56kh2sh2"
    problem = problem_of(text, direction, dtype, "NXC", transposed=True)
    assert first_rule(problem).formulation == formulation


@pytest.mark.parametrize(
    ("text", "direction", "dtype", "data_format", "expected"),
    [
        ("mb8ic48ih7oc1oh14kh4sh2ph1", "FWD_D", "f32", "NCX", ("any", "x64:gemm:jit")),
        ("mb1ic64ih21oc192oh42kh2sh2", "FWD_D", "f32", "NCX", ("any", "jit:avx512_core")),
        ("mb16ic25ih17oc16oh34kh2sh2", "FWD_D", "f32", "NCX", ("nxc", "jit:avx512_core")),
        ("mb4ic128ih7oc24oh14kh2sh2", "FWD_D", "f32", "NXC", ("given", "jit:avx512_core")),
        ("mb8ic188iw14oc24ow28kw2sw2", "BWD_D", "f32", "NXC", ("given", "brgconv:any")),
        ("mb2ic160iw1654oc4ow3308kw2sw2", "BWD_W", "f32", "NCX", ("any", "x64:gemm:jit")),
        ("mb6ic359ih5oc3oh10kh2sh2", "BWD_W", "bf16", "NCX", ("any", "x64:gemm:jit")),
        ("mb4ic48ih4oc128oh8kh2sh2", "BWD_WB", "bf16", "NXC", ("any", "brgconv_bwd_w")),
    ],
)
def test_transposed_as_convolution(
    text: str, direction: str, dtype: str, data_format: str, expected: tuple[str, str]
) -> None:
    rule = first_rule(problem_of(text, direction, dtype, data_format, transposed=True))
    activations, name = expected
    assert (rule.formulation, rule.activations) == ("as_convolution", activations)
    assert rule.family.search(name)


@pytest.mark.parametrize(
    "text", ["mb1ic4ih105oc1kh11ph5", "mb6ic4id14oc12kd3pd1", "mb4ic8iw2108oc10kw7pw384dw127"]
)
def test_bfloat16_weights_by_the_first_implementation(text: str) -> None:
    """It takes a sixth to a half of the time of what float32 needs rules for."""
    shape = Shape(problem_of(text, "BWD_W", "bf16", "NCX"), "bf16", cpu_isa=AMX)
    assert not list(rules_behind(shape))


def test_bfloat16_upsampling_by_patches() -> None:
    problem = problem_of("mb1ic124iw1699oc40ow3398kw2sw2", "FWD_D", "bf16", "NCX", transposed=True)
    rule = first_rule(problem)
    assert (rule.formulation, rule.activations) == ("direct", "any")
    assert rule.family.search("jit_deconvolution:avx512_core_amx")


@pytest.mark.parametrize(
    ("text", "dtype", "threads"),
    [
        ("g16mb16ic16ih26oc16oh13kh5sh2ph2", "f32", 1),
        ("g16mb16ic16ih56oc16kh5ph2", "f32", 0),
        ("g24mb32ic24ih8oc24kh5ph2", "bf16", 1),
        ("g112mb1ic112ih16oc112kh5ph2", "bf16", 0),
    ],
)
def test_short_steps_on_one_thread(text: str, dtype: str, threads: int) -> None:
    choices = [one.choice for one in preferences(problem_of(text, "BWD_W", dtype, "NXC"), 2, AMX)]
    of_forward = [choice for choice in choices if choice.formulation == "dst_as_weights"]
    assert of_forward[0].threads == threads


@pytest.mark.parametrize(
    ("text", "direction", "served"),
    [
        ("g16mb4ic16ih16oc16oh8kh1sh2ph0", "BWD_W", True),
        ("g16mb4ic16ih14oc16oh7kh1sh2ph0", "BWD_W", False),
        ("g16mb4ic16ih24oc16oh12kh3sh2ph1", "BWD_WB", True),
        ("g16mb4ic16ih22oc16oh11kh3sh2ph1", "BWD_WB", False),
        ("g5mb2ic5ih26oc5oh26kh3ph2dh1", "BWD_W", True),
        ("g4mb2ic4ih26oc4oh26kh3ph2dh1", "BWD_W", False),
    ],
)
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_depthwise_weights_of_few_channels_on_avx2(
    text: str, direction: str, served: bool, data_format: str
) -> None:
    """From 2,000 flops an image on, or 40,000 with a bias gradient, steps of an image serve."""
    problem = problem_of(text, direction, "f32", data_format)
    for cpu_isa in (AVX2, AMX):
        shape = Shape(problem, "f32", cpu_isa=cpu_isa)
        assert shape.large_depthwise == (served and cpu_isa == AVX2)
        formulations = {rule.formulation for rule in rules_of(shape)}
        assert ("dst_as_weights" in formulations) == shape.large_depthwise


@pytest.mark.parametrize("text", ["g21mb4ic21ih5oc21oh3kh1sh2ph0", "g5mb4ic5ih7oc5oh1kh7ph0"])
def test_large_depthwise_whatever_its_flops(text: str) -> None:
    problem = problem_of(text, "BWD_WB", "f32", "NCX")
    assert all(Shape(problem, "f32", cpu_isa=isa).large_depthwise for isa in (AVX2, AMX))


def test_bfloat16_through_float32() -> None:
    """Depthwise weights gradients of few channels, where float32 has the faster kernels."""
    problem = problem_of("g4mb4ic4ih56oc4kh7ph3", "BWD_W", "bf16", "NCX")
    dtypes = [preference.choice.compute_dtype for preference in preferences(problem, 2, AMX)]
    names = [
        rule.family.search("jit:avx512_core")
        for rule in rules_of(Shape(problem, "bf16", cpu_isa=AMX))
    ]
    assert any(names)
    assert dtypes[1] == "f32"


def test_depthwise_weights_do_not_rely_on_avx2() -> None:
    """v3.2 must not run jit:avx2 on an incomplete block of channels."""
    problem = problem_of("g32mb4ic32ih22oc32kh7ph3", "BWD_W", "f32", "NCX")
    rules = [
        rule
        for rule in rules_of(Shape(problem, "f32", cpu_isa=AMX))
        if rule.family.search("jit:avx2")
    ]
    assert rules[0].activations == "nxc"
    assert rules[0].family.search("jit:avx512_core")


@pytest.mark.parametrize(
    ("text", "direction", "dtype", "data_format", "name"),
    [
        ("mb2ic256ih14oc64kh1", "BWD_D", "f32", "NXC", "brg:avx512_core"),
        ("mb8ic64ih28oc256kh1", "BWD_D", "f32", "NCX", "gemm:jit:f32"),
        ("mb8ic64ih28oc256kh1", "FWD_D", "f32", "NCX", "gemm:jit:f32"),
        ("mb8ic64ih56oc256kh1", "BWD_W", "f32", "NCX", "brg:avx512_core"),
        ("mb8ic256ih56oc64kh1", "BWD_WB", "f32", "NCX", "brg:avx512_core"),
        ("mb4ic512ih7oc2048kh1", "BWD_W", "f32", "NXC", "gemm:jit:f32"),
        ("mb32ic512ih7oc2048kh1", "BWD_W", "bf16", "NXC", "gemm:jit:bf16"),
        ("mb1ic48ih8oc360kh1", "BWD_W", "bf16", "NXC", "brg:avx512_core_amx"),
        ("mb16ic28ih7oc96kh1", "BWD_D", "f32", "NCX", "gemm:jit:f32"),
        ("mb16ic96ih16oc112kh1", "FWD_D", "bf16", "NCX", "brg:avx512_core_amx"),
        ("mb2ic128ih56oc64kh1", "FWD_D", "bf16", "NCX", "gemm:jit:bf16"),
        ("mb2ic4id35oc16kd1", "FWD_D", "bf16", "NCX", "brg:avx512_core_amx"),
        ("mb8ic12ih5oc800kh1", "BWD_D", "bf16", "NCX", "brg:avx512_core_bf16"),
        ("mb16ic176ih7oc312kh1", "BWD_D", "bf16", "NXC", "brg:avx512_core_amx"),
        ("mb8ic11ih6iw10oc4oh6ow10kh1kw1", "BWD_D", "f32", "NCX", "brg:avx512_core"),
        ("mb1ic4id14oc96kd1", "BWD_W", "bf16", "NCX", "gemm:jit:bf16"),
        ("mb1ic2id24oc8kd1", "BWD_W", "f32", "NCX", "brg:avx512_core"),
    ],
)
def test_products(text: str, direction: str, dtype: str, data_format: str, name: str) -> None:
    rule = first_rule(problem_of(text, direction, dtype, data_format))
    assert (rule.formulation, rule.activations) == ("matmul", "given")
    assert rule.family.search(name)


@pytest.mark.parametrize(
    ("text", "is_gemm"), [("mb8ic256ih13oc64kh1", True), ("mb8ic35ih59oc192kh1", False)]
)
def test_products_with_a_bias(text: str, is_gemm: bool) -> None:
    """Channels first, oneDNN's matmul has no bias of the rows."""
    shape = Shape(problem_of(text, "FWD_B", "f32", "NCX"), "f32", cpu_isa=AMX)
    direct = [rule for rule in rules_of(shape) if rule.formulation == "direct"]
    found = bool(direct) and direct[0].family.search("x64:gemm:jit") is not None
    assert found == is_gemm


@pytest.mark.parametrize(
    ("text", "direction", "dtype", "data_format"),
    [
        ("mb16ic256ih56oc64kh1", "BWD_D", "f32", "NXC"),
        ("mb8ic64ih4oc256kh1", "BWD_D", "f32", "NCX"),
        ("mb8ic64ih28oc256kh1", "BWD_D", "bf16", "NCX"),
        ("mb2ic256ih28oc64kh1", "BWD_D", "bf16", "NXC"),
        ("mb16ic64ih56oc256kh1", "BWD_W", "f32", "NXC"),
        ("mb16ic64ih56oc256kh1", "BWD_W", "bf16", "NXC"),
        ("mb2ic256ih14oc64kh1sh2", "BWD_D", "f32", "NXC"),
        ("g2mb2ic256ih14oc64kh1", "BWD_D", "f32", "NXC"),
        ("mb2ic256ih14oc64kh3", "BWD_D", "f32", "NXC"),
    ],
)
def test_what_convolutions_compute_faster(
    text: str, direction: str, dtype: str, data_format: str
) -> None:
    problem = problem_of(text, direction, dtype, data_format)
    assert all(
        rule.formulation != "matmul" for rule in rules_behind(Shape(problem, dtype, cpu_isa=AMX))
    )


@pytest.mark.parametrize(
    "rule",
    [
        *(*IM2COL, *SMALL, *PRODUCTS, *TRANSPOSED, *GROUPED, *GROUPED_REST),
        *(*DATA, *STRIDED_DATA, *WEIGHTS, *FORWARD),
        *(*BF16_WITHOUT_AMX, *F32_WITHOUT_AMX, *BF16_TRANSPOSED, *F32_TRANSPOSED, *ONE_CHANNEL),
    ],
)
def test_every_rule_names_its_measurement(rule: Rule) -> None:
    assert any(character.isdigit() for character in rule.measured)


def test_rules_apply_in_their_own_direction() -> None:
    for direction, own in (("BWD_D", DATA), ("BWD_W", WEIGHTS), ("FWD_D", FORWARD)):
        others = {id(rule) for table in (DATA, WEIGHTS, FORWARD) for rule in table} - {
            id(rule) for rule in own
        }
        for text in ("mb2ic3ih56oc64kh7sh2ph3", "mb2ic64ih56oc64kh1", "g32mb2ic32ih56oc32kh3ph1"):
            for data_format in ("NCX", "NXC"):
                problem = problem_of(text, direction, "f32", data_format)
                applied = {id(rule) for rule in rules_of(Shape(problem, "f32", cpu_isa=AMX))}
                assert not applied & others


@pytest.mark.parametrize(
    ("text", "direction", "dtype", "data_format", "is_so"),
    [
        ("mb16ic512ih8oc1024oh4kh4sh2ph1", "BWD_W", "f32", "NCX", True),
        ("mb4ic512ih8oc1024oh4kh4sh2ph1", "BWD_WB", "f32", "NCX", True),
        ("mb4ic512ih14oc512kh3ph1", "BWD_W", "f32", "NCX", False),
        ("mb16ic512ih7oc512kh3ph1", "BWD_W", "f32", "NXC", False),
        ("mb4ic512ih7oc512kh3ph1", "BWD_W", "f32", "NXC", True),
        ("mb16ic512ih7oc512kh3ph1", "BWD_W", "bf16", "NXC", True),
        ("mb16ic512ih7oc512kh3ph1", "BWD_W", "bf16", "NCX", True),
        ("mb16ic512ih7oc512kh3ph1", "BWD_W", "f16", "NCX", False),
        ("mb16ic512ih8oc1024oh4kh4sh2ph1", "BWD_D", "f32", "NCX", False),
        ("mb4ic16ih8oc128kh3ph1", "BWD_W", "f32", "NXC", False),
        ("mb2ic1024ih4oc1024kh3ph1", "FWD_B", "f32", "NCX", True),
        ("mb16ic512ih8oc1024oh4kh4sh2ph1", "FWD_D", "f32", "NCX", False),
        ("mb16ic512ih8oc1024oh4kh4sh2ph1", "FWD_D", "f32", "NXC", True),
        ("mb1ic512ih7oc512kh3ph1", "FWD_D", "bf16", "NCX", True),
        ("mb4ic512ih7oc512kh3ph1", "FWD_D", "bf16", "NXC", True),
        ("mb4ic64ih56oc64kh3ph1", "FWD_D", "bf16", "NXC", False),
    ],
)
def test_deep_layers_of_few_pixels(
    text: str, direction: str, dtype: str, data_format: str, is_so: bool
) -> None:
    problem = problem_of(text, direction, dtype, data_format)
    found = next(iter(preferences(problem, 2, AMX))).choice
    assert (found.formulation == "im2col") == is_so


@pytest.mark.parametrize("text", ["mb8ic512ih7oc512kh3ph1", "mb8ic64ih56oc64kh3ph1"])
def test_layout_any_where_planes_are_small(text: str) -> None:
    first = next(iter(preferences(problem_of(text, "BWD_D", "f32", "NCX"), 2, AMX))).choice
    assert (first.activations, first.formulation) == ("any", "direct")
