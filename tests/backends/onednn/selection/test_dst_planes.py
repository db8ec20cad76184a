"""Depthwise weights gradients of volumes as forward convolutions of planes: exact."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection import dst_as_weights, dst_planes, formulation
from onednn_py.backends.onednn.selection.formulations import formulate
from tests.support.candidate_runs import (
    FORMATS,
    CandidateRun,
    StridedCandidateRun,
    of_images,
    without_matmul,
)
from tests.support.cases import Case, case
from tests.support.memory_layouts import channels_outermost, crop, images_innermost
from tests.support.requirements import needs_onednn
from tests.support.volumes import (
    FAMILIES,
    VOLUMES,
    assert_equal_gradients,
    candidate,
    run_of,
)


def depthwise(geometry: Case, channels: int = 16) -> Case:
    return replace(geometry, groups=channels, inputs=channels, outputs=channels)


GEOMETRIES = {
    **{
        name: depthwise(VOLUMES[name])
        for name in (
            *("3x3x3", "one image", "strides", "patches", "tail", "padded at one end"),
            *("dilation", "stride and dilation", "wide pads", "flat kernel", "deep kernel"),
        )
    },
    "5x5x5": depthwise(case((8, 7, 9), 5, pads=2)),
    "7x7x7": depthwise(case((7, 8, 7), 7, pads=3), 32),
    "unpadded": depthwise(case((7, 6, 7), 3)),
    "planes without windows": depthwise(case((9, 7, 8), 2, 3)),
    "part of a block": depthwise(case((6, 7, 6), 5, pads=2), 20),
}

# No plane of diff_dst meets src with all positions along the depth.
SHALLOW = {
    "two planes": depthwise(case((2, 6, 6), 3, pads=1)),
    "a plane": depthwise(case((1, 6, 7), 3, pads=1)),
    "positions in padding alone": depthwise(case((2, 6, 7), 7, pads=3)),
}


@needs_onednn
@pytest.mark.parametrize("activations", ["any", "nxc"])
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_bit(name: str, family: str, data_format: str, activations: str) -> None:
    run = run_of(GEOMETRIES[name], family, data_format)
    found = candidate(run, "dst_as_weights", activations)
    assert not found.formulation.is_partial
    run.check(OneDNNPlan(current_engine(), found))


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", SHALLOW)
def test_shallow_volumes(name: str, family: str, data_format: str) -> None:
    """All parts are added to zeros."""
    run = run_of(SHALLOW[name], family, data_format)
    found = candidate(run, "dst_as_weights")
    assert found.formulation.is_partial
    run.check(OneDNNPlan(current_engine(), found))


@needs_onednn
@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("name", ["3x3x3", "strides", "5x5x5", "unpadded"])
def test_tiles_of_planes(name: str, images: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(of_images(GEOMETRIES[name], images))
    whole = len(candidate(run, "dst_as_weights").formulation.chunks)
    monkeypatch.setattr(dst_as_weights, "MOST_COLUMNS", 4)
    monkeypatch.setattr(dst_as_weights, "TILE_BYTES", 6000)
    found = candidate(run, "dst_as_weights")
    assert len(found.formulation.chunks) > whole
    run.check(OneDNNPlan(current_engine(), found))


@needs_onednn
@pytest.mark.parametrize("form", [crop, channels_outermost, images_innermost])
@pytest.mark.parametrize("family", FAMILIES)
def test_tensors_in_any_order(family: str, form: Any) -> None:
    tensors = GEOMETRIES["5x5x5"].integers("f32")
    run = StridedCandidateRun(tensors, f"{family}_backward_weights", "NCX", form)
    run.check_formulation("dst_as_weights")


@pytest.mark.parametrize(
    "name",
    ["3x3x3", "strides", "padded at one end", "stride and dilation", "unpadded", "two planes"],
)
def test_chunks_have_every_product_once(name: str) -> None:
    """Along the depth: each plane of diff_dst with each position and the plane of src it meets."""
    problem = replace(run_of((GEOMETRIES | SHALLOW)[name]).problem, bias=None)
    found = dst_planes.as_planes_of_dst(problem)
    assert found is not None
    products = []
    for chunk in found.chunks:
        image, _, plane, *_ = chunk.tensors["src"].begin
        (_, _, of_image, window, *_) = chunk.tensors["weights"].begin
        assert image == of_image
        first = chunk.tensors["dst"].begin[2]
        for number in range(chunk.problem.dst.shape[0]):
            products.append((image, window, first + number, plane + number * problem.dilations[0]))
    expected = {
        (image, window, position, read)
        for image in range(problem.src.shape[0])
        for window in range(problem.dst.shape[2])
        for position in range(problem.kernel[0])
        for read in [
            window * problem.strides[0] + position * problem.dilations[0] - problem.pads_begin[0]
        ]
        if 0 <= read < problem.src.shape[2]
    }
    assert len(products) == len(expected)
    assert set(products) == expected


def test_other_problems_have_none() -> None:
    def planes_of(geometry: Case, operation: str = "convolution_backward_weights") -> Any:
        return dst_planes.as_planes_of_dst(
            CandidateRun(geometry.integers("f32"), operation, "NCX").problem
        )

    geometry = GEOMETRIES["3x3x3"]
    assert planes_of(geometry) is not None
    assert planes_of(geometry, "convolution_backward_data") is None
    assert planes_of(geometry, "convolution") is None
    assert planes_of(VOLUMES["3x3x3"]) is None
    assert planes_of(VOLUMES["groups"]) is None
    assert planes_of(depthwise(case((6, 7), 3, pads=1))) is None
    small = depthwise(case((2, 3, 3), (3, 1, 1), pads=((1, 0, 0), (1, 0, 0))))
    most = dst_planes.MOST_CHUNKS // 2
    assert planes_of(of_images(small, most)) is not None
    assert planes_of(of_images(small, most + 1)) is None


def test_planes_that_are_no_layout_have_none() -> None:
    """Every second plane of three, channels first: oneDNN has no layout of them."""
    geometry = depthwise(case((3, 6, 6), (2, 3, 3), 1, (2, 1, 1)))
    for data_format, exists in (("NCX", False), ("NXC", True)):
        problem = run_of(geometry, data_format=data_format).problem
        assert (dst_planes.as_planes_of_dst(problem) is not None) == exists


@needs_onednn
def test_both_gradients_of_one_call() -> None:
    assert_equal_gradients(32, 32, "dst_as_weights", kernel=5)


@needs_onednn
def test_the_bias_gradient_is_summed_once() -> None:
    """Where products sum it, NumPy does not."""
    run = run_of(depthwise(case((2, 9, 9), 3, pads=1)))
    plan = OneDNNPlan(current_engine(), candidate(run, "dst_as_weights"))
    assert plan.candidates[0].formulation.is_partial
    assert any("sum of bias" in step.name for step in plan.program.steps)
    with mock.patch.object(formulation, "sum_into_bias") as summed:
        run.check(plan)
    summed.assert_not_called()


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_conversions_have_none(dtype: str) -> None:
    tensors = GEOMETRIES["3x3x3"].integers(dtype)
    problem = CandidateRun(tensors, "convolution_backward_weights", "NCX").problem
    assert formulate(problem, "f32", "dst_as_weights") is None


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("family", FAMILIES)
def test_bias_gradient_is_a_sum_of_all_planes(family: str, data_format: str) -> None:
    """By products with ones, or by NumPy; also where the weights' parts are added to zeros."""
    for geometry in (GEOMETRIES["5x5x5"], SHALLOW["two planes"]):
        run = run_of(geometry, family, data_format)
        found = candidate(run, "dst_as_weights")
        assert found.choice.bias_apart
        run.check(OneDNNPlan(current_engine(), found))


@needs_onednn
@pytest.mark.parametrize("family", FAMILIES)
def test_bias_gradient_that_numpy_sums_beside_zeros(family: str) -> None:
    """NumPy sums it before the parts of the weights gradient are added to zeros."""
    run = run_of(depthwise(case((2, 3, 3), 3, pads=1)), family)
    found = candidate(run, "dst_as_weights")
    assert found.choice.bias_apart
    assert found.formulation.is_partial
    with without_matmul():
        plan = OneDNNPlan(current_engine(), found)
        assert "sum of bias" not in " ".join(step.name for step in plan.program.steps)
        run.check(plan)


@needs_onednn
def test_a_plan_tells_of_its_chunks() -> None:
    found = candidate(run_of(GEOMETRIES["one image"]), "dst_as_weights")
    assert "formulation: dst_as_weights, in 9 chunks" in repr(OneDNNPlan(current_engine(), found))


@needs_onednn
def test_candidates_have_it() -> None:
    found = {one.choice.formulation for one in run_of(GEOMETRIES["5x5x5"]).candidates()}
    assert "dst_as_weights" in found
