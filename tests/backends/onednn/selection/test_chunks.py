"""Problems in pieces by images, rows and channels: the same results, from small workspaces."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import onednn_py
from onednn_py.backends.numpy import NumpyPlan
from onednn_py.backends.onednn.autotune import _tensors
from onednn_py.backends.onednn.binding.runtime import runtime
from onednn_py.backends.onednn.execution.packing import execute_packed, pack
from onednn_py.backends.onednn.execution.plan import NativePlan
from onednn_py.backends.onednn.selection import workspace as footprint
from onednn_py.backends.onednn.selection.chunks import CUTS, cut_up
from onednn_py.backends.onednn.selection.formulations import formulate
from onednn_py.backends.onednn.selection.heuristics import Wish
from onednn_py.backends.onednn.selection.select import part_of
from onednn_py.backends.onednn.selection.workspace import (
    LARGEST_WORKSPACE,
    SMALL_TENSORS,
    in_pieces,
)
from onednn_py.dispatch import planner as dispatch
from onednn_py.dispatch.planner import PlanSequence, plan_jobs
from onednn_py.problem.problem import Choice, Problem
from onednn_py.tools.benchdnn.case import Case as Benchdnn
from onednn_py.tools.benchdnn.descriptor import parse_descriptor
from tests.support.candidate_runs import FORMATS, GEOMETRIES, LaidOut, Way, of_images
from tests.support.cases import CURATED, OPERATIONS, Case, case
from tests.support.memory_layouts import channels_outermost, images_innermost
from tests.support.requirements import needs_onednn
from tests.support.strategies import geometries

ROLES = ("src", "weights", "dst", "bias")
APART = ("rows", "channels")


def problem_of(geometry: Case, operation: str, data_format: str) -> Problem:
    tensors = geometry.integers("f32")
    positional, keywords = tensors.arguments(operation, data_format, FORMATS[data_format])
    function = getattr(onednn_py, operation)
    (job,) = onednn_py.plan(function, *positional, **keywords, backend="numpy")._bound.jobs
    return job.problem


def test_rows_that_pieces_share_are_summed_apart() -> None:
    problem = problem_of(CURATED["2d"], "conv_transpose_backward_weights", "NCX")
    assert problem.bias is not None
    assert cut_up(problem, "rows", 2) is None
    assert cut_up(replace(problem, bias=None), "rows", 2) is not None
    formulation = formulate(problem, "f32", pieces=2, cut="rows")
    assert formulation is not None
    assert formulation.bias_apart


def check_pieces(problem: Problem, cut: str, number: int) -> int:
    """Compute a problem and its pieces on NumPy; compare; return how many there are."""
    pieces = cut_up(problem, cut, number)
    if pieces is None:
        return 0
    tensors = _tensors(problem)
    NumpyPlan(problem).execute(tensors)
    written = {problem.result_name}
    if problem.result_name == "weights" and problem.bias is not None:
        written.add("bias")
    whole = {name: tensors[name].copy() for name in written}
    found = {name: np.zeros_like(whole[name]) for name in written}
    times = {name: np.zeros(whole[name].shape, int) for name in written}
    for piece in pieces:
        places, arrays = {}, {}
        for role in ROLES:
            layout = getattr(piece.problem, role)
            if layout is None:
                continue
            begin = piece.begins[role]
            places[role] = tuple(slice(b, b + n) for b, n in zip(begin, layout.shape, strict=True))
            arrays[role] = tensors[role][places[role]]
            assert arrays[role].shape == layout.shape
            if role in written:
                arrays[role] = np.full(layout.shape, np.nan, arrays[role].dtype)
        NumpyPlan(piece.problem).execute(arrays)
        for name in written:
            found[name][places[name]] += arrays[name]
            times[name][places[name]] += 1
    for name in written:
        np.testing.assert_array_equal(found[name], whole[name])
        # Of a partition each once, of a sum each by every piece.
        assert set(times[name].flat) <= {1} or set(times[name].flat) <= {len(pieces)}
    return len(pieces)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("cut", CUTS)
def test_pieces_make_the_whole(cut: str, operation: str) -> None:
    numbers = set()
    for geometry in CURATED.values():
        for number in (2, 3, 5):
            for data_format in FORMATS:
                problem = problem_of(of_images(geometry, 6), operation, data_format)
                if cut == "rows" and operation == "conv_transpose_backward_weights":
                    problem = replace(problem, bias=None)
                numbers.add(check_pieces(problem, cut, number))
    assert {2, 3} <= numbers


@given(
    geometry=geometries(),
    operation=st.sampled_from(OPERATIONS),
    cut=st.sampled_from(sorted(CUTS)),
    number=st.integers(2, 9),
)
def test_pieces_of_any_geometry(geometry: Case, operation: str, cut: str, number: int) -> None:
    note(
        "reproduce in tests/: python -c 'from test_cutting import *;"
        f' check_pieces(problem_of({geometry}, {operation!r}, "NCX"), {cut!r}, {number})\''
    )
    assert check_pieces(problem_of(geometry, operation, "NCX"), cut, number) <= number


@pytest.mark.parametrize("number", [-1, 0])
@pytest.mark.parametrize("cut", CUTS)
def test_no_pieces(cut: str, number: int) -> None:
    assert cut_up(problem_of(CURATED["2d"], "convolution", "NCX"), cut, number) is None


@pytest.mark.parametrize("cut", CUTS)
def test_one_piece_is_the_whole(cut: str) -> None:
    problem = problem_of(CURATED["2d"], "convolution", "NCX")
    (piece,) = cut_up(problem, cut, 1) or ()
    assert piece.problem == problem


def test_equal_pieces_are_one_problem() -> None:
    """The first and the last one meet padding, all others are alike."""
    geometry = case((66, 9), 3, pads=1, inputs=64, outputs=64)
    for operation in OPERATIONS:
        problem = problem_of(geometry, operation, "NCX")
        rows = cut_up(replace(problem, bias=None), "rows", 6)
        assert rows is not None
        assert (len(rows), len({piece.problem for piece in rows})) == (6, 3)
        channels = cut_up(problem, "channels", 4)
        assert channels is not None
        assert (len(channels), len({piece.problem for piece in channels})) == (4, 1)


@needs_onednn
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_implementation_is_right_in_pieces(name: str, operation: str) -> None:
    for data_format in FORMATS:
        way = Way(of_images(GEOMETRIES[name], 2).integers("f32"), operation, data_format)
        for part in way.parts():
            for cut in APART:
                cut_part = in_pieces(runtime(), part, cut, 3)
                if cut_part is not None:
                    assert cut_part.choice.implementation == part.choice.implementation
                    way.check(NativePlan(runtime(), cut_part))


@needs_onednn
@pytest.mark.parametrize("cut", APART)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_in_half_precision(operation: str, dtype: str, cut: str) -> None:
    checked = 0
    for name in ("3x3", "3x3_stride", "1x1", "depthwise", "3d", "1d_dilated", "upconv"):
        for form in (np.asarray, channels_outermost, images_innermost):
            tensors = of_images(GEOMETRIES[name], 2).integers(dtype)
            way = LaidOut(tensors, operation, "NCX", form)
            for part in way.parts():
                cut_part = in_pieces(runtime(), part, cut, 2)
                if cut_part is not None:
                    checked += 1
                    way.check(NativePlan(runtime(), cut_part))
    assert checked > 20


@needs_onednn
@pytest.mark.parametrize("name", ["3x3", "3d", "1d_dilated", "depthwise"])
@pytest.mark.parametrize("cut", APART)
def test_cuts_exist_where_memory_is_short(cut: str, name: str) -> None:
    """Of what networks consist of, oneDNN's first implementation can be cut."""
    geometry = GEOMETRIES[name]
    if geometry.groups == 1:
        geometry = replace(geometry, inputs=64, outputs=64)
    for operation in OPERATIONS:
        way = Way(geometry.integers("f32"), operation, "NCX")
        part = next(way.parts())
        assert in_pieces(runtime(), part, cut, 2) is not None, (operation, part.choice)


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
    plan = plan_jobs(
        Benchdnn(descriptor, direction, dtype, "NCX").plan("onednn")._bound.jobs,
        "onednn",
        "heuristic",
    )
    assert isinstance(plan, NativePlan)
    problem, itemsize = plan.problem, 4 if dtype == "f32" else 2
    nbytes = itemsize * (problem.src.size + problem.weights.size + problem.dst.size)
    assert nbytes >= SMALL_TENSORS
    # What is placed in a workspace begins at cache lines.
    assert plan.workspace_bytes <= LARGEST_WORKSPACE * nbytes + 2**16, plan


