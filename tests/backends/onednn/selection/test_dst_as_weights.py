"""Depthwise weights gradients as forward convolutions with diff_dst as the weights: exact."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection import dst_as_weights
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.decide import decide
from onednn_py.backends.onednn.selection.dst_as_weights import MOST_CHUNKS, as_tiles
from onednn_py.backends.onednn.selection.equivalents import equivalent
from onednn_py.backends.onednn.selection.preference import Preference
from onednn_py.backends.onednn.selection.select import candidate_of
from onednn_py.problem.problem import TensorLayout
from tests.support.candidate_runs import FORMATS, CandidateRun, StridedCandidateRun
from tests.support.cases import Case, case
from tests.support.memory_layouts import channels_outermost, crop, images_innermost
from tests.support.requirements import needs_onednn

FAMILIES = ("convolution", "conv_transpose")


def depthwise(size: Any, kernel: Any, *numbers: Any, channels: int = 20, **more: Any) -> Case:
    more = {"minibatch": 3, **more}
    return case(size, kernel, *numbers, groups=channels, inputs=channels, outputs=channels, **more)


GEOMETRIES = {
    "5x5": depthwise((9, 8), 5, pads=2),
    "stride": depthwise((12, 11), 5, 2, pads=2),
    "tail": depthwise((12, 12), (3, 4), 3),
    "dilation": depthwise((11, 9), 3, 1, 2, pads=2),
    "stride and dilation": depthwise((13, 14), (3, 4), 2, 3, pads=3),
    "asymmetric": depthwise((7, 10), (1, 7), pads=(0, 3)),
    "no pads": depthwise((8, 9), 6),
    "whole blocks": depthwise((7, 7), 7, pads=3, channels=32),
    "one image": depthwise((10, 10), 5, pads=2, minibatch=1),
    "line": depthwise((40,), 9, pads=4),
    "strided line": depthwise((41,), 4, 2, pads=1),
    "dilated line": depthwise((64,), 3, 1, 8, pads=8),
}

# Whose pads are wider than the tiles of a test.
WIDE_PADS = ("stride and dilation", "whole blocks")


def candidate(run: CandidateRun, dtype: str, activations: str) -> Candidate:
    run.problem = equivalent(run.problem, "")
    preference = Preference(Choice(dtype, "dst_as_weights", activations), re.compile("jit_dw"))
    found = candidate_of(current_engine(), run.problem, preference)
    assert found is not None
    return found


@needs_onednn
@pytest.mark.parametrize("activations", ["any", "nxc"])
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_bit(name: str, family: str, data_format: str, activations: str) -> None:
    operation = f"{family}_backward_weights"
    for dtype, compute_dtype in (("f32", "f32"), ("bf16", "f32"), ("f16", "f32")):
        run = CandidateRun(GEOMETRIES[name].integers(dtype), operation, data_format)
        found = candidate(run, compute_dtype, activations)
        run.check(OneDNNPlan(current_engine(), found))


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_bfloat16_in_its_own_kernels(name: str, data_format: str) -> None:
    """They write sums in float32, which is rounded once."""
    run = CandidateRun(
        GEOMETRIES[name].integers("bf16"), "convolution_backward_weights", data_format
    )
    run.problem = equivalent(run.problem, "")
    found = [one for one in run.candidates() if one.choice.formulation == "dst_as_weights"]
    assert found
    for one in found:
        run.check(OneDNNPlan(current_engine(), one))


@needs_onednn
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "name", sorted(GEOMETRIES.keys() - {"stride and dilation", "whole blocks"})
)
def test_tiles(name: str, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images of several tiles along both axes, the last of them smaller.

    Tiles that are smaller than the pads have no kernel. They are never as small without the patch.
    """
    monkeypatch.setattr(dst_as_weights, "MOST_COLUMNS", 8)
    monkeypatch.setattr(dst_as_weights, "TILE_BYTES", 6000)
    operation = f"{family}_backward_weights"
    run = CandidateRun(GEOMETRIES[name].integers("f32"), operation, "NCX")
    found = candidate(run, "f32", "any")
    assert len(found.formulation.chunks) >= GEOMETRIES[name].minibatch
    run.check(OneDNNPlan(current_engine(), found))


