"""Writes graph files in the form of oneDNN's dumps."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.cases import Case, Tensors
from tests.support.native_programs import DTYPES

# oneDNN's value of an unknown size or stride.
UNKNOWN = -(2**63)

# Positions in the document of `graph(gradient())`, for `put` and `remove`.
OPERATION = ("graph", 0)
STRIDES = (*OPERATION, "attrs", "strides")
INPUT = (*OPERATION, "inputs", 1)

DOCUMENTED_NAMES = {
    "convolution": "Convolution",
    "convolution_backward_data": "ConvolutionBackwardData",
    "convolution_backward_weights": "ConvolutionBackwardWeights",
    "conv_transpose": "ConvTranspose",
    "conv_transpose_backward_data": "ConvTransposeBackwardData",
    "conv_transpose_backward_weights": "ConvTransposeBackwardWeights",
}


def tensor(id_: int, shape: Sequence[int], dtype: str = "f32") -> dict[str, Any]:
    """Return a dense tensor."""
    return {
        "id": id_,
        "dtype": dtype,
        "shape": list(shape),
        "stride": [math.prod(shape[axis + 1 :]) for axis in range(len(shape))],
        "layout_type": "strided",
        "property_type": "undef",
    }


def attribute(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"type": "string", "value": value}
    if isinstance(value, bool):
        return {"type": "bool", "value": int(value)}
    if isinstance(value, int):
        return {"type": "s64", "value": value}
    return {"type": "s64[]", "value": list(value)}


def operation(
    id_: int,
    kind: str,
    inputs: Sequence[Mapping[str, Any]],
    output: Mapping[str, Any],
    attributes: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> dict[str, Any]:
    return {
        "id": id_,
        "name": f"op_{id_}" if name is None else name,
        "kind": kind,
        "attrs": {key: attribute(value) for key, value in (attributes or {}).items()},
        "inputs": list(inputs),
        "outputs": [output],
    }


def graph(*operations: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "version": "3.7.0",
        "engine_kind": "cpu",
        "fpmath_mode": "strict",
        "graph": list(operations),
    }


def write(folder: Path, *operations: Mapping[str, Any]) -> Path:
    path = folder / "graph.json"
    path.write_text(json.dumps(graph(*operations), indent=2))
    return path


def put(value: Any, *position: str | int) -> Callable[[Any], None]:
    """Return a function that sets a field of a document."""

    def change(document: Any) -> None:
        for key in position[:-1]:
            document = document[key]
        document[position[-1]] = value

    return change


def remove(*position: str | int) -> Callable[[Any], None]:
    """Return a function that removes a field of a document."""

    def change(document: Any) -> None:
        for key in position[:-1]:
            document = document[key]
        del document[position[-1]]

    return change


def gradient(**others: Any) -> dict[str, Any]:
    """Return a ConvolutionBackwardData of diff_dst (2, 4, 5, 5) to diff_src (2, 3, 7, 7)."""
    attributes = {
        "strides": [1, 1],
        "pads_begin": [0, 0],
        "pads_end": [0, 0],
        "dilations": [1, 1],
        "data_format": "NCX",
        "weights_format": "OIX",
        **others,
    }
    inputs = [tensor(0, (2, 4, 5, 5)), tensor(1, (4, 3, 3, 3))]
    kind = "ConvolutionBackwardData"
    return operation(0, kind, inputs, tensor(2, (2, 3, 7, 7)), attributes, "gradient")


def chain() -> list[dict[str, Any]]:
    """Return a forward pass and two gradients of its results, the last operation first."""
    attributes = {
        "strides": [2, 2], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1],
        "data_format": "NXC", "weights_format": "XIO", "groups": 1, "auto_pad": "None",
    }  # fmt: skip
    src, weights = tensor(0, (2, 9, 9, 3)), tensor(1, (3, 3, 3, 4))
    dst = tensor(2, (2, 5, 5, 4))
    diff_weights, diff_src = tensor(3, (3, 3, 3, 4)), tensor(4, (2, 9, 9, 3))
    return [
        operation(7, "ConvolutionBackwardData", [dst, diff_weights], diff_src,
                  {**attributes, "dst_shape": (2, 9, 9, 3)}),
        operation(8, "ConvolutionBackwardWeights", [src, dst], diff_weights,
                  {**attributes, "weights_shape": (3, 3, 3, 4)}),
        operation(9, "Convolution", [src, weights], dst, attributes),
    ]  # fmt: skip


def of_case(
    case: Case, function: str, dtype: str, data_format: str, weights_first: bool, form: str
) -> tuple[dict[str, Any], list[Any], Tensors]:
    """Return a case as an operation with inputs 0, 1, ..., their arrays, and the case's tensors."""
    tensors = case.integers(dtype)
    positional, keywords = tensors.arguments(function, data_format, weights_first, form)
    keywords = {name: value for name, value in keywords.items() if name != "bias"}
    arrays = [array for array in positional if hasattr(array, "dtype")]
    shapes = [shape for shape in positional if not hasattr(shape, "dtype")]
    if function == "convolution_backward_data":
        keywords["dst_shape"] = shapes[0]
    elif function.endswith("backward_weights"):
        keywords["weights_shape"] = shapes[0]
    if "output_padding" in keywords and not any(keywords["output_padding"]):
        keywords["output_padding"] = [0] * 12
    result = _result_shape(tensors, function, positional, data_format)
    inputs = [tensor(i, array.shape, dtype) for i, array in enumerate(arrays)]
    assert all(array.dtype == DTYPES[dtype] for array in arrays)
    output = tensor(9, result, dtype)
    return operation(0, DOCUMENTED_NAMES[function], inputs, output, keywords), arrays, tensors


def _result_shape(
    tensors: Tensors, function: str, positional: Sequence[Any], data_format: str
) -> tuple[int, ...]:
    if function.endswith("backward_weights"):
        return tuple(positional[2])
    into_src = function in ("convolution_backward_data", "conv_transpose")
    minibatch, channels, *spatial = tensors.case.shape("src" if into_src else "dst")
    if data_format == "NCX":
        return (minibatch, channels, *spatial)
    return (minibatch, *spatial, channels)
