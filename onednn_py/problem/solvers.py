"""From an operation's checked tensors and attributes to views, pads and the missing sizes.

One solver an operation and direction; `solved` takes the call's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from onednn_py.errors import AttributeValueError, ShapeError, brief

from .arrays import TensorSpec
from .attributes import Attributes
from .formats import (
    DATA_FORMATS,
    WEIGHTS_FORMATS,
    TensorView,
    activation_view,
    convolution_weights_view,
    transposed_weights_view,
)
from .operations import Operation
from .problem import Direction
from .shapes import (
    Geometry,
    check_output_padding,
    solve_both,
    solve_count,
    solve_size,
    solve_transposed_both,
    solve_transposed_count,
)

__all__ = ["SolverCall", "attributes_that_fit", "solved"]


@dataclass(frozen=True, slots=True)
class SolverCall:
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
                f"{name}: expected {self.rank} entries ({attributes.weights_format}),"
                f" got {brief(shape)}"
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


def _same_minibatch(call: SolverCall, first: TensorView, second: TensorView) -> None:
    if first.canonical_shape[0] != second.canonical_shape[0]:
        raise call.fail(
            f"src has minibatch {first.canonical_shape[0]},"
            f" {call.label('dst')} has {second.canonical_shape[0]}"
        )


Solved = tuple[dict[str, TensorView], Geometry]


def _forward(call: SolverCall) -> Solved:
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


def _convolution_backward_data(call: SolverCall) -> Solved:
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


def _given_sizes(call: SolverCall, minibatch: int, channels: int) -> tuple[int, ...] | None:
    """Spatial sizes from dst_shape: a full shape, or (OpenVINO's habit) spatial sizes alone."""
    shape = call.result_shape
    if shape is None or len(shape) == call.rank - 2:
        return shape
    if len(shape) != call.rank:
        raise call.fail(
            f"{call.operation.shape_argument}: expected {call.rank} entries"
            f" ({call.attributes.data_format}), or {call.rank - 2} for the spatial sizes alone;"
            f" got {brief(shape)}"
        )
    given = activation_view(shape, call.attributes.data_format).canonical_shape
    if given[:2] != (minibatch, channels):
        expected = call.result_view(minibatch, channels, given[2:]).shape
        raise call.fail(f"{call.operation.shape_argument}: expected {expected}, got {shape}")
    return given[2:]


def _transposed_backward_data(call: SolverCall) -> Solved:
    dst = call.activation("dst")
    minibatch, outputs, *spatial = dst.canonical_shape
    weights = call.weights(call.shape("weights"), None, outputs)
    groups, _, group_inputs, *kernel = weights.canonical_shape
    name = call.operation.name
    check_output_padding(name, call.attributes)
    geometry = solve_transposed_count(name, tuple(spatial), tuple(kernel), call.attributes)
    src = call.result_view(minibatch, groups * group_inputs, geometry.counts)
    return {"src": src, "weights": weights, "dst": dst}, geometry


def _backward_weights(call: SolverCall) -> Solved:
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


_SOLVERS: dict[tuple[bool, Direction], Callable[[SolverCall], Solved]] = {
    (False, Direction.FORWARD): _forward,
    (True, Direction.FORWARD): _forward,
    (False, Direction.BACKWARD_DATA): _convolution_backward_data,
    (True, Direction.BACKWARD_DATA): _transposed_backward_data,
    (False, Direction.BACKWARD_WEIGHTS): _backward_weights,
    (True, Direction.BACKWARD_WEIGHTS): _backward_weights,
}


def solved(call: SolverCall) -> Solved:
    """Return the views of all tensors by role, the result's too, and the geometry.

    Raises
    ------
    ShapeError, AttributeValueError
    """
    return _SOLVERS[call.operation.transposed, call.operation.direction](call)


def attributes_that_fit(call: SolverCall, *, channels: int | None = None) -> str | None:
    """Return attributes with which the call's shapes would fit: other formats, or other groups.

    Channels last with weights whose kernel is behind their channels are not proposed to a caller
    whose formats agree: src as wide as it should have channels would fit by chance.

    Parameters
    ----------
    channels : int, optional
        Of dst, where something else than the call's shapes tells them, such as a bias.
    """
    attributes, operation = call.attributes, call.operation
    (weights_format,) = {*WEIGHTS_FORMATS[operation.transposed]} - {attributes.weights_format}
    (data_format,) = {*DATA_FORMATS} - {attributes.data_format}
    both = {"data_format": data_format, "weights_format": weights_format}
    others: list[dict[str, Any]] = [{"weights_format": weights_format}]
    if data_format == "NCX" or attributes.weights_format.startswith("X"):
        others.append({"data_format": data_format})
    others += [both, *({"groups": groups} for groups in _groups_that_divide(call))]
    for changes in others:
        try:
            views, _ = solved(replace(call, attributes=replace(attributes, **changes)))
        except (ShapeError, AttributeValueError):
            continue
        if channels not in (None, views["dst"].canonical_shape[1]):
            continue
        names = {"weights_format": operation.weights_format}
        return ", ".join(f"{names.get(name, name)}={value!r}" for name, value in changes.items())
    return None


def _groups_that_divide(call: SolverCall) -> list[int]:
    """Return numbers of groups by which an extent of weights becomes an activation's channels."""
    axis = 1 if call.attributes.data_format == "NCX" else -1
    roles = {role: call.shape(role) for role in call.by_role if role != "bias"}
    if call.result_shape is not None:
        roles[call.operation.result_role] = call.result_shape
    weights = roles.pop("weights", ())
    extents = weights[:2] if call.attributes.weights_format.endswith("X") else weights[-2:]
    quotients = {
        shape[axis] // extent
        for shape in roles.values()
        for extent in extents
        if extent and len(shape) == call.rank and shape[axis] % extent == 0
    }
    return sorted(quotients - {0, call.attributes.groups})
