"""Heuristics: what instruction sets change in the choice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onednn_py.backends.onednn.binding.library import isa_name
from onednn_py.backends.onednn.selection.heuristics import preferences
from onednn_py.backends.onednn.selection.rules import ANY_NAME, JIT, Rule, Shape, rules_of
from onednn_py.backends.onednn.selection.rules.rule import always
from onednn_py.backends.onednn.selection.rules.transposed_without_amx import (
    BF16_TRANSPOSED,
    F32_TRANSPOSED,
)
from onednn_py.backends.onednn.selection.rules.without_amx_bf16 import BF16_WITHOUT_AMX
from onednn_py.backends.onednn.selection.rules.without_amx_f32 import F32_WITHOUT_AMX
from onednn_py.problem.problem import Problem
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchdnn.descriptor import parse_descriptor
from tests.support.rules import problem_of

AMX = "avx512_core_amx"


def first_rule(problem: Problem, cpu_isa: str, table: tuple[Rule, ...] = ()) -> Rule:
    """Return the first rule for a problem, of a table if one is given.

    Rules of half the registers' width are asked before those without AMX.
    """
    shape = Shape(problem, problem.dtype, available=2, cpu_isa=cpu_isa, halves_avx512=True)
    return next(rule for rule in rules_of(shape) if not table or rule in table)


@pytest.mark.parametrize(
    ("text", "direction", "dtype", "data_format", "name"),
    [
        ("mb16ic512ih8oc1024oh4kh4sh2ph1", "BWD_W", "f32", "NCX", "gemm:jit:f32"),
        ("mb2ic1024ih4oc1024kh3ph1", "FWD_D", "f32", "NCX", "brg:avx512_core"),
        ("mb4ic512ih4oc1024kh3ph1", "FWD_D", "f32", "NXC", "brg:avx512_core"),
        ("mb16ic512ih8oc1024oh4kh4sh2ph1", "FWD_D", "f32", "NXC", None),
        ("mb1ic512ih3oc512kh3ph1", "FWD_D", "bf16", "NCX", "brg:avx512_core_bf16"),
        ("mb1ic512ih7oc512kh3ph1", "FWD_D", "bf16", "NXC", "brg:avx512_core_bf16"),
        ("mb4ic512ih7oc512kh3ph1", "FWD_D", "bf16", "NXC", None),
        ("mb2ic512ih7oc512kh3ph1", "BWD_W", "bf16", "NCX", "brg:avx512_core_bf16"),
        ("mb4ic512ih7oc512kh3ph1", "BWD_W", "bf16", "NXC", "brg:avx512_core_bf16"),
        ("mb16ic512ih7oc512kh3ph1", "BWD_W", "bf16", "NXC", None),
    ],
)
def test_deep_layers_without_amx(
    text: str, direction: str, dtype: str, data_format: str, name: str | None
) -> None:
    problem = problem_of(text, direction, dtype, data_format)
    ruled = preferences(problem, 2, "avx512_core_bf16", halves_avx512=True)
    # Rules whose implementations only AMX has are passed over.
    found = next(one for one in ruled if "amx" not in one.family.pattern)
    assert (found.choice.formulation == "im2col") == (name is not None)
    assert name is None or found.family.search(name)


@pytest.mark.parametrize(
    ("text", "direction", "data_format", "expected"),
    [
        ("mb4ic1ih105oc40kh7ph3", "BWD_D", "NXC", ("any", "direct", "x64:gemm:jit")),
        ("mb4ic64ih28oc32kh3ph1", "BWD_D", "NXC", ("given", "direct", "jit_bf16:avx512_core_bf16")),
        ("mb8ic4ih56oc4kh9ph4", "BWD_D", "NCX", ("nxc", "direct", "jit_bf16:avx512_core_bf16")),
        ("mb8ic2ih48oc2kh11ph5", "BWD_W", "NCX", ("nxc", "direct", "jit_bf16:avx512_core_bf16")),
        ("mb8ic64ih28oc64kh3ph1", "FWD_D", "NXC", ("given", "direct", "jit_bf16:avx512_core_bf16")),
        ("mb1ic80ih22oc32kh1", "BWD_D", "NXC", ("given", "matmul", "brg:avx512_core_bf16")),
        ("g16mb8ic64ih99oc16kh4ph1", "BWD_D", "NXC", ("given", "direct", "jit_bf16:any")),
        ("g8mb6ic32ih30oc16kh5sh2", "FWD_B", "NXC", ("given", "direct", "jit_bf16:any")),
        ("g4mb4ic32ih40oc64kh1", "BWD_WB", "NCX", ("any", "direct", "x64:gemm:jit")),
        ("mb8ic512ih7oc2048kh1", "BWD_D", "NCX", ("any", "direct", "jit_bf16_1x1:any")),
        ("mb8ic512ih7oc2048kh1", "FWD_B", "NCX", ("any", "direct", "jit_bf16_1x1:any")),
    ],
)
def test_bfloat16_without_amx(
    text: str, direction: str, data_format: str, expected: tuple[str, str, str]
) -> None:
    problem = problem_of(text, direction, "bf16", data_format)
    rule = first_rule(problem, "avx512_core_bf16", BF16_WITHOUT_AMX)
    assert (rule.activations, rule.formulation) == expected[:2]
    assert rule.family.search(expected[2])
    with_tiles = Shape(problem, "bf16", cpu_isa=AMX)
    assert not set(map(id, BF16_WITHOUT_AMX)) & set(map(id, rules_of(with_tiles)))


@pytest.mark.parametrize("cpu_isa", [AMX, "avx512_core"])
@pytest.mark.parametrize(("direction", "data_format"), [("BWD_W", "NCX"), ("FWD_D", "NXC")])
def test_products_with_patches_are_for_strict_float32(
    direction: str, data_format: str, cpu_isa: str
) -> None:
    """Where products may be rounded to bfloat16, a convolution on AMX rounds them."""
    strict = problem_of("mb2ic512ih4oc1024kh3ph1", direction, "f32", data_format)
    for problem, expected in ((strict, True), (replace(strict, fpmath_mode="bf16"), False)):
        choices = [
            one.choice.formulation for one in preferences(problem, 2, cpu_isa, halves_avx512=True)
        ]
        assert ("im2col" in choices) == expected


@pytest.mark.parametrize(
    ("text", "direction", "data_format", "expected"),
    [
        ("mb2ic2ih64oc1kh7ph3", "BWD_D", "NCX", ("nxc", "direct", "jit:avx2")),
        ("mb2ic4ih64oc3kh5ph2", "BWD_D", "NXC", ("given", "direct", "jit:avx2")),
        ("mb8ic3ih70oc16kh5sh2ph2", "BWD_D", "NXC", ("any", "direct", "x64:gemm:jit")),
        ("mb2ic64ih14oc128kh3ph1", "BWD_D", "NXC", ("given", "direct", "jit:avx512_core")),
        ("mb8ic48id14oc48kd3sd2pd1", "BWD_W", "NXC", ("given", "direct", "jit:avx512_core")),
        ("mb2ic64iw1163oc4kw3sw4dw2", "FWD_B", "NXC", ("given", "direct", "brgconv:avx2")),
        ("mb2ic64ih256oc4kh1", "BWD_WB", "NCX", ("any", "direct", "x64:gemm:jit")),
    ],
)
def test_float32_without_amx(
    text: str, direction: str, data_format: str, expected: tuple[str, str, str]
) -> None:
    problem = problem_of(text, direction, "f32", data_format)
    rule = first_rule(problem, "avx512_core_bf16", F32_WITHOUT_AMX)
    assert (rule.activations, rule.formulation) == expected[:2]
    assert rule.family.search(expected[2])
    assert first_rule(problem, AMX) not in F32_WITHOUT_AMX


def test_bias_gradients_of_transposed_convolutions_without_amx() -> None:
    """The deconvolution sums them with plain loops."""
    descriptor = parse_descriptor("mb2ic64ih64oc32oh128kh2sh2ph0", transposed=True)
    for direction in ("BWD_WB", "BWD_W"):
        rule = first_rule(Case(descriptor, direction, "bf16", "NCX").problem(), "avx512_core_bf16")
        assert rule.formulation == "as_convolution"
        assert rule.family.search("x64:gemm:jit")


@pytest.mark.parametrize(
    ("text", "direction", "dtype", "data_format", "expected"),
    [
        # To few channels, with a bias and without.
        ("ic256ih16oc3oh32kh4sh2ph1", "FWD_B", "bf16", "NCX", ("given", "direct", "gemm")),
        ("ic64ih16oc3oh31kh3sh2ph1", "FWD_B", "bf16", "NXC", ("ncx", "direct", "gemm")),
        ("ic64ih16oc3oh32kh4sh2ph1", "FWD_D", "bf16", "NCX", ("any", "as_convolution", "gemm")),
        ("ic64ih16oc3oh32kh4sh2ph1", "FWD_D", "bf16", "NXC", ("any", "as_convolution", "gemm")),
        ("ic64ih16oc3oh32kh4sh2ph1", "FWD_B", "f32", "NXC", ("any", "as_convolution", "gemm")),
        ("ic64ih16oc3oh32kh4sh2ph1", "BWD_D", "f32", "NXC", ("given", "as_convolution", "jit:")),
        ("ic24ih28oc4oh55kh3sh2ph1", "BWD_W", "f32", "NCX", ("nxc", "as_convolution", "jit:")),
        ("ic3ih17oc16oh34kh2sh2", "BWD_W", "bf16", "NXC", ("given", "as_convolution", "jit_bf16:")),
        # Backward data, by blocks of channels.
        ("ic256ih8oc64oh16kh4sh2ph1", "BWD_D", "f32", "NCX", ("any", "direct", "jit:")),
        ("ic128ih6oc128oh12kh2sh2", "BWD_D", "f32", "NCX", ("any", "direct", "jit:")),
        # Without strides.
        ("ic12ih16oc8kh3ph1", "FWD_D", "bf16", "NCX", ("nxc", "as_convolution", "jit_bf16:")),
        ("ic24id5oc100kd7pd3", "FWD_B", "f32", "NCX", ("nxc", "as_convolution", "jit:")),
        ("ic32ih18oc6kh1", "FWD_D", "f32", "NCX", ("any", "as_convolution", "gemm")),
        # A bias and few pixels, or many channels.
        ("ic512ih4oc64oh7kh3sh2ph1", "FWD_B", "bf16", "NCX", ("given", "direct", "gemm")),
        ("ic512ih4oc64oh7kh3sh2ph1", "FWD_B", "bf16", "NXC", ("ncx", "direct", "gemm")),
        ("ic128ih28oc64oh56kh4sh2ph1", "FWD_B", "f32", "NXC", ("given", "as_convolution", "jit:")),
    ],
)
def test_transposed_convolutions_without_amx(
    text: str, direction: str, dtype: str, data_format: str, expected: tuple[str, str, str]
) -> None:
    descriptor = parse_descriptor(f"mb2{text}", transposed=True)
    problem = Case(descriptor, direction, dtype, data_format).problem()
    rule = first_rule(problem, "avx512_core_bf16", (*BF16_TRANSPOSED, *F32_TRANSPOSED))
    assert (rule.activations, rule.formulation) == expected[:2]
    assert rule.family.search(expected[2])
    with_tiles = rules_of(Shape(problem, dtype, available=2, cpu_isa=AMX))
    assert not {id(one) for one in (*BF16_TRANSPOSED, *F32_TRANSPOSED)} & set(map(id, with_tiles))


@pytest.mark.parametrize(
    ("text", "direction", "cpu_isa", "is_convolution"),
    [
        ("ic32iw1024oc32ow2048kw4sw2pw1", "FWD_D", "avx2", True),
        ("ic32iw511oc32ow1022kw4sw2pw1", "FWD_D", "avx2", False),  # shorter
        ("ic32iw1024oc32ow2048kw4sw2pw1", "FWD_B", "avx2", False),
        ("ic32iw1024oc32ow2048kw4sw2pw1", "BWD_D", "avx2", False),
        ("ic32iw1024oc32ow2048kw4sw2pw1", "FWD_D", "avx512_core", False),
    ],
)
def test_long_rows_of_transposed_convolutions(
    text: str, direction: str, cpu_isa: str, is_convolution: bool
) -> None:
    """Planned as convolutions before a rule's own choice, which is the next."""
    problem = Case(parse_descriptor(text, transposed=True), direction, "f32", "NXC").problem()
    direct = Rule(always, "given", ANY_NAME, "for this test alone")
    found = list(preferences(problem, 2, cpu_isa, rules=lambda shape: [direct]))
    first = [one.choice.formulation for one in found if one.choice.activations == "given"]
    assert first == (["as_convolution", "direct"] if is_convolution else ["direct"])


