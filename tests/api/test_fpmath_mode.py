"""fpmath modes: float32 products of less precision where a mode allows it, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError
from onednn_py.backends import ONEDNN
from onednn_py.backends.onednn.binding.engine import Engine
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.config import FPMATH_MODES
from onednn_py.problem.problem import Problem
from tests.support.candidate_runs import plan_problem, sub_problems
from tests.support.cases import CURATED, OPERATIONS, Tensors
from tests.support.reference import assert_close
from tests.support.requirements import needs_onednn

NAMES = ("2d_blocked_channels", "2d_1x1", "2d_groups_16", "2d_strided_dilated", "3d", "1d_strided")

# Half a unit in the last place of the type that a mode may round a float32 to: the largest error
# that the mode permits in each factor of a product.
HALF_UNITS = {"strict": 0.0, "bf16": 2.0**-9, "tf32": 2.0**-11, "f16": 2.0**-11, "any": 2.0**-9}

pytestmark = pytest.mark.usefixtures("fresh_cache")


def results(
    tensors: Tensors,
    operation: str,
    data_format: str,
    backend: str,
    fpmath_mode: str | None = None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return pairs of (actual, expected)."""
    weights_first = data_format == "NCX"
    positional, keywords = tensors.arguments(operation, data_format, weights_first)
    function = getattr(onednn_py, operation)
    result = function(*positional, **keywords, backend=backend, fpmath_mode=fpmath_mode)
    return tensors.results(operation, result, data_format, weights_first, "native")


@pytest.mark.parametrize("mode", FPMATH_MODES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_results_are_within_the_modes_tolerance(operation: str, mode: str, backend: str) -> None:
    for name in NAMES:
        tensors = CURATED[name].normals("f32")
        # Each product has the errors of two roundings, and a sum's error grows with the root of
        # its terms.
        allowed = 8 * 2 * HALF_UNITS[mode] * max(1.0, tensors.case.terms) ** 0.5
        for data_format in ("NCX", "NXC"):
            for actual, expected in results(
                tensors, operation, data_format, backend, fpmath_mode=mode
            ):
                if mode == "strict":
                    assert_close(actual, expected, "f32", terms=tensors.case.terms)
                else:
                    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=allowed + 1e-4)


@pytest.mark.parametrize("mode", FPMATH_MODES)
def test_numbers_that_every_mode_represents_are_exact(mode: str, backend: str) -> None:
    """Small integers have few digits, and sums are in float32 in every mode."""
    for name in NAMES:
        tensors = CURATED[name].integers("bf16")
        exact = Tensors(
            tensors.case,
            "f32",
            {role: array.astype(np.float32) for role, array in tensors.arrays.items()},
            tensors.bias.astype(np.float32),
        )
        for operation in OPERATIONS:
            for actual, expected in results(exact, operation, "NXC", backend, fpmath_mode=mode):
                np.testing.assert_array_equal(actual, expected)


def test_each_mode_has_plans_of_its_own(backend: str) -> None:
    """An argument and the context give the same plans; strict is the default."""
    tensors = CURATED["2d_blocked_channels"].normals("f32")
    strict = results(tensors, "convolution", "NXC", backend)[0][0]
    misses = [onednn_py.cache_info().misses]
    for mode in FPMATH_MODES[1:]:
        first = results(tensors, "convolution", "NXC", backend, fpmath_mode=mode)[0][0]
        misses.append(onednn_py.cache_info().misses)
        with onednn_py.use_fpmath_mode(mode):
            again = results(tensors, "convolution", "NXC", backend)[0][0]
            overridden = results(tensors, "convolution", "NXC", backend, fpmath_mode="strict")[0][0]
        np.testing.assert_array_equal(first, again)
        np.testing.assert_array_equal(overridden, strict)
        np.testing.assert_array_equal(results(tensors, "convolution", "NXC", backend)[0][0], strict)
        assert onednn_py.cache_info().misses == misses[-1]
    assert np.diff(misses).tolist() == [1] * 4


def arguments(dtype: Any, *, joint: bool = False) -> tuple[Any, ...]:
    """Return a function, of a convolution or of both its gradients, and tensors of ones."""
    src, weights = np.ones((2, 9, 9, 32), dtype), np.ones((3, 3, 32, 32), dtype)
    if joint:
        return onednn_py.convolution_backward, src, weights, np.ones((2, 7, 7, 32), dtype)
    return onednn_py.convolution, src, weights


def planned(dtype: Any, mode: str | None, backend: str, *, joint: bool = False) -> onednn_py.Plan:
    return onednn_py.plan(*arguments(dtype, joint=joint), backend=backend, fpmath_mode=mode)


def problem_of(dtype: Any, mode: str) -> Problem:
    (sub_problem,) = sub_problems(*arguments(dtype), fpmath_mode=mode)
    return sub_problem.problem