@needs_onednn
@pytest.mark.parametrize("form", [crop, channels_outermost, images_innermost])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_layouts(dtype: str, form: Any) -> None:
    tensors = GEOMETRIES["5x5"].integers(dtype)
    run = StridedCandidateRun(tensors, "convolution_backward_weights", "NCX", form)
    run.check(OneDNNPlan(current_engine(), candidate(run, "f32", "any")))


@needs_onednn
@pytest.mark.parametrize(
    ("kernel", "channels", "dtype", "expected"),
    [
        (5, 96, "f32", "dst_as_weights"),
        (7, 16, "f32", "dst_as_weights"),
        (7, 28, "bf16", "dst_as_weights"),
        (3, 96, "f32", "direct"),
        (5, 3, "f32", "direct"),
    ],
)
@pytest.mark.parametrize("data_format", FORMATS)
def test_rules_prefer_it_for_large_kernels(
    kernel: int, channels: int, dtype: str, expected: str, data_format: str
) -> None:
    geometry = depthwise((28, 28), kernel, pads=kernel // 2, channels=channels)
    problem = CandidateRun(
        geometry.integers(dtype), "convolution_backward_weights", data_format
    ).problem
    assert decide(current_engine(), problem).choice.formulation == expected


def test_other_problems_have_none() -> None:
    def tiles(geometry: Case, operation: str = "convolution_backward_weights") -> Any:
        problem = CandidateRun(geometry.integers("f32"), operation, "NCX").problem
        return as_tiles(problem)

    assert tiles(depthwise((9, 9), 5)) is not None
    assert tiles(depthwise((9, 9), 5), "convolution_backward_data") is None
    assert tiles(depthwise((9, 9), 5), "convolution") is None
    assert tiles(depthwise((9, 9, 9), 5)) is None
    assert tiles(depthwise((9, 9), 5, minibatch=MOST_CHUNKS)) is not None
    assert tiles(depthwise((9, 9), 5, minibatch=MOST_CHUNKS + 1)) is None
    assert tiles(case((9, 9), 5, inputs=4, outputs=4)) is None
    assert tiles(case((9, 9), 5, groups=4, inputs=4, outputs=8)) is None


def test_a_tile_stays_in_the_caches() -> None:
    run = CandidateRun(
        depthwise((150, 300), 5, pads=2).integers("f32"), "convolution_backward_weights", "NCX"
    )
    found = as_tiles(run.problem)
    assert found is not None
    whole, chunks, _ = found
    for chunk in chunks:
        layouts: list[TensorLayout] = [chunk.problem.src, chunk.problem.weights]
        assert sum(4 * layout.size for layout in layouts) <= 1.3 * dst_as_weights.TILE_BYTES
        assert chunk.problem.kernel[1] <= dst_as_weights.MOST_COLUMNS
    windows = sum(chunk.problem.weights.size for chunk in chunks)
    assert windows == whole.weights.size
    assert len({chunk.problem for chunk in chunks}) <= 9


@needs_onednn
def test_sums_of_positive_numbers_keep_their_digits(onednn: str) -> None:
    """Added one by one, so many numbers would be wrong by a hundred units in the last place."""
    rng = np.random.default_rng(0)
    src, diff_dst = (rng.random((4, 16, 256, 256), np.float32) for _ in range(2))
    attributes = {
        "weights_shape": (16, 1, 5, 5),
        "pads_begin": 2,
        "pads_end": 2,
        "groups": 16,
        "data_format": "NCX",
        "weights_format": "OIX",
    }
    found = onednn_py.convolution_backward_weights(src, diff_dst, backend=onednn, **attributes)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(src, ((0, 0), (0, 0), (2, 2), (2, 2))), (256, 256), axis=(2, 3)
    )
    expected = np.einsum("ncklhw,nchw->ckl", windows, diff_dst, dtype=np.float64)
    error = np.abs(found[:, 0] - expected) / expected
    assert error.max() < 16 * np.finfo(np.float32).eps
