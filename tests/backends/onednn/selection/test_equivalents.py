"""Depthwise lines in planes of height 1, and kernels as large as src as 1x1 kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn import recall
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection.equivalents import equivalent, view_of
from onednn_py.problem.problem import Problem
from tests.support.candidate_runs import FORMATS, CandidateRun, sub_problems
from tests.support.cases import OPERATIONS, case
from tests.support.requirements import needs_onednn
from tests.support.rules import problem_of

SRC, WEIGHTS = (2, 12, 20), (12, 1, 5)


def line(data_format: str = "NCX", groups: int = 12, weights: tuple[int, ...] = WEIGHTS) -> Problem:
    src = np.ones(SRC, np.float32)
    if data_format == "NXC":
        src = np.ones((2, 20, 12), np.float32)
    (found,) = sub_problems(
        onednn_py.convolution,
        src,
        np.ones(weights, np.float32),
        groups=groups,
        data_format=data_format,
        weights_format="OIX",
        strides=2,
        pads_begin=2,
        pads_end=1,
        dilations=1,
    )
    problem: Problem = found.problem
    return problem


@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_a_depthwise_line_is_raised(data_format: str) -> None:
    asked = line(data_format)
    plane = equivalent(asked, "avx2")
    assert plane.src.shape == (2, 12, 1, 20)
    assert plane.weights.shape == (12, 1, 1, 1, 5)
    assert plane.kernel == (1, 5)
    assert plane.strides == (1, 2)
    assert (plane.pads_begin, plane.pads_end) == ((0, 2), (0, asked.pads_end[0]))
    for role, layout in plane.layouts.items():
        # The same elements in the same places.
        assert layout.extent == asked.layouts[role].extent
        assert layout.dense() == layout
    assert equivalent(plane, "avx2") is plane


def test_other_problems_stay_as_they_are() -> None:
    for other in (
        line(groups=1, weights=(12, 12, 5)),
        line(groups=6, weights=(12, 2, 5)),
        line(groups=12, weights=(24, 1, 5)),
    ):
        assert equivalent(other, "avx2") is other


def test_a_tensor_gets_the_axis_of_its_layout() -> None:
    array = np.arange(480.0).reshape(SRC)
    seen = view_of(array, equivalent(line(), "avx2").src)
    assert seen.shape == (2, 12, 1, 20)
    assert np.shares_memory(seen, array)
    assert view_of(array, line().src) is array


@needs_onednn
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("kernel", [3, 12])
def test_operations_along_a_line(operation: str, data_format: str, dtype: str, kernel: int) -> None:
    for attributes in ({"pads": (1, 2)}, {"strides": 3, "pads": 1}, {"dilations": 2}):
        lines = case(60, kernel, groups=24, inputs=24, outputs=24, **attributes)
        lines.integers(dtype).check(operation, "onednn", data_format=data_format)


@needs_onednn
def test_packed_weights_along_a_line() -> None:
    for dtype in (np.float32, np.float16):
        src, weights = np.ones((2, 16, 30), dtype), np.arange(48).reshape(16, 1, 3).astype(dtype)
        attributes: dict[str, Any] = {
            "groups": 16, "data_format": "NCX", "weights_format": "OIX"
        }  # fmt: skip
        plan = onednn_py.plan(onednn_py.convolution, src, weights, **attributes)
        expected = np.broadcast_to(weights.sum(axis=2).reshape(1, 16, 1), (2, 16, 28))
        np.testing.assert_array_equal(plan(src, plan.pack("weights", weights)), expected)


@needs_onednn
def test_what_is_measured_for_a_line_is_remembered() -> None:
    """Wisdom knows the problem in a plane."""
    asked = line()
    with onednn_py.use_effort("measure"):
        plan = onednn_py.plan(
            onednn_py.convolution,
            onednn_py.TensorSpec(SRC, np.float32),
            onednn_py.TensorSpec(WEIGHTS, np.float32),
            groups=12,
            data_format="NCX",
            weights_format="OIX",
            strides=2,
            pads_begin=2,
            pads_end=1,
        )
    known = recall(asked)
    assert known is not None
    assert known[0].implementation in plan.implementation
    onednn_py.wisdom.forget()


COVERED = "mb3ic5ih4iw2oc7oh1ow1kh4kw2ph0pw0"


@pytest.mark.parametrize("direction", ["FWD_B", "BWD_D", "BWD_WB"])
@pytest.mark.parametrize("data_format", FORMATS)
def test_a_kernel_as_large_as_src_is_a_1x1_kernel(direction: str, data_format: str) -> None:
    asked = problem_of(COVERED, direction, "f32", data_format)
    reshaped = equivalent(asked, "avx2")
    assert reshaped.src.shape == (3, 40, 1)
    assert reshaped.weights.shape == (1, 7, 40, 1)
    assert reshaped.dst.shape == (3, 7, 1)
    assert reshaped.kernel == reshaped.strides == reshaped.dilations == (1,)
    assert reshaped.bias == asked.bias
    assert reshaped.flops == asked.flops
    for role, layout in reshaped.layouts.items():
        assert layout.extent == asked.layouts[role].extent
    assert equivalent(reshaped, "avx2") is reshaped


@pytest.mark.parametrize("direction", ["FWD_D", "BWD_D", "BWD_W"])
@pytest.mark.parametrize("data_format", FORMATS)
def test_a_transposed_kernel_as_large_as_dst_is_a_1x1_kernel(
    direction: str, data_format: str
) -> None:
    text = "mb3ic7ih1iw1oc5oh4ow2kh4kw2sh3ph0pw0"
    reshaped = equivalent(problem_of(text, direction, "f32", data_format, transposed=True), "avx2")
    assert reshaped.transposed
    assert reshaped.src.shape == (3, 7, 1)
    assert reshaped.weights.shape == (1, 40, 7, 1)
    assert reshaped.dst.shape == (3, 40, 1)


@pytest.mark.parametrize(
    ("text", "direction", "transposed"),
    [
        ("mb3ic5ih4oc7oh2kh3ph0", "BWD_D", False),
        ("mb3ic5ih3oc7oh1kh3sh4ph1", "BWD_W", False),
        ("mb3ic5ih5oc7oh1kh3ph0dh1", "BWD_W", False),
        ("mb3ic5ih4oc7oh1kh3sh2ph0", "FWD_D", False),
        ("mb3ic5ih1oc7oh1kh1ph0", "FWD_D", False),
        ("g5mb3ic5ih4oc10oh1kh4ph0", "FWD_D", False),
        ("mb3ic7ih1oc5oh4kh4ph0", "FWD_B", True),
        ("mb1ic32768iw65536oc1ow1kw65536pw0", "FWD_D", False),
    ],
)
def test_no_other_kernel_is(text: str, direction: str, transposed: bool) -> None:
    asked = problem_of(text, direction, "f32", "NCX", transposed=transposed)
    assert equivalent(asked, "avx2") is asked


def test_only_cpus_with_avx2_alone_were_measured() -> None:
    asked = problem_of(COVERED, "BWD_W", "f32", "NCX")
    for cpu_isa in ("avx512_core", "avx512_core_amx", "sse41"):
        assert equivalent(asked, cpu_isa) is asked
    plane = equivalent(line(), "avx512_core")
    assert plane.kernel == (1, 5)


def test_src_and_weights_have_elements_in_the_same_order() -> None:
    """Inputs are the inner axis of src, and the outer axis of the weights."""
    src, weights = np.ones((2, 4, 4, 5), np.float32), np.ones((7, 5, 4, 4), np.float32)
    (found,) = sub_problems(onednn_py.convolution, src, weights, weights_format="OIX")
    assert equivalent(found.problem, "avx2") is found.problem


def test_a_view_has_the_axes_of_its_layout() -> None:
    for data_format in FORMATS:
        reshaped = equivalent(problem_of(COVERED, "FWD_D", "f32", data_format), "avx2")
        src = np.arange(120.0, dtype=np.float32).reshape(3, 5, 4, 2)
        if data_format == "NXC":
            src = np.moveaxis(np.arange(120.0, dtype=np.float32).reshape(3, 4, 2, 5), -1, 1)
        seen = view_of(src, reshaped.src)
        assert np.shares_memory(seen, src)
        np.testing.assert_array_equal(seen.ravel(), np.arange(120.0))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_kernels_as_large_as_src(
    operation: str, data_format: str, dtype: str, backend: str
) -> None:
    for spatial in ((4,), (3, 3), (2, 3, 2)):
        covered = case(spatial, spatial, inputs=6, outputs=9, minibatch=3)
        covered.integers(dtype).check(operation, backend, data_format=data_format)


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
def test_every_candidate_of_such_a_kernel_is_right(data_format: str) -> None:
    for operation in OPERATIONS:
        covered = case((3, 2), (3, 2), inputs=16, outputs=8, minibatch=3)
        run = CandidateRun(covered.integers("f32"), operation, data_format)
        run.problem = equivalent(run.problem, "avx2")
        for candidate in run.candidates():
            run.check(OneDNNPlan(current_engine(), candidate))


@needs_onednn
def test_tensors_with_gaps_of_such_a_kernel() -> None:
    src = np.arange(2 * 10 * 4 * 4, dtype=np.float32).reshape(2, 10, 4, 4) % 7
    weights = np.arange(3 * 10 * 4 * 4, dtype=np.float32).reshape(3, 10, 4, 4) % 5
    out = np.zeros((2, 6, 1, 1), np.float32)
    formats = {"data_format": "NCX", "weights_format": "OIX"}
    for chosen in (slice(None, 5), slice(None, None, 2), slice(None, None, -1)):
        parts = src[:, chosen], weights[:, chosen]
        found = onednn_py.convolution(*parts, out=out[:, ::2], backend="onednn", **formats)
        np.testing.assert_array_equal(found, np.einsum("nixy,oixy->no", *parts)[:, :, None, None])
    assert not out[:, 1::2].any()


@needs_onednn
def test_packed_weights_of_such_a_kernel() -> None:
    src = np.arange(2 * 64 * 16, dtype=np.float32).reshape(2, 64, 4, 4) % 5
    weights = np.arange(3 * 64 * 16, dtype=np.float32).reshape(3, 64, 4, 4) % 3
    plan = onednn_py.plan(
        onednn_py.convolution, src, weights, data_format="NCX", weights_format="OIX"
    )
    expected = np.einsum("nixy,oixy->no", src, weights)[:, :, None, None]
    np.testing.assert_array_equal(plan(src, plan.pack("weights", weights)), expected)
