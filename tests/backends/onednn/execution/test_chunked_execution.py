"""The minibatch in pieces: the same results, from smaller workspaces."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.binding.runtime import runtime
from onednn_py.backends.onednn.execution.casts import Conversions
from onednn_py.backends.onednn.execution.plan import NativePlan
from onednn_py.backends.onednn.selection import heuristics
from onednn_py.backends.onednn.selection import select as selection
from onednn_py.backends.onednn.selection import thresholds as amounts
from onednn_py.backends.onednn.selection.formulations import formulate
from onednn_py.backends.onednn.selection.heuristics import Wish
from onednn_py.backends.onednn.selection.select import candidates, part_of
from onednn_py.backends.onednn.selection.thresholds import good_pieces
from onednn_py.dispatch import bound_call as calls
from onednn_py.dispatch.planner import plan_jobs
from onednn_py.problem.problem import Choice, Problem
from onednn_py.system.memory_pool import pool
from onednn_py.tools.benchdnn.case import Case as Benchdnn
from onednn_py.tools.benchdnn.descriptor import parse_descriptor
from tests.support.candidate_runs import FORMATS, GEOMETRIES, NETWORKS, LaidOut, Way, of_images
from tests.support.cases import CURATED, OPERATIONS
from tests.support.memory_layouts import channels_outermost, crop, images_innermost
from tests.support.requirements import needs_onednn

IMAGES = 4


def an_image_each(problem: Problem, compute_dtype: str) -> int:
    return problem.src.shape[0]


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every problem in as many pieces as it has images."""
    for module in (heuristics, selection):
        monkeypatch.setattr(module, "good_pieces", an_image_each)
    onednn_py.cache_clear()


