"""Depthwise problems on volumes as problems on planes: exact."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection import planes, workspace
from onednn_py.backends.onednn.selection.formulations import formulate
from onednn_py.backends.onednn.selection.workspace import agree_on_shared, over_limit
from onednn_py.problem.problem import TensorLayout
from tests.support.candidate_runs import (
    FORMATS,
    CandidateRun,
    StridedCandidateRun,
    of_images,
    without_matmul,
)
from tests.support.cases import OPERATIONS, Case, case
from tests.support.memory_layouts import channels_outermost, crop, images_innermost
from tests.support.requirements import needs_onednn
from tests.support.volumes import FAMILIES, VOLUMES, assert_equal_gradients, candidate, run_of


def depthwise(geometry: Case, channels: int = 16) -> Case:
    """Return a geometry with channels that are a group each."""
    return replace(geometry, groups=channels, inputs=channels, outputs=channels)


# Of depthwise weights gradients, oneDNN has kernels up to 3x3 without dilation.
GEOMETRIES = {
    name: depthwise(VOLUMES[name])
    for name in (
        *("3x3x3", "one image", "strides", "patches", "padded at one end"),
        *("wide pads", "flat kernel", "deep kernel"),
    )
}

GEOMETRIES |= {
    "strides on an odd depth": depthwise(case((9, 8, 8), 3, 2, pads=1)),
    "unpadded": depthwise(case((7, 6, 7), 3)),
    "unpadded strides": depthwise(case((9, 7, 8), 3, 2)),
    "planes without windows": depthwise(case((9, 7, 8), 2, 3)),
    "a plane with padding alone": depthwise(case((1, 6, 6), 3, pads=1)),
    "two planes": depthwise(case((2, 6, 6), 3, pads=1)),
}

# The result is zero before terms are added to it: where no position meets all planes of it, or no
# window meets some of them; of weights gradients, where a position meets padding alone.
OF_DATA = {"padded at one end", "unpadded", "planes without windows"}
BEGIN_AT_ZERO = {
    "convolution": set(),
    "convolution_backward_data": OF_DATA,
    "convolution_backward_weights": {"a plane with padding alone"},
    "conv_transpose": OF_DATA,
    "conv_transpose_backward_data": set(),
    "conv_transpose_backward_weights": {"a plane with padding alone"},
}


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_bit(name: str, operation: str, data_format: str) -> None:
    run = CandidateRun(GEOMETRIES[name].integers("f32"), operation, data_format)
    begins_at_zero = candidate(run, "planes").formulation.is_partial
    assert begins_at_zero == (name in BEGIN_AT_ZERO[operation])
    for activations in ("any", "nxc"):
        run.check_formulation("planes", activations)


@needs_onednn
@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", ["3x3x3", "strides"])
def test_chunks_of_some_planes(
    name: str, operation: str, images: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terms of the same sum that have fewer planes than others."""
    geometry = of_images(GEOMETRIES[name], images)
    run = CandidateRun(geometry.integers("f32"), operation, "NCX")
    whole = len(candidate(run, "planes").formulation.chunks)
    monkeypatch.setattr(planes, "BLOCK_BYTES", 2 * 4 * (16 + 16) * 7 * 8)
    found = candidate(run, "planes")
    assert len({chunk.problem.src.shape[0] for chunk in found.formulation.chunks}) > 1
    assert len(found.formulation.chunks) > whole
    run.check(OneDNNPlan(current_engine(), found))


def step_counts(geometry: Case, operation: str) -> Counter[str]:
    """Return how many steps of each name planes have, with channels first."""
    run = CandidateRun(geometry.integers("f32"), operation, "NCX")
    plan = OneDNNPlan(current_engine(), candidate(run, "planes"))
    return Counter(step.name for step in plan.program.steps)


# Each position has a part of its own.
WEIGHTS = {"reorder of weights": 3, "sum of weights": 0}


