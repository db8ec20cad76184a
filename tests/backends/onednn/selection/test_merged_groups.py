"""Groups of few channels merged into larger ones: exact, where it is worth it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.formulations import formulate
from onednn_py.backends.onednn.selection.merged_groups import (
    MOST_MERGED,
    blocks,
    by_merged_group,
    merged,
    number_to_merge,
)
from onednn_py.backends.onednn.selection.preference import Preference
from onednn_py.backends.onednn.selection.rules import NOT_GEMM
from onednn_py.backends.onednn.selection.select import candidate_of
from tests.support.candidate_runs import FORMATS, CandidateRun, StridedCandidateRun, of_images
from tests.support.cases import OPERATIONS, Case, case
from tests.support.memory_layouts import channels_outermost, crop, images_innermost
from tests.support.requirements import needs_onednn


def in_groups(groups: int, inputs: int, outputs: int, *numbers: Any, **more: Any) -> Case:
    """Return a geometry with so many channels in each group."""
    numbers = numbers or ((9, 8), 3)
    return case(*numbers, groups=groups, inputs=groups * inputs, outputs=groups * outputs, **more)


GEOMETRIES = {
    "two groups in one": in_groups(8, 4, 4, pads=1),
    "all groups in one": in_groups(3, 3, 5),
    "more outputs": in_groups(4, 4, 8, (9, 8), 3, 2, pads=(1, 0)),
    "more inputs": in_groups(16, 2, 1, (7, 9), (3, 2)),
    "line": in_groups(4, 2, 4, 40, 3, 2, 2),
    "volume": in_groups(6, 4, 4, (6, 5, 4), (1, 2, 3)),
    "tail": in_groups(4, 4, 4, (11, 11), 2, 3, pads=(0, 1)),
}


@needs_onednn
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_bit(name: str, operation: str, data_format: str) -> None:
    run = CandidateRun(GEOMETRIES[name].integers("f32"), operation, data_format)
    for activations in ("any", "given"):
        run.check_formulation("merged_groups", activations)


@needs_onednn
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("form", [crop, channels_outermost, images_innermost])
def test_tensors_in_any_order(form: Any, operation: str) -> None:
    tensors = GEOMETRIES["two groups in one"].integers("f32")
    run = StridedCandidateRun(tensors, operation, "NCX", form)
    run.check_formulation("merged_groups")


@needs_onednn
@pytest.mark.parametrize("axis", ["minibatch", "spatial"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_chunks(operation: str, axis: str) -> None:
    geometry = of_images(GEOMETRIES["two groups in one"], 4)
    run = CandidateRun(geometry.integers("f32"), operation, "NCX")
    choice = Choice("f32", "merged_groups", chunks=2, split_axis=axis)
    found = candidate_of(current_engine(), run.problem, Preference(choice, NOT_GEMM))
    if found is None and "avx512" in current_engine().library.cpu_isa:
        found = candidate_of(current_engine(), run.problem, Preference(choice))
    assert found is not None
    assert len(found.formulation.chunks) == 2
    run.check(OneDNNPlan(current_engine(), found))


def test_chunks_of_channels_are_not_merged() -> None:
    problem = CandidateRun(GEOMETRIES["tail"].integers("f32"), "convolution", "NCX").problem
    assert formulate(problem, "f32", "merged_groups", 2, "channels") is None


@pytest.mark.parametrize(
    ("groups", "inputs", "outputs", "number"),
    [
        (8, 4, 4, 2),
        (32, 4, 8, 2),
        (16, 2, 4, 4),
        (16, 1, 2, 8),
        (3, 3, 5, 3),
        (6, 4, 4, 2),
        # Depthwise; whole registers; no such number of groups; more groups than are worth it.
        (32, 1, 1, 1),
        (4, 8, 16, 1),
        (10, 3, 3, 1),
        (2 * MOST_MERGED + 1, 1, 2, 1),
        (1, 3, 5, 1),
    ],
)
def test_how_many_make_one(groups: int, inputs: int, outputs: int, number: int) -> None:
    tensors = in_groups(groups, inputs, outputs).integers("f32")
    problem = CandidateRun(tensors, "convolution", "NCX").problem
    assert number_to_merge(problem) == number
    assert (formulate(problem, "f32", "merged_groups") is None) == (number == 1)
    found = merged(problem, number)
    assert found.weights.shape[:3] == (groups // number, number * outputs, number * inputs)
    assert (found.src, found.dst, found.bias) == (problem.src, problem.dst, problem.bias)


def test_blocks() -> None:
    """They are what is not between groups, and a view."""
    weights = np.arange(4 * 2 * 3 * 5.0).reshape(4, 2, 3, 5)
    whole = np.zeros((2, 4, 6, 5))
    blocks(whole, 2)[...] = by_merged_group(weights, 2)
    expected = np.zeros_like(whole)
    for group in range(4):
        merged_group, place = divmod(group, 2)
        rows, columns = slice(2 * place, 2 * place + 2), slice(3 * place, 3 * place + 3)
        expected[merged_group, rows, columns] = weights[group]
    np.testing.assert_array_equal(whole, expected)


@needs_onednn
def test_candidates_have_it_where_avx512_is_not() -> None:
    run = CandidateRun(GEOMETRIES["tail"].integers("f32"), "convolution", "NXC")
    found = {one.choice.formulation for one in run.candidates()}
    assert ("merged_groups" in found) != ("avx512" in current_engine().library.cpu_isa)