@needs_onednn
@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_candidate_is_right_in_pieces(name: str, operation: str) -> None:
    found = set()
    for data_format in FORMATS:
        tensors = of_images(GEOMETRIES[name], IMAGES).integers("f32")
        way = Way(tensors, operation, data_format)
        for part in way.parts():
            found.add(part.choice.pieces)
            if part.choice.pieces > 1:
                way.check(NativePlan(runtime(), part))
    assert found == {1, IMAGES // 2, IMAGES}


@needs_onednn
@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", ["2d_groups_16", "2d_depthwise", "3x3_stride", "1d_dilated"])
def test_in_half_precision(name: str, operation: str, dtype: str) -> None:
    way = Way(of_images(GEOMETRIES[name], IMAGES).integers(dtype), operation, "NCX")
    parts = [part for part in way.parts() if part.choice.pieces > 1]
    assert parts
    for part in parts:
        way.check(NativePlan(runtime(), part))


@needs_onednn
@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("form", [channels_outermost, images_innermost, crop])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_images_that_are_no_blocks_of_memory(operation: str, dtype: str, form: Any) -> None:
    for name in ("3x3", "1x1_stride", "2d_depthwise"):
        way = LaidOut(of_images(GEOMETRIES[name], IMAGES).integers(dtype), operation, "NCX", form)
        parts = [part for part in way.parts() if part.choice.pieces > 1]
        assert parts
        for part in parts:
            way.check(NativePlan(runtime(), part))


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("family", ["convolution", "conv_transpose"])
def test_sums_over_pieces_are_not_rounded(family: str, data_format: str) -> None:
    """Every image gives 1, behind a first one of 256, to which bfloat16 cannot add 1."""
    images = 9
    src = np.ones((images, 16, 4, 4), ml_dtypes.bfloat16)
    dst = np.zeros((images, 16, 4, 4), ml_dtypes.bfloat16)
    dst[:, :, 1, 1] = 1
    dst[0, :, 1, 1] = 256
    if data_format == "NXC":
        src, dst = (np.ascontiguousarray(np.moveaxis(one, 1, -1)) for one in (src, dst))
    plan = onednn_py.plan(
        getattr(onednn_py, f"{family}_backward_weights"), src, dst, (16, 16, 1, 1), bias=True,
        data_format=data_format, weights_format="OIX" if family == "convolution" else "IOX",
        backend="onednn",
    )  # fmt: skip
    (job,) = plan._bound.jobs
    checked = 0
    for part in candidates(runtime(), job.problem):
        part = part_of(runtime(), job.problem, Wish(replace(part.choice, pieces=images)))
        if part is None or part.choice.compute_dtype != "bf16":
            continue
        results = [np.empty(view.shape, ml_dtypes.bfloat16) for view in plan._task.results.values()]
        native = NativePlan(runtime(), part)
        inputs = dict(zip(plan._task.inputs, (src, dst), strict=True))
        calls.run(plan._task, inputs, results, calls.settings(), native.execute)
        for result in results:
            np.testing.assert_array_equal(result.astype(np.float32), 264)
        checked += 1
    assert checked


@needs_onednn
@pytest.mark.parametrize("pieces", [-1, 0, 3, 5, 8])
def test_pieces_are_equal(pieces: int) -> None:
    way = Way(of_images(CURATED["2d"], 4).integers("f32"), "convolution", "NCX")
    assert formulate(way.problem, "f32", pieces=pieces) is None
    assert part_of(runtime(), way.problem, Wish(Choice("f32", pieces=pieces))) is None


@needs_onednn
@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("family", ["convolution", "conv_transpose"])
def test_both_gradients_piece_by_piece(family: str, bias: bool, dtype: type) -> None:
    """Each piece of diff_dst is reordered once for both."""
    function = getattr(onednn_py, f"{family}_backward")
    rng = np.random.default_rng(0)
    src, weights, dst = (
        rng.integers(-1, 2, shape).astype(dtype)
        for shape in ((IMAGES, 32, 12, 12), (32, 32, 3, 3), (IMAGES, 32, 12, 12))
    )
    keywords: dict[str, Any] = {"pads_begin": 1, "pads_end": 1, "data_format": "NCX"}
    keywords["weights_format"] = "OIX" if family == "convolution" else "IOX"
    wrt = ("src", "weights", "bias")[: 2 + bias]
    plan = onednn_py.plan(function, src, weights, dst, wrt=wrt, **keywords, backend="onednn")
    native = plan_jobs(plan._bound.jobs, "onednn", "heuristic")
    assert isinstance(native, NativePlan)
    for part in native.parts:
        assert part.choice.pieces == IMAGES
    steps = Counter(step.name for step in native.program.steps)
    reordered = [name for name in steps if name.startswith("reorder of")]
    once = {"reorder of weights", "reorder of diff_weights"}
    assert all(steps[name] == (1 if name in once else IMAGES) for name in reordered)
    assert steps["sum of diff_weights"] == IMAGES - 1
    assert any("dst" in name for name in reordered)
    expected = function(src, weights, dst, wrt=wrt, **keywords, backend="numpy")
    for _ in range(2):
        for actual, right in zip(plan(src, weights, dst), expected, strict=True):
            np.testing.assert_array_equal(actual, right)


@needs_onednn
@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_packed_weights(dtype: type) -> None:
    rng = np.random.default_rng(0)
    dst = rng.integers(-3, 4, (IMAGES, 32, 12, 12)).astype(dtype)
    weights = rng.integers(-3, 4, (32, 32, 3, 3)).astype(dtype)
    plan = onednn_py.plan(
        onednn_py.convolution_backward_data, dst, weights,
        data_format="NCX", weights_format="OIX", backend="onednn",
    )  # fmt: skip
    assert f"minibatch in {IMAGES} pieces" in repr(plan)
    packed = plan.pack("weights", weights)
    np.testing.assert_array_equal(plan(dst, packed), plan(dst, weights))


@needs_onednn
@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("stage", ["before", "after"])
def test_an_error_between_pieces(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workspace is given back, and the next call is right."""
    rng = np.random.default_rng(0)
    dst = rng.integers(-1, 2, (IMAGES, 32, 12, 12)).astype(np.float16)
    weights = rng.integers(-1, 2, (32, 32, 3, 3)).astype(np.float16)
    keywords: dict[str, Any] = {"data_format": "NCX", "weights_format": "OIX"}
    plan = onednn_py.plan(onednn_py.convolution_backward_data, dst, weights, **keywords)
    if "f16 through f32" not in repr(plan):
        pytest.skip("float16 is not converted here")
    expected = plan(dst, weights)
    work = getattr(Conversions, stage)

    def fail(self: Conversions, piece: int, **more: bool) -> None:
        work(self, piece, **more)
        if piece == 1:
            raise MemoryError("between two pieces")

    pool.clear()
    with monkeypatch.context() as patched:
        patched.setattr(Conversions, stage, fail)
        with pytest.raises(MemoryError, match="between two pieces"):
            plan(dst, weights)
    assert pool.idle_bytes > 0
    np.testing.assert_array_equal(plan(dst, weights), expected)


@needs_onednn
@pytest.mark.usefixtures("cut")
def test_what_is_not_reordered_is_not_cut() -> None:
    way = Way(of_images(NETWORKS["3x3"], IMAGES).integers("f32"), "convolution", "NXC")
    wish = Wish(Choice("f32", activations="given"), pieces=IMAGES)
    part = part_of(runtime(), way.problem, wish)
    assert part is not None
    assert part.choice.pieces == 1


@needs_onednn
def test_a_piece_takes_less_memory() -> None:
    way = Way(of_images(NETWORKS["3x3"], 8).integers("f32"), "convolution_backward_data", "NCX")
    bytes_of = {}
    for pieces in (1, 2, 8):
        part = part_of(runtime(), way.problem, Wish(Choice("f32", pieces=pieces)))
        assert part is not None
        plan = NativePlan(runtime(), part)
        bytes_of[pieces] = plan.workspace_bytes
        primitives = {id(step.primitive) for step in plan.program.steps}
        assert len(primitives) == 4
    assert bytes_of[8] < bytes_of[2] < bytes_of[1]


@needs_onednn
@pytest.mark.parametrize("operation", OPERATIONS)
def test_only_a_piece_is_converted(operation: str) -> None:
    way = Way(of_images(NETWORKS["3x3"], 8).integers("f16"), operation, "NCX")
    plans = {}
    for pieces in (1, 2, 8):
        part = part_of(runtime(), way.problem, Wish(Choice("f32", "direct", pieces=pieces)))
        if part is None:  # the family's own primitive does not exist
            part = part_of(runtime(), way.problem, Wish(Choice("f32", "exchanged", pieces=pieces)))
        assert part is not None
        assert part.choice.pieces == pieces
        plans[pieces] = NativePlan(runtime(), part)
        way.check(plans[pieces])
    assert plans[8].workspace_bytes < plans[2].workspace_bytes < plans[1].workspace_bytes
    # Activations and both copies of weights; what is copied whole is twice the size of the rest.
    problem = way.problem
    halves = 2 * (problem.src.size + problem.dst.size)
    if not operation.endswith("weights"):
        assert plans[8].workspace_bytes < halves


@needs_onednn
def test_large_halves_are_converted_in_pieces() -> None:
    """Whole copies in float32 alone would be twice the tensors."""
    text = "mb16ic64ih56oc64kh3ph1"
    for direction in ("FWD_D", "BWD_D", "BWD_W"):
        case = Benchdnn(parse_descriptor(text), direction, "f16", "NCX")
        plan = plan_jobs(case.plan("onednn")._bound.jobs, "onednn", "heuristic")
        assert isinstance(plan, NativePlan)
        if plan.choice.compute_dtype == "f16":
            pytest.skip("float16 is not converted here")
        problem = plan.problem
        tensors = 2 * (problem.src.size + problem.weights.size + problem.dst.size)
        assert plan.workspace_bytes <= 1.2 * tensors


class TestHowMany:
    @staticmethod
    def pieces(text: str, direction: str = "BWD_D", dtype: str = "f32", within: str = "f32") -> int:
        (job,) = Benchdnn(parse_descriptor(text), direction, dtype, "NCX").plan("numpy")._bound.jobs
        return good_pieces(job.problem, within)

    def test_large_ones(self) -> None:
        """Two images of a depthwise problem are 3 MB, four of the other."""
        assert self.pieces("g128mb16ic128ih56oc128kh3ph1") == 8
        assert self.pieces("mb16ic64ih56oc64kh3ph1") == 4

    @pytest.mark.parametrize(
        "text", ["mb1ic64ih512oc64kh3ph1", "mb3ic64ih256oc64kh3ph1", "mb16ic64ih14oc64kh3ph1"]
    )
    def test_none(self, text: str) -> None:
        assert self.pieces(text) == 1

    def test_float16(self) -> None:
        """An image of 3 or 4 MB in float32 is converted alone."""
        assert self.pieces("g128mb4ic128ih56oc128kh3ph1", dtype="f16") == 4
        assert self.pieces("mb4ic32ih112oc64kh1", dtype="f16") == 4
        assert self.pieces("mb4ic64ih56oc64kh1", dtype="f16") == 1
        assert self.pieces("mb8ic64ih56oc64kh1", dtype="f16") == 2
        assert self.pieces("mb8ic64ih56oc64kh1", dtype="bf16") == 2
        # Where the type is computed as it is, images are as small as their bytes.
        assert self.pieces("mb8ic64ih56oc64kh1", dtype="f16", within="f16") == 1

    def test_depthwise_weights_image_by_image(self) -> None:
        assert self.pieces("g512mb16ic512ih14oc512kh3ph1", "BWD_W") == 16
        assert self.pieces("g512mb16ic512ih14oc512kh3ph1", "BWD_D") == 1
        assert self.pieces("g512mb16ic512ih7oc512kh3ph1", "BWD_W") == 1

    def test_depthwise_weights_in_bfloat16(self) -> None:
        text = "g128mb16ic128ih56oc128kh3ph1"
        assert self.pieces(text, "BWD_W", "bf16", "bf16") == 4
        assert self.pieces(text, "BWD_D", "bf16", "bf16") == 8
        assert self.pieces(text, "BWD_W", "bf16", "f32") == 16

    @pytest.mark.parametrize("images", range(1, 40))
    def test_a_divisor_of_the_minibatch(self, images: int) -> None:
        pieces = self.pieces(f"mb{images}ic64ih128oc64kh3ph1")
        assert images % pieces == 0
        assert images < 4 or images // pieces >= 2
        assert pieces <= 2 * prod((images, 64, 128, 128, 4)) / amounts.PIECE_BYTES
