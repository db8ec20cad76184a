"""Deconvolutions that add or sum a bias with plain loops, and what is taken in their place."""

from __future__ import annotations

import re

import pytest

from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import build_plan
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.plain_loops import in_place_of_loops
from onednn_py.backends.onednn.selection.preference import Preference
from onednn_py.backends.onednn.selection.select import candidate_of
from onednn_py.problem.problem import Problem
from onednn_py.tools.benchdnn.case import Case as DescribedCase
from onednn_py.tools.benchdnn.descriptor import parse_descriptor
from tests.support.candidate_runs import FORMATS, CandidateRun
from tests.support.cases import Case, case
from tests.support.requirements import has_dtype, needs_onednn, skip_for_cpu

DEPTHWISE = case((9, 8), 3, 2, pads=1, minibatch=4, inputs=24, outputs=24, groups=24)
GROUPS = case((9, 8), 3, 1, pads=1, minibatch=4, inputs=24, outputs=16, groups=4)
ODD = case((7, 6), 5, 2, pads=2, minibatch=3, inputs=20, outputs=12)

USUAL = Preference(Choice("f32"))


def problem_of(text: str, direction: str, dtype: str, data_format: str = "NCX") -> Problem:
    descriptor = parse_descriptor(text, transposed=True)
    return DescribedCase(descriptor, direction, dtype, data_format).problem()


def with_loops(problem: Problem, dtype: str, name: str = "") -> Candidate:
    """Return the deconvolution of a problem that oneDNN makes of a convolution."""
    family = re.compile(f"^conv:any.*{name}")
    found = candidate_of(current_engine(), problem, Preference(Choice(dtype), family))
    if not has_dtype(dtype):
        skip_for_cpu(dtype)
    assert found is not None
    return found


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("geometry", [DEPTHWISE, GROUPS, ODD], ids=["depthwise", "groups", "odd"])
def test_results_of_what_is_chosen(geometry: Case, dtype: str, data_format: str) -> None:
    for function in ("conv_transpose", "conv_transpose_backward_weights"):
        run = CandidateRun(geometry.integers(dtype), function, data_format)
        assert run.problem.bias is not None or run.problem.has_bias_gradient
        run.check(build_plan(current_engine(), run.problem))


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
def test_a_bias_in_float32_is_added_behind_a_data_gradient(data_format: str) -> None:
    problem = problem_of("g24mb4ic24ih9oc24oh17kh3sh2ph1", "FWD_B", "f32", data_format)
    found = with_loops(problem, "f32")
    (other,) = in_place_of_loops(found, USUAL, "avx512_core")
    assert other.choice == Choice("f32", "as_convolution")
    plan = build_plan(current_engine(), problem)
    assert plan.choice.formulation == "as_convolution"


@needs_onednn
@pytest.mark.parametrize(("data_format", "first"), [("NCX", "any"), ("NXC", "given")])
def test_a_bias_in_bfloat16_is_added_by_forward_convolutions(data_format: str, first: str) -> None:
    problem = problem_of("mb2ic12ih9oc24oh17kh3sh2ph1", "FWD_B", "bf16", data_format)
    found = with_loops(problem, "bf16", "jit")
    *others, last = in_place_of_loops(found, USUAL, "avx512_core_bf16")
    assert (last.choice.formulation, last.choice.compute_dtype) == ("as_convolution", "f32")
    assert {one.choice.formulation for one in others} == {"flipped"}
    assert [one.choice.activations for one in others] == [first, first, "nxc", "nxc"]
    assert others[0].family.search("jit_bf16:avx512_core_bf16")
    assert not any(one.family.search("x64:gemm:jit") for one in others)
    with_tiles = list(in_place_of_loops(found, USUAL, "avx512_core_amx"))
    assert [one.choice.activations for one in with_tiles] == [first, "nxc"]
    assert all(one.family.search("brgconv:avx512_core_amx") for one in with_tiles)


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
def test_a_bias_in_bfloat16_of_strides_with_too_many_phases(data_format: str) -> None:
    """oneDNN's loops took up to sixteen times as long as data gradients in float32."""
    geometry = case((4, 3, 4), 3, 3, minibatch=2, inputs=8, outputs=12)
    run = CandidateRun(geometry.integers("bf16"), "conv_transpose", data_format)
    assert run.problem.bias is not None
    with_loops(run.problem, "bf16")
    plan = build_plan(current_engine(), run.problem)
    run.check(plan)
    if "amx" not in current_engine().library.cpu_isa:
        assert (plan.choice.formulation, plan.choice.compute_dtype) == ("as_convolution", "f32")


@needs_onednn
def test_bias_gradients_are_summed_apart_where_loops_take_longer() -> None:
    def others(text: str, dtype: str) -> list[str]:
        found = with_loops(problem_of(text, "BWD_WB", dtype), dtype, "(jit|brg)")
        return [one.choice.formulation for one in in_place_of_loops(found, USUAL, "avx512_core")]

    assert others("g64mb8ic64ih40oc64oh40kh3ph1", "f32") == ["as_convolution"]
    assert others("g64mb2ic64ih9oc64oh9kh3ph1", "f32") == []
    assert others("mb8ic64ih40oc64oh40kh3ph1", "f32") == []
    assert others("mb2ic32ih9oc32oh17kh3sh2ph1", "bf16") == ["as_convolution"]
    assert others("mb2ic32ih5oc4oh9kh3sh2ph1", "bf16") == []


@needs_onednn
def test_what_stays_a_deconvolution() -> None:
    def others(problem: Problem, choice: Choice, name: str = "") -> list[Preference]:
        family = re.compile(f"^conv:any.*{name}")
        found = candidate_of(current_engine(), problem, Preference(choice, family))
        if not has_dtype(choice.compute_dtype):
            skip_for_cpu(choice.compute_dtype)
        assert found is not None
        return list(in_place_of_loops(found, USUAL, "avx512_core_bf16"))

    text = "g24mb4ic24ih9oc24oh17kh3sh2ph1"
    for direction in ("FWD_D", "BWD_D", "BWD_W"):
        assert not others(problem_of(text, direction, "f32"), Choice("f32"))
    gemm = Choice("bf16", activations="given")
    lines = problem_of("mb2ic12ih9oc24oh17kh3sh2ph1", "FWD_B", "bf16")
    assert not others(lines, gemm, "gemm")


@needs_onednn
def test_a_choice_that_names_its_implementation_is_taken() -> None:
    """As wisdom does, which has measured it."""
    problem = problem_of("g24mb4ic24ih9oc24oh17kh3sh2ph1", "FWD_B", "f32")
    found = with_loops(problem, "f32")
    plan = build_plan(current_engine(), problem, found.choice)
    assert plan.choice == found.choice
