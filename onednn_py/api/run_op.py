"""Operations and attributes by their exact names in the oneDNN Graph documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onednn_py.errors import AttributeValueError, brief
from onednn_py.problem.attributes import ATTRIBUTES, documented_attributes
from onednn_py.problem.formats import DATA_FORMATS, WEIGHTS_FORMATS, named_format
from onednn_py.problem.operations import DOCUMENTED, Operation

from . import FUNCTIONS
from .types import BackendName

__all__ = ["VERSIONED", "bind", "run_op"]

# The documents also give this name with its version.
VERSIONED = {"ConvolutionBackpropData-1": "ConvolutionBackpropData"}


def run_op(
    kind: str,
    inputs: Sequence[Any],
    attributes: Mapping[str, Any],
    *,
    out: Any = None,
    backend: BackendName | None = None,
) -> Any:
    """Run an operation by its documented name, inputs by index, attributes by name.

    The rules are those of the oneDNN Graph documents: ``strides``, ``pads_begin``, ``pads_end``
    and ``dilations`` are required (pads may be left out where ``auto_pad`` is set), and an
    unknown attribute is an error.

    Parameters
    ----------
    kind : str
        Convolution, ConvolutionBackwardData, ConvolutionBackpropData (with or without -1),
        ConvolutionBackwardWeights, ConvTranspose, ConvTransposeBackwardData or
        ConvTransposeBackwardWeights.
    inputs : sequence of ndarray
        In the documents' index order; optional ones may be left out or None. Shapes
        (``dst_shape``, ``weights_shape``, ``output_shape``) are 1-D integer arrays, and win
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
    return FUNCTIONS[operation.name](**arguments, out=out, backend=backend)


def bind(
    kind: str, inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> tuple[Operation, dict[str, Any]]:
    """Return a documented operation and the arguments of its function, by name.

    Raises
    ------
    AttributeValueError
        As `run_op` does; the function itself checks the values.
    """
    operation = DOCUMENTED.get(VERSIONED.get(kind, kind)) if isinstance(kind, str) else None
    if operation is None:
        listed = ", ".join(DOCUMENTED)
        raise AttributeValueError(f"run_op: kind: expected one of {listed}; got {brief(kind)}")
    checked = _checked_attributes(operation, attributes)
    arguments = _named_inputs(operation, inputs)
    shape = operation.shape_argument
    if shape:
        attribute = checked.pop(shape, None)
        if arguments.get(shape) is None:
            arguments[shape] = attribute
        if arguments[shape] is None and operation.requires_shape:
            raise AttributeValueError(
                f"{operation.documented}: {shape} is required, as input"
                f" {operation.documented_inputs.index(shape)} or as an attribute"
            )
    return operation, {**arguments, **checked}


def _checked_attributes(operation: Operation, attributes: Mapping[str, Any]) -> dict[str, Any]:
    kind, accepted = operation.documented, documented_attributes(operation)
    if not isinstance(attributes, Mapping):
        raise AttributeValueError(
            f"{kind}: attributes: expected a mapping, got {type(attributes).__qualname__}"
        )
    unknown = [name for name in attributes if name not in accepted]
    if unknown:
        raise AttributeValueError(
            f"{kind}: unknown attribute {brief(unknown[0])}; accepted are {', '.join(accepted)}"
        )
    _refuse_aliases(operation, attributes)
    auto_pad = attributes.get("auto_pad")
    padded = isinstance(auto_pad, str) and auto_pad.lower() != "none"
    required = [
        name
        for name, rule in ATTRIBUTES.items()
        if rule.required and not (padded and name.startswith("pads"))
    ]
    missing = [name for name in required if attributes.get(name) is None]
    if missing:
        raise AttributeValueError(f"{kind}: required attribute missing: {', '.join(missing)}")
    return {name: value for name, value in attributes.items() if value is not None}


def _refuse_aliases(operation: Operation, attributes: Mapping[str, Any]) -> None:
    """Raise an error for formats by names that the functions take, but not the documents."""
    for name, formats in (
        ("data_format", DATA_FORMATS),
        (operation.weights_format, WEIGHTS_FORMATS[operation.transposed]),
    ):
        value = attributes.get(name)
        if not isinstance(value, str):
            continue
        found = named_format(value, formats)
        if found not in (None, value.upper()):
            raise AttributeValueError(
                f"{operation.documented}: {name}: expected one of {', '.join(formats)}, as the"
                f" documents have them; got {value!r}, which the functions alone take for {found}"
            )


def _named_inputs(operation: Operation, inputs: Sequence[Any]) -> dict[str, Any]:
    kind, names = operation.documented, operation.documented_inputs
    if not isinstance(inputs, (tuple, list)):
        raise AttributeValueError(
            f"{kind}: inputs: expected a list of arrays, got {type(inputs).__qualname__}"
        )
    most = len(names)
    least = most - operation.optional_inputs
    if not least <= len(inputs) <= most:
        expected = str(most) if least == most else f"{least} or {most}"
        raise AttributeValueError(
            f"{kind}: expected {expected} inputs ({', '.join(names)}), got {len(inputs)}"
        )
    return dict(zip(names, inputs, strict=False))
