"""An operation of a graph file as a call of the package: names, shapes, attributes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy.typing as npt

from onednn_py.api.run_op import KINDS, bind
from onednn_py.config import current_backend
from onednn_py.dispatch import planner as dispatch
from onednn_py.dispatch.bound_call import Task, run, settings
from onednn_py.errors import DTypeError, GraphFileError, OneDNNPyError, ShapeError
from onednn_py.problem.arrays import DTYPES, TensorSpec, element_strides
from onednn_py.problem.formats import dense_strides
from onednn_py.problem.operations import OPERATIONS
from onednn_py.problem.problem import Direction
from onednn_py.problem.recipe import Recipe, recipe
from onednn_py.tools.native_programs import Request, Token

from .parsing import GraphOperation, LogicalTensor

__all__ = ["FILE_DTYPES", "Call", "UnsupportedOperationError", "call_of", "is_shape_input"]

Array = npt.NDArray[Any]

FILE_DTYPES = ("f32", "bf16", "f16")

# What oneDNN adds to the attributes when it writes a graph after partitioning.
ANNOTATIONS = ("partition_id", "backend")

# The older name has other attribute names; native knows the newer one only.
NATIVE_KINDS = {"ConvolutionBackpropData": "ConvolutionBackwardData"}


class UnsupportedOperationError(OneDNNPyError):
    """An operation of a graph file is none that this package computes."""


@dataclass(frozen=True, slots=True)
class Call:
    """An operation of ours: what it computes, and which tensors of the file it reads.

    Attributes
    ----------
    operation : GraphOperation
    recipe : Recipe
    inputs : dict of str to LogicalTensor
        By role (src, weights, dst, bias), in the order of the operation's inputs.
    result : LogicalTensor
    """

    operation: GraphOperation
    recipe: Recipe
    inputs: dict[str, LogicalTensor]
    result: LogicalTensor

    @property
    def dtype(self) -> str:
        return self.recipe.dtype

    @property
    def result_role(self) -> str:
        return self.recipe.operation.result_role

    @property
    def terms(self) -> int:
        """Products in the longest sum of the result."""
        problem = self.recipe.problem(self.recipe.dense_strides()).as_convolution()
        _, outputs, inputs, *kernel = problem.weights.shape
        minibatch, _, *windows = problem.dst.shape
        if problem.direction is Direction.BACKWARD_WEIGHTS:
            return minibatch * prod(windows)
        channels = inputs if problem.direction is Direction.FORWARD else outputs
        return channels * prod(kernel)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the inputs and of the result, by their documented names."""
        operation = self.recipe.operation
        names = {role: name for name, role in operation.tensors.items()}
        shapes = {names[role]: self.recipe.views[role].shape for role in self.inputs}
        return {**shapes, operation.result: self.recipe.result_shape}

    def plan(self, arrays: Mapping[str, Array], backend: str | None) -> dispatch.BackendPlan:
        """Return the plan that `execute` uses for these arrays, by role, building it if needed."""
        strides = {
            role: element_strides(array) or dense_strides(array.shape)
            for role, array in arrays.items()
        }
        return dispatch.plan_problem(self.recipe.problem(strides), current_backend(backend))

    def execute(self, arrays: Mapping[str, Array], out: Array | None, backend: str | None) -> Array:
        """Compute the result from the input arrays, by role."""
        (result,) = run(Task.of(self.recipe), arrays, (out,), settings(backend))
        return result

    def request(self, arrays: Mapping[str, Array]) -> Request:
        """Return the same for native's Graph API, with dense tensors."""
        kind, attributes = self.operation.kind, self.recipe.attributes
        shape = self.recipe.result_shape
        tokens: dict[str, Token] = {
            "kind": NATIVE_KINDS.get(kind, kind),
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
        if KINDS[kind].shape:
            is_weights = self.recipe.operation.direction is Direction.BACKWARD_WEIGHTS
            tokens["weights_shape" if is_weights else "dst_shape"] = shape
        inputs = tuple(arrays[role] for role in self.inputs)
        tokens |= {f"input{i}": array.shape for i, array in enumerate(inputs)}
        return Request(tokens, self.dtype, inputs)


def is_shape_input(kind: str, index: int) -> bool:
    """Whether an input of an operation is a list of extents, such as dst_shape, and no tensor."""
    names = KINDS[kind].inputs
    return index < len(names) and names[index] == KINDS[kind].shape


def call_of(
    operation: GraphOperation,
    specs: Mapping[int, TensorSpec],
    extents: Mapping[int, tuple[int, ...]],
) -> Call:
    """Check an operation and work out all that does not depend on data.

    Parameters
    ----------
    operation : GraphOperation
    specs : mapping of int to TensorSpec
        Tensors, by id, whose shape is known from elsewhere than this operation.
    extents : mapping of int to tuple of int
        Values of inputs that are shapes, by id.

    Raises
    ------
    UnsupportedOperationError
        If it is none of ours, or a shape stays unknown.
    GraphFileError
        If what the file says of a tensor contradicts the operation or other operations.
    ShapeError, AttributeValueError, DTypeError
        As the functions themselves raise.
    """
    kind = KINDS.get(operation.kind)
    if kind is None:
        raise UnsupportedOperationError(f"the kind {operation.kind} is none that onednn_py runs")
    if len(operation.outputs) != 1:
        raise GraphFileError(f"outputs: expected 1, got {len(operation.outputs)}")
    result = operation.outputs[0]
    tensors = {
        index: tensor
        for index, tensor in enumerate(operation.inputs)
        if not is_shape_input(operation.kind, index)
    }
    for tensor in (*tensors.values(), result):
        _check_dtype(tensor)
    inputs: list[Any] = [None] * len(operation.inputs)
    for index, tensor in tensors.items():
        inputs[index] = _spec(tensor, specs)
    attributes = _attributes(operation)
    if kind.shape:
        for index, tensor in enumerate(operation.inputs):
            if index not in tensors:
                inputs[index] = extents.get(tensor.id)
        # A file has no values of a tensor dst_shape or weights_shape, but the result's shape.
        attributes.setdefault(kind.shape, result.shape)
    bound, arguments = bind(operation.kind, inputs, attributes)
    made = _recipe(bound.function, arguments)
    if result.shape not in (None, made.result_shape):
        raise ShapeError(
            f"outputs[0]: the file gives it the shape {result.shape}, inputs and attributes"
            f" give {made.result_shape}"
        )
    if DTYPES[result.dtype] != DTYPES[made.dtype]:
        raise DTypeError(f"outputs[0]: is {result.dtype}, but the inputs are {made.dtype}")
    roles = made.operation.tensors
    by_role = {roles[kind.inputs[index]]: tensor for index, tensor in tensors.items()}
    return Call(operation, made, by_role, result)


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
    # Left out of a program, it is in the dump with one zero for each of the 12 axes that a
    # tensor of oneDNN can have.
    padding = attributes.get("output_padding")
    axes = len(operation.inputs[0].shape or ()) - 2 if operation.inputs else 0
    if isinstance(padding, list) and len(padding) > axes > 0 and not any(padding[axes:]):
        attributes["output_padding"] = padding[:axes]
    return attributes


def _recipe(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Recipe:
    name = function.__name__
    parameters = inspect.signature(function).parameters
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    values = {**defaults, **arguments}
    tensors = {tensor: values.pop(tensor) for tensor in OPERATIONS[name].tensors}
    # What is left of these names is no attribute of the operation.
    for argument in ("out", "backend", "fpmath_mode", "bias"):
        values.pop(argument, None)
    return recipe(name, tensors, values)
