"""The minibatch in chunks: the same results, from smaller workspaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.casts import Casts
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection import heuristics, select
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.formulations import formulate
from onednn_py.backends.onednn.selection.preference import Preference
from onednn_py.backends.onednn.selection.select import candidate_of, candidates
from onednn_py.dispatch.general_call import run
from onednn_py.dispatch.settings import settings
from onednn_py.problem.call_spec import call_spec
from onednn_py.problem.problem import Problem
from onednn_py.system.memory_pool import pool
from onednn_py.tools.benchdnn.case import Case as Benchdnn
from onednn_py.tools.benchdnn.descriptor import parse_descriptor
from tests.support.candidate_runs import (
    FORMATS,
    GEOMETRIES,
    NETWORKS,
    CandidateRun,
    StridedCandidateRun,
    format_in_turn,
    of_images,
    plan_problem,
    plan_sub_problems,
    sub_problems,
)
from tests.support.cases import CURATED, OPERATIONS
from tests.support.memory_layouts import channels_outermost, crop, images_innermost
from tests.support.requirements import needs_onednn

IMAGES = 4


def number_of_images(problem: Problem, compute_dtype: str) -> int:
    return problem.src.shape[0]


@pytest.fixture
def chunk_per_image(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The heuristics split the minibatch of every problem into single images."""
    for module in (heuristics, select):
        monkeypatch.setattr(module, "minibatch_chunks", number_of_images)
    onednn_py.cache_clear()
    yield
    onednn_py.cache_clear()


def chunked_candidates(run: CandidateRun) -> list[Candidate]:
    return [candidate for candidate in run.candidates() if candidate.choice.chunks > 1]


def in_float32(run: CandidateRun, chunks: int, formulation: str) -> Candidate | None:
    choice = Choice("f32", formulation, chunks=chunks)
    return candidate_of(current_engine(), run.problem, Preference(choice))


