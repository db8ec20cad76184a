"""Problems of `jax.lax.conv_general_dilated`, and what they give by explicit padding.

JAX's own gradients cannot be the oracle everywhere: where pads are negative, jaxlib 0.10.2 computes
some of them wrongly on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from hypothesis import strategies as st
from jax import lax
from jax import numpy as jnp

Function = Callable[..., Any]


class Problem(NamedTuple):
    """Shapes of lhs and rhs, and the keywords of a call."""

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    keywords: dict[str, Any]

    def operands(self, dtype: Any = jnp.float32, seed: int = 0) -> tuple[jax.Array, jax.Array]:
        """Return small integers, so that results are exact in any order of summation."""
        return integers(self.lhs, dtype, seed), integers(self.rhs, dtype, seed + 1)


def integers(shape: Sequence[int], dtype: Any = jnp.float32, seed: int = 0) -> jax.Array:
    """Return integers from -2 to 2; a sum of up to 60 products of theirs is exact in bfloat16."""
    return jnp.asarray(np.random.default_rng(seed).integers(-2, 3, tuple(shape)), dtype)


def padded(lhs: Any, rhs: Any, **keywords: Any) -> Any:
    """Return `lax.conv_general_dilated` with lhs padded and dilated before it."""
    padding, dilation = keywords["padding"], keywords.pop("lhs_dilation", None)
    if not isinstance(padding, str):
        numbers = lax.conv_dimension_numbers(
            lhs.shape, rhs.shape, keywords.get("dimension_numbers")
        )
        spatial = numbers.lhs_spec[2:]
        config = [(0, 0, 0)] * lhs.ndim
        steps = dilation or (1,) * len(spatial)
        for axis, (low, high), step in zip(spatial, padding, steps, strict=True):
            config[axis] = (low, high, step - 1)
        lhs = lax.pad(lhs, jnp.zeros((), lhs.dtype), config)
        keywords["padding"] = "VALID"
    return lax.conv_general_dilated(lhs, rhs, **keywords)


def assert_equal(actual: Any, expected: Any) -> None:
    """Compare trees of arrays: types, shapes and every bit but zero's sign."""
    left, right = jax.tree.leaves(actual), jax.tree.leaves(expected)
    assert len(left) == len(right) > 0
    for one, other in zip(left, right, strict=True):
        assert one.dtype == other.dtype
        wide = [np.asarray(array).astype(np.complex128) for array in (one, other)]
        np.testing.assert_array_equal(*wide, strict=True)


@st.composite
def problems(draw: st.DrawFn, most_axes: int = 3) -> Problem:
    """Any problem with a result: orders of axes, strides, both dilations, pads of either sign."""
    names = "DHW"[-draw(st.integers(1, most_axes)) :]
    count = len(names)

    def each(*values: int) -> tuple[int, ...]:
        return tuple(draw(st.sampled_from(values)) for _ in names)

    if draw(st.booleans()):
        specs = tuple("".join(draw(st.permutations(two + names))) for two in ("NC", "OI", "NC"))
    else:
        specs = (f"N{names}C", f"{names}IO", f"N{names}C")
    # Attributes are in the order of the spatial axes of rhs.
    names = "".join(name for name in specs[1] if name not in "OI")
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    inputs, outputs = groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 2))
    kernel, rhs_dilation = each(1, 2, 3), each(1, 1, 2)
    strides, lhs_dilation = each(1, 2, 3), each(1, 2, 3)
    kind = draw(st.sampled_from(["strided", "transposed", "both"]))
    strides = (1,) * count if kind == "transposed" else strides
    lhs_dilation = (1,) * count if kind == "strided" else lhs_dilation
    pads = tuple((draw(st.integers(-2, 5)), draw(st.integers(-2, 5))) for _ in names)
    size = tuple(
        max(1, -((low + high - (k - 1) * d) // step) + draw(st.integers(1, 4)))
        for k, d, (low, high), step in zip(kernel, rhs_dilation, pads, lhs_dilation, strict=True)
    )
    lhs = {"N": draw(st.integers(1, 3)), "C": inputs, **dict(zip(names, size, strict=True))}
    rhs = {"O": outputs, "I": inputs // groups, **dict(zip(names, kernel, strict=True))}
    padding: Any = pads
    if kind == "strided" and draw(st.integers(0, 3)) == 0:
        padding = draw(st.sampled_from(["SAME", "SAME_LOWER"]))
    return Problem(
        tuple(lhs[name] for name in specs[0]),
        tuple(rhs[name] for name in specs[1]),
        {
            "window_strides": strides,
            "padding": padding,
            "lhs_dilation": lhs_dilation,
            "rhs_dilation": rhs_dilation,
            "dimension_numbers": specs,
            "feature_group_count": groups,
        },
    )
