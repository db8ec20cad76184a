"""A bias added behind a data gradient: to every element of dst once, whatever its layout."""

from __future__ import annotations

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution import bias_steps
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection import bias_additions
from onednn_py.backends.onednn.selection.bias_additions import bias_addition
from onednn_py.backends.onednn.selection.select import candidates
from onednn_py.problem.problem import TensorLayout
from tests.support.candidate_runs import (
    FORMATS,
    CandidateRun,
    StridedCandidateRun,
    computes_products,
)
from tests.support.cases import Case, case
from tests.support.memory_layouts import crop
from tests.support.requirements import needs_onednn

GEOMETRIES = {
    "stride": case((5, 4), 3, 2, pads=1, minibatch=3, inputs=16, outputs=8),
    "windows apart": case((4, 5), 2, 3, minibatch=2, inputs=8, outputs=16),
    "dilation": case((6, 5), 3, 1, 2, pads=2, minibatch=2, inputs=4, outputs=8),
    "groups": case((5, 4), 3, 2, pads=1, minibatch=2, inputs=8, outputs=16, groups=4),
    "one channel": case((5, 4), 4, 2, pads=1, minibatch=2, inputs=1, outputs=8),
    "volume": case((3, 4, 2), 3, 2, pads=1, minibatch=2, inputs=8, outputs=4),
}


def adding(run: CandidateRun) -> list[OneDNNPlan]:
    """Return a plan of every candidate whose bias is added behind its primitive."""
    return [
        OneDNNPlan(current_engine(), one)
        for one in candidates(current_engine(), run.problem)
        if one.formulation.adds_bias
    ]


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_every_candidate(geometry: Case, dtype: str, data_format: str) -> None:
    run = CandidateRun(geometry.integers(dtype), "conv_transpose", data_format)
    plans = adding(run)
    assert plans
    for plan in plans:
        assert plan.choice.compute_dtype == "f32"
        run.check(plan)


@needs_onednn
def test_dst_with_gaps_and_libraries_without_matmul(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy adds the bias."""
    tensors = GEOMETRIES["stride"].integers("f32")
    strided = StridedCandidateRun(tensors, "conv_transpose", "NCX", crop)
    plans = adding(strided)
    assert plans
    for plan in plans:
        assert plan.address_runner is None
        strided.check(plan)
    monkeypatch.setattr(bias_steps, "ones_addition_desc", lambda *args, **keywords: None)
    dense = CandidateRun(tensors, "conv_transpose", "NXC")
    for plan in adding(dense):
        assert plan.address_runner is None
        dense.check(plan)


@needs_onednn
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_infinities_that_cancel_are_silent(dtype: type[np.floating]) -> None:
    """As they are in oneDNN's own additions and on the backend of NumPy."""
    src = np.full((2, 96, 4, 4), np.inf, dtype)
    weights, bias = np.ones((96, 16, 4, 4), dtype), np.full(16, -np.inf, dtype)
    out = np.zeros((2, 16, 8, 12), dtype)[..., :8]
    keywords = {"strides": 2, "pads_begin": 1, "pads_end": 1}
    with np.errstate(all="raise"):
        result = onednn_py.conv_transpose(
            src, weights, bias, data_format="NCX", weights_format="IOX", out=out, **keywords
        )
    assert np.isnan(result).all()


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
def test_parts(monkeypatch: pytest.MonkeyPatch, data_format: str) -> None:
    if not computes_products():
        pytest.skip("a library without matmul")
    monkeypatch.setattr(bias_additions, "MOST_ADDED_ONES", 7)
    run = CandidateRun(GEOMETRIES["stride"].integers("f32"), "conv_transpose", data_format)
    plans = adding(run)
    assert plans
    for plan in plans:
        assert plan.address_runner is not None
        additions = [step for step in plan.program.steps if step.name == "addition of bias"]
        assert len(additions) > 2
        run.check(plan)


@pytest.mark.parametrize("order", ["ncx", "nxc"])
def test_parts_reach_every_element_once(monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    monkeypatch.setattr(bias_additions, "MOST_ADDED_ONES", 7)
    shape = (3, 4, 5, 3)
    dst = TensorLayout(shape, (1,) * 4).dense().with_channels(order)
    addition = bias_addition(dst)
    assert addition is not None
    assert (addition.repeated is not None) == (order == "ncx")
    reached = np.zeros(dst.size, int)
    for one in addition.products:
        # The sums of a part: rows of memory, as many elements apart as the stride says.
        _, rows, columns = one.sums.shape
        for row in range(rows):
            first = one.begin + row * one.sums.strides[1]
            reached[first : first + columns] += 1
        assert (rows if one.ones_first else columns) <= 7
    np.testing.assert_array_equal(reached, 1)


def test_layouts_with_gaps_have_no_products() -> None:
    assert bias_addition(TensorLayout((2, 3, 4, 4), (96, 32, 8, 1))) is None


@needs_onednn
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(("kernel", "stride"), [(4, 2), (3, 3)])
def test_generator_layers_are_computed_by_onednn(dtype: str, kernel: int, stride: int) -> None:
    """A bias on many channels, where `brgconv_strided` may not run, and 27 phases of a volume."""
    sizes = (8, 8) if kernel == 4 else (6, 6, 6)
    geometry = case(sizes, kernel, stride, minibatch=2, inputs=32, outputs=128)
    for data_format in FORMATS:
        arguments, keywords = geometry.integers(dtype).arguments(
            "conv_transpose", data_format, FORMATS[data_format]
        )
        plan = onednn_py.plan("conv_transpose", *arguments, **keywords)
        assert plan.backend == "onednn"
        assert "ref" not in plan.implementation
        found = plan(*arguments)
        expected = onednn_py.conv_transpose(*arguments, **keywords, backend="numpy")
        np.testing.assert_array_equal(found, expected)