@needs_onednn
@pytest.mark.usefixtures("chunk_per_image")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_candidate_is_right_in_chunks(name: str, operation: str) -> None:
    numbers = set()
    tensors = of_images(GEOMETRIES[name], IMAGES).integers("f32")
    run = CandidateRun(tensors, operation, format_in_turn(name, operation))
    for candidate in run.candidates():
        numbers.add(candidate.choice.chunks)
        if candidate.choice.chunks > 1:
            run.check(OneDNNPlan(current_engine(), candidate))
    assert numbers == {1, IMAGES // 2, IMAGES}


@needs_onednn
@pytest.mark.usefixtures("chunk_per_image")
@pytest.mark.parametrize("dtype", ["bf16", pytest.param("f16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", ["2d_groups_16", "2d_depthwise", "3x3_stride", "1d_dilated"])
def test_in_half_precision(name: str, operation: str, dtype: str) -> None:
    tensors = of_images(GEOMETRIES[name], IMAGES).integers(dtype)
    run = CandidateRun(tensors, operation, "NCX")
    chunked = chunked_candidates(run)
    assert chunked
    for candidate in chunked:
        run.check(OneDNNPlan(current_engine(), candidate))


@needs_onednn
@pytest.mark.usefixtures("chunk_per_image")
@pytest.mark.parametrize("dtype", ["f32", "bf16", pytest.param("f16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_images_that_are_no_blocks_of_memory(operation: str, dtype: str) -> None:
    forms = (channels_outermost, images_innermost, crop)
    # Each operation has another form of each geometry: all pairs take three times as long.
    for index, name in enumerate(
        ("3x3", "1x1_stride", "2d_depthwise"), OPERATIONS.index(operation)
    ):
        tensors = of_images(GEOMETRIES[name], IMAGES).integers(dtype)
        run = StridedCandidateRun(tensors, operation, "NCX", forms[index % len(forms)])
        chunked = chunked_candidates(run)
        assert chunked
        for candidate in chunked:
            run.check(OneDNNPlan(current_engine(), candidate))


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("family", ["convolution", "conv_transpose"])
def test_sums_over_chunks_are_not_rounded(family: str, data_format: str) -> None:
    """Every image adds 1 to the 256 of the first one; bfloat16 rounds 256 + 1 to 256."""
    images = 9
    src = np.ones((images, 16, 4, 4), ml_dtypes.bfloat16)
    dst = np.zeros((images, 16, 4, 4), ml_dtypes.bfloat16)
    dst[:, :, 1, 1] = 1
    dst[0, :, 1, 1] = 256
    if data_format == "NXC":
        src, dst = (np.ascontiguousarray(np.moveaxis(array, 1, -1)) for array in (src, dst))
    spec = call_spec(
        f"{family}_backward_weights",
        {
            "src": src,
            "diff_dst": dst,
            "weights_shape": (16, 16, 1, 1),
            "bias": True,
            "data_format": data_format,
            "weights_format": "OIX" if family == "convolution" else "IOX",
        },
    )
    (sub_problem,) = spec.sub_problems({})
    inputs = dict(zip(spec.inputs, (src, dst), strict=True))
    checked = 0
    for candidate in candidates(current_engine(), sub_problem.problem):
        preference = Preference(replace(candidate.choice, chunks=images))
        chunked = candidate_of(current_engine(), sub_problem.problem, preference)
        if chunked is None:
            continue
        results = [np.empty(view.shape, ml_dtypes.bfloat16) for view in spec.results.values()]
        plan = OneDNNPlan(current_engine(), chunked)
        run(spec, inputs, results, settings(), plan.execute)
        for result in results:
            np.testing.assert_array_equal(result.astype(np.float32), 264)
        checked += 1
    assert checked


@needs_onednn
@pytest.mark.parametrize("chunks", [-1, 0, 3, 5, 8])
def test_chunks_of_the_minibatch_are_equal(chunks: int) -> None:
    run = CandidateRun(of_images(CURATED["2d"], 4).integers("f32"), "convolution", "NCX")
    assert formulate(run.problem, "f32", chunks=chunks) is None
    assert in_float32(run, chunks, "direct") is None


@needs_onednn
@pytest.mark.usefixtures("chunk_per_image", "cast_float16")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("family", ["convolution", "conv_transpose"])
def test_both_gradients_chunk_by_chunk(family: str, bias: bool, dtype: type) -> None:
    """Both gradients read one reordered copy of each chunk of diff_dst."""
    function = getattr(onednn_py, f"{family}_backward")
    rng = np.random.default_rng(0)
    src, weights, dst = (
        rng.integers(-1, 2, shape).astype(dtype)
        for shape in ((IMAGES, 32, 12, 12), (32, 32, 3, 3), (IMAGES, 32, 12, 12))
    )
    keywords: dict[str, Any] = {"pads_begin": 1, "pads_end": 1, "data_format": "NCX"}
    keywords["weights_format"] = "OIX" if family == "convolution" else "IOX"
    keywords["wrt"] = ("src", "weights", "bias")[: 2 + bias]
    shared = plan_sub_problems(sub_problems(function, src, weights, dst, **keywords))
    assert isinstance(shared, OneDNNPlan)
    for candidate in shared.candidates:
        assert candidate.choice.chunks == IMAGES
    steps = Counter(step.name for step in shared.program.steps)
    reorders = [name for name in steps if name.startswith("reorder of")]
    for name in reorders:
        is_split = name not in ("reorder of weights", "reorder of diff_weights")
        assert steps[name] == (IMAGES if is_split else 1), name
    assert steps["sum of diff_weights"] == IMAGES - 1
    assert any("dst" in name for name in reorders)
    plan = onednn_py.plan(function, src, weights, dst, **keywords, backend="onednn")
    assert repr(plan) == repr(shared)
    expected = function(src, weights, dst, **keywords, backend="numpy")
    for _ in range(2):
        for actual, right in zip(plan(src, weights, dst), expected, strict=True):
            np.testing.assert_array_equal(actual, right)


@needs_onednn
@pytest.mark.usefixtures("chunk_per_image")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_packed_weights(dtype: type) -> None:
    rng = np.random.default_rng(0)
    dst = rng.integers(-3, 4, (IMAGES, 32, 12, 12)).astype(dtype)
    weights = rng.integers(-3, 4, (32, 32, 3, 3)).astype(dtype)
    plan = onednn_py.plan(
        onednn_py.convolution_backward_data, dst, weights,
        data_format="NCX", weights_format="OIX", backend="onednn",
    )  # fmt: skip
    assert f"{IMAGES} chunks along the minibatch axis" in repr(plan)
    packed = plan.pack("weights", weights)
    np.testing.assert_array_equal(plan(dst, packed), plan(dst, weights))


@needs_onednn
@pytest.mark.usefixtures("chunk_per_image", "cast_float16")
@pytest.mark.parametrize("stage", ["before", "after"])
def test_an_error_between_chunks(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workspace is given back, and the next call is right."""
    rng = np.random.default_rng(0)
    dst = rng.integers(-1, 2, (IMAGES, 32, 12, 12)).astype(np.float16)
    weights = rng.integers(-1, 2, (32, 32, 3, 3)).astype(np.float16)
    plan = onednn_py.plan(
        onednn_py.convolution_backward_data, dst, weights,
        data_format="NCX", weights_format="OIX", backend="onednn",
    )  # fmt: skip
    assert "f16 through f32" in repr(plan)
    expected = plan(dst, weights)
    work = getattr(Casts, stage)

    def fail_at_second_chunk(self: Casts, index: int) -> None:
        work(self, index)
        if index == 1:
            raise MemoryError("between two chunks")

    pool.clear()
    with monkeypatch.context() as patched:
        patched.setattr(Casts, stage, fail_at_second_chunk)
        with pytest.raises(MemoryError, match="between two chunks"):
            plan(dst, weights)
    assert pool.idle_bytes > 0
    np.testing.assert_array_equal(plan(dst, weights), expected)


@needs_onednn
def test_a_problem_that_is_read_in_place_is_not_split() -> None:
    tensors = of_images(NETWORKS["3x3"], IMAGES).integers("f32")
    problem = CandidateRun(tensors, "convolution", "NXC").problem
    preference = Preference(Choice("f32", activations="given"), minibatch_chunks=IMAGES)
    candidate = candidate_of(current_engine(), problem, preference)
    assert candidate is not None
    assert candidate.choice.chunks == 1


@needs_onednn
def test_smaller_chunks_take_less_memory() -> None:
    tensors = of_images(NETWORKS["3x3"], 8).integers("f32")
    run = CandidateRun(tensors, "convolution_backward_data", "NCX")
    workspace_bytes = {}
    for chunks in (1, 2, 8):
        candidate = in_float32(run, chunks, "direct")
        assert candidate is not None
        plan = OneDNNPlan(current_engine(), candidate)
        workspace_bytes[chunks] = plan.workspace_bytes
        primitives = {id(step.primitive) for step in plan.program.steps}
        assert len(primitives) == 4
    assert workspace_bytes[8] < workspace_bytes[2] < workspace_bytes[1]


@needs_onednn
@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_chunk_is_cast_at_a_time(operation: str) -> None:
    run = CandidateRun(of_images(NETWORKS["3x3"], 8).integers("f16"), operation, "NCX")
    workspace_bytes = {}
    for chunks in (1, 2, 8):
        candidate = in_float32(run, chunks, "direct")
        if candidate is None:  # the family's own primitive does not exist
            candidate = in_float32(run, chunks, "as_convolution")
        assert candidate is not None
        assert candidate.choice.chunks == chunks
        plan = OneDNNPlan(current_engine(), candidate)
        workspace_bytes[chunks] = plan.workspace_bytes
        run.check(plan)
    assert workspace_bytes[8] < workspace_bytes[2] < workspace_bytes[1]
    # A copy of all activations in float32 would take twice as many bytes as they do.
    problem = run.problem
    float16_bytes = 2 * (problem.src.size + problem.dst.size)
    if not operation.endswith("weights"):
        assert workspace_bytes[8] < float16_bytes


@needs_onednn
@pytest.mark.usefixtures("cast_float16")
@pytest.mark.parametrize("direction", ["FWD_D", "BWD_D", "BWD_W"])
def test_large_float16_tensors_are_cast_in_chunks(direction: str) -> None:
    """Whole copies in float32 alone would be twice the tensors."""
    case = Benchdnn(parse_descriptor("mb16ic64ih56oc64kh3ph1"), direction, "f16", "NCX")
    plan = plan_problem(case.problem())
    assert isinstance(plan, OneDNNPlan)
    assert plan.choice.compute_dtype == "f32"
    problem = plan.problem
    tensors = 2 * (problem.src.size + problem.weights.size + problem.dst.size)
    assert plan.workspace_bytes <= 1.2 * tensors
