"""The table of operations: names, direction, tensors, and the attributes that differ."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .problem import Direction

__all__ = [
    "DOCUMENTED",
    "OPERATIONS",
    "JointOperation",
    "Operation",
]


@dataclass(frozen=True, slots=True)
class Operation:
    """A forward operation or a gradient.

    Attributes
    ----------
    name : str
        Of the function.
    documented : str
        Its name in the oneDNN Graph documents.
    transposed : bool
    direction : Direction
    tensors : dict
        The caller's names of the input tensors, in documented order, to their roles in a
        Problem. Only ``bias`` may be left out.
    result : str
        The caller's name of the result.
    shape_argument : str or None
        Name of the argument that gives the result's shape. It is documented both as the last
        input and as an attribute.
    weights_format : str
        Name of the attribute that gives the weights' format.
    has_output_padding : bool
    """

    name: str
    documented: str
    direction: Direction
    tensors: dict[str, str]
    result: str
    transposed: bool = False
    shape_argument: str | None = None
    weights_format: str = "weights_format"
    has_output_padding: bool = False

    @property
    def result_role(self) -> str:
        """The result's role in a Problem: dst, src (as diff_src) or weights (as diff_weights)."""
        return self.direction.result_role

    @property
    def requires_shape(self) -> bool:
        """Whether the result's shape is a required argument."""
        return self.direction is Direction.BACKWARD_WEIGHTS

    @property
    def documented_inputs(self) -> tuple[str, ...]:
        """Names of the inputs by documented index."""
        return (*self.tensors, *filter(None, [self.shape_argument]))

    @property
    def optional_inputs(self) -> int:
        """How many of the last documented inputs may be left out."""
        return int(self.shape_argument is not None or "bias" in self.tensors)


@dataclass(frozen=True, slots=True)
class JointOperation:
    """Both gradients of an operation in one call.

    Attributes
    ----------
    name : str
        Of the function.
    backward_data, backward_weights : Operation
        Under the joint function's name, so that messages name it and its arguments: what gives the
        result's shape is a tensor of the call.
    tensors : dict
        As in `Operation`.
    """

    name: str
    backward_data: Operation
    backward_weights: Operation
    tensors: dict[str, str]


_FORWARD = {"src": "src", "weights": "weights", "bias": "bias"}
_DATA = {"diff_dst": "dst", "weights": "weights"}
_WEIGHTS = {"src": "src", "diff_dst": "dst"}
_BOTH = {"src": "src", "weights": "weights", "diff_dst": "dst"}

_DOCUMENTED = (
    Operation("convolution", "Convolution", Direction.FORWARD, _FORWARD, "dst"),
    Operation(
        "convolution_backward_data",
        "ConvolutionBackwardData",
        Direction.BACKWARD_DATA,
        _DATA,
        "diff_src",
        shape_argument="dst_shape",
        has_output_padding=True,
    ),
    Operation(
        "convolution_backprop_data",
        "ConvolutionBackpropData",
        Direction.BACKWARD_DATA,
        {"output_delta": "dst", "filter": "weights"},
        "input_delta",
        shape_argument="output_shape",
        weights_format="filter_format",
        has_output_padding=True,
    ),
    Operation(
        "convolution_backward_weights",
        "ConvolutionBackwardWeights",
        Direction.BACKWARD_WEIGHTS,
        _WEIGHTS,
        "diff_weights",
        shape_argument="weights_shape",
    ),
    Operation(
        "conv_transpose",
        "ConvTranspose",
        Direction.FORWARD,
        _FORWARD,
        "dst",
        transposed=True,
        has_output_padding=True,
    ),
    Operation(
        "conv_transpose_backward_data",
        "ConvTransposeBackwardData",
        Direction.BACKWARD_DATA,
        _DATA,
        "diff_src",
        transposed=True,
        has_output_padding=True,
    ),
    Operation(
        "conv_transpose_backward_weights",
        "ConvTransposeBackwardWeights",
        Direction.BACKWARD_WEIGHTS,
        _WEIGHTS,
        "diff_weights",
        transposed=True,
        shape_argument="weights_shape",
        has_output_padding=True,
    ),
)
_BY_NAME = {operation.name: operation for operation in _DOCUMENTED}


def _joint(name: str) -> JointOperation:
    data, weights = _BY_NAME[f"{name}_data"], _BY_NAME[f"{name}_weights"]
    return JointOperation(
        name=name,
        backward_data=replace(data, name=name, shape_argument=data.shape_argument and "src"),
        backward_weights=replace(weights, name=name, shape_argument="weights"),
        tensors=_BOTH,
    )


_JOINT = (_joint("convolution_backward"), _joint("conv_transpose_backward"))

# All operations by their functions' names.
OPERATIONS: dict[str, Operation | JointOperation] = {
    **_BY_NAME,
    **{operation.name: operation for operation in _JOINT},
}

# The operations of the oneDNN Graph documents by their names there.
DOCUMENTED: dict[str, Operation] = {operation.documented: operation for operation in _DOCUMENTED}
