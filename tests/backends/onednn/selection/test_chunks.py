"""Problems split along the minibatch, space and channels: the same results, less memory."""

from __future__ import annotations

import sys
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import onednn_py
from onednn_py.backends.base import PlanSequence
from onednn_py.backends.numpy.plan import NumPyPlan
from onednn_py.backends.onednn import backend
from onednn_py.backends.onednn.autotune import integer_tensors
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection import workspace
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.chunks import SPLIT_AXES, split
from onednn_py.backends.onednn.selection.formulations import formulate
from onednn_py.backends.onednn.selection.preference import OverLimit, Preference
from onednn_py.backends.onednn.selection.select import candidate_of
from onednn_py.backends.onednn.selection.workspace import (
    LARGEST_WORKSPACE,
    SMALL_TENSORS,
    split_candidate,
)
from onednn_py.problem.problem import Problem
from onednn_py.tools.benchdnn.case import Case as Benchdnn
from onednn_py.tools.benchdnn.descriptor import parse_descriptor
from tests.support.candidate_runs import (
    FORMATS,
    GEOMETRIES,
    CandidateRun,
    StridedCandidateRun,
    format_in_turn,
    of_images,
    plan_problem,
    plan_sub_problems,
    sub_problems,
)
from tests.support.cases import CURATED, OPERATIONS, Case, case
from tests.support.memory_layouts import channels_outermost, images_innermost
from tests.support.reproduction import needs_shell, reproduction, run_reproduction
from tests.support.requirements import needs_onednn
from tests.support.strategies import geometries

INNER_AXES = ("spatial", "channels")


def problem_of(geometry: Case, operation: str, data_format: str) -> Problem:
    return CandidateRun(geometry.integers("f32"), operation, data_format).problem


def test_elements_that_chunks_share_are_summed_apart() -> None:
    problem = problem_of(CURATED["2d"], "conv_transpose_backward_weights", "NCX")
    assert problem.bias is not None
    assert split(problem, "spatial", 2) is None
    assert split(replace(problem, bias=None), "spatial", 2) is not None
    formulation = formulate(problem, "f32", chunks=2, split_axis="spatial")
    assert formulation is not None
    assert formulation.bias_apart


def check_chunks(problem: Problem, axis: str, number: int) -> int:
    """Compute a problem and its chunks on NumPy; compare; return how many chunks there are."""
    chunks = split(problem, axis, number)
    if chunks is None:
        return 0
    tensors = integer_tensors(problem)
    NumPyPlan(problem).execute(tensors)
    written = {problem.result_role}
    if problem.result_role == "weights" and problem.bias is not None:
        written.add("bias")
    whole = {name: tensors[name].copy() for name in written}
    found = {name: np.zeros_like(whole[name]) for name in written}
    times = {name: np.zeros(whole[name].shape, int) for name in written}
    for chunk in chunks:
        indices, arrays = {}, {}
        for role, layout in chunk.problem.layouts.items():
            begin = chunk.tensors[role].begin
            indices[role] = tuple(slice(b, b + n) for b, n in zip(begin, layout.shape, strict=True))
            arrays[role] = tensors[role][indices[role]]
            assert arrays[role].shape == layout.shape
            if role in written:
                arrays[role] = np.full(layout.shape, np.nan, arrays[role].dtype)
        NumPyPlan(chunk.problem).execute(arrays)
        for name in written:
            found[name][indices[name]] += arrays[name]
            times[name][indices[name]] += 1
    for role, array in tensors.items():
        shapes = {getattr(chunk.problem, role).shape for chunk in chunks}
        assert {chunk.tensors[role].is_split for chunk in chunks} == {shapes != {array.shape}}
    assert [chunk.is_first for chunk in chunks] == [True] + [False] * (len(chunks) - 1)
    assert [chunk.is_last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    for name in written:
        np.testing.assert_array_equal(found[name], whole[name])
        # Chunks write each element of a partition once, and all elements of a sum.
        is_sum = chunks[0].tensors[name].is_partial_sum
        assert set(times[name].flat) == {len(chunks) if is_sum else 1}
    return len(chunks)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("axis", SPLIT_AXES)
def test_chunks_make_the_whole(axis: str, operation: str) -> None:
    numbers = set()
    for geometry in CURATED.values():
        for number in (2, 3, 5):
            for data_format in FORMATS:
                problem = problem_of(of_images(geometry, 6), operation, data_format)
                if axis == "spatial" and operation == "conv_transpose_backward_weights":
                    problem = replace(problem, bias=None)
                numbers.add(check_chunks(problem, axis, number))
    assert {2, 3} <= numbers


@given(
    geometry=geometries(),
    operation=st.sampled_from(OPERATIONS),
    axis=st.sampled_from(sorted(SPLIT_AXES)),
    number=st.integers(2, 9),
)
def test_chunks_of_any_geometry(geometry: Case, operation: str, axis: str, number: int) -> None:
    problem = f"problem_of({geometry}, {operation!r}, 'NCX')"
    note(reproduction(__name__, f"check_chunks({problem}, {axis!r}, {number})"))
    assert check_chunks(problem_of(geometry, operation, "NCX"), axis, number) <= number


@needs_shell
def test_the_noted_command_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[str] = []
    monkeypatch.setattr(sys.modules[__name__], "note", noted.append)
    test_chunks_of_any_geometry.hypothesis.inner_test(CURATED["2d"], "convolution", "minibatch", 2)
    (command,) = noted
    done = run_reproduction(command)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [-1, 0])