@pytest.mark.parametrize(("data_format", "activations"), [("NCX", "any"), ("NXC", "nxc")])
def test_biases_of_strided_transposed_convolutions_without_amx(
    data_format: str, activations: str
) -> None:
    """Where `brgconv_strided` may not run."""
    descriptor = parse_descriptor("mb2ic96ih8oc32oh16kh4sh2ph1", transposed=True)
    problem = Case(descriptor, "FWD_B", "bf16", data_format).problem()
    rule = first_rule(problem, "avx512_core_bf16")
    assert (rule.formulation, rule.activations) == ("flipped", activations)
    for direction, channels in (("FWD_D", 96), ("FWD_B", 64)):
        descriptor = parse_descriptor(f"mb2ic{channels}ih8oc32oh16kh4sh2ph1", transposed=True)
        other = Case(descriptor, direction, "bf16", data_format).problem()
        assert first_rule(other, "avx512_core_bf16") is not rule


def test_rules_of_avx512_are_for_no_other() -> None:
    problem = problem_of("mb2ic2ih64oc1kh7ph3", "BWD_D", "f32", "NCX")
    for cpu_isa in (AMX, "avx2", isa_name(0x22FFF), ""):
        assert first_rule(problem, cpu_isa) not in F32_WITHOUT_AMX
    assert first_rule(problem, isa_name(0x201FF)) in F32_WITHOUT_AMX


