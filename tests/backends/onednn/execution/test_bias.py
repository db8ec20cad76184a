"""Bias gradients that a plan sums beside its primitives, by products with ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.autotune import integer_tensors
from onednn_py.backends.onednn.binding.engine import Engine
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.bias import BiasSums
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.preference import Preference
from onednn_py.backends.onednn.selection.select import candidate_of
from onednn_py.errors import OneDNNError
from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Problem
from tests.support.candidate_runs import FORMATS, CandidateRun, computes_products
from tests.support.cases import Case, case
from tests.support.requirements import has_dtype, needs_onednn, skip_for_cpu

pytestmark = needs_onednn

GRADIENT = "convolution_backward_weights"
GEOMETRIES = {
    "1x1": case((12, 11), 1, minibatch=4, inputs=16, outputs=24),
    "3x3": case((12, 11), 3, pads=1, minibatch=4, inputs=16, outputs=24),
    "strided": case((13, 12), 3, 2, pads=1, minibatch=4, inputs=16, outputs=24),
    "many pixels": case((70, 40), 1, minibatch=2, inputs=16, outputs=3),
}


def apart(problem: Problem, **fields: Any) -> Candidate | None:
    choice = Choice(fields.pop("compute_dtype", problem.dtype), bias_apart=True, **fields)
    return candidate_of(current_engine(), problem, Preference(choice, within_limit=False))


def is_summed_by_products(plan: OneDNNPlan) -> bool:
    return any(step.name == "sum of bias" for step in plan.program.steps)


def run_of(geometry: Case, dtype: str, data_format: str, operation: str = GRADIENT) -> CandidateRun:
    return CandidateRun(geometry.integers(dtype), operation, data_format)


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_sums_are_exact(name: str, dtype: str, data_format: str) -> None:
    for operation in (GRADIENT, "conv_transpose_backward_weights"):
        run = run_of(GEOMETRIES[name], dtype, data_format, operation)
        for formulation in ("direct", "as_convolution", "matmul"):
            for compute_dtype in {dtype, "f32"} - {"f16"}:
                candidate = apart(
                    run.problem,
                    formulation=formulation,
                    activations="given" if formulation == "matmul" else "any",
                    compute_dtype=compute_dtype,
                )
                if candidate is None:
                    continue
                plan = OneDNNPlan(current_engine(), candidate)
                if computes_products() and compute_dtype == "f32":
                    assert is_summed_by_products(plan)
                    assert plan.address_runner is None
                run.check(plan)


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize(("axis", "summed"), [("minibatch", 2), ("spatial", 0), ("channels", 0)])
def test_chunks(axis: str, summed: int, data_format: str) -> None:
    """Chunks of the minibatch sum their own images, right after their weights gradient."""
    run = run_of(GEOMETRIES["3x3"], "f32", data_format)
    candidate = apart(run.problem, chunks=2, split_axis=axis)
    assert candidate is not None
    plan = OneDNNPlan(current_engine(), candidate)
    if computes_products():
        sums = [step for step in plan.program.steps if step.name == "sum of bias"]
        assert len({step.chunk for step in sums}) == summed
    run.check(plan)


def test_numpy_sums_where_the_library_has_no_matmul(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise OneDNNError("dnnl_matmul_primitive_desc_create", "unimplemented", "")

    monkeypatch.setattr(Engine, "matmul_desc", refused)
    run = run_of(GEOMETRIES["1x1"], "f32", "NXC")
    candidate = apart(run.problem)
    assert candidate is not None
    plan = OneDNNPlan(current_engine(), candidate)
    assert not is_summed_by_products(plan)
    run.check(plan)


def dense_tensors(problem: Problem) -> dict[str, np.ndarray]:
    tensors = integer_tensors(problem)
    tensors["dst"][...] = np.random.default_rng(0).uniform(0.5, 1, tensors["dst"].shape)
    return tensors


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize(
    "geometry",
    [
        case((120, 90), 1, minibatch=2, inputs=2, outputs=2),
        case((31, 31), 1, minibatch=40, inputs=2, outputs=5),
        case((7, 7), 1, minibatch=16, inputs=2, outputs=256),
    ],
    ids=["many pixels", "many images", "many channels"],
)
def test_many_numbers_lose_no_digits(geometry: Case, data_format: str) -> None:
    """Numbers of one sign, where errors of many small additions would add up."""
    problem = run_of(geometry, "f32", data_format).problem
    candidate = apart(problem)
    assert candidate is not None
    plan = OneDNNPlan(current_engine(), candidate)
    assert is_summed_by_products(plan) or not computes_products()
    tensors = dense_tensors(problem)
    plan.execute(tensors)
    expected = tensors["dst"].astype(np.float64).sum(axis=(0, 2, 3))
    np.testing.assert_allclose(tensors["bias"], expected, rtol=2.5 * 2.0**-23, atol=0)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("outputs", [1, 3, 70])
def test_the_same_bits_on_any_number_of_threads(outputs: int, data_format: str, dtype: str) -> None:
    geometry = case((60, 50), 1, minibatch=2, inputs=2, outputs=outputs)
    problem = run_of(geometry, dtype, data_format).problem
    tensors = integer_tensors(problem)
    values = np.random.default_rng(0).standard_normal(tensors["dst"].shape)
    tensors["dst"][...] = values.astype(DTYPES[dtype])
    found = set()
    for threads in (1, 2, 3, 4):
        with onednn_py.num_threads(threads):
            candidate = apart(problem)
            if not has_dtype(dtype):
                skip_for_cpu(dtype)
            assert candidate is not None
            with current_engine().on_threads(threads):
                OneDNNPlan(current_engine(), candidate).execute(tensors)
            found.add(tensors["bias"].tobytes())
    assert len(found) == 1


def test_overflow_is_infinity_without_a_warning() -> None:
    problem = run_of(case((40, 30), 1, inputs=2, outputs=3), "f16", "NXC").problem
    candidate = apart(problem, compute_dtype="f32")
    assert candidate is not None
    tensors = integer_tensors(problem)
    tensors["dst"].fill(60000)
    OneDNNPlan(current_engine(), candidate).execute(tensors)
    np.testing.assert_array_equal(tensors["bias"], np.full(3, np.inf, np.float16))


def test_partial_sums_are_added_in_float64() -> None:
    block = np.array([1e8, 1, -1e8, 2, 3, 4], np.float32).view(np.uint8)
    sums = BiasSums("bias", 0, 6, 1, 2)
    bias = np.zeros(1, np.float32)
    sums.write({"bias": bias}, block)
    assert bias[0] == 10
    two = np.zeros(2, np.float32)
    replace(sums, channels=2, parts=1).write({"bias": two}, block)
    np.testing.assert_array_equal(two, [3, 7])


def test_both_gradients_at_once() -> None:
    """One plan, which reads diff_dst for both and for the sums."""
    rng = np.random.default_rng(0)
    src, diff_dst = (rng.integers(-1, 2, (2, 40, 40, n)).astype(np.float32) for n in (16, 64))
    weights = rng.integers(-1, 2, (1, 1, 16, 64)).astype(np.float32)
    wrt = ("src", "weights", "bias")
    plan = onednn_py.plan(onednn_py.convolution_backward, src, weights, diff_dst, wrt=wrt)
    for _ in range(2):
        found = plan(src, weights, diff_dst)
        np.testing.assert_array_equal(found.diff_bias, diff_dst.sum(axis=(0, 1, 2)))
        gradient = onednn_py.convolution_backward_weights(
            src, diff_dst, weights.shape, backend="numpy"
        )
        np.testing.assert_array_equal(found.diff_weights, gradient)
