"""Bias gradients that a plan sums beside its primitives, by products with ones."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.autotune import integer_tensors
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.bias import BiasSums, SummingProgram
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection import bias_sums
from onednn_py.backends.onednn.selection import formulation as formulation_module
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.preference import OverLimit, Preference
from onednn_py.backends.onednn.selection.select import candidate_of
from onednn_py.errors import OneDNNError
from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Problem, TensorLayout
from onednn_py.system.memory_pool import pool
from tests.support.candidate_runs import (
    FORMATS,
    CandidateRun,
    computes_products,
    used_workspaces,
    without_matmul,
)
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


# Whose rows of pixels have more sums than products add up: NumPy does.
MANY_PARTS = case((37, 1031), 1, minibatch=1, inputs=2, outputs=3)


def apart(problem: Problem, **fields: Any) -> Candidate | None:
    choice = Choice(fields.pop("compute_dtype", problem.dtype), bias_apart=True, **fields)
    return candidate_of(current_engine(), problem, Preference(choice, over_limit=OverLimit.TAKEN))


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
                    assert (plan.address_runner is None) == bool(plan.casts)
                run.check(plan)
                check_on_addresses(plan)


def check_on_addresses(plan: OneDNNPlan) -> None:
    """Compare the results by addresses, if the plan takes these, with those by arrays."""
    runner, tensors = plan.address_runner, integer_tensors(plan.problem)
    if runner is None:
        return
    plan.execute(tensors)
    expected = {name: tensors[name].copy() for name in ("weights", "bias")}
    for name in expected:
        tensors[name].fill(77)
    with used_workspaces():
        runner.run(runner.pointers([tensors[name] for name in runner.operands]))
    for name, array in expected.items():
        np.testing.assert_array_equal(tensors[name], array)


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_products_write_the_gradient(
    chunks: int, data_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy adds up nothing in float32, and all where the library has no matmul."""
    geometry = case((12, 10), 1, minibatch=4, inputs=16, outputs=24)
    run = run_of(geometry, "f32", data_format)
    candidate = apart(run.problem, chunks=chunks)
    assert candidate is not None
    plan = OneDNNPlan(current_engine(), candidate)
    monkeypatch.setattr(BiasSums, "write", None)
    if computes_products():
        monkeypatch.setattr(formulation_module, "sum_into_bias", None)
    run.check(plan)
    check_on_addresses(plan)


def test_numpy_rounds_halves_behind_a_program() -> None:
    """Whatever the CPU computes: a program of no step, in a workspace that is filled."""
    engine = current_engine()
    # Halves round ties to even, 1 + 2**-8 down and 1 + 3 * 2**-11 up.
    sums = np.array([[1, 1], [2.0**-8, 3 * 2.0**-11]], np.float32)
    rounded = {
        "f32": [1 + 2.0**-8, 1 + 3 * 2.0**-11],
        "bf16": [1, 1],
        "f16": [1 + 2.0**-8, 1 + 2.0**-9],
    }

    class Filled:
        operands = ("weights", "bias")
        workspace_bytes = 64 + sums.nbytes
        fails = False

        def run(self, pointers: Any, block: Any) -> None:
            block[64 : 64 + sums.nbytes] = sums.view(np.uint8).ravel()
            if self.fails:
                raise OneDNNError("dnnl_primitive_execute", "runtime_error", "")

    program: Any = Filled()
    part = BiasSums("bias", 64, 4, 2, 1)
    given_back = []
    with mock.patch.object(pool, "give_back", given_back.append):
        for dtype, expected in rounded.items():
            bias = np.zeros(3, DTYPES[dtype])
            pointers = [engine.pointer(bias), engine.pointer(bias)]
            SummingProgram(engine, program, [part], dtype).run(pointers)
            np.testing.assert_array_equal(bias.astype(np.float32), [*expected, 0])
        program.fails = True
        with pytest.raises(OneDNNError):
            SummingProgram(engine, program, [part], "f32").run(pointers)
    assert len(given_back) == 4


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("minibatch", [1, 4])
def test_a_bias_gradient_with_gaps(minibatch: int, data_format: str) -> None:
    run = run_of(case((12, 10), 1, minibatch=minibatch, inputs=16, outputs=24), "f32", data_format)
    with_gaps = replace(run.problem, bias=TensorLayout((24,), (2,)))
    candidate = apart(with_gaps)
    assert candidate is not None
    plan = OneDNNPlan(current_engine(), candidate)
    assert plan.address_runner is None
    tensors = integer_tensors(run.problem)
    memory = np.full(48, 77, np.float32)
    plan.execute({**tensors, "bias": memory[::2]})
    np.testing.assert_array_equal(memory[::2], tensors["dst"].sum(axis=(0, 2, 3)))
    assert (memory[1::2] == 77).all()


