"""Checks an operation of a graph file, and turns it into a call of this package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy.typing as npt

from onednn_py.api.run_op import bind
from onednn_py.backends.base import Plan
from onednn_py.dispatch.bound_call import call_plan, run, settings
from onednn_py.errors import DTypeError, GraphFileError, OneDNNPyError, ShapeError
from onednn_py.problem.arrays import TensorSpec, element_strides
from onednn_py.problem.call_spec import CallSpec, call_spec
from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.operations import DOCUMENTED
from onednn_py.problem.problem import Direction
from onednn_py.problem.recipe import Recipe
from onednn_py.tools.native_programs import Request, Token

from .parsing import GraphOperation, LogicalTensor

__all__ = ["FILE_DTYPES", "Call", "UnsupportedOperationError", "call_of"]

Array = npt.NDArray[Any]

FILE_DTYPES = ("f32", "bf16", "f16")

# Attributes that oneDNN adds when it writes a graph after partitioning.
ANNOTATIONS = ("partition_id", "backend")

# The Graph API has only the newer operation, whose attributes have other names.
NATIVE_KINDS = {"ConvolutionBackpropData": "ConvolutionBackwardData"}


class UnsupportedOperationError(OneDNNPyError):
    """This package does not compute an operation of a graph file, or not on its tensors."""


@dataclass(frozen=True, slots=True)
class Call:
    """A supported operation: its call, and the tensors of the file that it reads and writes.

    Attributes
    ----------
    operation : GraphOperation
    spec : CallSpec
    inputs : dict of str to LogicalTensor
        By role (src, weights, dst, bias), in the order of the operation's inputs.
    result : LogicalTensor
    """

    operation: GraphOperation
    spec: CallSpec
    inputs: dict[str, LogicalTensor]
    result: LogicalTensor

    @property
    def recipe(self) -> Recipe:
        return self.spec.parts[0].recipe

    @property
    def dtype(self) -> str:
        return self.recipe.dtype

    @property
    def result_role(self) -> str:
        return self.recipe.operation.result_role

    @property
    def terms(self) -> int:
        """Products in the longest sum of the result."""
        problem = self.recipe.problem({}).as_convolution()
        _, outputs, inputs, *kernel = problem.weights.shape
        minibatch, _, *windows = problem.dst.shape
        if problem.direction is Direction.BACKWARD_WEIGHTS:
            return minibatch * prod(windows)
        channels = inputs if problem.direction is Direction.FORWARD else outputs
        return channels * prod(kernel)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs and, last, of the result, by their documented names."""
        operation = self.recipe.operation
        names = {role: name for name, role in operation.tensors.items()}
        shapes = {names[role]: self.recipe.views[role].shape for role in self.inputs}
        return {**shapes, operation.result: self.recipe.result_shape}

    def plan(self, arrays: Mapping[str, Array], backend: str | None) -> Plan:
        """Return the plan, cached or new, that `execute` uses for these arrays, by role."""
        found = {role: element_strides(array) for role, array in arrays.items()}
        strides = {role: one for role, one in found.items() if one is not None}
        return call_plan(self.spec, strides, settings(backend))

    def execute(self, arrays: Mapping[str, Array], out: Array | None, backend: str | None) -> Array:
        """Return the result of the input arrays, given by role."""
        (result,) = run(self.spec, arrays, (out,), settings(backend))
        return result

    def request(self, arrays: Mapping[str, Array]) -> Request:
        """Return the call as a request to native oneDNN's Graph API, with dense tensors."""
        name, attributes = self.operation.kind, self.recipe.attributes
        shape = self.recipe.result_shape
        tokens: dict[str, Token] = {
            "kind": NATIVE_KINDS.get(name, name),
            "strides": attributes.strides,
            "pads_begin": attributes.pads_begin,
            "pads_end": attributes.pads_end,
            "dilations": attributes.dilations,
            "groups": attributes.groups,
            "auto_pad": "None" if attributes.auto_pad == "none" else attributes.auto_pad.upper(),
            "data_format": attributes.data_format,
            "weights_format": attributes.weights_format,
            "output": shape,
        }
        if any(attributes.output_padding):
            tokens["output_padding"] = attributes.output_padding
        if DOCUMENTED[name].shape_argument:
            is_weights = self.recipe.operation.direction is Direction.BACKWARD_WEIGHTS
            tokens["weights_shape" if is_weights else "dst_shape"] = shape
        inputs = tuple(arrays[role] for role in self.inputs)
        tokens |= {f"input{i}": array.shape for i, array in enumerate(inputs)}
        return Request(tokens, self.dtype, inputs)