@needs_onednn
@pytest.mark.parametrize(
    ("operation", "steps"),
    [
        ("convolution", {"reorder of src": 1, "reorder of dst": 1, "sum of dst": 0}),
        ("convolution_backward_data", {"reorder of dst": 1, "reorder of src": 1, "sum of src": 2}),
        ("convolution_backward_weights", {"reorder of src": 1, "reorder of dst": 1} | WEIGHTS),
        ("conv_transpose", {"reorder of src": 1, "reorder of dst": 1, "sum of dst": 2}),
        (
            "conv_transpose_backward_data",
            {"reorder of dst": 1, "reorder of src": 1, "sum of src": 0},
        ),
        ("conv_transpose_backward_weights", {"reorder of src": 1, "reorder of dst": 1} | WEIGHTS),
    ],
)
def test_terms_share_the_reorders_of_a_block(operation: str, steps: dict[str, int]) -> None:
    """Of three positions; forward passes are added by the primitive."""
    found = step_counts(GEOMETRIES["one image"], operation)
    assert {name: found[name] for name in steps} == steps


@needs_onednn
@pytest.mark.parametrize(
    ("geometry", "reorders"),
    [
        (case((8, 6, 6), 3, (2, 1, 1), pads=1, minibatch=1), 2),
        (case((9, 6, 6), (5, 3, 3), (4, 1, 1), minibatch=1), 5),
        (case((5, 6, 6), 3, dilations=(2, 1, 1), minibatch=1), 3),
    ],
)
def test_planes_that_no_term_reads_are_not_copied(geometry: Case, reorders: int) -> None:
    """Every stride-th plane is in a block, unless oneDNN has no layout of all: planes 0, 4 and 8.

    With dilations, single planes that others lie between are blocks of their own.
    """
    assert step_counts(depthwise(geometry), "convolution")["reorder of src"] == reorders


@needs_onednn
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_estimate_of_the_workspace(operation: str) -> None:
    """Within a twentieth: it has no gaps between buffers, and a copy of a term of the weights."""
    run = CandidateRun(GEOMETRIES["one image"].integers("f32"), operation, "NCX")
    found = candidate(run, "planes")
    estimate = workspace._workspace_bytes(current_engine(), found)
    plan = OneDNNPlan(current_engine(), found)
    assert plan.workspace_bytes == pytest.approx(estimate, rel=0.05)


@needs_onednn
def test_blocks_of_another_layout_are_refused() -> None:
    engine = current_engine()
    run = CandidateRun(GEOMETRIES["unpadded"].integers("f32"), "convolution", "NCX")
    found = candidate(run, "planes")
    formulation, descriptors = found.formulation, dict(found.descriptors)
    assert agree_on_shared(engine, formulation, descriptors)
    block = formulation.chunks[0].tensors["src"].block
    assert block is not None
    assert block.problem not in {chunk.problem for chunk in formulation.chunks}
    others = candidate(run, "planes", "nxc").descriptors
    descriptors[block.problem] = others[block.problem]
    assert not agree_on_shared(engine, formulation, descriptors)


@needs_onednn
@pytest.mark.parametrize("images", [1, 2])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_copies_of_one_large_image_stay_within_the_limit(operation: str, images: int) -> None:
    """Of 17 channels, whose copies have 32 with AVX-512."""
    geometry = depthwise(case((40, 40, 40), 3, pads=1, minibatch=images), 17)
    run = CandidateRun(geometry.integers("f32"), operation, "NCX")
    found = candidate(run, "planes")
    assert not over_limit(current_engine(), found)
    run.check(OneDNNPlan(current_engine(), found))


@needs_onednn
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("form", [crop, channels_outermost, images_innermost])
def test_tensors_in_any_order(form: Any, operation: str) -> None:
    tensors = GEOMETRIES["3x3x3"].integers("f32")
    StridedCandidateRun(tensors, operation, "NCX", form).check_formulation("planes")


