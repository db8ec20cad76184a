"""`conv_general_dilated` against lax: values, gradients, errors, what is left to lax."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, note, settings
from jax import export, lax
from jax import numpy as jnp

import onednn_py.jax
from onednn_py.jax import conv_general_dilated, lowering
from tests.support.jax_cases import Problem, assert_equal, integers, padded, problems
from tests.support.reproduction import reproduction

pytestmark = pytest.mark.frameworks

LAST = ("NHWC", "HWIO", "NHWC")


def check(problem: Problem) -> None:
    """Compare a problem and both gradients with explicit padding."""
    lhs, rhs = problem.operands()
    results = []
    for function in (conv_general_dilated, padded):
        value, gradients = jax.vjp(partial(function, **problem.keywords), lhs, rhs)
        results.append((value, gradients(integers(value.shape, value.dtype, 2))))
    assert_equal(*results)


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left to lax because it is small or faster there."""
    monkeypatch.setattr(lowering, "is_left_to_lax", lambda *arguments, **shapes: False)
    jax.clear_caches()


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every primitive is lowered as lax lowers it."""
    monkeypatch.setattr(lowering, "is_left_to_lax", lambda *arguments, **shapes: True)
    jax.clear_caches()


def primitives(function: Any, *arguments: Any) -> list[str]:
    return [str(e.primitive) for e in jax.make_jaxpr(function)(*arguments).jaxpr.eqns]


def callbacks(function: Any, *arguments: Any) -> int:
    return jax.jit(function).lower(*arguments).as_text().count("python_cpu_callback")


@pytest.mark.usefixtures("everything")
@settings(max_examples=12)
@given(problems())
def test_drawn_problems_and_both_gradients(problem: Problem) -> None:
    note(reproduction(__name__, f"check({problem!r})"))
    check(problem)


def check_rounding(problem: Problem, dtype: str) -> None:
    """Compare a problem of a narrow type and both gradients with rounded results of float32."""
    lhs, rhs = problem.operands(jnp.dtype(dtype))
    wide = problem.operands()
    value, gradients = jax.vjp(partial(conv_general_dilated, **problem.keywords), lhs, rhs)
    exact, derivative = jax.vjp(partial(padded, **problem.keywords), *wide)
    cotangent = integers(exact.shape, jnp.float32, 2)
    found = (value, *gradients(cotangent.astype(dtype)))
    # One rounding of the exact sum, since float32 sums these integers exactly.
    assert_equal(found, [one.astype(dtype) for one in (exact, *derivative(cotangent))])


@pytest.mark.usefixtures("nothing")
@settings(max_examples=8)
@given(problems(2))
def test_what_is_left_to_lax_is_the_same(problem: Problem) -> None:
    note(reproduction(__name__, f"check({problem!r})"))
    check(problem)


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@settings(max_examples=5)
@given(problems(2))
def test_narrow_types(dtype: str, problem: Problem) -> None:
    note(reproduction(__name__, f"check_rounding({problem!r}, {dtype!r})"))
    check_rounding(problem, dtype)


def test_dense_values_are_near_those_of_lax() -> None:
    random = np.random.default_rng(0)
    src = jnp.asarray(random.standard_normal((4, 28, 28, 32)), jnp.float32)
    weights = jnp.asarray(random.standard_normal((3, 3, 32, 48)), jnp.float32)
    options = {"window_strides": (2, 2), "padding": "SAME", "dimension_numbers": LAST}
    found, expected = (
        jax.jit(jax.grad(lambda s, w, f=f: (f(s, w, **options) ** 2).sum(), (0, 1)))(src, weights)
        for f in (conv_general_dilated, lax.conv_general_dilated)
    )
    for one, other in zip(found, expected, strict=True):
        # float32's unit roundoff by the root of the number of terms, on values of about 1e4.
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * np.abs(other).max())


@pytest.mark.usefixtures("everything")
def test_negative_pads_of_the_gradient() -> None:
    # lax gives values of uninitialised memory here (jaxlib 0.10.2).
    check(
        Problem(
            (3, 5, 3, 3),
            (3, 2, 3, 2),
            {
                "window_strides": (1, 1),
                "padding": ((5, -1), (3, 1)),
                "dimension_numbers": LAST,
            },
        )
    )


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("pads", [(3, 0), (7, -1), (0, 4), (-1, 8), (9, 9), (2, 2)])
def test_gradients_of_windows_on_pads_alone(pads: tuple[int, int], stride: int) -> None:
    # All pairs of three numbers: JAX compiles each problem for a second.
    rows = (1, 2, 4)[(pads[0] + stride) % 3]
    check(
        Problem(
            (2, rows, 3, 1),
            (2, 2, 1, 2),
            {
                "window_strides": (stride, 1),
                "padding": (pads, (0, 0)),
                "dimension_numbers": LAST,
            },
        )
    )


@pytest.mark.usefixtures("everything")
def test_it_is_computed_here_as_three_primitives() -> None:
    src, weights = integers((2, 3, 8, 8)), integers((4, 3, 3, 3))
    function = partial(conv_general_dilated, window_strides=(1, 1), padding="SAME")
    assert primitives(function, src, weights) == ["onednn_forward"]
    gradients = jax.grad(lambda s, w: function(s, w).sum(), (0, 1))
    found = primitives(gradients, src, weights)
    assert {"onednn_backward_data", "onednn_backward_weights"} <= set(found)
    assert "conv_general_dilated" not in found
    # The forward result is not needed.
    assert callbacks(gradients, src, weights) == 2


@pytest.mark.parametrize(
    ("change", "shapes"),
    [
        ({"batch_group_count": 2}, ((2, 3, 8, 8), (4, 3, 3, 3))),
        ({"precision": "BF16_BF16_F32"}, ((2, 3, 8, 8), (4, 3, 3, 3))),
        ({}, ((0, 3, 8, 8), (4, 3, 3, 3))),
        ({"window_strides": (), "padding": ()}, ((2, 3), (4, 3))),
        ({"window_strides": (1,) * 4, "padding": "SAME"}, ((1, 1, 3, 3, 3, 3), (1, 1, 2, 2, 2, 2))),
        ({"padding": ((-4, -4), (0, 0))}, ((2, 3, 8, 8), (4, 3, 3, 3))),
    ],
)
def test_what_is_not_computed_here_is_left_to_lax(change: Any, shapes: Any) -> None:
    options: dict[str, Any] = {"window_strides": (1, 1), "padding": "VALID", **change}
    src, weights = map(integers, shapes)
    ours = partial(conv_general_dilated, **options)
    assert "onednn" not in "".join(primitives(ours, src, weights))
    if "precision" not in change:  # which XLA's CPU backend does not know
        assert_equal(ours(src, weights), lax.conv_general_dilated(src, weights, **options))


@pytest.mark.parametrize("dtype", ["int32", "complex64"])
def test_other_types_are_left_to_lax(dtype: str) -> None:
    src, weights = integers((2, 3, 8, 8), dtype), integers((4, 3, 3, 3), dtype)
    assert_equal(
        conv_general_dilated(src, weights, (1, 1), "VALID"),
        lax.conv_general_dilated(src, weights, (1, 1), "VALID"),
    )


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_wider_preferred_type(dtype: str) -> None:
    src, weights = integers((2, 3, 8, 8), dtype), integers((4, 3, 3, 3), dtype)
    found, expected = (
        jax.value_and_grad(
            lambda s, w, f=f: f(s, w, (1, 1), "SAME", preferred_element_type=jnp.float32).sum(),
            (0, 1),
        )(src, weights)
        for f in (conv_general_dilated, lax.conv_general_dilated)
    )
    assert_equal(found, expected)
    assert found[0].dtype == jnp.float32
    assert found[1][0].dtype == dtype


@pytest.mark.parametrize(
    ("shapes", "change"),
    [
        (((2, 3, 8, 8), (4, 2, 3, 3)), {}),
        (((2, 3, 8, 8), (4, 3, 3)), {}),
        (((2, 3, 8, 8), (4, 3, 3, 3)), {"window_strides": (1,)}),
        (((2, 3, 8, 8), (4, 3, 3, 3)), {"padding": "sideways"}),
        (((2, 3, 8, 8), (4, 3, 3, 3)), {"padding": [1, 2]}),
        (((2, 3, 8, 8), (4, 3, 3, 3)), {"padding": [(1, 1, 1), (1, 1)]}),
        (((2, 3, 8, 8), (4, 3, 3, 3)), {"padding": [(-9, 0), (0, 0)]}),
        (((2, 3, 8, 8), (4, 3, 3, 3)), {"feature_group_count": 2}),
        (((2, 3, 8, 8), (4, 3, 3, 3)), {"feature_group_count": 0}),
        (((2, 3, 8, 8), (4, 3, 3, 3)), {"dimension_numbers": ("NCHW", "OIHW")}),
        (((2, 3, 8, 8), (4, 3, 3, 3)), {"dimension_numbers": ("NCHH", "OIHW", "NCHW")}),
        (((2, 3, 8, 8), (4, 3, 3, 3)), {"lhs_dilation": (2, 2), "padding": "SAME"}),
        (((2, 3, 8, 8), (4, 3, 3, 3)), {"precision": "sharp"}),
    ],
)
def test_errors_are_those_of_lax(shapes: Any, change: Any) -> None:
    options: dict[str, Any] = {"window_strides": (1, 1), "padding": "VALID", **change}
    src, weights = map(integers, shapes)
    errors = []
    for function in (lax.conv_general_dilated, conv_general_dilated):
        with pytest.raises(Exception) as caught:
            function(src, weights, **options)
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1])
    assert str(errors[0]) == str(errors[1])


def test_arguments_that_are_no_arrays_fail_as_in_lax() -> None:
    for arguments in (([[1.0]], integers((1, 1, 1))), (integers((1, 1, 1)), 1.0)):
        errors = []
        for function in (lax.conv_general_dilated, conv_general_dilated):
            with pytest.raises((AttributeError, TypeError)) as caught:
                function(*arguments, (1,), "VALID")
            errors.append((type(caught.value), str(caught.value)))
        assert errors[0] == errors[1]


@pytest.mark.parametrize(
    "options",
    [
        {"window_strides": (1.0, 1.0), "padding": "SAME"},
        {"window_strides": (np.float32(1), 1), "padding": "SAME"},
    ],
)
def test_floats_fail_as_in_lax_after_a_call_with_equal_integers(options: Any) -> None:
    src, weights = integers((2, 3, 8, 8)), integers((4, 3, 3, 3))
    conv_general_dilated(src, weights, (1, 1), "SAME")
    errors = []
    for function in (lax.conv_general_dilated, conv_general_dilated):
        with pytest.raises(TypeError) as caught:
            function(src, weights, **options)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


def test_weak_types_stay_weak() -> None:
    weak, weights = jnp.broadcast_to(2.0, (1, 1, 4)), jnp.broadcast_to(1.0, (1, 1, 2))
    assert weak.weak_type
    for second in (weights, jnp.ones((1, 1, 2))):
        found, expected = (
            function(weak, second, (1,), "VALID")
            for function in (conv_general_dilated, lax.conv_general_dilated)
        )
        assert_equal(found, expected)
        assert found.weak_type == expected.weak_type == second.weak_type


def test_mixed_types_fail_as_in_lax() -> None:
    with pytest.raises(TypeError, match="requires arguments to have the same dtypes"):
        conv_general_dilated(integers((1, 1, 4)), integers((1, 1, 2), "bfloat16"), (1,), "VALID")


def test_numpy_arrays_and_symbolic_shapes() -> None:
    src, weights = np.ones((1, 1, 4), np.float32), np.ones((1, 1, 2), np.float32)
    assert conv_general_dilated(src, weights, (1,), "VALID").tolist() == [[[2.0, 2.0, 2.0]]]
    (n,) = export.symbolic_shape("n")
    exported = export.export(jax.jit(lambda s: conv_general_dilated(s, weights, (1,), "SAME")))(
        jax.ShapeDtypeStruct((n, 1, 4), jnp.float32)
    )
    assert exported.call(np.ones((3, 1, 4), np.float32)).shape == (3, 1, 4)


def test_the_settings_in_force_when_traced() -> None:
    src, weights = integers((2, 3, 8, 8)), integers((4, 3, 3, 3))
    function = partial(conv_general_dilated, window_strides=(1, 1), padding="SAME")
    with onednn_py.use_backend("numpy"), onednn_py.use_fpmath_mode("bf16"):
        (equation,) = jax.make_jaxpr(function)(src, weights).jaxpr.eqns
    assert equation.params["geometry"].settings == ("numpy", "heuristic", "bf16")
    # What was traced keeps its settings, and JAX remembers what a function's trace gave.
    function = partial(conv_general_dilated, window_strides=(1, 1), padding="SAME")
    (equation,) = jax.make_jaxpr(function)(src, weights).jaxpr.eqns
    assert equation.params["geometry"].settings == ("auto", "heuristic", "strict")


@pytest.mark.usefixtures("everything")
def test_backend_and_effort_reach_the_callback(backend: str) -> None:
    src, weights = integers((2, 8, 8, 3)), integers((3, 3, 3, 4))
    options = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": LAST}
    with onednn_py.use_backend(backend), onednn_py.use_effort("measure"):
        found = conv_general_dilated(src, weights, **options)
    assert_equal(found, lax.conv_general_dilated(src, weights, **options))


def test_the_comparison_can_fail() -> None:
    one = integers((2, 3))
    for wrong in (one.at[1, 2].add(1), one.astype("bfloat16"), one[:1], one.T):
        with pytest.raises(AssertionError):
            assert_equal(wrong, one)