def call_of(
    operation: GraphOperation,
    specs: Mapping[int, TensorSpec],
    given_shapes: Mapping[int, tuple[int, ...]],
) -> Call:
    """Check an operation, and return it as a call.

    Parameters
    ----------
    operation : GraphOperation
    specs : mapping of int to TensorSpec
        Given tensors and those of earlier operations, by id.
    given_shapes : mapping of int to tuple of int
        Given values of inputs that are shapes, such as dst_shape, by id.

    Raises
    ------
    UnsupportedOperationError
        If this package does not compute the operation, or a shape stays unknown.
    GraphFileError
        If the file contradicts itself about a tensor.
    ShapeError, AttributeValueError, DTypeError
        As the functions themselves raise.
    """
    documented = DOCUMENTED.get(operation.kind)
    if documented is None:
        raise UnsupportedOperationError(f"the kind {operation.kind} is none that onednn_py runs")
    if len(operation.outputs) != 1:
        raise GraphFileError(f"outputs: expected 1, got {len(operation.outputs)}")
    result = operation.outputs[0]
    tensors = {
        index: tensor
        for index, tensor in enumerate(operation.inputs)
        if not _is_shape_input(operation.kind, index)
    }
    for tensor in (*tensors.values(), result):
        _check_dtype(tensor)
    inputs: list[Any] = [None] * len(operation.inputs)
    for index, tensor in tensors.items():
        inputs[index] = _spec(tensor, specs)
    attributes = _attributes(operation)
    if documented.shape_argument:
        for index, tensor in enumerate(operation.inputs):
            if index not in tensors:
                inputs[index] = given_shapes.get(tensor.id)
        # A file does not hold the values of an input, but it holds the result's shape.
        attributes.setdefault(documented.shape_argument, result.shape)
    _, arguments = bind(operation.kind, inputs, attributes)
    spec = call_spec(documented.name, arguments)
    checked = spec.parts[0].recipe
    if result.shape not in (None, checked.result_shape):
        raise ShapeError(
            f"outputs[0]: the file gives it the shape {result.shape}, inputs and attributes"
            f" give {checked.result_shape}"
        )
    if DTYPES[result.dtype] != DTYPES[checked.dtype]:
        raise DTypeError(f"outputs[0]: is {result.dtype}, but the inputs are {checked.dtype}")
    roles = checked.operation.tensors
    by_role = {
        roles[documented.documented_inputs[index]]: tensor for index, tensor in tensors.items()
    }
    return Call(operation, spec, by_role, result)


def _is_shape_input(name: str, index: int) -> bool:
    """Whether an input of an operation is a shape, such as dst_shape, and not a tensor."""
    names = DOCUMENTED[name].documented_inputs
    return index < len(names) and names[index] == DOCUMENTED[name].shape_argument


def _check_dtype(tensor: LogicalTensor) -> None:
    if tensor.dtype not in FILE_DTYPES:
        raise UnsupportedOperationError(
            f"tensor {tensor.id} is {tensor.dtype}; supported are {', '.join(FILE_DTYPES)}"
        )


def _spec(tensor: LogicalTensor, specs: Mapping[int, TensorSpec]) -> TensorSpec:
    known = specs.get(tensor.id)
    if known is None:
        if tensor.shape is None:
            raise UnsupportedOperationError(
                f"the shape of tensor {tensor.id} is not in the file: give the tensor itself"
            )
        return TensorSpec(tensor.shape, DTYPES[tensor.dtype])
    if tensor.shape not in (None, known.shape) or known.dtype != DTYPES[tensor.dtype]:
        raise GraphFileError(
            f"tensor {tensor.id}: is {tensor.dtype} of shape {tensor.shape} here,"
            f" elsewhere {known.dtype} of shape {known.shape}"
        )
    return known


def _attributes(operation: GraphOperation) -> dict[str, Any]:
    attributes = {
        name: value for name, value in operation.attributes.items() if name not in ANNOTATIONS
    }
    # Where a program leaves output_padding out, its dump has a zero for each of the 12 axes
    # that a oneDNN tensor can have.
    padding = attributes.get("output_padding")
    axes = len(operation.inputs[0].shape or ()) - 2 if operation.inputs else 0
    if isinstance(padding, list) and len(padding) > axes > 0 and not any(padding[axes:]):
        attributes["output_padding"] = padding[:axes]
    return attributes
