"""1x1 problems as products of matrices: the same numbers, on the caller's strides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from onednn_py.backends.numpy.plan import NumPyPlan
from onednn_py.backends.onednn.autotune import integer_tensors
from onednn_py.backends.onednn.binding.engine import Engine
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection.candidate import Candidate, share_tensors
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.formulation import Formulation
from onednn_py.backends.onednn.selection.formulations import formulate
from onednn_py.backends.onednn.selection.matmul import Product, as_product, is_matrix
from onednn_py.backends.onednn.selection.preference import Preference
from onednn_py.backends.onednn.selection.product_formulations import MOST_IMAGES
from onednn_py.backends.onednn.selection.select import candidate_of, candidates
from onednn_py.backends.onednn.selection.validity import invalid
from onednn_py.errors import OneDNNError
from onednn_py.problem.problem import Direction, Problem, TensorLayout
from tests.support.candidate_runs import (
    FORMATS,
    CandidateRun,
    StridedCandidateRun,
    computes_products,
)
from tests.support.cases import CURATED, OPERATIONS, Case, case
from tests.support.requirements import needs_onednn
from tests.support.strategies import geometries

GEOMETRIES = {
    "1d": case(9, 1, minibatch=3, inputs=5, outputs=7),
    "2d": case((5, 4), 1, minibatch=3, inputs=16, outputs=8),
    "3d": case((2, 3, 4), 1, minibatch=2, inputs=3, outputs=5),
    "one image": case((5, 4), 1, inputs=6, outputs=5, minibatch=1),
    "one pixel": case((1, 1), 1, inputs=6, outputs=5, minibatch=4),
    "one input": case((5, 4), 1, inputs=1, outputs=5, minibatch=3),
    "one output": case((5, 4), 1, inputs=6, outputs=1, minibatch=3),
    "one of all": case((1, 1), 1, inputs=1, outputs=1, minibatch=1),
    "column": case((5, 1), 1, inputs=6, outputs=4, minibatch=2),
    "strided": case((7, 8), 1, 2, minibatch=3, inputs=4, outputs=6),
    "strided, 1d": case(8, 1, 2, minibatch=2, inputs=4, outputs=6),
    "tail": case((8, 7), 1, 3, minibatch=2, inputs=4, outputs=6),
}


def problem_of(geometry: Case, operation: str, data_format: str = "NCX") -> Problem:
    return CandidateRun(geometry.integers("f32"), operation, data_format).problem


def matrix_of(product: Product, role: str, array: np.ndarray) -> np.ndarray:
    """Return the matrix, or the batch, that oneDNN would see at the first element of an array."""
    layout = product.matrix(role)
    strides = [stride * array.itemsize for stride in layout.strides]
    return np.lib.stride_tricks.as_strided(array, layout.shape, strides)


def copy_in(layout: TensorLayout, array: np.ndarray) -> np.ndarray:
    """Return a copy of an array that lies in memory as a layout says."""
    memory = np.zeros(layout.extent, array.dtype)
    strides = [stride * array.itemsize for stride in layout.strides]
    copy = np.ndarray(layout.shape, array.dtype, memory, 0, strides)
    copy[...] = array
    return copy


def check_products(formulation: Formulation) -> None:
    """Compute what oneDNN would, with NumPy's products, and compare with the NumPy backend."""
    asked = formulation.asked
    tensors = integer_tensors(asked)
    NumPyPlan(asked).execute(tensors)
    results = {asked.result_role} | ({"bias"} if asked.has_bias_gradient else set())
    expected = {role: tensors[role].copy() for role in results}
    tensors[asked.result_role].fill(77)
    formulation.prefill(tensors)
    for chunk in formulation.chunks:
        product = chunk.problem
        assert isinstance(product, Product)
        parts, matrices = {}, {}
        for role, layout in product.layouts.items():
            seen = formulation.seen(role, tensors[formulation.roles[role]])
            parts[role] = seen[chunk.tensors[role].spans(layout.shape)]
            assert parts[role].shape == layout.shape
            is_copied = role in formulation.copied
            array = copy_in(layout, parts[role]) if is_copied else parts[role]
            matrices[role] = matrix_of(product, role, array)
        first, second = (matrices[role] for role in product.factors)
        target = matrices[product.result_role]
        terms = first @ second + matrices.get("bias", 0)
        assert terms.shape == target.shape
        target[...] = target + terms if product.adds else terms
        if product.result_role in formulation.copied:
            parts[product.result_role][...] = np.ndarray(
                product.dst.shape, target.dtype, target, 0, [4 * s for s in product.dst.strides]
            )
    for role, numbers in expected.items():
        np.testing.assert_array_equal(tensors[role], numbers, role)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_products_are_the_problem(name: str, data_format: str, operation: str) -> None:
    problem = problem_of(GEOMETRIES[name], operation, data_format)
    found = formulate(problem, "f32", "matmul")
    assert found is not None
    check_products(found)
    for axis in ("minibatch", "spatial", "channels"):
        chunked = formulate(problem, "f32", "matmul", 2, axis)
        if chunked is not None:
            check_products(chunked)


