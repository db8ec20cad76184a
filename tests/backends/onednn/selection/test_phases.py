"""Phases of data gradients: forward convolutions that write every element once."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from onednn_py.backends.numpy.plan import NumPyPlan
from onednn_py.backends.onednn.autotune import integer_tensors
from onednn_py.backends.onednn.selection.formulations import formulate
from onednn_py.problem.problem import Direction, Problem
from tests.support.candidate_runs import FORMATS, GEOMETRIES, CandidateRun
from tests.support.cases import CURATED, Case, case
from tests.support.strategies import geometries

DATA_GRADIENTS = ("convolution_backward_data", "conv_transpose")


def problem_of(geometry: Case, operation: str, data_format: str = "NCX") -> Problem:
    return CandidateRun(geometry.integers("f32"), operation, data_format).problem


def check_phases(problem: Problem) -> int:
    """Compute a data gradient and its phases on NumPy; return how many phases there are."""
    formulation = formulate(problem, "f32", "flipped")
    if formulation is None:
        return 0
    tensors = integer_tensors(problem)
    NumPyPlan(problem).execute(tensors)
    expected = tensors[problem.result_role].copy()
    result = tensors[problem.result_role]
    result.fill(77)
    formulation.prefill(tensors)
    times = np.zeros(expected.shape, int)
    for chunk in formulation.chunks:
        assert chunk.problem.direction is Direction.FORWARD
        assert prod(chunk.problem.strides) == 1
        assert min(*chunk.problem.pads_begin, *chunk.problem.pads_end) >= 0
        parts = {}
        for role, layout in chunk.problem.layouts.items():
            whole = formulation.seen(role, tensors[formulation.roles[role]])
            parts[role] = whole[chunk.tensors[role].spans(layout.shape)]
            assert parts[role].shape == layout.shape
            if role not in formulation.copied:
                steps = [stride // whole.itemsize for stride in parts[role].strides]
                long = [n > 1 for n in layout.shape]
                assert [s for s, n in zip(steps, long, strict=True) if n] == [
                    s for s, n in zip(layout.strides, long, strict=True) if n
                ]
        NumPyPlan(chunk.problem).execute(parts)
        times[chunk.tensors["dst"].spans(chunk.problem.dst.shape)] += 1
    assert times.max() == 1
    assert formulation.is_partial == (times.min() == 0)
    np.testing.assert_array_equal(result, expected)
    return len(formulation.chunks)


@pytest.mark.parametrize("operation", DATA_GRADIENTS)
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("name", sorted({**GEOMETRIES, **CURATED}))
def test_phases_are_the_data_gradient(name: str, data_format: str, operation: str) -> None:
    geometry = {**GEOMETRIES, **CURATED}[name]
    problem = problem_of(geometry, operation, data_format)
    found = check_phases(problem)
    if all(stride == 1 for stride in problem.strides):
        assert found <= 1


@given(geometry=geometries(), operation=st.sampled_from(DATA_GRADIENTS))
def test_phases_of_any_geometry(geometry: Case, operation: str) -> None:
    problem = problem_of(geometry, operation)
    note(problem.name)
    check_phases(problem)


def test_numbers_of_phases() -> None:
    for kernel, stride, expected in (((3, 3), 1, 1), ((4, 4), 2, 4), ((3, 3), (1, 2), 2)):
        geometry = case((12, 12), kernel, stride, pads=1, inputs=8, outputs=8)
        assert check_phases(problem_of(geometry, "convolution_backward_data")) == expected
    volume = case((8, 8, 8), 2, 2, inputs=8, outputs=8)
    assert check_phases(problem_of(volume, "convolution_backward_data")) == 8


def test_elements_that_no_tap_meets_are_filled() -> None:
    """With zeros, or with the bias of a transposed convolution."""
    geometry = case((12, 12), 1, 2, inputs=8, outputs=8)
    for operation in DATA_GRADIENTS:
        assert check_phases(problem_of(geometry, operation)) == 1


def test_problems_without_phases() -> None:
    assert formulate(problem_of(CURATED["2d"], "convolution"), "f32", "flipped") is None
    strided = case((13, 13), 3, 2, dilations=2, inputs=4, outputs=4)
    assert formulate(problem_of(strided, DATA_GRADIENTS[0]), "f32", "flipped") is None
    many = case((30, 30), 6, 5, inputs=4, outputs=4)
    assert formulate(problem_of(many, DATA_GRADIENTS[0]), "f32", "flipped") is None
    plain = problem_of(CURATED["2d"], DATA_GRADIENTS[0])
    assert formulate(plain, "f32", "flipped", chunks=2) is None
