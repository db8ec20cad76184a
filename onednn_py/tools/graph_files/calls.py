"""Checks an operation of a graph file, and turns it into a call of this package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy.typing as npt

from onednn_py.api.run_op import bind
from onednn_py.backends.base import Plan
from onednn_py.dispatch.general_call import call_plan, run
from onednn_py.dispatch.settings import settings
from onednn_py.errors import DTypeError, GraphFileError, OneDNNPyError, ShapeError
from onednn_py.problem.arrays import TensorSpec, readable
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

# Axes that a tensor of oneDNN can have, its DNNL_MAX_NDIMS.
MAX_NDIMS = 12

# The Graph API has only the newer operation, whose attributes have other names.
NATIVE_KINDS = {"ConvolutionBackpropData": "ConvolutionBackwardData"}


class UnsupportedOperationError(OneDNNPyError):
    """This package does not compute an operation of a graph file, or not on its tensors."""


@dataclass(frozen=True, slots=True)
class Call:
    """A supported operation of a graph file.

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
        return self.spec.recipes[0].recipe

    @property
    def result_role(self) -> str:
        return self.recipe.operation.result_role

    @property
    def terms(self) -> int:
        """Products in the longest sum of the result."""
        problem = self.recipe.problem({}).as_convolution()
        if problem.direction is Direction.BACKWARD_WEIGHTS:
            minibatch, _, *windows = problem.dst.shape
            return minibatch * prod(windows)
        _, outputs, inputs, *kernel = problem.weights.shape
        return (inputs if problem.direction is Direction.FORWARD else outputs) * prod(kernel)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs and, last, of the result, by their documented names."""
        operation, views = self.recipe.operation, self.spec.inputs
        shapes = {
            name: views[role].shape for name, role in operation.tensors.items() if role in views
        }
        return {**shapes, operation.result: self.recipe.result_shape}

    def plan(self, arrays: Mapping[str, Array], backend: str | None) -> Plan:
        """Return the plan, cached or new, that `execute` uses for these arrays, by role."""
        strides = {role: readable(array)[1] for role, array in arrays.items()}
        return call_plan(self.spec, strides, settings(backend))

    def execute(self, arrays: Mapping[str, Array], out: Array | None, backend: str | None) -> Array:
        """Return the result of the input arrays, given by role."""
        (result,) = run(self.spec, arrays, (out,), settings(backend))
        return result

    def request(self, arrays: Mapping[str, Array]) -> Request:
        """Return the call as a request to native oneDNN's Graph API, with dense tensors."""
        kind = NATIVE_KINDS.get(self.operation.kind, self.operation.kind)
        tokens: dict[str, Token] = {"kind": kind, **asdict(self.recipe.attributes)}
        # Some operations of the Graph API do not know this attribute.
        if not any(self.recipe.attributes.output_padding):
            del tokens["output_padding"]
        auto_pad = self.recipe.attributes.auto_pad
        tokens["auto_pad"] = "None" if auto_pad == "none" else auto_pad.upper()
        tokens["output"] = self.recipe.result_shape
        if shape_argument := DOCUMENTED[kind].shape_argument:
            tokens[shape_argument] = self.recipe.result_shape
        inputs = tuple(arrays[role] for role in self.inputs)
        tokens |= {f"input{i}": array.shape for i, array in enumerate(inputs)}
        return Request(tokens, self.spec.dtype, inputs)


def call_of(
    operation: GraphOperation,
    specs: Mapping[int, TensorSpec],
    given_shapes: Mapping[int, tuple[int, ...]],
) -> Call:
    """Check an operation, and return it as a call.

    By tensor id, ``specs`` has given tensors and those of earlier operations, ``given_shapes``
    the values of inputs that are shapes, such as dst_shape.

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
    (result,) = operation.outputs
    shape_index = len(documented.tensors) if documented.shape_argument else -1
    tensors = [tensor for i, tensor in enumerate(operation.inputs) if i != shape_index]
    for tensor in (*tensors, result):
        if tensor.dtype not in FILE_DTYPES:
            raise UnsupportedOperationError(
                f"tensor {tensor.id} is {tensor.dtype}; supported are {', '.join(FILE_DTYPES)}"
            )
    known = dict(specs)
    for tensor in tensors:
        known[tensor.id] = _spec(tensor, known)
    inputs: list[Any] = [known[tensor.id] for tensor in tensors]
    attributes = _attributes(operation)
    if documented.shape_argument:
        if len(inputs) < len(operation.inputs):
            inputs.insert(shape_index, given_shapes.get(operation.inputs[shape_index].id))
        # A file does not hold the values of an input, but it holds the result's shape.
        attributes.setdefault(documented.shape_argument, result.shape)
    _, arguments = bind(operation.kind, inputs, attributes)
    spec = call_spec(documented.name, arguments)
    (view,) = spec.results.values()
    if result.shape not in (None, view.shape):
        raise ShapeError(
            f"outputs[0]: the file gives it the shape {result.shape}, inputs and attributes"
            f" give {view.shape}"
        )
    if result.dtype != spec.dtype:
        raise DTypeError(f"outputs[0]: is {result.dtype}, but the inputs are {spec.dtype}")
    return Call(operation, spec, dict(zip(spec.inputs, tensors, strict=True)), result)


def _spec(tensor: LogicalTensor, specs: Mapping[int, TensorSpec]) -> TensorSpec:
    """Return a tensor's spec, which has to be the same wherever the file names the tensor."""
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
    # Where a program leaves output_padding out, or the shape of the result, its dump has a zero for
    # each of the axes that a tensor can have.
    padding = attributes.get("output_padding")
    axes = len(operation.inputs[0].shape or ()) - 2 if operation.inputs else 0
    if isinstance(padding, list) and len(padding) > axes > 0 and not any(padding[axes:]):
        attributes["output_padding"] = padding[:axes]
    shape_argument = DOCUMENTED[operation.kind].shape_argument
    if shape_argument and attributes.get(shape_argument) == [0] * MAX_NDIMS:
        del attributes[shape_argument]
    return attributes
