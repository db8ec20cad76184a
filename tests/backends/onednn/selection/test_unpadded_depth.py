"""Weights gradients of volumes in parts without padding along the depth: exact."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection import unpadded_depth
from onednn_py.backends.onednn.selection.formulations import formulate
from onednn_py.backends.onednn.selection.unpadded_depth import as_unpadded
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

# Without padding along the depth, the family's own primitive has kernels.
UNPADDED = ("patches", "flat kernel", "tail")

SHALLOW = {
    "two planes": case((2, 6, 7), 3, pads=1, inputs=8, outputs=16),
    "positions in the padding alone": case(
        (2, 5, 6), 5, pads=((3, 2, 2),) * 2, inputs=8, outputs=8
    ),
    "strides": case((3, 6, 7), (5, 3, 3), (2, 1, 1), pads=((3, 1, 1),) * 2, inputs=8, outputs=8),
}


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", sorted(VOLUMES.keys() - set(UNPADDED)))
def test_every_bit(name: str, family: str, data_format: str) -> None:
    run = run_of(VOLUMES[name], family, data_format)
    for activations in ("any", "nxc"):
        run.check_formulation("unpadded_depth", activations)


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", SHALLOW)
def test_shallow_volumes(name: str, family: str, data_format: str) -> None:
    """All parts are added to zeros, since no window meets src with all positions."""
    run = run_of(SHALLOW[name], family, data_format)
    found = candidate(run, "unpadded_depth")
    assert found.formulation.is_partial
    assert not any(chunk.is_first for chunk in found.formulation.chunks)
    for activations in ("any", "nxc"):
        run.check_formulation("unpadded_depth", activations)


@needs_onednn
@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_chunks_of_some_planes(family: str, images: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The middle of the volume in several terms, the last of fewer planes."""
    monkeypatch.setattr(unpadded_depth, "CHUNK_BYTES", 3 * 4 * images * (8 + 16) * 7 * 8)
    run = run_of(of_images(VOLUMES["3x3x3"], images), family)
    found = candidate(run, "unpadded_depth")
    depths = [chunk.problem.as_convolution().dst.shape[2] for chunk in found.formulation.chunks]
    assert depths == [3, 1, 1, 1]
    run.check(OneDNNPlan(current_engine(), found))


