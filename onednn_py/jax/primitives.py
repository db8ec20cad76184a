"""Forward, backward data and backward weights: three bilinear primitives.

They are the three ways to leave one tensor out of the sum <dst, convolution(src, weights)>, so that
each one's transposes are the two others. Batches fold into the minibatch, into the channels of one
side, or into groups.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from jax import numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir, xla

from .folding import fold, unfold
from .geometry import Geometry
from .lowering import lower, lower_to_lax

__all__ = ["backward_data_p", "backward_weights_p", "forward_p"]


class _Tensor(NamedTuple):
    """A tensor of the convolution, and how it is called in `Geometry`."""

    name: str

    def axis(self, geometry: Geometry, role: int) -> int:
        spec: tuple[int, ...] = getattr(geometry, f"{self.name}_spec")
        return spec[role]


SRC, WEIGHTS, DST = _Tensor("src"), _Tensor("weights"), _Tensor("dst")


class _Fold(NamedTuple):
    """The axis of a tensor that takes a batch, by its role in the spec; it may be in groups."""

    role: int
    is_grouped: bool = False

    def axis_and_groups(self, tensor: _Tensor, geometry: Geometry) -> tuple[int, int]:
        """Return the axis, and in how many groups it lies."""
        return tensor.axis(geometry, self.role), geometry.groups if self.is_grouped else 1


# Where a batch goes if one tensor of the three has none.
_FOLDS: dict[_Tensor, dict[_Tensor, _Fold]] = {
    WEIGHTS: {SRC: _Fold(0), DST: _Fold(0)},
    DST: {SRC: _Fold(1, is_grouped=True), WEIGHTS: _Fold(1)},
    SRC: {WEIGHTS: _Fold(0, is_grouped=True), DST: _Fold(1, is_grouped=True)},
}
# If all three have one, it multiplies the groups.
_ALL_FOLDS: dict[_Tensor, _Fold] = {SRC: _Fold(1), WEIGHTS: _Fold(0), DST: _Fold(1)}


def _primitive(name: str, inputs: tuple[_Tensor, _Tensor], result: _Tensor) -> Any:
    primitive = Primitive(f"onednn_{name}")

    def abstract(first: Any, second: Any, *, geometry: Geometry) -> Any:
        shape = getattr(geometry, f"{result.name}_shape")(first.shape, second.shape)
        # What else an abstract value has, such as the axes along which it varies, is the operands'.
        return first.update(shape=shape, weak_type=False)

    primitive.def_abstract_eval(abstract)

    # JAX's checks for NaN run functions again, one primitive after the other, down to this one.
    primitive.def_impl(partial(xla.apply_primitive, primitive))
    batching.primitive_batchers[primitive] = partial(_batched, primitive, inputs, result)
    mlir.register_lowering(primitive, partial(lower_to_lax, name))
    mlir.register_lowering(primitive, partial(lower, name), platform="cpu")
    return primitive


def _batched(
    primitive: Primitive,
    inputs: tuple[_Tensor, _Tensor],
    result: _Tensor,
    operands: Any,
    batch_axes: Any,
    *,
    geometry: Geometry,
) -> tuple[Any, int]:
    """Compute a batch of operations as a single one; the result's batch axis is its first."""
    given = dict(zip(inputs, zip(operands, batch_axes, strict=True), strict=True))
    (batch,) = {array.shape[axis] for array, axis in given.values() if axis is not None}
    if batch == 0:
        shapes = [
            array.shape if axis is None else array.shape[:axis] + array.shape[axis + 1 :]
            for array, axis in given.values()
        ]
        shape = getattr(geometry, f"{result.name}_shape")(*shapes)
        return jnp.zeros((0, *shape), operands[0].dtype), 0
    alone = [tensor for tensor, (_, axis) in given.items() if axis is None]
    folds = _FOLDS[alone[0]] if alone else _ALL_FOLDS
    folded = []
    for tensor, (array, batch_axis) in given.items():
        if batch_axis is not None:
            axis, groups = folds[tensor].axis_and_groups(tensor, geometry)
            array = fold(array, batch_axis, axis, groups)
        folded.append(array)
    whole = primitive.bind(*folded, geometry=geometry if alone else geometry.in_groups(batch))
    axis, groups = folds[result].axis_and_groups(result, geometry)
    return unfold(whole, axis, batch, groups), 0


forward_p = _primitive("forward", (SRC, WEIGHTS), DST)
backward_data_p = _primitive("backward_data", (DST, WEIGHTS), SRC)
backward_weights_p = _primitive("backward_weights", (SRC, DST), WEIGHTS)

# The rules get a cotangent of the result and the two operands, the one to transpose by as a
# placeholder.
ad.defbilinear(
    forward_p,
    lambda diff_dst, _, weights, **kw: backward_data_p.bind(diff_dst, weights, **kw),
    lambda diff_dst, src, _, **kw: backward_weights_p.bind(src, diff_dst, **kw),
)
ad.defbilinear(
    backward_data_p,
    lambda src, _, weights, **kw: forward_p.bind(src, weights, **kw),
    lambda src, diff_dst, _, **kw: backward_weights_p.bind(src, diff_dst, **kw),
)
ad.defbilinear(
    backward_weights_p,
    lambda weights, _, diff_dst, **kw: backward_data_p.bind(diff_dst, weights, **kw),
    lambda weights, src, _, **kw: forward_p.bind(src, weights, **kw),
)