@pytest.mark.parametrize("geometry", [MANY_PARTS, GEOMETRIES["1x1"]], ids=["NumPy", "products"])
def test_threads_run_one_plan_at_once(geometry: Case) -> None:
    problem = run_of(geometry, "f32", "NCX").problem
    candidate = apart(problem)
    assert candidate is not None
    plan = OneDNNPlan(current_engine(), candidate)
    check_on_addresses(plan)
    runner = plan.address_runner
    if runner is None:
        assert not computes_products()
        return

    def differing(seed: int) -> int:
        tensors = integer_tensors(problem)
        tensors["dst"][...] = np.random.default_rng(seed).integers(-2, 3, tensors["dst"].shape)
        expected, wrong = tensors["dst"].sum(axis=(0, 2, 3)), 0
        for _ in range(20):
            tensors["bias"].fill(77)
            runner.run(runner.pointers([tensors[name] for name in runner.operands]))
            wrong += not np.array_equal(tensors["bias"], expected)
        return wrong

    with ThreadPoolExecutor(4) as executor:
        assert list(executor.map(differing, range(8))) == [0] * 8


def test_a_plan_that_sums_is_freed_at_once() -> None:
    """No cycle of references is left to the garbage collector."""
    candidate = apart(run_of(MANY_PARTS, "f32", "NCX").problem)
    assert candidate is not None
    gc.disable()
    try:
        plan = OneDNNPlan(current_engine(), candidate)
        assert plan.address_runner is not None or not computes_products()
        assert bool(plan._sums) == computes_products()
        alive = weakref.ref(plan)
        del plan
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize(("axis", "summed"), [("minibatch", 32), ("spatial", 0), ("channels", 0)])
@pytest.mark.parametrize("size", [(12, 11), (60, 50)])
def test_chunks(
    size: tuple[int, int],
    axis: str,
    summed: int,
    data_format: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Chunks of the minibatch sum their own images, right after their weights gradient."""
    geometry = case(size, 3, pads=1, minibatch=32, inputs=16, outputs=24)
    run = run_of(geometry, "f32", data_format)
    chunks = 32 if axis == "minibatch" else 2
    candidate = apart(run.problem, chunks=chunks, split_axis=axis)
    assert candidate is not None
    for most, wanted in ((0, summed), (2**30, 1)):
        monkeypatch.setattr(bias_sums, "MOST_SUMMED_AT_ONCE", most)
        plan = OneDNNPlan(current_engine(), candidate)
        if computes_products():
            sums = [step for step in plan.program.steps if step.name == "sum of bias"]
            assert len({step.chunk for step in sums}) == wanted
        run.check(plan)
        check_on_addresses(plan)


def test_numpy_sums_where_the_library_has_no_matmul() -> None:
    run = run_of(GEOMETRIES["1x1"], "f32", "NXC")
    candidate = apart(run.problem)
    assert candidate is not None
    with without_matmul():
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
        case((4, 4), 1, minibatch=1, inputs=2, outputs=64),
        case((8, 16), 1, minibatch=1, inputs=2, outputs=3),
        case((8, 16), 1, minibatch=1, inputs=2, outputs=256),
        case((32, 32), 1, minibatch=1, inputs=2, outputs=64),
        case((32, 64), 1, minibatch=16, inputs=2, outputs=64),
        case((45, 45), 1, minibatch=12, inputs=2, outputs=16),
    ],
    ids=str,
)
def test_many_numbers_lose_no_digits(geometry: Case, data_format: str) -> None:
    """Numbers of one sign, where errors of many small additions would add up."""
    problem = run_of(geometry, "f32", data_format).problem
    candidate = apart(problem)
    assert candidate is not None
    plan = OneDNNPlan(current_engine(), candidate)
    assert is_summed_by_products(plan) or not computes_products()
    tensors = dense_tensors(problem)
    # Errors of equal numbers have one sign in each of the sums, and add up.
    for value, most in ((None, 2.5), (0.89043665, 16), (0.6, 16)):
        if value is not None:
            tensors["dst"].fill(value)
        plan.execute(tensors)
        expected = tensors["dst"].astype(np.float64).sum(axis=(0, 2, 3))
        np.testing.assert_allclose(tensors["bias"], expected, rtol=most * 2.0**-23, atol=0)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("outputs", [1, 3, 70])
@pytest.mark.parametrize("size", [(7, 5), (60, 50), (90, 64)])
def test_the_same_bits_on_any_number_of_threads(
    size: tuple[int, int], outputs: int, data_format: str, dtype: str
) -> None:
    geometry = case(size, 1, minibatch=2, inputs=2, outputs=outputs)
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
    sums.write(bias, block)
    assert bias[0] == 10
    two = np.zeros(2, np.float32)
    replace(sums, channels=2, parts=1).write(two, block)
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