def planes_apart(array: Any) -> Any:
    """Return the same volumes, channels last, as every second plane of larger ones."""
    images, planes, *others = array.shape
    view = np.full((images, 2 * planes, *others), 7, array.dtype)[:, ::2]
    view[...] = array
    return view


@needs_onednn
@pytest.mark.parametrize("operation", OPERATIONS)
def test_parts_of_one_plane_in_blocks_with_gaps(operation: str) -> None:
    """A plane alone has no gap, so that its layout is the primitive's; that of its block is not."""
    tensors = GEOMETRIES["two planes"].integers("f32")
    run = StridedCandidateRun(tensors, operation, "NXC", planes_apart)
    run.check_formulation("planes", "nxc")


@needs_onednn
def test_both_gradients_of_one_call() -> None:
    assert_equal_gradients(32, 32, "planes")


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("family", FAMILIES)
def test_bias_gradient_is_a_sum_of_all_planes(family: str, data_format: str) -> None:
    """By products with ones, which want images of some pixels."""
    run = run_of(GEOMETRIES["3x3x3"], family, data_format)
    found = candidate(run, "planes")
    assert found.choice.bias_apart
    run.check(OneDNNPlan(current_engine(), found))


@needs_onednn
@pytest.mark.parametrize("family", FAMILIES)
def test_bias_gradient_that_numpy_sums_beside_zeros(family: str) -> None:
    """NumPy sums it before the parts of the weights gradient are added to zeros."""
    run = run_of(depthwise(case((1, 3, 3), 3, pads=1)), family)
    found = candidate(run, "planes")
    assert found.choice.bias_apart
    assert found.formulation.is_partial
    with without_matmul():
        plan = OneDNNPlan(current_engine(), found)
        assert "sum of bias" not in " ".join(step.name for step in plan.program.steps)
        run.check(plan)


def test_planes_that_overlap_have_none() -> None:
    """oneDNN has no layout of them."""
    problem = CandidateRun(GEOMETRIES["3x3x3"].integers("f32"), "convolution", "NCX").problem
    images, channels, *spatial = problem.dst.strides
    assert planes.as_planes(problem) is not None
    overlapping = TensorLayout(problem.dst.shape, (images, channels, 1, *spatial[1:]))
    assert planes.as_planes(replace(problem, dst=overlapping)) is None


def test_other_problems_have_none() -> None:
    def planes_of(geometry: Case, operation: str = "convolution_backward_weights") -> Any:
        problem = CandidateRun(geometry.integers("f32"), operation, "NCX").problem
        return formulate(problem, "f32", "planes")

    geometry = GEOMETRIES["3x3x3"]
    assert planes_of(geometry) is not None
    assert planes_of(VOLUMES["3x3x3"]) is None
    assert planes_of(VOLUMES["groups"]) is None
    assert planes_of(depthwise(case((6, 7), 3, pads=1))) is None
    most = planes.MOST_CHUNKS // 3
    small = depthwise(case((2, 3, 3), (3, 1, 1), pads=((1, 0, 0), (1, 0, 0))))
    assert planes_of(of_images(small, most)) is not None
    assert planes_of(of_images(small, most + 1)) is None


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_conversions_have_none(dtype: str) -> None:
    tensors = GEOMETRIES["3x3x3"].integers(dtype)
    problem = CandidateRun(tensors, "convolution_backward_weights", "NCX").problem
    assert formulate(problem, "f32", "planes") is None


@needs_onednn
def test_a_plan_tells_of_its_chunks() -> None:
    found = candidate(run_of(GEOMETRIES["one image"]), "planes")
    assert "formulation: planes, in 3 chunks" in repr(OneDNNPlan(current_engine(), found))


@needs_onednn
def test_candidates_have_it() -> None:
    found = {one.choice.formulation for one in run_of(GEOMETRIES["3x3x3"]).candidates()}
    assert "planes" in found
