"""Problems of sizes that nobody has: they are planned at once, or left to the NumPy backend."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import TensorSpec
from onednn_py.backends.onednn.selection import unpadded_depth
from onednn_py.backends.onednn.selection.bias_additions import (
    MOST_ADDED_ONES,
    MOST_ADDITIONS,
    bias_addition,
)
from onednn_py.backends.onednn.selection.bias_sums import sums_shape
from onednn_py.backends.onednn.selection.chunks import number_of_tiles, tiles
from onednn_py.backends.onednn.selection.limits import (
    LONGEST_AXIS,
    LONGEST_KERNEL,
    LONGEST_ROW,
    unsupported,
)
from onednn_py.backends.onednn.selection.unpadded_depth import DepthPart, parts_along_depth
from onednn_py.problem.problem import Problem, TensorLayout
from tests.support.candidate_runs import CandidateRun, sub_problems
from tests.support.cases import Case, case
from tests.support.requirements import needs_onednn


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(shape, np.float32)


def forward(src: tuple[int, ...], weights: tuple[int, ...], **attributes: Any) -> Problem:
    (only,) = sub_problems(onednn_py.convolution, spec(*src), spec(*weights), **attributes)
    return only.problem


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (forward((1, 8, LONGEST_AXIS), (3, 8, 8), data_format="NCX"), "a row"),
        (forward((1, 8, LONGEST_AXIS), (3, 8, 8), data_format="NCX", pads_end=1), "an axis"),
        (forward((1, 8, LONGEST_AXIS + 1), (3, 8, 8), data_format="NCX"), "an axis"),
        (forward((2**50, 8, 8), (3, 8, 8), data_format="NCX"), ""),
        (forward((1, LONGEST_AXIS + 1, 8), (1, LONGEST_AXIS + 1, 2), data_format="NCX"), "an axis"),
        (forward((1, LONGEST_ROW, 8), (3, 8, 8)), ""),
        (forward((1, 8, LONGEST_ROW), (3, 8, 8), data_format="NCX"), ""),
        (forward((1, LONGEST_ROW + 1, 8), (3, 8, 8)), "a row"),
        (forward((1, LONGEST_ROW + 1, 8, 8), (3, 3, 8, 8)), ""),
        (forward((1, LONGEST_ROW, 8), (LONGEST_KERNEL, 8, 8)), ""),
        (forward((1, LONGEST_ROW, 8), (LONGEST_KERNEL + 1, 8, 8)), "a kernel"),
    ],
    ids=range(11),
)
def test_what_is_left_to_numpy(problem: Problem, reason: str) -> None:
    found = unsupported(problem)
    assert (found or "").startswith(reason)
    assert bool(found) == bool(reason)


# Each of these ended the process, or did not end, or took minutes or gigabytes.
PLANS = """
import numpy as np, onednn_py
def spec(*shape): return onednn_py.TensorSpec(shape, np.float32)
for exponent in (33, 36, 50):
    onednn_py.plan("conv_transpose", spec(1, 2**exponent, 8), spec(3, 8, 8))
for images, depth in ((10**6, 8), (2**30, 8), (1, 2**27), (1, 2**30)):
    src, weights = spec(images, 8, depth, 4, 4), spec(8, 1, 3, 3, 3)
    attributes = dict(data_format="NCX", weights_format="OIX", groups=8, pads_begin=1, pads_end=1)
    onednn_py.plan("convolution", src, weights, **attributes)
    onednn_py.plan("convolution_backward", src, weights, src, **attributes)
deep = spec(1, 8, 2**28, 4, 4), spec(8, 1, 2**19, 3, 3)
onednn_py.plan("convolution", *deep, data_format="NCX", weights_format="OIX", groups=8)
for size in (2**14, 2**20):
    src = spec(1, 8, size, size)
    attributes = dict(data_format="NCX", weights_format="OIX", groups=8)
    for begin, end in ((3, 3), (0, 6)):
        onednn_py.plan(
            "convolution_backward_weights", src, src, (8, 1, 7, 7),
            pads_begin=begin, pads_end=end, **attributes,
        )
