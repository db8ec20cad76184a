"""Depthwise problems along a line, computed in a plane of height 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn import recall
from onednn_py.backends.onednn.selection.planes import in_plane, view_in_plane
from onednn_py.problem.problem import Problem
from tests.support.candidate_runs import sub_problems
from tests.support.cases import OPERATIONS, case
from tests.support.requirements import needs_onednn

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
    plane = in_plane(asked)
    assert plane.src.shape == (2, 12, 1, 20)
    assert plane.weights.shape == (12, 1, 1, 1, 5)
    assert plane.kernel == (1, 5)
    assert plane.strides == (1, 2)
    assert (plane.pads_begin, plane.pads_end) == ((0, 2), (0, asked.pads_end[0]))
    for role, layout in plane.layouts.items():
        # The same elements in the same places.
        assert layout.extent == asked.layouts[role].extent
        assert layout.dense() == layout
    assert in_plane(plane) is plane


def test_other_problems_stay_as_they_are() -> None:
    for other in (
        line(groups=1, weights=(12, 12, 5)),
        line(groups=6, weights=(12, 2, 5)),
        line(groups=12, weights=(24, 1, 5)),
    ):
        assert in_plane(other) is other


def test_a_tensor_gets_the_axis_of_its_layout() -> None:
    array = np.arange(480.0).reshape(SRC)
    seen = view_in_plane(array, in_plane(line()).src)
    assert seen.shape == (2, 12, 1, 20)
    assert np.shares_memory(seen, array)
    assert view_in_plane(array, line().src) is array


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
