"""Candidates: each computes what the oracle does, and none has a known defect."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from onednn_py.backends.onednn.binding.engine import Engine
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection import descriptors, select
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.choice import LAYOUTS, Choice
from onednn_py.backends.onednn.selection.defects import DEFECTS, forbidden, is_reference
from onednn_py.backends.onednn.selection.formulations import FORMULATIONS, formulate
from onednn_py.backends.onednn.selection.padded_channels import is_worth_padding
from onednn_py.backends.onednn.selection.preference import Preference
from onednn_py.backends.onednn.selection.rules import GEMM, NOT_GEMM
from onednn_py.backends.onednn.selection.select import (
    candidate_of,
    candidates,
    with_equal_threads,
)
from onednn_py.backends.onednn.selection.thresholds import (
    EXECUTION_FLOPS,
    GEMM_EXECUTION_FLOPS,
    Work,
    may_run_on_one_thread,
)
from onednn_py.backends.onednn.selection.validity import invalid
from onednn_py.backends.onednn.selection.workspace import feasible, split_candidate
from onednn_py.problem.problem import Problem
from onednn_py.tools.benchdnn.case import Case as Benchdnn
from onednn_py.tools.benchdnn.descriptor import parse_descriptor
from tests.support.candidate_runs import (
    FORMATS,
    NETWORKS,
    CandidateRun,
    StridedCandidateRun,
    computes_products,
)
from tests.support.cases import CURATED, OPERATIONS, Case, case
from tests.support.requirements import needs_onednn

pytestmark = needs_onednn

GEOMETRIES = {**CURATED, **NETWORKS}

# In half precision the long sweeps have the others.
QUICK = (
    *("1d_strided", "2d_strided_dilated", "2d_groups_16", "2d_depthwise", "2d_channel_tail"),
    *("3d_strided_dilated", "1x1_stride_tail"),
)


def check_all(geometry: Case, operation: str, dtype: str) -> set[str]:
    """Check every candidate in both formats, and return the names of their formulations."""
    formulations = set()
    for data_format in FORMATS:
        run = CandidateRun(geometry.integers(dtype), operation, data_format)
        all_candidates = list(run.candidates())
        assert all_candidates
        for candidate in all_candidates:
            run.check(OneDNNPlan(current_engine(), candidate))
            formulations.add(candidate.choice.formulation)
        choices = [candidate.choice for candidate in all_candidates]
        assert len(choices) == len(set(choices))
        for choice in choices:
            assert choice.implementation
            assert not choice.reference
            assert invalid(run.problem, choice) is None
            assert Choice.from_dict(choice.as_dict()) == choice
    return formulations


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_candidate_is_right(name: str, operation: str) -> None:
    check_all(GEOMETRIES[name], operation, "f32")


@pytest.mark.parametrize("dtype", ["bf16", pytest.param("f16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in GEOMETRIES],
)
def test_every_candidate_is_right_in_half_precision(name: str, operation: str, dtype: str) -> None:
    check_all(GEOMETRIES[name], operation, dtype)


def test_every_formulation_has_candidates() -> None:
    formulations = set()
    for operation in (
        "convolution_backward_weights",
        "conv_transpose_backward_data",
        "convolution_backward_data",
    ):
        formulations |= check_all(NETWORKS["1x1_stride"], operation, "f32")
    for name in ("depthwise", "3x3_stride", "classes", "thin_groups", "3d", "3d_depthwise"):
        formulations |= check_all(NETWORKS[name], "convolution_backward_weights", "f32")
    unknown = set() if computes_products() else {"matmul", "im2col"}
    thin = CandidateRun(NETWORKS["classes"].integers("f32"), "convolution_backward_weights", "NCX")
    if not is_worth_padding(current_engine(), thin.problem):
        unknown.add("padded_channels")
    if "avx512" in current_engine().library.cpu_isa:
        unknown |= {"merged_groups", "unpadded_depth"}
    assert formulations == set(FORMULATIONS) - unknown


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_candidates_of_a_small_problem(dtype: str) -> None:
    """They differ in layouts, implementations, compute types and numbers of threads."""
    run = CandidateRun(CURATED["2d_blocked_channels"].integers(dtype), "convolution", "NCX")
    assert may_run_on_one_thread(run.problem)
    choices = [candidate.choice for candidate in run.candidates()]
    assert {(choice.activations, choice.weights) for choice in choices} <= set(LAYOUTS)
    assert len({choice.activations for choice in choices}) > 1
    assert len({choice.implementation for choice in choices}) > 2
    assert {choice.threads for choice in choices} == {0, 1}
    assert {choice.compute_dtype for choice in choices} <= {dtype, "f32"}
    assert "f32" in {choice.compute_dtype for choice in choices}


def strided_1x1(dtype: str, data_format: str, operation: str, inputs: int) -> CandidateRun:
    geometry = case((32, 32), 1, 2, minibatch=32, inputs=inputs, outputs=8)
    return CandidateRun(geometry.integers(dtype), operation, data_format)


@pytest.mark.parametrize("inputs", [1, 4, 8, 15, 24])
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("family", ["convolution", "conv_transpose"])
def test_a_known_defect_is_no_candidate(family: str, data_format: str, inputs: int) -> None:
    """Implementations that hang or crash (uxlfoundation/oneDNN#6035) must not even be measured."""
    run = strided_1x1("f32", data_format, f"{family}_backward_weights", inputs)
    for candidate in run.candidates():
        name = candidate.choice.implementation
        inner = candidate.formulation.problem.as_convolution()
        # Where the primitive sees every second element, it may take a copy without gaps.
        dense = replace(inner, src=inner.src.dense(), dst=inner.dst.dense())
        assert forbidden(name, dense, current_engine().library.version) is None
        assert not is_reference(name)
        # With stride 1 the implementation has no such defect.
        if candidate.choice.formulation != "strided_1x1":
            assert "1x1" not in name
        run.check(OneDNNPlan(current_engine(), candidate))


def test_nothing_forbidden_is_a_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    run = CandidateRun(CURATED["2d"].integers("f32"), "convolution_backward_data", "NXC")
    before = {candidate.choice.implementation for candidate in run.candidates()}
    banned = sorted(before)[0]

    def forbidden_or_banned(name: str, *arguments: Any) -> Any:
        return DEFECTS[0] if name == banned else forbidden(name, *arguments)

    monkeypatch.setattr(descriptors, "forbidden", forbidden_or_banned)
    assert {candidate.choice.implementation for candidate in run.candidates()} == before - {banned}


def gap_behind_rows(array: np.ndarray) -> np.ndarray:
    """Return a copy in channels last, with another row behind each image."""
    images, channels, rows, *axes = array.shape
    memory = np.full((images, rows + 1, *axes, channels), 77, array.dtype)
    view = np.moveaxis(memory, -1, 1)[:, :, :rows]
    view[...] = array
    return view


def gap_behind_channels(array: np.ndarray) -> np.ndarray:
    """Return a copy in channels first, with two more channels behind each image."""
    images, channels, *axes = array.shape
    memory = np.full((images, channels + 2, *axes), 77, array.dtype)
    memory[:, :channels] = array
    return memory[:, :channels]


@pytest.mark.parametrize("form", [gap_behind_rows, gap_behind_channels])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_tensors_with_gaps(operation: str, form: Any) -> None:
    for name in ("first_layer", "3x3_stride", "1x1", "depthwise", "upsampling", "upconv", "3d"):
        run = StridedCandidateRun(NETWORKS[name].integers("f32"), operation, "NCX", form)
        for candidate in run.candidates():
            if current_engine().library.version >= (3, 3, 0):
                assert candidate.choice.activations != "given"
            run.check(OneDNNPlan(current_engine(), candidate))


def test_implementations_that_overlook_gaps() -> None:
    tensors = CURATED["2d"].integers("f32")
    gaps = StridedCandidateRun(tensors, "convolution", "NCX", gap_behind_rows).problem
    dense = CandidateRun(tensors, "convolution", "NXC").problem
    name = "x64:gemm:jit"
    assert forbidden(name, gaps, (3, 7, 2)) is not None
    assert forbidden(name, gaps, (3, 2, 0)) is None
    assert forbidden(name, dense, (3, 7, 2)) is None


@pytest.mark.parametrize("operation", OPERATIONS)
def test_layouts_of_one_channel_are_not_mixed_up(operation: str) -> None:
    """Activations have the same memory layout in both formats, weights have not."""
    tensors = CURATED["one_image"].integers("f32")
    runs = [CandidateRun(tensors, operation, data_format) for data_format in FORMATS]
    # All candidates are decided before the first primitive is made.
    decided = [(run, candidate) for run in runs for candidate in run.candidates()]
    plans = [(run, OneDNNPlan(current_engine(), candidate)) for run, candidate in decided]
    for run, plan in plans:
        run.check(plan)


def test_the_choice_of_a_candidate_leads_back_to_it() -> None:
    tensors = CURATED["2d_1x1_strided"].integers("f32")
    run = CandidateRun(tensors, "conv_transpose_backward_data", "NCX")
    for candidate in run.candidates():
        again = candidate_of(current_engine(), run.problem, Preference(candidate.choice))
        assert again is not None
        assert again.choice == candidate.choice


@pytest.mark.parametrize(("transposed", "kernel", "size"), [(False, 3, 14), (True, 4, 8)])
def test_weights_in_bfloat16_are_computed_in_bfloat16(
    transposed: bool, kernel: int, size: int
) -> None:
    """oneDNN's sums in float32 for each thread do not put the workspace over the limit."""
    text = f"mb16ic256ih{size}oc256kh{kernel}ph1" + ("sh2" if transposed else "")
    descriptor = parse_descriptor(text, transposed=transposed)
    gradient = Benchdnn(descriptor, "BWD_W", "bf16", "NCX")
    problem = gradient.problem()
    is_native = any(has_implementation(problem, Choice("bf16", name)) for name in FORMULATIONS)
    assert ("through f32" in repr(gradient.plan("onednn"))) == (not is_native)
    if is_native:
        assert any(
            candidate.choice.compute_dtype == "bf16"
            for candidate in candidates(current_engine(), problem)
        )


class TestEqualThreads:
    """Candidates of both gradients that share a plan must have one number of threads."""

    SMALL, LARGE = "mb2ic8ih10oc8kh3ph1", "mb4ic32ih28oc32kh3ph1"

    def pair(self, text: str, dtype: str = "f32") -> list[Candidate]:
        found = []
        for direction, threads in (("BWD_D", 1), ("BWD_W", 0)):
            problem = Benchdnn(parse_descriptor(text), direction, dtype, "NCX").problem()
            wanted = Preference(Choice("f32", threads=threads))
            candidate = candidate_of(current_engine(), problem, wanted)
            assert candidate is not None
            found.append(candidate)
        return found

    @pytest.mark.parametrize("fits", [True, False])
    def test_small_problems(self, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(select, "one_thread_is_enough", lambda problems: fits)
        pair = self.pair(self.SMALL)
        equal = with_equal_threads(current_engine(), pair)
        assert [one.choice for one in equal] == [
            replace(one.choice, threads=int(fits)) for one in pair
        ]
        again = with_equal_threads(current_engine(), equal)
        assert all(one is other for one, other in zip(again, equal, strict=True))

    @pytest.mark.parametrize("cpu_isa", ["avx2", "avx512_core"])
    def test_gemm_has_a_limit_of_its_own_with_avx2_alone(
        self, cpu_isa: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[Work] = []
        monkeypatch.setattr(
            select, "one_thread_is_enough", lambda works: asked.extend(works) or True
        )
        monkeypatch.setattr(select, "candidate_of", lambda *arguments: None)
        data, weights = self.pair(self.SMALL)
        names = ("x64:gemm:jit", "jit:avx2")
        pair = [
            replace(one, choice=replace(one.choice, implementation=name))
            for one, name in zip((data, weights), names, strict=True)
        ]
        engine = SimpleNamespace(library=SimpleNamespace(cpu_isa=cpu_isa))
        assert with_equal_threads(cast(Engine, engine), pair) == pair
        of_gemm = GEMM_EXECUTION_FLOPS if cpu_isa == "avx2" else EXECUTION_FLOPS
        assert [one.execution_flops for one in asked] == [of_gemm, EXECUTION_FLOPS]

    def test_no_implementation_on_so_many_threads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pair = self.pair(self.SMALL)
        monkeypatch.setattr(select, "candidate_of", lambda *arguments: None)
        assert with_equal_threads(current_engine(), pair) == pair

    def test_others_are_left_alone(self) -> None:
        """Rules that name a number are for large problems, chunks or conversions."""
        pairs = [self.pair(self.LARGE), self.pair(self.SMALL, "f16")]
        data, weights = self.pair(self.SMALL)
        chunked = split_candidate(current_engine(), weights, "minibatch", 2)
        assert chunked is not None
        for pair in (*pairs, [data, chunked]):
            assert with_equal_threads(current_engine(), pair) == pair


class TestThreadsOfGemm:
    """Only where gemm was found is it known that a problem is worth gemm's threads."""

    PROBLEM = Benchdnn(parse_descriptor("mb2ic8ih10oc8kh3ph1"), "FWD_D", "f32", "NCX").problem()

    def threads(self, family: re.Pattern[str], gemm_threads: int | None) -> int:
        wanted = Preference(Choice("f32", threads=1), family, gemm_threads=gemm_threads)
        found = select.select(current_engine(), self.PROBLEM, [wanted])
        assert family.search(found.choice.implementation)
        return found.choice.threads

    def test_by_implementation(self) -> None:
        assert self.threads(GEMM, 0) == 0
        assert self.threads(GEMM, 1) == 1
        assert self.threads(GEMM, None) == 1
        assert self.threads(NOT_GEMM, 0) == 1


def has_implementation(problem: Problem, choice: Choice) -> bool:
    """Whether oneDNN has more than reference implementations of a formulation in a data type."""
    formulation = formulate(problem, choice.compute_dtype, choice.formulation)
    if formulation is None:
        return False
    found = feasible(current_engine(), formulation, formulation.problem, choice)
    return any(not is_reference(name) for _, name in found)