@given(geometry=geometries(), operation=st.sampled_from(OPERATIONS), nxc=st.booleans())
def test_products_of_any_geometry(geometry: Case, operation: str, nxc: bool) -> None:
    kernel = (1,) * len(geometry.kernel)
    none = (0,) * len(kernel)
    geometry = replace(geometry, kernel=kernel, pads_begin=none, pads_end=none, groups=1)
    problem = problem_of(geometry, operation, "NXC" if nxc else "NCX")
    note(problem.name)
    found = formulate(problem, "f32", "matmul")
    assert found is not None
    check_products(found)


def test_how_many_products_there_are() -> None:
    """One for all images where their pixels are one axis, or where a batch will do."""
    geometry = GEOMETRIES["2d"]
    for operation in OPERATIONS:
        for data_format in FORMATS:
            problem = problem_of(geometry, operation, data_format)
            found = formulate(problem, "f32", "matmul")
            assert found is not None
            is_apart = data_format == "NCX" and problem.direction is Direction.BACKWARD_WEIGHTS
            assert len(found.chunks) == (geometry.minibatch if is_apart else 1)
            assert [chunk.problem.adds for chunk in found.chunks] == [
                index > 0 for index in range(len(found.chunks))
            ]
            assert not found.copied


def test_problems_that_are_no_products() -> None:
    for name in ("2d", "2d_groups", "2d_depthwise"):
        assert formulate(problem_of(CURATED[name], "convolution"), "f32", "matmul") is None
    padded = case((5, 4), 1, pads=1, inputs=4, outputs=4)
    grouped = case((5, 4), 1, groups=2, inputs=4, outputs=4)
    for geometry in (padded, grouped):
        for operation in OPERATIONS:
            assert formulate(problem_of(geometry, operation), "f32", "matmul") is None
    many = case(2, 1, minibatch=MOST_IMAGES + 1, inputs=2, outputs=2)
    gradient = "convolution_backward_weights"
    assert formulate(problem_of(many, gradient, "NCX"), "f32", "matmul") is None
    assert formulate(problem_of(many, gradient, "NXC"), "f32", "matmul") is not None


def test_layouts_that_are_matrices() -> None:
    dense = TensorLayout((2, 3, 4, 5), (60, 20, 5, 1))
    assert is_matrix(dense)
    assert is_matrix(dense.with_channels("nxc"))
    assert is_matrix(replace(dense, strides=(100, 20, 5, 1)))  # images apart
    assert is_matrix(replace(dense, strides=(200, 1, 50, 10)))  # a part of the channels
    assert not is_matrix(replace(dense, strides=(120, 40, 10, 1)))  # rows apart
    assert not is_matrix(replace(dense, strides=(120, 40, 10, 2)))  # every second element
    assert not is_matrix(replace(dense, strides=(60, 20, 1, 4)))  # columns outermost


def test_a_data_gradient_is_a_forward_pass() -> None:
    problem = problem_of(GEOMETRIES["2d"], "convolution_backward_data")
    product = as_product(problem)
    assert product is not None
    assert product.direction is Direction.FORWARD
    assert (product.src, product.dst) == (problem.dst, problem.src)
    assert product == as_product(problem)
    assert product != replace(product, adds=True)
    assert hash(product) == hash(replace(product, adds=False))


def of_products(run: CandidateRun) -> list[Candidate]:
    return [one for one in run.candidates() if one.choice.formulation == "matmul"]


def channels_of_more(array: np.ndarray) -> np.ndarray:
    """Return a copy as some of the channels of a larger array, channels last."""
    images, channels, *pixels = array.shape
    memory = np.full((images, *pixels, channels + 3), 77, array.dtype)
    view = np.moveaxis(memory, -1, 1)[:, :channels]
    view[...] = array
    return view


def images_apart(array: np.ndarray) -> np.ndarray:
    memory = np.full((2 * len(array), *array.shape[1:]), 77, array.dtype)
    memory[::2] = array
    return memory[::2]


def rows_apart(array: np.ndarray) -> np.ndarray:
    memory = np.repeat(array, 2, axis=2)
    return memory[:, :, ::2]