@needs_onednn
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("mode", FPMATH_MODES[1:])
def test_print_tells_the_mode(mode: str, joint: bool) -> None:
    note = f"fpmath_mode {mode}: products may be rounded to it"
    assert note in repr(planned(np.float32, mode, "onednn", joint=joint))
    assert "fpmath_mode" not in repr(planned(np.float32, None, "onednn", joint=joint))
    with onednn_py.use_fpmath_mode(mode):
        plan = planned(np.float32, None, "onednn", joint=joint)
    # The plan keeps the mode in which it was made.
    assert note in repr(plan)


@needs_onednn
@pytest.mark.parametrize("mode", FPMATH_MODES)
def test_onednn_gets_the_mode(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The primitive descriptors of both gradients are created in it."""
    modes: dict[str, set[str]] = {}
    create = Engine.convolution_desc

    def noted(engine: Engine, family: str, direction: str, *arguments: Any, **keywords: Any) -> Any:
        modes.setdefault(f"{family}_{direction}", set()).add(keywords["fpmath_mode"])
        return create(engine, family, direction, *arguments, **keywords)

    monkeypatch.setattr(Engine, "convolution_desc", noted)
    planned(np.float32, mode, "onednn", joint=True)
    for function in ("backward_data", "backward_weights"):
        assert modes[f"convolution_{function}"] == {mode}
    attributes = current_engine().attributes
    assert (attributes(mode) == attributes("strict")) == (mode == "strict")


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float64])
def test_other_types_have_no_modes(dtype: Any, backend: str) -> None:
    """The problem, and with it the plan, is the same in every mode."""
    for mode in (None, *FPMATH_MODES):
        assert "fpmath" not in repr(planned(dtype, mode, backend))
    assert onednn_py.cache_info().misses == 1
    assert len({problem_of(dtype, mode) for mode in FPMATH_MODES}) == 1


@needs_onednn
@pytest.mark.usefixtures("cast_float16")
def test_float16_that_is_computed_in_float32_is_strict() -> None:
    assert "f16 through f32" in repr(planned(np.float16, "any", "onednn"))
    plan = plan_problem(problem_of(np.float16, "any"))
    assert isinstance(plan, OneDNNPlan)
    for candidate in plan.candidates:
        assert candidate.formulation.problem.dtype == "f32"
        assert candidate.formulation.problem.fpmath_mode == "strict"


@needs_onednn
def test_wisdom_tells_modes_apart() -> None:
    """Measurements are kept under the names of problems, which contain the mode."""
    names = set()
    for mode in FPMATH_MODES:
        problem = problem_of(np.float32, mode)
        names.add(problem.name)
        assert ("fpmath" in problem.name) == (mode != "strict")
        measured = ONEDNN.measure(problem, 0.05)
        assert measured.plan.problem.fpmath_mode == mode
        _, src, weights = arguments(np.float32)
        plan = planned(np.float32, mode, "onednn")
        np.testing.assert_array_equal(plan(src, weights), 288)
    onednn_py.wisdom.forget()
    assert len(names) == len(FPMATH_MODES)


@pytest.mark.parametrize("mode", ["BF16", "Strict"])
def test_names_in_any_case(mode: str, backend: str) -> None:
    tensors = CURATED["2d"].normals("f32")
    actual = results(tensors, "convolution", "NXC", backend, fpmath_mode=mode)
    expected = results(tensors, "convolution", "NXC", backend, fpmath_mode=mode.lower())
    np.testing.assert_array_equal(actual[0][0], expected[0][0])


@pytest.mark.parametrize("mode", ["", "fp8", 1, True, ("bf16",)])
def test_other_values_are_refused(mode: Any, backend: str) -> None:
    src, weights = np.ones((1, 9, 4), np.float32), np.ones((3, 4, 4), np.float32)
    for _ in range(2):
        onednn_py.convolution(src, weights, backend=backend)
        with pytest.raises(AttributeValueError, match="fpmath_mode: expected one of strict, bf16"):
            onednn_py.convolution(src, weights, fpmath_mode=mode, backend=backend)
        with pytest.raises(AttributeValueError, match="fpmath_mode: expected one of strict, bf16"):
            onednn_py.plan(onednn_py.convolution, src, weights, fpmath_mode=mode)


@needs_onednn
def test_strict_is_strict_whatever_onednn_takes_by_default() -> None:
    """oneDNN reads ONEDNN_DEFAULT_FPMATH_MODE for attributes that name no mode."""
    code = """
import numpy as np, onednn_py
diff_dst, weights = np.full((1, 9, 64), 1 + 2**-12, "f4"), np.ones((1, 64, 64), "f4")
result = onednn_py.convolution_backward_data(diff_dst, weights)
assert (result == 64 + 2**-6).all(), result.ravel()[0]
"""
    environment = {**os.environ, "ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)