@needs_onednn
def test_no_more_chunks_than_are_worth_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have more planes instead."""
    monkeypatch.setattr(unpadded_depth, "CHUNK_BYTES", 1)
    run = run_of(VOLUMES["3x3x3"])
    for most, number in ((64, 6), (5, 4)):
        monkeypatch.setattr(unpadded_depth, "MOST_CHUNKS", most)
        found = candidate(run, "unpadded_depth")
        assert len(found.formulation.chunks) == number
        run.check(OneDNNPlan(current_engine(), found))
    monkeypatch.setattr(unpadded_depth, "MOST_CHUNKS", 3)
    assert formulate(run.problem, "f32", "unpadded_depth") is None


@needs_onednn
@pytest.mark.parametrize("form", [crop, channels_outermost, images_innermost])
def test_tensors_in_any_order(form: Any) -> None:
    tensors = VOLUMES["3x3x3"].integers("f32")
    run = StridedCandidateRun(tensors, "convolution_backward_weights", "NCX", form)
    run.check_formulation("unpadded_depth")


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("family", FAMILIES)
def test_bias_gradient_is_a_sum_of_all_planes(family: str, data_format: str) -> None:
    """By products with ones, which want images of some pixels."""
    run = run_of(case((6, 7, 8), 3, pads=1, inputs=8, outputs=8), family, data_format)
    found = candidate(run, "unpadded_depth")
    assert found.choice.bias_apart
    run.check(OneDNNPlan(current_engine(), found))


@needs_onednn
@pytest.mark.parametrize("family", FAMILIES)
def test_bias_gradient_that_numpy_sums_beside_zeros(family: str) -> None:
    """NumPy sums it before the parts of the weights gradient are added to zeros."""
    run = run_of(case((2, 3, 3), 3, pads=1, inputs=8, outputs=16), family)
    found = candidate(run, "unpadded_depth")
    assert found.choice.bias_apart
    assert found.formulation.is_partial
    with without_matmul():
        plan = OneDNNPlan(current_engine(), found)
        assert "sum of bias" not in " ".join(step.name for step in plan.program.steps)
        run.check(plan)


@needs_onednn
def test_both_gradients_of_one_call() -> None:
    assert_equal_gradients(16, 1, "unpadded_depth")


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation", "pads"),
    [
        one
        for one in product((4, 5, 7, 12), (2, 3, 4), (1, 2, 3), (1, 2), (0, 1, 2, 3))
        if one[0] + 2 * one[4] >= (one[1] - 1) * one[3] + 1
    ],
)
def test_parts_have_every_product(
    size: int, kernel: int, stride: int, dilation: int, pads: int
) -> None:
    """Each window along the depth meets each plane of src once, by the right position."""
    numbers = (stride, 1, 1), (dilation, 1, 1), ((pads, 0, 0), (pads, 0, 0))
    problem = run_of(case((size, 1, 1), (kernel, 1, 1), *numbers)).problem
    expected = {
        (window, position, window * stride + position * dilation - pads)
        for window in range(problem.dst.shape[2])
        for position in range(kernel)
        if 0 <= window * stride + position * dilation - pads < size
    }
    by_window = [{p for w, p, _ in expected if w == window} for window in range(size + 2 * pads)]
    unpadded = as_unpadded(problem)
    if unpadded is None:
        assert len({frozenset(one) for one in by_window if one}) == 1
        return
    _, chunks, begins_at_zero = unpadded
    assert begins_at_zero == (set(range(kernel)) not in by_window)
    assert [chunk.is_first for chunk in chunks] == [not begins_at_zero] + [False] * len(chunks[1:])
    found = []
    for chunk in chunks:
        (window, position, plane) = (
            chunk.tensors[role].begin[axis]
            for role, axis in (("dst", 2), ("weights", 3), ("src", 2))
        )
        part = chunk.problem
        assert not any(part.pads_begin + part.pads_end)
        for w, p in np.ndindex(part.dst.shape[2], part.kernel[0]):
            read = w * stride + p * dilation
            assert read < part.src.shape[2]
            found.append((window + w, position + p, plane + read))
    assert len(found) == len(expected)
    assert set(found) == expected


def test_other_problems_have_none() -> None:
    def parts_of(geometry: Case, operation: str = "convolution_backward_weights") -> Any:
        problem = CandidateRun(geometry.integers("f32"), operation, "NCX").problem
        return formulate(problem, "f32", "unpadded_depth")

    geometry = VOLUMES["3x3x3"]
    assert parts_of(geometry) is not None
    assert parts_of(geometry, "convolution_backward_data") is None
    assert parts_of(geometry, "convolution") is None
    assert parts_of(case((6, 7), 3, pads=1)) is None
    for name in UNPADDED:
        assert parts_of(VOLUMES[name]) is None


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_conversions_have_none(dtype: str) -> None:
    tensors = VOLUMES["3x3x3"].integers(dtype)
    problem = CandidateRun(tensors, "convolution_backward_weights", "NCX").problem
    assert formulate(problem, "f32", "unpadded_depth") is None


@needs_onednn
def test_a_plan_tells_of_its_chunks() -> None:
    found = candidate(run_of(VOLUMES["one image"]), "unpadded_depth")
    assert "formulation: unpadded_depth, in 3 chunks" in repr(OneDNNPlan(current_engine(), found))


@needs_onednn
def test_candidates_have_it_where_avx512_is_not() -> None:
    found = {one.choice.formulation for one in run_of(VOLUMES["3x3x3"]).candidates()}
    assert ("unpadded_depth" in found) != ("avx512" in current_engine().library.cpu_isa)
