"""The operations, one table: names of their tensors, direction, family."""

from __future__ import annotations

from dataclasses import dataclass

from .problem import Direction

__all__ = ["OPERATIONS", "Operation"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One of the gradients or forward operations: its direction and its names.

    Attributes
    ----------
    tensors : dict
        The caller's names of the input tensors, to their roles in a Problem.
    result : str
        The caller's name of the result.
    shape_argument : str or None
        Name of the argument that gives the result's shape.
    """

    name: str
    transposed: bool
    direction: Direction
    tensors: dict[str, str]
    result: str
    shape_argument: str | None = None
    weights_format_argument: str = "weights_format"

    @property
    def result_role(self) -> str:
        return self.result.removeprefix("diff_") if self.result != "input_delta" else "src"


_FORWARD = {"src": "src", "weights": "weights", "bias": "bias"}
_DATA = {"diff_dst": "dst", "weights": "weights"}
_WEIGHTS = {"src": "src", "diff_dst": "dst"}

OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation("convolution", False, Direction.FORWARD, _FORWARD, "dst"),
        Operation(
            "convolution_backward_data",
            False,
            Direction.BACKWARD_DATA,
            _DATA,
            "diff_src",
            "dst_shape",
        ),
        Operation(
            "convolution_backprop_data",
            False,
            Direction.BACKWARD_DATA,
            {"output_delta": "dst", "filter": "weights"},
            "input_delta",
            "output_shape",
            "filter_format",
        ),
        Operation(
            "convolution_backward_weights",
            False,
            Direction.BACKWARD_WEIGHTS,
            _WEIGHTS,
            "diff_weights",
            "weights_shape",
        ),
        Operation("conv_transpose", True, Direction.FORWARD, _FORWARD, "dst"),
        Operation("conv_transpose_backward_data", True, Direction.BACKWARD_DATA, _DATA, "diff_src"),
        Operation(
            "conv_transpose_backward_weights",
            True,
            Direction.BACKWARD_WEIGHTS,
            _WEIGHTS,
            "diff_weights",
            "weights_shape",
        ),
    )
}