@pytest.mark.parametrize(
    ("text", "cpu_isa", "dtype"),
    [
        ("mb4ic64ih28oc64kh3ph1", "avx512_core", "f32"),
        ("mb4ic64ih28oc64kh3ph1", "avx512_core_vnni", "f32"),
        ("mb4ic64ih28oc64kh3ph1", "avx512_core_bf16", "bf16"),
        ("mb4ic64ih28oc64kh3ph1", AMX, "bf16"),
        ("g64mb4ic64ih28oc64kh3ph1", "avx512_core", "bf16"),
        ("mb4ic16ih28oc16kh1", "avx512_core", "bf16"),
    ],
)
def test_bfloat16_without_its_instructions(text: str, cpu_isa: str, dtype: str) -> None:
    """Where a problem is mostly arithmetic, conversions to float32 take less than emulation."""
    for direction in ("FWD_D", "BWD_D", "BWD_W"):
        problem = problem_of(text, direction, "bf16", "NXC")
        assert (
            next(iter(preferences(problem, 2, cpu_isa, halves_avx512=True))).choice.compute_dtype
            == dtype
        )


def threads_of(
    rule: Rule,
    text: str = "mb16ic2ih18oc2kh3ph1 FWD_D f32 NXC",
    *,
    cpu_isa: str = "avx512_core_bf16",
    halves_avx512: bool = True,
    available: int = 2,
) -> int:
    """Return the number of threads that a problem of two threads' work gets by a rule."""
    ruled = preferences(
        problem_of(*text.split()),
        available,
        cpu_isa,
        halves_avx512=halves_avx512,
        rules=lambda _: [rule],
    )
    return next(ruled).choice.threads


