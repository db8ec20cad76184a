"""From one operation's arguments, as the caller names them, to a Recipe.

A Recipe knows everything but the memory: shapes, pads, data type, how each of the
caller's tensors is seen in canonical order. ``Recipe.problem`` adds the strides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from onednn_py.errors import AttributeValueError, ShapeError, brief

from .arrays import TensorSpec, common_dtype, spec_of
from .attributes import GROUPS_AXIS, Attributes, parse_attributes, parse_shape
from .dtypes import DTYPES
from .formats import TensorView, bias_view, dense_strides
from .operations import Operation
from .problem import Problem, TensorLayout
from .shapes import Geometry
from .solvers import SolverCall, attributes_that_fit, solved

__all__ = ["Recipe", "common_rank_and_dtype", "recipe"]

# What a message says of activations with an axis less than weights.
MINIBATCH_AXIS = "src and dst begin with an axis of the minibatch, as array[np.newaxis] has it"


@dataclass(frozen=True, slots=True)
class Recipe:
    """One operation of a call, without its memory.

    Attributes
    ----------
    operation : Operation
    dtype : str
    views : dict
        For each role (src, weights, dst, and bias if there is one), how the caller's
        tensor is seen in canonical order. The result is among them.
    attributes : Attributes
    geometry : Geometry
    """

    operation: Operation
    dtype: str
    views: dict[str, TensorView]
    attributes: Attributes
    geometry: Geometry

    @property
    def result_shape(self) -> tuple[int, ...]:
        return self.views[self.operation.result_role].shape

    def problem(
        self, strides: Mapping[str, tuple[int, ...]], fpmath_mode: str = "strict"
    ) -> Problem:
        """Return the Problem for tensors of these strides.

        Parameters
        ----------
        strides : mapping
            By role, in elements and the caller's axis order; a tensor that it does not have is
            dense.
        fpmath_mode : str
            It concerns float32 only.
        """
        layouts = {
            role: TensorLayout(
                view.canonical_shape,
                view.canonical_strides(strides.get(role) or dense_strides(view.shape)),
            )
            for role, view in self.views.items()
        }
        return Problem(
            transposed=self.operation.transposed,
            direction=self.operation.direction,
            dtype=self.dtype,
            src=layouts["src"],
            weights=layouts["weights"],
            dst=layouts["dst"],
            bias=layouts.get("bias"),
            strides=self.attributes.strides,
            dilations=self.attributes.dilations,
            pads_begin=self.geometry.pads_begin,
            pads_end=self.geometry.pads_end,
            fpmath_mode=fpmath_mode if self.dtype == "f32" else "strict",
        )


def recipe(operation: Operation, arguments: Mapping[str, Any]) -> Recipe:
    """Check the arguments of one operation and work out shapes, pads, types and views.

    Parameters
    ----------
    operation : Operation
    arguments : mapping
        By the names of the operation's function: tensors (arrays or `TensorSpec`, None where left
        out), the shape argument, attributes, and ``bias``, whether a weights gradient comes with
        the bias gradient. Attributes that are left out have their defaults.

    Raises
    ------
    ShapeError, AttributeValueError, DTypeError
        Naming the operation, what was expected and what came.
    """
    name = operation.name
    attributes = dict(arguments)
    tensors = {tensor: attributes.pop(tensor, None) for tensor in operation.tensors}
    # What is left of that name is the flag of the weights gradients, no tensor.
    with_bias = attributes.pop("bias", False)
    if not isinstance(with_bias, (bool, np.bool_)):
        raise AttributeValueError(f"{name}: bias: expected True or False, got {brief(with_bias)}")
    specs = {
        tensor: spec_of(f"{name}: {tensor}", value)
        for tensor, value in tensors.items()
        if value is not None or tensor != "bias"
    }
    by_role = {role: tensor for tensor, role in operation.tensors.items() if tensor in specs}
    rank, dtype = common_rank_and_dtype(name, specs, attributes.get("groups"))
    result_shape = None
    if operation.shape_argument:
        given = attributes.pop(operation.shape_argument, None)
        if given is not None:
            result_shape = parse_shape(name, operation.shape_argument, given)
        elif operation.requires_shape:
            raise AttributeValueError(f"{name}: {operation.shape_argument} is required")
    parsed = parse_attributes(operation, rank - 2, attributes)
    call = SolverCall(operation, specs, by_role, rank, parsed, result_shape)
    try:
        views, geometry = solved(call)
    except ShapeError as error:
        hint = attributes_that_fit(call)
        if hint is None:
            raise
        raise ShapeError(f"{error}; did you mean {hint}?") from None
    if with_bias or "bias" in specs:
        views["bias"] = _bias(call, views["dst"].canonical_shape[1], specs.get("bias"))
    _refuse_unaddressable(call, views[operation.result_role].shape, dtype)
    return Recipe(operation, dtype, views, parsed, geometry)


def common_rank_and_dtype(
    name: str, specs: Mapping[str, TensorSpec], groups: Any = None
) -> tuple[int, str]:
    """Return the number of axes, and the data type, that the tensors of a call share.

    Parameters
    ----------
    name : str
        Of the function.
    specs : mapping
        By the caller's names; ``bias`` may have another number of axes.
    groups : optional
        As the caller gave it, for the error.

    Raises
    ------
    ShapeError, DTypeError
    """
    dtype = common_dtype(name, specs)
    ranks = {tensor: spec.ndim for tensor, spec in specs.items() if tensor != "bias"}
    first = next(iter(ranks.values()))
    if not 3 <= first <= 5 or len(set(ranks.values())) > 1:
        listed = ", ".join(f"{tensor} {rank}" for tensor, rank in ranks.items())
        weights = ranks.pop("weights", None) or ranks.pop("filter", None) or 0
        hint = ""
        if {weights} == {rank + 1 for rank in ranks.values()}:
            is_grouped = isinstance(groups, (int, np.integer)) and groups > 1
            hint = f"; {GROUPS_AXIS if is_grouped else MINIBATCH_AXIS}"
        raise ShapeError(
            f"{name}: expected tensors of one rank, 3, 4 or 5 (1-D, 2-D or 3-D spatial);"
            f" got {listed}{hint}"
        )
    return first, dtype


def _bias(call: SolverCall, channels: int, spec: TensorSpec | None) -> TensorView:
    if spec is not None and spec.shape != (channels,):
        hint = attributes_that_fit(call, channels=spec.shape[0]) if spec.ndim == 1 else None
        meant = f"; did you mean {hint}?" if hint else ""
        raise call.fail(f"bias: expected shape ({channels},), got {spec.shape}{meant}")
    return bias_view(channels)


def _refuse_unaddressable(call: SolverCall, shape: tuple[int, ...], dtype: str) -> None:
    # NumPy multiplies the other extents even where one is zero.
    if prod(max(extent, 1) for extent in shape) * DTYPES[dtype].itemsize >= 2**63:
        raise call.fail(f"the result would have shape {shape}, more than memory can address")