@needs_onednn
@pytest.mark.parametrize(("images", "pieces"), [(12, 2), (9, 3), (10, 2), (7, 2)])
def test_pieces_of_images_are_few(
    images: int, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prime number of them is cut by rows, not into single images."""
    monkeypatch.setattr(footprint, "SMALL_TENSORS", 0)
    monkeypatch.setattr(footprint, "LARGEST_WORKSPACE", 0.8)
    way = Way(of_images(GEOMETRIES["3x3"], images).integers("f32"), "convolution", "NCX")
    wish = Wish(Choice("f32", activations="nxc"), cuts=True)  # all is copied
    part = part_of(runtime(), way.problem, wish)
    assert part is not None
    assert part.choice.pieces == pieces
    assert part.choice.cut == ("rows" if images == 7 else "images")


@needs_onednn
def test_gradients_that_take_too_much_together_run_one_after_the_other() -> None:
    """Each takes its tensors' size again, and scratchpad; diff_dst's copy would serve both."""
    src, weights, dst = ((5, 64, 176, 176), (128, 64, 7, 7), (5, 128, 176, 176))
    specs = [onednn_py.TensorSpec(shape, np.float32) for shape in (src, weights, dst)]
    plan = onednn_py.plan(
        onednn_py.convolution_backward, *specs,
        pads_begin=3, pads_end=3, data_format="NCX", weights_format="OIX", backend="onednn",
    )  # fmt: skip
    native = plan_jobs(plan._bound.jobs, "onednn", "heuristic")
    numbers = 2 * (prod(src) + prod(weights)) + prod(dst)
    for one in native._plans if isinstance(native, PlanSequence) else [native]:
        assert isinstance(one, NativePlan)
        assert one.workspace_bytes <= LARGEST_WORKSPACE * 4 * numbers


@needs_onednn
def test_what_is_greedy_together_is_right_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    shapes = ((2, 16, 9, 9), (16, 16, 3, 3), (2, 16, 7, 7))
    src, weights, dst = (rng.integers(-2, 3, shape).astype(np.float32) for shape in shapes)
    keywords: dict[str, Any] = {"data_format": "NCX", "weights_format": "OIX"}
    kinds = []
    for is_greedy in (False, True):
        monkeypatch.setattr(dispatch, "are_greedy", lambda *_, answer=is_greedy: answer)
        onednn_py.cache_clear()
        plan = onednn_py.plan(
            onednn_py.convolution_backward, src, weights, dst, **keywords, backend="onednn"
        )
        kinds.append(type(plan_jobs(plan._bound.jobs, "onednn", "heuristic")))
        expected = onednn_py.convolution_backward(src, weights, dst, **keywords, backend="numpy")
        for actual, right in zip(plan(src, weights, dst), expected, strict=True):
            np.testing.assert_array_equal(actual, right)
    assert kinds == [NativePlan, PlanSequence]
    onednn_py.cache_clear()


@needs_onednn
def test_a_choice_that_takes_much_memory_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    way = Way(of_images(GEOMETRIES["3x3"], 4).integers("f32"), "convolution_backward_data", "NCX")
    choice = Choice("f32", pieces=2)
    assert part_of(runtime(), way.problem, Wish(choice)) is not None
    monkeypatch.setattr(footprint, "SMALL_TENSORS", 0)
    monkeypatch.setattr(footprint, "LARGEST_WORKSPACE", 0.5)
    assert part_of(runtime(), way.problem, Wish(choice)) is None
    assert part_of(runtime(), way.problem, Wish(choice, frugal=False)) is not None
    assert part_of(runtime(), way.problem, Wish(Choice("f32", pieces=4))) is not None


@needs_onednn
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("cut", CUTS)
def test_packed_weights(cut: str, dtype: str) -> None:
    """Weights that pieces cut are packed whole."""
    way = Way(of_images(GEOMETRIES["3x3"], 4).integers(dtype), "convolution_backward_data", "NCX")
    part = part_of(runtime(), way.problem, Wish(Choice("f32", pieces=2, cut=cut)))
    assert part is not None
    plan = NativePlan(runtime(), part)
    assert plan.is_cut("weights") == (cut == "channels")
    way.check(plan)
    tensors = _tensors(way.problem)
    plan.execute(tensors)
    expected = tensors["src"].copy()
    tensors["src"].fill(0)
    packed = pack(plan, "weights", tensors["weights"])
    assert packed.fits(plan)
    execute_packed(plan, packed, tensors)
    np.testing.assert_array_equal(tensors["src"], expected)


@needs_onednn
def test_print_tells_of_what_there_are_pieces() -> None:
    way = Way(of_images(GEOMETRIES["3x3"], 4).integers("f32"), "convolution_backward_data", "NCX")
    for cut, told in (("images", "minibatch"), ("rows", "rows"), ("channels", "channels")):
        part = part_of(runtime(), way.problem, Wish(Choice("f32", pieces=2, cut=cut)))
        assert part is not None
        assert f"{told} in 2 pieces" in repr(NativePlan(runtime(), part))


@needs_onednn
def test_gradients_that_are_cut_in_different_ways_run_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(footprint, "SMALL_TENSORS", 0)
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
    assert "pieces" in repr(plan)
    onednn_py.cache_clear()
