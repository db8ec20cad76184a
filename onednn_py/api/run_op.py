"""The strict door: operations by the names of the oneDNN Graph documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onednn_py import api as ops
from onednn_py.errors import AttributeValueError

__all__ = ["KINDS", "Kind", "bind", "run_op"]

REQUIRED = ("strides", "pads_begin", "pads_end", "dilations")
OPTIONAL = ("auto_pad", "groups", "data_format")


@dataclass(frozen=True, slots=True)
class Kind:
    """A documented operation.

    Attributes
    ----------
    function : callable
    inputs : tuple of str
        Names in index order.
    optional_inputs : int
        How many at the end may be left out.
    attributes : tuple of str
        Optional attributes besides those that all operations share.
    shape : str or None
        Name of the result's shape, an input or an attribute; the input wins.
    """

    function: Callable[..., Any]
    inputs: tuple[str, ...]
    optional_inputs: int
    attributes: tuple[str, ...]
    shape: str | None = None

    @property
    def accepted(self) -> tuple[str, ...]:
        return (*REQUIRED, *OPTIONAL, *self.attributes)


_FORWARD = ("src", "weights", "bias")

KINDS: dict[str, Kind] = {
    "Convolution": Kind(ops.convolution, _FORWARD, 1, ("weights_format",)),
    "ConvolutionBackwardData": Kind(
        ops.convolution_backward_data,
        ("diff_dst", "weights", "dst_shape"),
        1,
        ("weights_format", "output_padding", "dst_shape"),
        "dst_shape",
    ),
    "ConvolutionBackpropData": Kind(
        ops.convolution_backprop_data,
        ("output_delta", "filter", "output_shape"),
        1,
        ("filter_format", "output_padding", "output_shape"),
        "output_shape",
    ),
    "ConvolutionBackwardWeights": Kind(
        ops.convolution_backward_weights,
        ("src", "diff_dst", "weights_shape"),
        1,
        ("weights_format", "weights_shape"),
        "weights_shape",
    ),
    "ConvTranspose": Kind(ops.conv_transpose, _FORWARD, 1, ("weights_format", "output_padding")),
    "ConvTransposeBackwardData": Kind(
        ops.conv_transpose_backward_data,
        ("diff_dst", "weights"),
        0,
        ("weights_format", "output_padding"),
    ),
    "ConvTransposeBackwardWeights": Kind(
        ops.conv_transpose_backward_weights,
        ("src", "diff_dst", "weights_shape"),
        1,
        ("weights_format", "output_padding", "weights_shape"),
        "weights_shape",
    ),
}


def run_op(
    kind: str,
    inputs: Sequence[Any],
    attributes: Mapping[str, Any],
    *,
    out: Any = None,
    backend: str | None = None,
) -> Any:
    """Run an operation by its documented name, inputs by index, attributes by name.

    The rules are those of the oneDNN Graph documents: `strides`, `pads_begin`, `pads_end`
    and `dilations` are required (pads may be left out where `auto_pad` is set), and an
    unknown attribute is an error.

    Parameters
    ----------
    kind : str
        Convolution, ConvolutionBackwardData, ConvolutionBackpropData (with or without -1),
        ConvolutionBackwardWeights, ConvTranspose, ConvTransposeBackwardData or
        ConvTransposeBackwardWeights.
    inputs : sequence of ndarray
        In the documents' index order; optional ones may be left out or None. Shapes
        (`dst_shape`, `weights_shape`, `output_shape`) are 1-D integer arrays, and win
        over the attribute of that name.
    attributes : mapping of str
    out : ndarray, optional
    backend : {"auto", "onednn", "numpy"}, optional

    Returns
    -------
    ndarray

    Raises
    ------
    AttributeValueError
        If the kind or an attribute is unknown, or something required is missing.
    ShapeError, DTypeError
        As the functions do.

    Examples
    --------
    >>> import numpy as np, onednn_py
    >>> diff_dst, weights = np.ones((1, 2, 1), np.float32), np.ones((2, 1, 1), np.float32)
    >>> attributes = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    >>> result = onednn_py.run_op("ConvolutionBackwardData", [diff_dst, weights], attributes)
    >>> result.ravel().tolist()
    [1.0, 2.0, 1.0]
    """
    operation, arguments = bind(kind, inputs, attributes)
    return operation.function(**arguments, out=out, backend=backend)


def bind(
    kind: str, inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> tuple[Kind, dict[str, Any]]:
    """Return a documented operation and the arguments of its function, by name.

    Raises
    ------
    AttributeValueError
        As `run_op` does; the function itself checks the values.
    """
    if kind == "ConvolutionBackpropData-1":
        kind = "ConvolutionBackpropData"
    if not isinstance(kind, str) or kind not in KINDS:
        raise AttributeValueError(f"run_op: kind: expected one of {', '.join(KINDS)}; got {kind!r}")
    operation = KINDS[kind]
    arguments = _checked(kind, operation, attributes)
    tensors = _named_inputs(kind, operation, inputs)
    if operation.shape:
        given = tensors.pop(operation.shape, None)
        attribute = arguments.pop(operation.shape, None)
        tensors[operation.shape] = attribute if given is None else given
        if tensors[operation.shape] is None and operation.shape == "weights_shape":
            raise AttributeValueError(
                f"{kind}: weights_shape is required, as input 2 or as an attribute"
            )
    return operation, {**tensors, **arguments}


def _checked(kind: str, operation: Kind, attributes: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(attributes, Mapping):
        raise AttributeValueError(
            f"{kind}: attributes: expected a mapping, got {type(attributes).__qualname__}"
        )
    unknown = [name for name in attributes if name not in operation.accepted]
    if unknown:
        raise AttributeValueError(
            f"{kind}: unknown attribute {unknown[0]!r}; accepted are"
            f" {', '.join(operation.accepted)}"
        )
    auto_pad = attributes.get("auto_pad")
    padded = isinstance(auto_pad, str) and auto_pad.lower() != "none"
    required = [name for name in REQUIRED if not (padded and name.startswith("pads"))]
    missing = [name for name in required if attributes.get(name) is None]
    if missing:
        raise AttributeValueError(f"{kind}: required attribute missing: {', '.join(missing)}")
    return {name: value for name, value in attributes.items() if value is not None}


def _named_inputs(kind: str, operation: Kind, inputs: Sequence[Any]) -> dict[str, Any]:
    if not isinstance(inputs, (tuple, list)):
        raise AttributeValueError(
            f"{kind}: inputs: expected a list of arrays, got {type(inputs).__qualname__}"
        )
    most = len(operation.inputs)
    least = most - operation.optional_inputs
    if not least <= len(inputs) <= most:
        expected = str(most) if least == most else f"{least} or {most}"
        raise AttributeValueError(
            f"{kind}: expected {expected} inputs ({', '.join(operation.inputs)}), got {len(inputs)}"
        )
    return dict(zip(operation.inputs, inputs, strict=False))