@needs_onednn
@pytest.mark.parametrize("form", [channels_of_more, images_apart, rows_apart])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_strides_are_given_as_they_are(operation: str, dtype: str, form: Any) -> None:
    geometry = case((6, 4), 1, minibatch=3, inputs=16, outputs=8)
    run = StridedCandidateRun(geometry.integers(dtype), operation, "NCX", form)
    found = of_products(run)
    for candidate in found:
        is_copied = candidate.formulation.is_cast or form is rows_apart
        assert bool(candidate.formulation.copied) == is_copied
        run.check(OneDNNPlan(current_engine(), candidate))
    # A product with channels first has no bias. Versions since 3.3 take gaps for dense tensors.
    has_no_gaps = form is rows_apart or current_engine().library.version < (3, 3, 0)
    if run.problem.direction is not Direction.FORWARD and has_no_gaps and computes_products():
        assert found


@needs_onednn
@pytest.mark.parametrize("operation", OPERATIONS)
def test_pixels_that_reach_into_the_next_image_are_copied(operation: str) -> None:
    """Every second of an odd number of pixels: oneDNN takes images only that are further apart."""
    geometry = case(5, 1, 2, minibatch=3, inputs=8, outputs=8)
    run = CandidateRun(geometry.integers("f32"), operation, "NXC")
    found = of_products(run)
    for candidate in found:
        assert candidate.formulation.copied
        run.check(OneDNNPlan(current_engine(), candidate))
    assert found or not computes_products()


def test_a_plan_of_both_gradients_reads_a_copy_in_both_or_in_none() -> None:
    """Rows apart: a product of matrices reads a dense copy, a convolution the caller's tensor."""
    tensors = case((6, 4), 1, minibatch=3, inputs=16, outputs=8).integers("f32")

    def gradient(role: str, formulation: str) -> Candidate:
        operation = {"src": "convolution_backward_data", "weights": "convolution_backward_weights"}
        run = StridedCandidateRun(tensors, operation[role], "NCX", rows_apart)
        found = formulate(run.problem, "f32", formulation)
        assert found is not None
        names = {role: f"diff_{role}", "bias": "diff_bias"}
        return Candidate(found, Choice("f32", formulation), {}, names=names)

    direct = gradient("src", "direct"), gradient("weights", "direct")
    assert share_tensors(direct)
    assert not share_tensors([gradient("src", "matmul"), direct[1]])
    assert not share_tensors([direct[0], gradient("weights", "matmul")])


@needs_onednn
def test_a_plan_names_the_formulation_and_adds_in_place() -> None:
    run = CandidateRun(GEOMETRIES["2d"].integers("f32"), "convolution_backward_weights", "NCX")
    found = [one for one in of_products(run) if one.choice.weights == "any"]
    if not computes_products():
        pytest.skip("a library without matmul")
    assert found
    for candidate in found:
        plan = OneDNNPlan(current_engine(), candidate)
        assert "formulation: matmul" in repr(plan)
        # A product an image, beside the bias gradient: no reorder, and no sum of terms.
        steps = [step for step in plan.program.steps if step.name != "sum of bias"]
        assert len(steps) == GEOMETRIES["2d"].minibatch
        assert {step.name for step in steps} == {candidate.choice.implementation}
        assert candidate.choice.bias_apart


@needs_onednn
def test_a_library_without_matmul_has_no_such_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(GEOMETRIES["2d"], "convolution_backward_data")

    def refused(*_: Any, **__: Any) -> Any:
        raise OneDNNError("dnnl_matmul_primitive_desc_create", "unimplemented", "")

    monkeypatch.setattr(Engine, "matmul_desc", refused)
    engine = current_engine()
    found = [one.choice.formulation for one in candidates(engine, problem)]
    assert found
    assert "matmul" not in found
    choice = Choice("f32", "matmul", "given", implementation="brg:avx512_core")
    assert invalid(problem, choice) is None
    assert candidate_of(engine, problem, Preference(choice)) is None


@needs_onednn
@pytest.mark.parametrize("mode", ["strict", "bf16"])
def test_products_get_the_floating_point_mode(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = set()
    create = Engine.matmul_desc

    def noted(*arguments: Any, fpmath_mode: str, **keywords: Any) -> Any:
        modes.add(fpmath_mode)
        return create(*arguments, fpmath_mode=fpmath_mode, **keywords)

    monkeypatch.setattr(Engine, "matmul_desc", noted)
    problem = replace(problem_of(GEOMETRIES["2d"], "convolution"), fpmath_mode=mode)
    assert list(candidates(current_engine(), problem))
    assert modes == {mode}
