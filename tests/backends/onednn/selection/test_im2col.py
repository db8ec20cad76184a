"""Products with patches: exact, whatever the geometry and the layouts."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onednn_py
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution import plan as plan_module
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection import im2col
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.formulations import formulate
from onednn_py.backends.onednn.selection.im2col import as_patch_product, gather
from onednn_py.backends.onednn.selection.preference import OverLimit, Preference
from onednn_py.backends.onednn.selection.rules import ANY_NAME, GEMM
from onednn_py.backends.onednn.selection.select import candidate_of
from onednn_py.backends.onednn.selection.workspace import (
    SMALL_TENSORS,
    over_limit,
    split_candidate,
)
from onednn_py.errors import OneDNNError
from onednn_py.problem.problem import Problem, TensorLayout
from tests.support.candidate_runs import (
    FORMATS,
    CandidateRun,
    StridedCandidateRun,
    computes_products,
)
from tests.support.cases import CURATED, Case, case
from tests.support.memory_layouts import channels_outermost, crop, images_innermost
from tests.support.requirements import needs_onednn
from tests.support.strategies import geometries

OPERATIONS = (
    "convolution_backward_weights",
    "conv_transpose_backward_weights",
    "convolution",
    "conv_transpose_backward_data",
)

GEOMETRIES = {
    "3x3": case((6, 5), 3, pads=1, minibatch=3, inputs=12, outputs=9),
    "stride": case((8, 8), 4, 2, pads=1, minibatch=3, inputs=16, outputs=8),
    "tail": case((9, 11), (2, 3), (3, 4), minibatch=2, inputs=5, outputs=7),
    "dilation": case((7, 6), 3, 1, 2, pads=2, minibatch=3, inputs=4, outputs=8),
    "stride and dilation": case((11, 12), (3, 2), 2, 3, pads=3, inputs=4, outputs=8),
    "asymmetric": case((7, 6), (1, 5), pads=(0, 2), minibatch=2, inputs=8, outputs=6),
    "whole image": case((4, 4), 4, minibatch=5, inputs=16, outputs=2),
    "wide pads": case((3, 2), 3, 2, pads=4, minibatch=3, inputs=3, outputs=4),
    "one image": case((5, 7), 3, pads=1, minibatch=1, inputs=8, outputs=16),
    "one input": case((6, 6), 5, pads=2, minibatch=2, inputs=1, outputs=6),
    "one column": case((6, 3), 3, minibatch=3, inputs=6, outputs=4),
    "line": case(20, 5, 2, pads=2, minibatch=3, inputs=8, outputs=6),
    "volume": case((4, 3, 5), 3, (1, 2, 1), pads=1, minibatch=2, inputs=6, outputs=8),
}


def candidate(problem: Problem, dtype: str, family: re.Pattern[str] = ANY_NAME) -> Candidate:
    if not computes_products():
        pytest.skip("a library without matmul")
    choice = Choice(dtype, "im2col", "given", "given")
    found = candidate_of(current_engine(), problem, Preference(choice, family))
    assert found is not None
    return found


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_bit(name: str, operation: str, data_format: str) -> None:
    for dtype in ("f32", "bf16", "f16"):
        run = CandidateRun(GEOMETRIES[name].integers(dtype), operation, data_format)
        run.check(OneDNNPlan(current_engine(), candidate(run.problem, "f32")))
    run = CandidateRun(GEOMETRIES[name].integers("bf16"), operation, data_format)
    for found in run.candidates():
        if found.choice.formulation == "im2col":
            run.check(OneDNNPlan(current_engine(), found))


@needs_onednn
@pytest.mark.parametrize("form", [crop, channels_outermost, images_innermost])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", ["3x3", "stride and dilation", "wide pads", "line"])
def test_strides_of_the_caller(name: str, operation: str, form: Any) -> None:
    tensors = GEOMETRIES[name].integers("f32")
    run = StridedCandidateRun(tensors, operation, "NCX", form)
    run.check(OneDNNPlan(current_engine(), candidate(run.problem, "f32")))


def test_dst_is_copied_only_where_it_is_no_matrix() -> None:
    weights, forward = "convolution_backward_weights", "convolution"
    for name, operation, data_format, copied in (
        ("3x3", weights, "NXC", {"src"}),
        ("3x3", weights, "NCX", {"src", "dst"}),
        ("one image", weights, "NCX", {"src"}),
        ("whole image", weights, "NCX", {"src"}),
        ("3x3", forward, "NXC", {"src"}),
        ("3x3", forward, "NCX", {"src", "dst"}),
        ("one image", forward, "NCX", {"src", "dst"}),  # for its bias
        ("one image", "conv_transpose_backward_data", "NCX", {"src"}),
    ):
        run = CandidateRun(GEOMETRIES[name].integers("f32"), operation, data_format)
        found = as_patch_product(run.problem)
        assert found is not None
        assert found[1] == copied, (name, data_format)


def test_other_problems_have_no_patches() -> None:
    for name, operation in (
        ("2d_groups_16", "convolution_backward_weights"),
        ("2d_1x1_strided", "convolution_backward_weights"),
        ("2d_channel_tail", "convolution_backward_data"),
        ("2d_channel_tail", "conv_transpose"),
        ("2d_groups_16", "convolution"),
    ):
        run = CandidateRun(CURATED[name].integers("f32"), operation, "NCX")
        assert as_patch_product(run.problem) is None
        assert formulate(run.problem, "f32", "im2col") is None
    for many in (
        case((30, 30), 3, inputs=4, outputs=8, minibatch=2),
        case((20, 20), 17, inputs=4, outputs=8, minibatch=1),
    ):
        run = CandidateRun(many.integers("f32"), "convolution", "NXC")
        assert as_patch_product(run.problem) is None
    run = CandidateRun(GEOMETRIES["3x3"].integers("f32"), "convolution_backward_weights", "NXC")
    assert formulate(run.problem, "f32", "im2col", 3, "minibatch") is not None
    assert formulate(run.problem, "f32", "im2col", 3, "spatial") is None


@needs_onednn
@pytest.mark.parametrize(
    ("data_format", "axis"), [("NCX", "minibatch"), ("NXC", "minibatch"), ("NCX", "channels")]
)
def test_chunks_gather_their_own_part(data_format: str, axis: str) -> None:
    geometry = case((7, 6), 3, pads=1, minibatch=3, inputs=32, outputs=16)
    run = CandidateRun(geometry.integers("f32"), "convolution_backward_weights", data_format)
    # The other matmul writes no part of the columns.
    whole = candidate(run.problem, "f32", GEMM)
    found = split_candidate(current_engine(), whole, axis, 3 if axis == "minibatch" else 2)
    assert found is not None
    assert len(found.formulation.chunks) == (3 if axis == "minibatch" else 2)
    run.check(OneDNNPlan(current_engine(), found))


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@given(geometry=geometries(), seed=st.integers(0, 9))
def test_patches_are_what_windows_meet(dtype: str, geometry: Case, seed: int) -> None:
    geometry = geometry.with_groups(1, geometry.inputs, geometry.outputs)
    src = geometry.normals(dtype, seed).arrays["src"]
    target = np.full(
        (geometry.minibatch, geometry.inputs, *geometry.kernel, *geometry.counts), np.nan, "f4"
    )
    run = CandidateRun(geometry.integers("f32"), "convolution_backward_weights", "NCX")
    gather(target, src, run.problem)
    both = ((0, 0), (0, 0))
    pads = zip(geometry.pads_begin, geometry.pads_end, strict=True)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(src, (*both, *pads)), geometry.extents, tuple(range(2, src.ndim))
    )
    ndim = len(geometry.kernel)
    steps = [slice(None, None, n) for n in (*geometry.strides, *geometry.dilations)]
    met = np.moveaxis(
        windows[(slice(None), slice(None), *steps)], range(-ndim, 0), range(2, 2 + ndim)
    )
    np.testing.assert_array_equal(target, met)


def test_patches_on_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(im2col, "SINGLE_THREADED", 0)
    geometry = GEOMETRIES["wide pads"]
    run = CandidateRun(geometry.integers("f32"), "convolution_backward_weights", "NCX")
    src = geometry.normals("f32").arrays["src"]
    shape = (geometry.minibatch, geometry.inputs, *geometry.kernel, *geometry.counts)
    one, several = np.full(shape, np.nan, "f4"), np.full(shape, np.nan, "f4")
    with onednn_py.num_threads(1):
        gather(one, src, run.problem)
    with onednn_py.num_threads(2):
        gather(several, src, run.problem)
    assert not np.isnan(one).any()
    np.testing.assert_array_equal(several, one)


@needs_onednn
def test_a_packed_src_is_read_by_the_same_geometry_alone() -> None:
    """The patches of another padding have the same shape."""
    tensors = case((6, 6), 3, pads=1, minibatch=2, inputs=16, outputs=8)
    shifted = case((6, 6), 3, pads=((2, 2), (0, 0)), minibatch=2, inputs=16, outputs=8)
    plans = [
        OneDNNPlan(
            current_engine(),
            candidate(
                CandidateRun(one.integers("f32"), "convolution_backward_weights", "NXC").problem,
                "f32",
            ),
        )
        for one in (tensors, shifted)
    ]
    src = tensors.normals("f32").arrays["src"]
    packed = plans[0].pack("src", src)
    assert packed is not None
    assert plans[0].accepts(packed)
    assert not plans[1].accepts(packed)


@needs_onednn
def test_packed_weights_are_read_in_the_same_order_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Inputs may lie behind the kernel's positions or before, in a matrix of the same strides."""
    # Where oneDNN has no convolution, the product reads them.
    monkeypatch.setattr(OneDNNPlan, "without_copies", None)
    geometry = case((4, 4), 3, pads=1, minibatch=2, inputs=16, outputs=8)
    tensors = geometry.integers("f32")
    run = CandidateRun(tensors, "convolution", "NCX")
    weights = tensors.arrays["weights"]
    inputs_last = np.moveaxis(np.ascontiguousarray(np.moveaxis(weights, 1, -1)), -1, 1)
    layout = TensorLayout((1, *weights.shape), (1, *(n // 4 for n in inputs_last.strides)))
    other_images = replace(geometry, minibatch=1).integers("f32")
    plan, of_other_order, of_other_images = (
        OneDNNPlan(current_engine(), candidate(problem, "f32", GEMM))
        for problem in (
            run.problem,
            replace(run.problem, weights=layout),
            CandidateRun(other_images, "convolution", "NCX").problem,
        )
    )
    packed = plan.pack("weights", weights[np.newaxis])
    assert packed is not None
    assert plan.accepts(packed)
    assert of_other_images.accepts(packed)
    assert not of_other_order.accepts(packed)


DEEP = case((4, 4), 3, pads=1, minibatch=1, inputs=256, outputs=512)


@needs_onednn
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_fpmath_mode(dtype: str) -> None:
    """The products of small integers are exact in bfloat16, too, whatever rounds its factors."""
    for operation in OPERATIONS:
        run = CandidateRun(GEOMETRIES["3x3"].integers(dtype), operation, "NXC")
        run.problem = replace(run.problem, fpmath_mode="bf16")
        run.check(OneDNNPlan(current_engine(), candidate(run.problem, "f32")))


@needs_onednn
def test_packed_weights_are_those_of_a_convolution() -> None:
    tensors = DEEP.integers("f32")
    for operation in ("convolution", "conv_transpose_backward_data"):
        run = CandidateRun(tensors, operation, "NXC")
        plan = OneDNNPlan(current_engine(), candidate(run.problem, "f32"))
        alone = plan.nbytes
        direct = plan.reading_packed("weights")
        assert direct.choice.formulation != "im2col"
        assert plan.nbytes == alone + direct.nbytes
        assert direct is plan.reading_packed("weights")
        assert plan.reading_packed("src") is plan
        run.check(direct)


@needs_onednn
def test_products_that_share_patches_read_packed_weights() -> None:
    if not computes_products():
        pytest.skip("a library without matmul")
    tensors = DEEP.integers("f32")
    both = [
        candidate(CandidateRun(tensors, f"conv_transpose_backward_{role}", "NXC").problem, "f32")
        for role in ("data", "weights")
    ]
    plan = OneDNNPlan(current_engine(), both[0], both[1].named({"weights": "diff_weights"}))
    assert [one.choice.formulation for one in plan.candidates] == ["im2col", "im2col"]
    assert plan.reading_packed("weights") is plan
    assert plan.without_copies is None


@needs_onednn
def test_only_a_missing_convolution_leaves_packed_weights_to_the_product(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not computes_products():
        pytest.skip("a library without matmul")
    status = "unimplemented"

    def fail(*arguments: Any, **keywords: Any) -> Candidate:
        raise OneDNNError("dnnl_primitive_desc_create", status)

    monkeypatch.setattr(plan_module, "decide", fail)
    made = candidate(CandidateRun(DEEP.integers("f32"), "convolution", "NXC").problem, "f32")
    plan = OneDNNPlan(current_engine(), made)
    assert plan.reading_packed("weights") is plan
    status = "out_of_memory"
    with pytest.raises(OneDNNError, match="out_of_memory"):
        OneDNNPlan(current_engine(), made).reading_packed("weights")


@needs_onednn
@pytest.mark.usefixtures("fresh_cache")
@pytest.mark.parametrize("data_format", FORMATS)
def test_both_gradients(data_format: str) -> None:
    """The data gradient of a transposed convolution and its weights gradient, in one call."""
    tensors = DEEP.integers("f32")
    for transposed in (False, True):
        name = "conv_transpose" if transposed else "convolution"
        arguments, keywords = tensors.arguments(name, data_format, FORMATS[data_format])
        (_, diff_dst, _), _ = tensors.arguments(
            f"{name}_backward_weights", data_format, FORMATS[data_format]
        )
        backward = getattr(onednn_py, f"{name}_backward")
        call = (arguments[0], arguments[1], diff_dst)
        plan = onednn_py.plan(backward, *call, **keywords, backend="onednn")
        assert "im2col" in str(plan)
        found = plan(*call)
        expected = backward(*call, **keywords, backend="numpy")
        packed = plan(call[0], plan.pack("weights", call[1]), call[2])
        for one, other, third in zip(found, expected, packed, strict=True):
            np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(third, other)


@needs_onednn
@pytest.mark.usefixtures("fresh_cache")
def test_a_plan_on_many_threads() -> None:
    if not computes_products():
        pytest.skip("a library without matmul")
    tensors = DEEP.integers("f32")
    (src, diff_dst, shape), keywords = tensors.arguments(
        "convolution_backward_weights", "NXC", FORMATS["NXC"]
    )
    function = onednn_py.convolution_backward_weights
    plan = onednn_py.plan(function, src, diff_dst, shape, **keywords, backend="onednn")
    assert "im2col" in str(plan)
    expected = function(src, diff_dst, shape, **keywords, backend="numpy")

    def work(factor: int) -> bool:
        return all(
            np.array_equal(actual, factor * wanted)
            for _ in range(3)
            for actual, wanted in zip(plan(src, factor * diff_dst), expected, strict=True)
        )

    with ThreadPoolExecutor(4) as workers:
        assert all(workers.map(work, range(-6, 7)))


@needs_onednn
def test_patches_have_a_limit_in_small_problems_too() -> None:
    """Tensors of 7 MB, patches of 15 MB, of which chunks of the minibatch have a part."""
    geometry = case((17, 17), 5, pads=2, minibatch=16, inputs=32, outputs=296)
    run = CandidateRun(geometry.integers("f32"), "convolution_backward_weights", "NXC")
    whole = formulate(run.problem, "f32", "im2col")
    assert whole is not None
    assert 4 * whole.problem.src.size > 1.2 * SMALL_TENSORS
    choice = Choice("f32", "im2col", "given", "given")
    assert candidate_of(current_engine(), run.problem, Preference(choice)) is None
    if not computes_products():
        pytest.skip("a library without matmul")
    found = candidate_of(
        current_engine(), run.problem, Preference(choice, over_limit=OverLimit.SPLIT)
    )
    assert found is not None
    assert len(found.formulation.chunks) > 1
    assert not over_limit(current_engine(), found)