@pytest.mark.parametrize("axis", SPLIT_AXES)
def test_no_chunks(axis: str, number: int) -> None:
    assert split(problem_of(CURATED["2d"], "convolution", "NCX"), axis, number) is None


@pytest.mark.parametrize("axis", SPLIT_AXES)
def test_one_chunk_is_the_whole(axis: str) -> None:
    problem = problem_of(CURATED["2d"], "convolution", "NCX")
    (chunk,) = split(problem, axis, 1) or ()
    assert chunk.problem == problem
    assert chunk.is_first
    assert chunk.is_last
    assert not any(tensor.is_split or tensor.is_partial_sum for tensor in chunk.tensors.values())


def test_equal_chunks_are_one_problem() -> None:
    """The first and the last chunk meet padding, all others are alike."""
    geometry = case((66, 9), 3, pads=1, inputs=64, outputs=64)
    for operation in OPERATIONS:
        problem = problem_of(geometry, operation, "NCX")
        spatial = split(replace(problem, bias=None), "spatial", 6)
        assert spatial is not None
        assert (len(spatial), len({chunk.problem for chunk in spatial})) == (6, 3)
        channels = split(problem, "channels", 4)
        assert channels is not None
        assert (len(channels), len({chunk.problem for chunk in channels})) == (4, 1)


@needs_onednn
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_implementation_is_right_in_chunks(name: str, operation: str) -> None:
    checked = 0
    tensors = of_images(GEOMETRIES[name], 2).integers("f32")
    run = CandidateRun(tensors, operation, format_in_turn(name, operation))
    for candidate in run.candidates():
        for axis in INNER_AXES:
            chunked = split_candidate(current_engine(), candidate, axis, 3)
            if chunked is not None:
                assert chunked.choice.implementation == candidate.choice.implementation
                run.check(OneDNNPlan(current_engine(), chunked))
                checked += 1
    # Where dst is a single pixel, neither space nor one group's channels have parts.
    assert checked or name == "whole_image"


@needs_onednn
@pytest.mark.slow
@pytest.mark.parametrize("axis", INNER_AXES)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_in_half_precision(operation: str, dtype: str, axis: str) -> None:
    checked = 0
    names = ("3x3", "3x3_stride", "1x1", "depthwise", "3d", "1d_dilated", "upconv")
    forms = (np.asarray, channels_outermost, images_innermost)
    # Each operation has another form of each geometry: all pairs take three times as long.
    for index, name in enumerate(names, OPERATIONS.index(operation)):
        tensors = of_images(GEOMETRIES[name], 2).integers(dtype)
        run = StridedCandidateRun(tensors, operation, "NCX", forms[index % len(forms)])
        for candidate in run.candidates():
            chunked = split_candidate(current_engine(), candidate, axis, 2)
            if chunked is not None:
                checked += 1
                run.check(OneDNNPlan(current_engine(), chunked))
    assert checked > 20


