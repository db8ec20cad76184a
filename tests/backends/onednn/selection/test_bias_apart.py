"""Bias gradients that are summed beside the primitive: where, and that they are right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection.bias_apart import (
    LEAST_SUMMED_APART,
    LEAST_SUMMED_APART_LAST,
    LEAST_WRITTEN_APART,
    LEAST_WRITTEN_APART_AVX2,
    gains_from_bias_apart,
)
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.preference import Preference
from onednn_py.backends.onednn.selection.rules import GEMM, JIT, JIT_1X1
from onednn_py.backends.onednn.selection.select import candidate_of, candidates
from onednn_py.backends.onednn.selection.validity import invalid
from onednn_py.problem.problem import Problem, TensorLayout
from tests.support.candidate_runs import FORMATS, NETWORKS, CandidateRun
from tests.support.cases import CURATED, Case, case
from tests.support.requirements import has_dtype, needs_onednn, skip_for_cpu

pytestmark = needs_onednn

WEIGHTS_GRADIENTS = ("convolution_backward_weights", "conv_transpose_backward_weights")

# 2 images of 64 channels with as many pixels as it takes.
LARGE = {
    dtype: case((size, size), 1, minibatch=2, inputs=16, outputs=64)
    for dtype, size in (("f32", 33), ("bf16", 9))
}


def run_of(
    geometry: Case, dtype: str, data_format: str, operation: str = WEIGHTS_GRADIENTS[0]
) -> CandidateRun:
    return CandidateRun(geometry.integers(dtype), operation, data_format)


def apart(problem: Problem, choice: Choice) -> Candidate | None:
    return candidate_of(current_engine(), problem, Preference(replace(choice, bias_apart=True)))


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("operation", WEIGHTS_GRADIENTS)
@pytest.mark.parametrize("name", ["2d", "2d_1x1_strided", "2d_groups_16", "2d_depthwise", "3d"])
def test_every_candidate_with_its_bias_apart(name: str, operation: str, data_format: str) -> None:
    run = run_of(CURATED[name], "f32", data_format, operation)
    found = [apart(run.problem, candidate.choice) for candidate in run.candidates()]
    wanted = [candidate for candidate in found if candidate is not None]
    assert wanted
    for candidate in wanted:
        assert candidate.choice.bias_apart
        assert invalid(run.problem, candidate.choice) is None
        run.check(OneDNNPlan(current_engine(), candidate))


@pytest.mark.parametrize("axis", ["minibatch", "spatial", "channels"])
@pytest.mark.parametrize("operation", WEIGHTS_GRADIENTS)
def test_chunks_with_the_bias_apart(operation: str, axis: str) -> None:
    run = run_of(replace(NETWORKS["3x3"], minibatch=4), "f32", "NCX", operation)
    choice = Choice("f32", chunks=2, split_axis=axis)
    candidate = apart(run.problem, choice)
    assert candidate is not None
    assert len(candidate.formulation.chunks) == 2
    assert candidate.choice.bias_apart
    assert candidate.whole is not None
    assert candidate.whole.choice.bias_apart
    run.check(OneDNNPlan(current_engine(), candidate))


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("dtype", LARGE)
def test_gemm_never_sums_a_large_bias_gradient(dtype: str, data_format: str) -> None:
    run = run_of(LARGE[dtype], dtype, data_format)
    assert run.problem.dst.size >= LEAST_SUMMED_APART[dtype]
    by_gemm = [one for one in run.candidates() if GEMM.search(one.choice.implementation)]
    computed = [one for one in by_gemm if one.choice.compute_dtype == dtype]
    if not has_dtype(dtype):
        skip_for_cpu(dtype)
    assert computed
    assert all(one.choice.bias_apart for one in computed)
    choice = Choice(dtype, activations="given" if data_format == "NXC" else "any")
    preferred = candidate_of(current_engine(), run.problem, Preference(choice, family=GEMM))
    assert preferred is not None
    plan = OneDNNPlan(current_engine(), preferred)
    assert "bias gradient: summed apart" in repr(plan)
    run.check(plan)


@pytest.mark.parametrize("data_format", FORMATS)
def test_small_gemm_is_tried_both_ways(data_format: str) -> None:
    run = run_of(CURATED["2d_1x1"], "f32", data_format)
    # A product has no bias gradient of its own.
    found = [one for one in run.candidates() if one.choice.formulation != "matmul"]
    by_gemm = [one for one in found if GEMM.search(one.choice.implementation)]
    assert {one.choice.bias_apart for one in by_gemm} == {False, True}
    others = [one for one in found if not GEMM.search(one.choice.implementation)]
    assert not any(one.choice.bias_apart for one in others)


@pytest.mark.parametrize("data_format", FORMATS)
def test_measuring_tries_both_ways_where_one_mostly_gains(data_format: str) -> None:
    run = run_of(case((24, 24), 3, pads=1, minibatch=1, inputs=16, outputs=64), "f32", data_format)
    assert LEAST_WRITTEN_APART_AVX2["others"] <= run.problem.dst.size < LEAST_SUMMED_APART_LAST
    by_name: dict[str, set[bool]] = {}
    for one in run.candidates():
        if one.choice.formulation == "direct":
            names = by_name.setdefault(one.choice.implementation, set())
            names.add(one.choice.bias_apart)
    both = {name for name, ways in by_name.items() if ways == {False, True}}
    jit = {name for name in by_name if JIT.search(name) and "avx2" in name}
    assert both >= jit | {name for name in by_name if GEMM.search(name)}
    assert both


def test_what_gains_from_a_bias_apart() -> None:
    problem = run_of(LARGE["f32"], "f32", "NXC").problem
    gemm = Choice("f32", implementation="x64:gemm:jit")
    assert gains_from_bias_apart(problem, gemm)
    assert not gains_from_bias_apart(problem, Choice("f32", implementation="jit_1x1:avx512_core"))
    assert not gains_from_bias_apart(problem, Choice("f32", implementation="brgemm:avx2"))
    assert not gains_from_bias_apart(replace(problem, bias=None), gemm)
    assert not gains_from_bias_apart(replace(problem, dtype="f16"), gemm)
    small = run_of(CURATED["2d"], "f32", "NXC").problem
    assert not gains_from_bias_apart(small, gemm)


@pytest.mark.parametrize("data_format", FORMATS)
def test_what_gains_from_a_gradient_that_products_write(data_format: str) -> None:
    """From fewer elements than where NumPy adds sums up."""
    sizes = {
        2**exponent: case((8, 2 ** (exponent - 8)), 1, minibatch=1, inputs=16, outputs=32)
        for exponent in range(11, 18)
    }
    problems = {size: run_of(one, "f32", data_format).problem for size, one in sizes.items()}
    assert all(problem.dst.size == size for size, problem in problems.items())

    def least(choice: Choice, transposed: bool = False, **changes: Any) -> int | None:
        asked = {
            size: replace(one, transposed=transposed, **changes) for size, one in problems.items()
        }
        return next((n for n, one in asked.items() if gains_from_bias_apart(one, choice)), None)

    gemm = Choice("f32", implementation="x64:gemm:jit")
    gaps = TensorLayout((32,), (2,))
    assert least(gemm) == LEAST_WRITTEN_APART == 2**13
    assert least(gemm, bias=gaps) == LEAST_SUMMED_APART["f32"]
    for name in ("jit:avx2", "jit_1x1:avx2"):
        own, last = (
            Choice("f32", implementation=name),
            Choice("f32", "direct", "nxc", implementation=name),
        )
        assert least(own) == LEAST_WRITTEN_APART_AVX2["others"]
        assert least(own, transposed=True) is None
        assert least(last) == LEAST_WRITTEN_APART_AVX2["last"]
        assert least(last, transposed=True) == LEAST_WRITTEN_APART_AVX2["last"]
        assert least(replace(last, implementation=name.replace("avx2", "avx512_core"))) == 2**17
        assert least(replace(own, implementation=name.replace("avx2", "avx512_core"))) is None
        assert least(last, bias=gaps) == LEAST_SUMMED_APART_LAST
        padded = replace(last, formulation="padded_channels")
        assert least(padded) == LEAST_SUMMED_APART_LAST
    depthwise = Choice("f32", "direct", "nxc", implementation="conv:any+jit_dw:avx2")
    assert least(depthwise) is None
    assert least(depthwise, transposed=True) == LEAST_WRITTEN_APART_AVX2["last"]
    assert least(replace(depthwise, activations="ncx"), transposed=True) is None


def test_kernels_that_read_channels_last_gain_from_a_bias_apart() -> None:
    last, first = (run_of(LARGE["f32"], "f32", one).problem for one in ("NXC", "NCX"))
    for name in ("jit:avx512_core", "conv:any+jit:avx512_core", "jit_1x1:avx512_core"):
        given = Choice("f32", activations="given", implementation=name)
        assert gains_from_bias_apart(last, given)
        assert not gains_from_bias_apart(first, given)
        assert gains_from_bias_apart(first, replace(given, activations="nxc"))
        assert not gains_from_bias_apart(last, replace(given, activations="any"))
        assert not gains_from_bias_apart(last, replace(given, compute_dtype="bf16"))
    for name in ("jit_dw:avx512_core", "brgconv_bwd_w:avx512_core_amx"):
        given = Choice("f32", activations="given", implementation=name)
        assert not gains_from_bias_apart(last, given)
    volume = case((33, 33, 9), 3, minibatch=2, inputs=16, outputs=64)
    given = Choice("f32", activations="given", implementation="jit:avx512_core")
    assert not gains_from_bias_apart(run_of(volume, "f32", "NXC").problem, given)


@pytest.mark.parametrize("operation", WEIGHTS_GRADIENTS)
@pytest.mark.parametrize("kernel", [1, 3])
def test_kernels_that_read_channels_last_never_sum_a_large_bias_gradient(
    kernel: int, operation: str
) -> None:
    geometry = case((37, 37), kernel, pads=kernel // 2, minibatch=2, inputs=64, outputs=64)
    run = run_of(geometry, "f32", "NXC", operation)
    assert run.problem.dst.size >= LEAST_SUMMED_APART_LAST
    found = [
        one
        for one in run.candidates()
        if one.choice.activations == "given"
        and any(family.search(one.choice.implementation) for family in (JIT, JIT_1X1))
    ]
    assert found
    for one in found:
        assert one.choice.bias_apart
        run.check(OneDNNPlan(current_engine(), one))


@pytest.mark.parametrize(
    "operation", ["convolution", "convolution_backward_data", "conv_transpose"]
)
def test_only_a_bias_gradient_can_be_apart(operation: str) -> None:
    problem = run_of(CURATED["2d"], "f32", "NCX", operation).problem
    assert invalid(problem, Choice("f32", bias_apart=True)) is not None
    assert not any(one.choice.bias_apart for one in candidates(current_engine(), problem))


def test_a_bias_that_is_not_asked_for_is_not_apart() -> None:
    problem = replace(run_of(CURATED["2d"], "f32", "NCX").problem, bias=None)
    assert invalid(problem, Choice("f32", bias_apart=True)) is not None
    assert not any(one.choice.bias_apart for one in candidates(current_engine(), problem))


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("data_format", FORMATS)
def test_both_gradients_at_once_with_the_bias_apart(data_format: str, dtype: type) -> None:
    rng = np.random.default_rng(0)
    shapes = {"NCX": ((2, 16, 33, 33), (2, 64, 33, 33)), "NXC": ((2, 33, 33, 16), (2, 33, 33, 64))}
    src, diff_dst = (rng.integers(-1, 2, shape).astype(dtype) for shape in shapes[data_format])
    weights = rng.integers(-1, 2, (64, 16, 1, 1)).astype(dtype)
    attributes = {"data_format": data_format, "weights_format": "OIX"}
    found = onednn_py.convolution_backward(
        src, weights, diff_dst, wrt=("src", "weights", "bias"), backend="onednn", **attributes
    )
    axes = (0, 2, 3) if data_format == "NCX" else (0, 1, 2)
    expected = diff_dst.astype(np.float64).sum(axis=axes).astype(dtype)
    np.testing.assert_array_equal(found.diff_bias, expected)
    gradient = onednn_py.convolution_backward_weights(
        src, diff_dst, weights.shape, backend="numpy", **attributes
    )
    np.testing.assert_array_equal(found.diff_weights, gradient)
