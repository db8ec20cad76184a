"""Weights gradients of one input channel, on CPUs with AVX-512 but not AMX."""

from __future__ import annotations

import pytest

import onednn_py
from onednn_py.backends.onednn.selection.rules import Rule, Shape, rules_of
from onednn_py.backends.onednn.selection.rules.one_channel import ONE_CHANNEL
from onednn_py.problem.problem import Problem
from onednn_py.testing import assert_matches, cases
from tests.support.requirements import needs_onednn
from tests.support.rules import problem_of

AMX, WITHOUT_AMX = "avx512_core_amx", "avx512_core_bf16"


def applied(problem: Problem, cpu_isa: str = WITHOUT_AMX) -> list[Rule]:
    own = set(map(id, ONE_CHANNEL))
    shape = Shape(problem, problem.dtype, available=2, cpu_isa=cpu_isa, halves_avx512=True)
    return [rule for rule in rules_of(shape) if id(rule) in own]


@pytest.mark.parametrize(
    ("text", "dtype", "data_format", "expected"),
    [
        ("mb1ic1id64oc32kd3pd1", "f32", "NCX", ("any", "jit:avx512_core")),
        ("mb1ic1id64oc32kd3pd1", "f32", "NXC", ("given", "jit:avx512_core")),
        ("mb1ic1id64oc32kd3pd1", "bf16", "NCX", ("nxc", "jit_bf16:avx512_core_bf16")),
        ("mb1ic1id64oc32kd3pd1", "bf16", "NXC", ("given", "jit_bf16:avx512_core_bf16")),
        ("mb2ic1ih128oc48kh3ph1", "f32", "NCX", ("any", "jit:avx512_core")),
        ("mb1ic1ih224oc16kh1", "f32", "NCX", ("any", "x64:gemm:jit")),
        ("mb2ic1ih108oc32kh1", "bf16", "NCX", ("any", "x64:gemm:jit")),
    ],
)
def test_blocks_of_outputs_come_first(
    text: str, dtype: str, data_format: str, expected: tuple[str, str]
) -> None:
    problem = problem_of(text, "BWD_W", dtype, data_format)
    (rule,) = applied(problem)
    shape = Shape(problem, problem.dtype, available=2, cpu_isa=WITHOUT_AMX, halves_avx512=True)
    assert next(rules_of(shape)) is rule
    assert rule.activations == expected[0]
    assert rule.family.search(expected[1])
    assert not applied(problem, AMX)


@pytest.mark.parametrize(
    ("text", "dtype", "data_format"),
    [
        ("mb1ic2id64oc32kd3pd1", "f32", "NCX"),
        ("mb1ic1id64oc16kd3pd1", "f32", "NCX"),
        ("mb2ic1ih152oc40kh3ph1", "f32", "NCX"),
        ("mb1ic1id60oc64kd2", "f32", "NXC"),
        ("mb16ic1ih572oc64kh3ph1", "f32", "NCX"),
        ("mb1ic1ih224oc32kh3sh2ph1", "f32", "NCX"),
        ("mb1ic1ih28oc32kh3ph1", "f32", "NCX"),
        ("mb1ic1ih128oc48kh3ph1", "bf16", "NCX"),
        ("mb4ic1id53oc4kd1", "bf16", "NCX"),
        ("mb1ic1ih20oc24kh1", "f32", "NCX"),
        ("mb1ic1ih224oc24kh1", "f32", "NXC"),
    ],
)
def test_other_problems_are_left_to_other_rules(text: str, dtype: str, data_format: str) -> None:
    assert not applied(problem_of(text, "BWD_W", dtype, data_format))


def test_data_gradients_and_forward_passes_are_left_to_other_rules() -> None:
    for direction in ("BWD_D", "FWD_D"):
        assert not applied(problem_of("mb1ic1id64oc32kd3pd1", direction, "f32", "NCX"))


@needs_onednn
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("text", ["mb1ic1ih105oc24kh3ph1", "mb1ic1id23oc25kd3pd1", "ic1ih33oc7kh1"])
def test_gradients_are_exact(text: str, dtype: str, data_format: str) -> None:
    for case in cases(text, directions=["BWD_W", "BWD_WB"], dtypes=dtype, formats=data_format):
        assert_matches(onednn_py.convolution_backward_weights, case, against="float64")
