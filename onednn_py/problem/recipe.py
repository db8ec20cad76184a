"""From one operation's arguments, as the caller names them, to a Recipe.

A Recipe knows everything but the memory: shapes, pads, data type, how each of the
caller's tensors is seen in canonical order. ``Recipe.problem`` adds the strides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from onednn_py.errors import AttributeValueError, ShapeError

from .arrays import TensorSpec, common_dtype, spec_of
from .attributes import Attributes, parse_attributes, parse_shape
from .dtypes import DTYPES
from .formats import (
    TensorView,
    activation_view,
    bias_view,
    convolution_weights_view,
    dense_strides,
    transposed_weights_view,
)
from .operations import Operation
from .problem import Direction, Problem, TensorLayout
from .shapes import (
    Geometry,
    check_output_padding,
    solve_both,
    solve_count,
    solve_size,
    solve_transposed_both,
    solve_transposed_count,
)

__all__ = ["Recipe", "recipe"]


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
        raise AttributeValueError(f"{name}: bias: expected True or False, got {with_bias!r}")
    specs = {
        tensor: spec_of(f"{name}: {tensor}", value)
        for tensor, value in tensors.items()
        if value is not None or tensor != "bias"
    }
    dtype = common_dtype(name, specs)
    by_role = {role: tensor for tensor, role in operation.tensors.items() if tensor in specs}
    rank = _rank(name, specs, by_role)
    result_shape = None
    if operation.shape_argument:
        given = attributes.pop(operation.shape_argument, None)
        if given is not None:
            result_shape = parse_shape(name, operation.shape_argument, given)
        elif operation.requires_shape:
            raise AttributeValueError(f"{name}: {operation.shape_argument} is required")
    parsed = parse_attributes(operation, rank - 2, attributes)
    call = _Call(operation, specs, by_role, rank, parsed, result_shape)
    views, geometry = _SOLVERS[operation.transposed, operation.direction](call)
    if with_bias or "bias" in specs:
        views["bias"] = _bias(call, views["dst"].canonical_shape[1], specs.get("bias"))
    _refuse_unaddressable(call, views[operation.result_role].shape, dtype)
    return Recipe(operation, dtype, views, parsed, geometry)


def _rank(name: str, specs: dict[str, TensorSpec], by_role: dict[str, str]) -> int:
    ranks = {tensor: specs[tensor].ndim for role, tensor in by_role.items() if role != "bias"}
    first = next(iter(ranks.values()))
    if not 3 <= first <= 5 or len(set(ranks.values())) > 1:
        listed = ", ".join(f"{tensor} {rank}" for tensor, rank in ranks.items())
        raise ShapeError(
            f"{name}: expected tensors of one rank, 3, 4 or 5 (1-D, 2-D or 3-D spatial);"
            f" got {listed}"
        )
    return first


@dataclass(frozen=True, slots=True)
class _Call:
    """Checked tensors and attributes, from which solvers work out views and geometry."""

    operation: Operation
    specs: dict[str, TensorSpec]
    by_role: dict[str, str]
    rank: int
    attributes: Attributes
    result_shape: tuple[int, ...] | None

    def fail(self, message: str) -> ShapeError:
        return ShapeError(f"{self.operation.name}: {message}")

    def label(self, role: str) -> str:
        """The caller's name of a tensor, or of the argument that gives its shape."""
        if role in self.by_role:
            return self.by_role[role]
        return self.operation.shape_argument or self.operation.result

    def shape(self, role: str) -> tuple[int, ...]:
        return self.specs[self.by_role[role]].shape

    def activation(self, role: str) -> TensorView:
        view = activation_view(self.shape(role), self.attributes.data_format)
        groups, channels = self.attributes.groups, view.canonical_shape[1]
        if channels % groups:
            raise self.fail(
                f"{self.label(role)} has {channels} channels ({self.attributes.data_format}),"
                f" which groups = {groups} do not divide"
            )
        return view

    def result_view(self, minibatch: int, channels: int, spatial: tuple[int, ...]) -> TensorView:
        """View of a result in the caller's data format."""
        if self.attributes.data_format == "NCX":
            shape = (minibatch, channels, *spatial)
        else:
            shape = (minibatch, *spatial, channels)
        return activation_view(shape, self.attributes.data_format)

    def weights(
        self, shape: tuple[int, ...], inputs: int | None, outputs: int | None
    ) -> TensorView:
        """View of weights, checked against the channels that the activations have."""
        attributes = self.attributes
        name, groups = self.label("weights"), attributes.groups
        if len(shape) != self.rank:
            raise self.fail(
                f"{name}: expected {self.rank} entries ({attributes.weights_format}), got {shape}"
            )
        outer, inner = shape[:2] if attributes.weights_format[-1] == "X" else shape[:-3:-1]
        forms = [(inner * groups, outer)]
        if self.operation.transposed:
            forms = [(outer, inner * groups), (outer * groups, inner)]
        for documented, (form_inputs, form_outputs) in enumerate(forms):
            grouped = outer if not documented else inner
            if (
                grouped % groups == 0
                and inputs in (None, form_inputs)
                and outputs in (None, form_outputs)
            ):
                if self.operation.transposed:
                    return transposed_weights_view(
                        shape, attributes.weights_format, groups, documented=bool(documented)
                    )
                return convolution_weights_view(shape, attributes.weights_format, groups)
        raise self.fail(self._weights_mismatch(name, shape, inputs, outputs))

    def _weights_mismatch(
        self, name: str, shape: tuple[int, ...], inputs: int | None, outputs: int | None
    ) -> str:
        groups, format_ = self.attributes.groups, self.attributes.weights_format
        i = "I" if inputs is None else str(inputs)
        o = "O" if outputs is None else str(outputs)
        per_group_i = "I/groups" if inputs is None else str(inputs // groups)
        per_group_o = "O/groups" if outputs is None else str(outputs // groups)
        pairs = [(i, per_group_o), (per_group_i, o)] if self.operation.transposed else []
        pairs = pairs[: 1 if groups == 1 else 2] or [(o, per_group_i)]
        if format_[0] == "X":
            listed = " or ".join(f"(*kernel, {b}, {a})" for a, b in pairs)
        else:
            listed = " or ".join(f"({a}, {b}, *kernel)" for a, b in pairs)
        divisible = "" if groups == 1 else f", channels divisible by groups = {groups}"
        return f"{name}: expected {listed} for {format_}{divisible}; got {shape}"


def _bias(call: _Call, channels: int, spec: TensorSpec | None) -> TensorView:
    if spec is not None and spec.shape != (channels,):
        raise call.fail(f"bias: expected shape ({channels},), got {spec.shape}")
    return bias_view(channels)


def _refuse_unaddressable(call: _Call, shape: tuple[int, ...], dtype: str) -> None:
    # NumPy multiplies the other extents even where one is zero.
    if prod(max(extent, 1) for extent in shape) * DTYPES[dtype].itemsize >= 2**63:
        raise call.fail(f"the result would have shape {shape}, more than memory can address")


def _same_minibatch(call: _Call, first: TensorView, second: TensorView) -> None:
    if first.canonical_shape[0] != second.canonical_shape[0]:
        raise call.fail(
            f"src has minibatch {first.canonical_shape[0]},"
            f" {call.label('dst')} has {second.canonical_shape[0]}"
        )


Solved = tuple[dict[str, TensorView], Geometry]


def _forward(call: _Call) -> Solved:
    src = call.activation("src")
    minibatch, inputs, *spatial = src.canonical_shape
    weights = call.weights(call.shape("weights"), inputs, None)
    groups, group_outputs, _, *kernel = weights.canonical_shape
    name = call.operation.name
    if call.operation.transposed:
        check_output_padding(name, call.attributes)
        geometry = solve_size(name, tuple(spatial), tuple(kernel), call.attributes, None, "dst")
        result = geometry.sizes
    else:
        geometry = solve_count(name, tuple(spatial), tuple(kernel), call.attributes)
        result = geometry.counts
    dst = call.result_view(minibatch, groups * group_outputs, result)
    return {"src": src, "weights": weights, "dst": dst}, geometry


def _convolution_backward_data(call: _Call) -> Solved:
    dst = call.activation("dst")
    minibatch, outputs, *spatial = dst.canonical_shape
    weights = call.weights(call.shape("weights"), None, outputs)
    groups, _, group_inputs, *kernel = weights.canonical_shape
    name, channels = call.operation.name, groups * group_inputs
    sizes = _given_sizes(call, minibatch, channels)
    if sizes is None or call.attributes.auto_pad_rule == "documented":
        check_output_padding(name, call.attributes)
    shape_name = call.operation.shape_argument or "dst_shape"
    geometry = solve_size(name, tuple(spatial), tuple(kernel), call.attributes, sizes, shape_name)
    src = call.result_view(minibatch, channels, geometry.sizes)
    return {"src": src, "weights": weights, "dst": dst}, geometry


def _given_sizes(call: _Call, minibatch: int, channels: int) -> tuple[int, ...] | None:
    """Spatial sizes from dst_shape: a full shape, or (OpenVINO's habit) spatial sizes alone."""
    shape = call.result_shape
    if shape is None or len(shape) == call.rank - 2:
        return shape
    if len(shape) != call.rank:
        raise call.fail(
            f"{call.operation.shape_argument}: expected {call.rank} entries"
            f" ({call.attributes.data_format}), or {call.rank - 2} for the spatial sizes alone;"
            f" got {shape}"
        )
    given = activation_view(shape, call.attributes.data_format).canonical_shape
    if given[:2] != (minibatch, channels):
        expected = call.result_view(minibatch, channels, given[2:]).shape
        raise call.fail(f"{call.operation.shape_argument}: expected {expected}, got {shape}")
    return given[2:]


def _transposed_backward_data(call: _Call) -> Solved:
    dst = call.activation("dst")
    minibatch, outputs, *spatial = dst.canonical_shape
    weights = call.weights(call.shape("weights"), None, outputs)
    groups, _, group_inputs, *kernel = weights.canonical_shape
    name = call.operation.name
    check_output_padding(name, call.attributes)
    geometry = solve_transposed_count(name, tuple(spatial), tuple(kernel), call.attributes)
    src = call.result_view(minibatch, groups * group_inputs, geometry.counts)
    return {"src": src, "weights": weights, "dst": dst}, geometry


def _backward_weights(call: _Call) -> Solved:
    src, dst = call.activation("src"), call.activation("dst")
    _same_minibatch(call, src, dst)
    assert call.result_shape is not None
    weights = call.weights(call.result_shape, src.canonical_shape[1], dst.canonical_shape[1])
    kernel = weights.canonical_shape[3:]
    name, attributes = call.operation.name, call.attributes
    src_sizes, dst_sizes = src.canonical_shape[2:], dst.canonical_shape[2:]
    if call.operation.transposed:
        check_output_padding(name, attributes)
        geometry = solve_transposed_both(name, dst_sizes, src_sizes, kernel, attributes)
    else:
        geometry = solve_both(name, src_sizes, dst_sizes, kernel, attributes)
    return {"src": src, "weights": weights, "dst": dst}, geometry


_SOLVERS: dict[tuple[bool, Direction], Callable[[_Call], Solved]] = {
    (False, Direction.FORWARD): _forward,
    (True, Direction.FORWARD): _forward,
    (False, Direction.BACKWARD_DATA): _convolution_backward_data,
    (True, Direction.BACKWARD_DATA): _transposed_backward_data,
    (False, Direction.BACKWARD_WEIGHTS): _backward_weights,
    (True, Direction.BACKWARD_WEIGHTS): _backward_weights,
}
