"""JAX's transformations of the three primitives, against those of lax."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import pytest
from jax import lax
from jax import numpy as jnp

from onednn_py.jax import conv_general_dilated, lowering
from tests.support.jax_cases import assert_equal, integers

pytestmark = pytest.mark.frameworks

OPTIONS = {
    "plain": {"window_strides": (1, 1), "padding": "SAME"},
    "strided groups": {
        "window_strides": (2, 1),
        "padding": ((1, 2), (0, 1)),
        "rhs_dilation": (1, 2),
        "feature_group_count": 2,
    },
    "transposed": {"window_strides": (1, 1), "padding": ((2, 1), (1, 2)), "lhs_dilation": (2, 3)},
    "channels last": {
        "window_strides": (1, 1),
        "padding": "VALID",
        "dimension_numbers": ("NHWC", "HWIO", "NHWC"),
    },
}


@pytest.fixture(autouse=True, scope="module")
def everything() -> Iterator[None]:
    # What JAX compiled in between serves all tests of this file.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lowering, "is_left_to_lax", lambda *arguments, **shapes: False)
        jax.clear_caches()
        yield
        jax.clear_caches()


# What "plain" has, the other problems have, too.
@pytest.fixture(params=[pytest.param("plain", marks=pytest.mark.slow), *list(OPTIONS)[1:]])
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return OPTIONS[request.param]


def operands(options: dict[str, Any], *batch: int) -> tuple[jax.Array, jax.Array]:
    groups = options.get("feature_group_count", 1)
    if "dimension_numbers" in options:
        return integers((*batch, 2, 5, 6, 4)), integers((*batch, 3, 2, 4, 6), seed=1)
    return integers((*batch, 2, 4, 5, 6)), integers((*batch, 6, 4 // groups, 3, 2), seed=1)


def both(options: dict[str, Any]) -> Iterator[Any]:
    for function in (conv_general_dilated, lax.conv_general_dilated):
        yield partial(function, **options)


def compare(options: dict[str, Any], transformed: Any, *arguments: Any) -> None:
    """Compare what ``transformed`` makes of our function and of that of lax, also under jit."""
    ours, theirs = (transformed(function) for function in both(options))
    expected = jax.jit(theirs)(*arguments)
    assert_equal(ours(*arguments), expected)
    assert_equal(jax.jit(ours)(*arguments), expected)


def loss(function: Any) -> Any:
    return lambda src, weights: (function(src, weights) ** 2).sum() / 4


def test_grad_of_both(options: dict[str, Any]) -> None:
    compare(options, lambda f: jax.grad(loss(f), (0, 1)), *operands(options))


def test_jvp(options: dict[str, Any]) -> None:
    src, weights = operands(options)
    tangents = tuple(map(partial(jnp.roll, shift=1), (src, weights)))
    compare(options, lambda f: lambda *primals: jax.jvp(f, primals, tangents), *operands(options))


def test_hessian_vector_product(options: dict[str, Any]) -> None:
    src, weights = operands(options)
    tangents = tuple(map(partial(jnp.roll, shift=1), (src, weights)))
    compare(
        options,
        lambda f: lambda *primals: jax.jvp(jax.grad(loss(f), (0, 1)), primals, tangents)[1],
        src,
        weights,
    )


def test_grad_of_grad(options: dict[str, Any]) -> None:
    def twice(function: Any) -> Any:
        inner = jax.grad(lambda s, w: function(s, w).sum() ** 2 / 1024, (0, 1))

        def total(src: Any, weights: Any) -> Any:
            by_src, by_weights = inner(src, weights)
            return by_src.sum() + by_weights.sum()

        return jax.grad(total, (0, 1))

    compare(options, twice, *operands(options))


def test_jacobians_forward_and_reverse() -> None:
    options = OPTIONS["strided groups"]
    src, weights = integers((1, 2, 4, 4)), integers((2, 1, 2, 2))
    compare(options, lambda f: jax.jacfwd(f, 1), src, weights)
    compare(options, lambda f: jax.jacrev(f, 0), src, weights)


@pytest.mark.parametrize(
    ("options", "axes"),
    [
        ("strided groups", (2, None)),
        ("strided groups", (None, 4)),
        ("strided groups", (4, 1)),
        ("transposed", (None, 4)),
        *(
            pytest.param(name, axes, marks=pytest.mark.slow)
            for name, axes in [
                ("plain", (4, 1)),
                ("transposed", (2, None)),
                ("transposed", (4, 1)),
                ("channels last", (2, None)),
                ("channels last", (None, 4)),
                ("channels last", (4, 1)),
            ]
        ),
    ],
    indirect=["options"],
    ids=str,
)
def test_vmap_of_value_and_gradients(options: dict[str, Any], axes: Any) -> None:
    src, weights = operands(options, 3)
    arguments = [
        tensor[0] if axis is None else jnp.moveaxis(tensor, 0, axis)
        for tensor, axis in zip((src, weights), axes, strict=True)
    ]

    def mapped(function: Any) -> Any:
        # The gradients inside of vmap, and vmap inside of the gradients.
        by_inner = jax.vmap(jax.grad(loss(function), (0, 1)), axes)
        by_outer = jax.grad(loss(jax.vmap(function, axes)), (0, 1))
        return lambda *both: (jax.vmap(function, axes)(*both), by_inner(*both), by_outer(*both))

    compare(options, mapped, *arguments)


def test_vmap_over_the_cotangent_alone(options: dict[str, Any]) -> None:
    src, weights = operands(options)
    (value,) = {f(src, weights).shape for f in both(options)}
    compare(
        options,
        lambda f: lambda cotangents: jax.vmap(jax.vjp(f, src, weights)[1])(cotangents),
        integers((3, *value)),
    )


def test_vmap_of_vmap() -> None:
    options = OPTIONS["strided groups"]
    src, weights = operands(options, 2, 3)
    compare(options, lambda f: jax.vmap(jax.vmap(f)), src, weights)
    compare(options, lambda f: jax.vmap(jax.vmap(f, (0, None)), (None, 0)), src[0], weights[:, 0])


def test_vmap_over_nothing(options: dict[str, Any]) -> None:
    src, weights = operands(options, 0)
    compare(options, jax.vmap, src, weights)
    compare(options, lambda f: jax.vmap(f, (0, None)), src, operands(options)[1])


def test_scan_of_200_steps() -> None:
    options = OPTIONS["channels last"] | {"padding": "SAME"}

    def trained(function: Any) -> Any:
        def step(weights: Any, src: Any) -> Any:
            gradient = jax.grad(lambda w: (function(src, w) ** 2).mean())(weights)
            # Whole numbers stay exact, however the sums are ordered.
            return jnp.sign(jnp.round(gradient)) + jnp.round(weights / 2), gradient.shape[0]

        return lambda weights, srcs: lax.scan(step, weights, srcs)[0]

    srcs = integers((200, 2, 4, 4, 2))
    compare(options, trained, integers((3, 3, 2, 2)), srcs)


def test_checkpoint_cond_and_while() -> None:
    options = OPTIONS["plain"] | {"padding": "SAME"}
    src, weights = integers((1, 2, 4, 4)), integers((2, 2, 3, 3))
    compare(options, lambda f: jax.grad(loss(jax.checkpoint(f)), (0, 1)), src, weights)
    compare(
        options,
        lambda f: lambda s, w: lax.cond(s.sum() > 1e6, lambda: s, lambda: f(s, w)),
        src,
        weights,
    )
    compare(
        options,
        lambda f: lambda s, w: lax.fori_loop(0, 3, lambda i, value: f(value, w), s),
        src,
        weights,
    )


def test_jit_in_jit_and_without_jit() -> None:
    options = OPTIONS["plain"]
    src, weights = operands(options)
    compare(options, lambda f: jax.jit(lambda s, w: jax.jit(f)(s, w) + f(s, w)), src, weights)
    with jax.disable_jit():
        ours, theirs = (jax.grad(loss(f), (0, 1))(src, weights) for f in both(options))
        assert_equal(ours, theirs)


def test_linear_transpose_and_linearize(options: dict[str, Any]) -> None:
    src, weights = operands(options)
    compare(options, lambda f: lambda s: jax.linearize(f, s, weights)[1](s, weights), src)
    compare(
        options,
        lambda f: lambda s: jax.linear_transpose(lambda one: f(one, weights), s)(f(s, weights)),
        src,
    )