class TestThreadsOfSmallProblems:
    """With AVX2 alone or units of half width, the work decides; elsewhere they get one thread."""

    IN_PLACE = Rule(lambda _: True, "given", JIT, "")

    def test_by_width_and_by_threads_of_the_call(self) -> None:
        assert threads_of(self.IN_PLACE) == 0
        assert threads_of(self.IN_PLACE, halves_avx512=False) == 1
        assert threads_of(self.IN_PLACE, cpu_isa="avx2", halves_avx512=False) == 0
        assert threads_of(self.IN_PLACE, cpu_isa=AMX) == 1
        for available in (0, 1, 8):  # more than two were not measured
            assert threads_of(self.IN_PLACE, available=available) == 1

    def test_a_rule_may_name_the_number(self) -> None:
        assert threads_of(replace(self.IN_PLACE, threads=1)) == 1

    @pytest.mark.parametrize(
        ("dtype", "compute_dtype", "threads"), [("bf16", "", 0), ("bf16", "f32", 1)]
    )
    def test_conversions_are_not_counted(
        self, dtype: str, compute_dtype: str, threads: int
    ) -> None:
        rule = replace(self.IN_PLACE, compute_dtype=compute_dtype)
        assert threads_of(rule, f"mb16ic2ih18oc2kh3ph1 FWD_D {dtype} NXC") == threads

    @pytest.mark.parametrize(
        ("formulation", "text", "threads"),
        [
            ("as_convolution", "mb16ic2ih18oc2kh3ph1 BWD_D f32 NXC", 0),
            ("flipped", "mb16ic2ih18oc2kh3ph1 BWD_D f32 NXC", 0),
            ("flipped", "mb16ic2ih18oc2oh9kh3sh2ph1 BWD_D f32 NXC", 1),
            ("matmul", "mb4ic1ih33oc8kh1 BWD_W f32 NXC", 0),
            ("matmul", "mb4ic1ih33oc8kh1 BWD_D f32 NCX", 0),
            ("matmul", "mb4ic1ih33oc8kh1 BWD_W f32 NCX", 1),
            ("dst_as_weights", "mb16ic2ih18oc2kh3ph1 BWD_W f32 NXC", 1),
        ],
    )
    def test_several_executions(self, formulation: str, text: str, threads: int) -> None:
        """One for each phase of the strides, or for each image, is too short for two threads."""
        assert threads_of(replace(self.IN_PLACE, formulation=formulation), text) == threads

    @pytest.mark.parametrize(
        ("text", "formulation", "threads", "gemm_threads"),
        [
            ("mb1ic2ih8oc3kh3ph1", "direct", 1, 1),
            ("mb3ic8ih12oc8kh3ph1", "direct", 1, 0),
            ("mb3ic8ih12oc8kh3ph1", "as_convolution", 1, 0),
            ("mb1ic24ih12oc24kh1", "matmul", 1, None),
            ("mb16ic2ih18oc2kh3ph1", "direct", 0, 0),
            ("mb4ic64ih56oc64kh3ph1", "direct", 0, None),
        ],
    )
    def test_gemm_with_avx2_alone(
        self, text: str, formulation: str, threads: int, gemm_threads: int | None
    ) -> None:
        rule = replace(self.IN_PLACE, formulation=formulation)
        problem = problem_of(text, "FWD_D", "f32", "NXC")
        for cpu_isa, expected in (("avx2", gemm_threads), ("avx512_core", None)):
            found = next(
                preferences(problem, 2, cpu_isa, halves_avx512=True, rules=lambda _: [rule])
            )
            assert (found.choice.threads, found.gemm_threads) == (threads, expected)