for depth in (10**6, 2**30):
    src = spec(1, 16, depth, 4, 4)
    onednn_py.plan(
        "convolution_backward_weights", src, src, (16, 16, 3, 3, 3),
        data_format="NCX", weights_format="OIX", pads_begin=1, pads_end=1,
    )
onednn_py.plan(
    "conv_transpose", spec(1, 4, 2**25, 2**25), spec(4, 8, 1, 1), spec(8),
    data_format="NCX", weights_format="IOX",
)
"""


@needs_onednn
def test_plans_of_huge_problems_end() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PLANS], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")


def parts_by_definition(problem: Problem) -> list[DepthPart]:
    """Return runs of windows that meet src with the same positions, found one by one."""
    found: list[DepthPart] = []
    for window in range(problem.dst.shape[2]):
        first = window * problem.strides[0] - problem.pads_begin[0]
        met = [
            position
            for position in range(problem.kernel[0])
            if 0 <= first + position * problem.dilations[0] < problem.src.shape[2]
        ]
        if not met:
            continue
        positions = range(met[0], met[-1] + 1)
        if found and found[-1].positions == positions and found[-1].windows.stop == window:
            found[-1] = DepthPart(range(found[-1].windows.start, window + 1), positions)
        else:
            found.append(DepthPart(range(window, window + 1), positions))
    return found


def problem_of(geometry: Case) -> Problem:
    run = CandidateRun(geometry.integers("f32"), "convolution_backward_weights", "NCX")
    return run.problem


def weights_gradient(depth: int, kernel: int, stride: int, dilation: int, pads: Any) -> Problem:
    begin, end = pads
    geometry = case(
        (depth, 4, 4),
        (kernel, 1, 1),
        (stride, 1, 1),
        pads=((begin, 0, 0), (end, 0, 0)),
        dilations=(dilation, 1, 1),
    )
    return problem_of(geometry)


def test_windows_are_grouped_by_the_positions_that_meet_src() -> None:
    count = 0
    for depth, kernel, stride, dilation in product((1, 2, 5, 9), (1, 2, 3, 5), (1, 2, 3), (1, 2)):
        for pads in product((0, 1, 4, 11), (0, 2, 9)):
            if depth + sum(pads) < (kernel - 1) * dilation + 1:
                continue
            problem = weights_gradient(depth, kernel, stride, dilation, pads)
            assert parts_along_depth(problem) == parts_by_definition(problem), problem
            count += 1
    assert count > 500


def test_a_volume_of_padding_has_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = weights_gradient(9, 3, 1, 1, (2, 2))
    monkeypatch.setattr(unpadded_depth, "MOST_END_WINDOWS", 4)
    assert parts_along_depth(problem) is not None
    monkeypatch.setattr(unpadded_depth, "MOST_END_WINDOWS", 3)
    assert parts_along_depth(problem) is None


def test_tiles_are_counted_before_they_are_made() -> None:
    problem = problem_of(case((9, 13), 3, pads=1))
    for most in product(range(1, 11), range(1, 15)):
        made = tiles(problem, most)
        assert made is not None
        assert number_of_tiles(problem, most) == len(made)


def test_large_tensors_get_their_bias_from_numpy() -> None:
    most = MOST_ADDITIONS * MOST_ADDED_ONES
    for order in ("nxc", "ncx"):
        for pixels, is_added in ((most, True), (most + 1, False)):
            shape = TensorLayout((1, 2, pixels), (1, 1, 1)).with_channels(order)
            assert (bias_addition(shape) is not None) == is_added


def test_a_divisor_of_very_many_pixels_is_not_searched_for_ever() -> None:
    for pixels, parts in ((2**41, 2**31), ((2**31 - 1) * (2**31 - 19), None)):
        layout = TensorLayout((1, 2, pixels), (2 * pixels, pixels, 1))
        assert sums_shape(layout) == (None if parts is None else (2, parts))