@needs_onednn
@pytest.mark.parametrize("name", ["3x3", "3d", "1d_dilated", "depthwise"])
@pytest.mark.parametrize("axis", INNER_AXES)
def test_splits_exist_where_memory_is_short(axis: str, name: str) -> None:
    """oneDNN's first implementation of a network's problems can be split."""
    geometry = GEOMETRIES[name]
    if geometry.groups == 1:
        geometry = replace(geometry, inputs=64, outputs=64)
    for operation in OPERATIONS:
        run = CandidateRun(geometry.integers("f32"), operation, "NCX")
        candidate = next(run.candidates())
        assert split_candidate(current_engine(), candidate, axis, 2) is not None, (
            operation,
            candidate.choice,
        )


LARGE = {
    "images": "mb16ic64ih112oc64kh3ph1",
    "one_image": "mb1ic64ih280oc64kh3ph1",
    "mostly_weights": "mb16ic1024ih7oc512kh3ph1",
    "both": "mb8ic512ih28oc512kh3sh2ph1",
    "pointwise": "mb16ic512ih14oc2048kh1",
    "stem": "mb8ic3ih224oc64kh7sh2ph3",
    "volume": "mb1ic32id48oc32kd3pd1",
    "series": "mb1ic64iw40000oc64kw3pw1",
    "wide_src": "mb1ic1024ih60oc64kh3sh2ph1",
    "three_images": "mb3ic128ih80oc128kh3ph1",
}


