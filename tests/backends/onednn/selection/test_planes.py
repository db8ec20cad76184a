"""Weights gradients of volumes as those of planes: exact, with every position of the depth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection import planes
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.formulations import formulate
from onednn_py.backends.onednn.selection.preference import Preference
from onednn_py.backends.onednn.selection.select import candidate_of
from tests.support.candidate_runs import FORMATS, CandidateRun, StridedCandidateRun, of_images
from tests.support.cases import Case, case
from tests.support.memory_layouts import channels_outermost, crop, images_innermost
from tests.support.requirements import needs_onednn

FAMILIES = ("convolution", "conv_transpose")

GEOMETRIES = {
    "3x3x3": case((6, 7, 8), 3, pads=1, inputs=8, outputs=16),
    "one image": case((9, 6, 7), 3, pads=1, minibatch=1, inputs=16, outputs=8),
    "strides": case((10, 9, 7), 3, 2, pads=1, inputs=8, outputs=8),
    "patches": case((8, 6, 4), 2, 2, inputs=16, outputs=8),
    "tail": case((12, 11, 8), 2, 3, pads=(0, 1), inputs=8, outputs=8),
    "dilation": case((9, 8, 9), 3, 1, (2, 1, 2), pads=((2, 1, 0), (2, 1, 0)), inputs=8, outputs=8),
    "stride and dilation": case((14, 9, 8), 3, (2, 1, 1), (3, 1, 2), pads=3, inputs=8, outputs=8),
    "wide pads": case((4, 6, 6), (5, 3, 3), pads=((3, 1, 1), (3, 1, 1)), inputs=8, outputs=8),
    "flat kernel": case((5, 8, 9), (1, 3, 3), pads=((0, 1, 1), (0, 1, 1)), inputs=8, outputs=8),
    "deep kernel": case((9, 5, 6), (3, 1, 1), pads=((1, 0, 0), (1, 0, 0)), inputs=8, outputs=8),
    "few channels": case((6, 7, 5), 3, pads=1, inputs=3, outputs=5),
    "groups": case((6, 7, 5), 3, pads=1, groups=2, inputs=16, outputs=16),
}


def candidate(run: CandidateRun, activations: str = "any") -> Candidate:
    found = candidate_of(
        current_engine(), run.problem, Preference(Choice("f32", "planes", activations))
    )
    assert found is not None
    return found


def run_of(geometry: Case, family: str = "convolution", data_format: str = "NCX") -> CandidateRun:
    return CandidateRun(geometry.integers("f32"), f"{family}_backward_weights", data_format)


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_bit(name: str, family: str, data_format: str) -> None:
    run = run_of(GEOMETRIES[name], family, data_format)
    for activations in ("any", "nxc"):
        run.check_formulation("planes", activations)


@needs_onednn
@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_chunks_of_some_planes(family: str, images: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms of the same sum that have fewer planes than others."""
    monkeypatch.setattr(planes, "CHUNK_BYTES", 4 * 4 * (8 + 16) * 7 * 8)
    run = run_of(of_images(GEOMETRIES["3x3x3"], images), family)
    found = candidate(run)
    sizes = {chunk.problem.src.shape[0] for chunk in found.formulation.chunks}
    assert sizes == {1, 2, 4}
    run.check(OneDNNPlan(current_engine(), found))


@needs_onednn
@pytest.mark.parametrize("form", [crop, channels_outermost, images_innermost])
def test_tensors_in_any_order(form: Any) -> None:
    tensors = GEOMETRIES["3x3x3"].integers("f32")
    run = StridedCandidateRun(tensors, "convolution_backward_weights", "NCX", form)
    run.check_formulation("planes")


@needs_onednn
def test_both_gradients_of_one_call() -> None:
    """They are equal to those of the NumPy backend, the bias gradient included."""
    rng = np.random.default_rng(7)
    src = rng.integers(-3, 4, (2, 16, 20, 20, 20)).astype(np.float32)
    diff_dst = rng.integers(-3, 4, (2, 32, 20, 20, 20)).astype(np.float32)
    weights = rng.integers(-3, 4, (32, 16, 3, 3, 3)).astype(np.float32)
    both, expected = (
        onednn_py.convolution_backward(
            src,
            weights,
            diff_dst,
            wrt=("src", "weights", "bias"),
            data_format="NCX",
            weights_format="OIX",
            pads_begin=1,
            pads_end=1,
            backend=backend,
        )
        for backend in ("onednn", "numpy")
    )
    for actual, right in zip(both, expected, strict=True):
        np.testing.assert_array_equal(actual, right)


@needs_onednn
@pytest.mark.parametrize("family", FAMILIES)
def test_bias_gradient_is_a_sum_of_all_planes(family: str) -> None:
    run = run_of(GEOMETRIES["3x3x3"], family)
    assert run.problem.has_bias_gradient
    found = candidate(run)
    assert found.choice.bias_apart
    run.check(OneDNNPlan(current_engine(), found))


def test_other_problems_have_none() -> None:
    def planes_of(geometry: Case, operation: str = "convolution_backward_weights") -> Any:
        problem = CandidateRun(geometry.integers("f32"), operation, "NCX").problem
        return formulate(problem, "f32", "planes")

    geometry = GEOMETRIES["3x3x3"]
    assert planes_of(geometry) is not None
    assert planes_of(geometry, "convolution_backward_data") is None
    assert planes_of(geometry, "convolution") is None
    assert planes_of(case((6, 7), 3, pads=1)) is None
    # A position along the depth that meets the padding alone, whose gradient is zero.
    assert planes_of(case((1, 6, 6), 3, pads=1)) is None
    # Of every second plane of an odd number of them, oneDNN has no layout with channels first.
    assert planes_of(case((9, 8, 8), 3, 2, pads=1)) is None
    most = planes.MOST_CHUNKS // 3
    small = case((2, 3, 3), (3, 1, 1), pads=((1, 0, 0), (1, 0, 0)), inputs=1, outputs=1)
    assert planes_of(of_images(small, most)) is not None
    assert planes_of(of_images(small, most + 1)) is None


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_conversions_have_none(dtype: str) -> None:
    tensors = GEOMETRIES["3x3x3"].integers(dtype)
    problem = CandidateRun(tensors, "convolution_backward_weights", "NCX").problem
    assert formulate(problem, "f32", "planes") is None


@needs_onednn
def test_a_plan_tells_of_its_chunks() -> None:
    plan = OneDNNPlan(current_engine(), candidate(run_of(GEOMETRIES["one image"])))
    assert "formulation: planes, in 3 chunks" in repr(plan)


@needs_onednn
def test_candidates_have_it_where_avx512_is_not() -> None:
    found = {one.choice.formulation for one in run_of(GEOMETRIES["3x3x3"]).candidates()}
    assert ("planes" in found) != ("avx512" in current_engine().library.cpu_isa)