@needs_onednn
@pytest.mark.parametrize("direction", ["FWD_B", "BWD_D", "BWD_W", "BWD_WB"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("transposed", [False, True])
def test_large_tensors_take_little_more_memory(
    name: str, dtype: str, direction: str, transposed: bool
) -> None:
    """A call takes at most 2.2 times its inputs and outputs."""
    descriptor = parse_descriptor(LARGE[name], transposed=transposed)
    plan = plan_problem(Benchdnn(descriptor, direction, dtype, "NCX").problem())
    assert isinstance(plan, OneDNNPlan)
    problem, itemsize = plan.problem, 4 if dtype == "f32" else 2
    nbytes = itemsize * (problem.src.size + problem.weights.size + problem.dst.size)
    assert nbytes >= SMALL_TENSORS
    # Tensors in a workspace begin at cache lines.
    assert plan.workspace_bytes <= LARGEST_WORKSPACE * nbytes + 2**16, plan


@needs_onednn
@pytest.mark.parametrize(("images", "chunks"), [(12, 2), (9, 3), (10, 2), (7, 2)])
def test_chunks_of_the_minibatch_are_few(
    images: int, chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prime number of images is split along the spatial axis, not into single images."""
    monkeypatch.setattr(workspace, "SMALL_TENSORS", 0)
    monkeypatch.setattr(workspace, "LARGEST_WORKSPACE", 0.8)
    run = CandidateRun(of_images(GEOMETRIES["3x3"], images).integers("f32"), "convolution", "NCX")
    choice = Choice("f32", activations="nxc")  # every tensor is copied
    preference = Preference(choice, over_limit=OverLimit.SPLIT)
    candidate = candidate_of(current_engine(), run.problem, preference)
    assert candidate is not None
    assert candidate.choice.chunks == chunks
    assert candidate.choice.split_axis == ("spatial" if images == 7 else "minibatch")


@needs_onednn
def test_gradients_that_take_too_much_together_run_one_after_the_other() -> None:
    """Each takes its tensors' size again, and scratchpad; diff_dst's copy would serve both."""
    src, weights, dst = ((5, 64, 176, 176), (128, 64, 7, 7), (5, 128, 176, 176))
    specs = [onednn_py.TensorSpec(shape, np.float32) for shape in (src, weights, dst)]
    problems = sub_problems(
        onednn_py.convolution_backward, *specs,
        pads_begin=3, pads_end=3, data_format="NCX", weights_format="OIX",
    )  # fmt: skip
    plan = plan_sub_problems(problems)
    elements = 2 * (prod(src) + prod(weights)) + prod(dst)
    for part in plan.plans if isinstance(plan, PlanSequence) else [plan]:
        assert isinstance(part, OneDNNPlan)
        assert part.workspace_bytes <= LARGEST_WORKSPACE * 4 * elements


@needs_onednn
def test_gradients_over_the_limit_together_are_right_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    shapes = ((2, 16, 9, 9), (16, 16, 3, 3), (2, 16, 7, 7))
    src, weights, dst = (rng.integers(-2, 3, shape).astype(np.float32) for shape in shapes)
    keywords: dict[str, Any] = {"data_format": "NCX", "weights_format": "OIX"}
    problems = sub_problems(onednn_py.convolution_backward, src, weights, dst, **keywords)
    types = []
    for is_over in (False, True):
        monkeypatch.setattr(backend, "workspace_exceeds_limit", lambda *_, answer=is_over: answer)
        onednn_py.cache_clear()
        plan = onednn_py.plan(
            onednn_py.convolution_backward, src, weights, dst, **keywords, backend="onednn"
        )
        types.append(type(plan_sub_problems(problems)))
        expected = onednn_py.convolution_backward(src, weights, dst, **keywords, backend="numpy")
        for actual, right in zip(plan(src, weights, dst), expected, strict=True):
            np.testing.assert_array_equal(actual, right)
    assert types == [OneDNNPlan, PlanSequence]
    onednn_py.cache_clear()


@needs_onednn
def test_a_choice_over_the_limit_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    run = CandidateRun(
        of_images(GEOMETRIES["3x3"], 4).integers("f32"), "convolution_backward_data", "NCX"
    )
    choice = Choice("f32", chunks=2)
    assert candidate_of(current_engine(), run.problem, Preference(choice)) is not None
    monkeypatch.setattr(workspace, "SMALL_TENSORS", 0)
    monkeypatch.setattr(workspace, "LARGEST_WORKSPACE", 0.5)
    assert candidate_of(current_engine(), run.problem, Preference(choice)) is None
    assert (
        candidate_of(current_engine(), run.problem, Preference(choice, over_limit=OverLimit.TAKEN))
        is not None
    )
    assert (
        candidate_of(current_engine(), run.problem, Preference(Choice("f32", chunks=4))) is not None
    )


@needs_onednn
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("axis", SPLIT_AXES)
def test_packed_weights(axis: str, dtype: str) -> None:
    """Weights that chunks split are packed whole."""
    run = CandidateRun(
        of_images(GEOMETRIES["3x3"], 4).integers(dtype), "convolution_backward_data", "NCX"
    )
    candidate = candidate_of(
        current_engine(), run.problem, Preference(Choice("f32", chunks=2, split_axis=axis))
    )
    assert candidate is not None
    plan = OneDNNPlan(current_engine(), candidate)
    assert plan.splits("weights") == (axis == "channels")
    run.check(plan)
    tensors = integer_tensors(run.problem)
    plan.execute(tensors)
    expected = tensors["src"].copy()
    tensors["src"].fill(0)
    packed = plan.pack("weights", tensors.pop("weights"))
    assert packed is not None
    assert plan.accepts(packed)
    plan.execute(tensors, packed)
    np.testing.assert_array_equal(tensors["src"], expected)


@needs_onednn
def test_print_tells_the_axis_of_chunks() -> None:
    run = CandidateRun(
        of_images(GEOMETRIES["3x3"], 4).integers("f32"), "convolution_backward_data", "NCX"
    )
    names = {"minibatch": "minibatch", "spatial": "first spatial", "channels": "channels"}
    for axis, name in names.items():
        candidate = candidate_of(
            current_engine(), run.problem, Preference(Choice("f32", chunks=2, split_axis=axis))
        )
        assert candidate is not None
        assert f"2 chunks along the {name} axis" in repr(OneDNNPlan(current_engine(), candidate))


@needs_onednn
def test_gradients_that_are_split_in_different_ways_run_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workspace, "SMALL_TENSORS", 0)
    onednn_py.cache_clear()
    rng = np.random.default_rng(0)
    shapes = ((1, 32, 40, 40), (32, 32, 3, 3), (1, 32, 38, 38))
    src, weights, dst = (rng.integers(-1, 2, shape).astype(np.float16) for shape in shapes)
    keywords: dict[str, Any] = {"data_format": "NCX", "weights_format": "OIX"}
    keywords["wrt"] = ("src", "weights", "bias")
    expected = onednn_py.convolution_backward(src, weights, dst, **keywords, backend="numpy")
    plan = onednn_py.plan(
        onednn_py.convolution_backward, src, weights, dst, **keywords, backend="onednn"
    )
    for _ in range(2):
        for actual, right in zip(plan(src, weights, dst), expected, strict=True):
            np.testing.assert_array_equal(actual, right)
    assert "chunks" in repr(plan)
    onednn_py.cache_clear()
