"""Attributes: foreign values to checked ones, with errors that name what was expected."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onednn_py.errors import AttributeValueError, ShapeError

from .formats import CONVOLUTION_WEIGHTS_FORMATS, DATA_FORMATS, TRANSPOSED_WEIGHTS_FORMATS

__all__ = ["AUTO_PADS", "AUTO_PAD_RULES", "Attributes", "parse_attributes", "parse_shape"]

AUTO_PADS = ("none", "valid", "same_upper", "same_lower")
AUTO_PAD_RULES = ("native", "documented")

# oneDNN's kernels keep strides, pads and dilations in 32-bit integers.
LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Attributes:
    """Checked attributes of one call; list attributes have one entry per spatial axis."""

    strides: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    dilations: tuple[int, ...]
    auto_pad: str
    groups: int
    data_format: str
    weights_format: str
    output_padding: tuple[int, ...]
    auto_pad_rule: str = "native"


def _integer(where: str, value: Any) -> int:
    """Return ``value`` as an int. Booleans and floats are refused: they are mistakes here."""
    if isinstance(value, (bool, np.bool_)):
        raise AttributeValueError(f"{where}: expected an integer, got {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise AttributeValueError(f"{where}: expected an integer, got {value!r}") from None
    if abs(number) >= 2**63:
        # Python refuses to print integers of thousands of digits.
        raise AttributeValueError(f"{where}: expected an integer of at most 64 bits")
    return number


def _in_range(where: str, value: int, least: int) -> int:
    if value < least or value > LARGEST:
        raise AttributeValueError(
            f"{where}: expected an integer from {least} to {LARGEST}, got {value}"
        )
    return value


def _is_list(value: Any) -> bool:
    return isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes))


def _per_axis(operation: str, name: str, value: Any, axes: int, least: int) -> tuple[int, ...]:
    where = f"{operation}: {name}"
    if not _is_list(value) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return (_in_range(where, _integer(where, value), least),) * axes
    if len(value) != axes:
        raise AttributeValueError(
            f"{where}: expected one integer or {axes}, one per spatial axis; got {value!r}"
        )
    return tuple(
        _in_range(f"{where}[{axis}]", _integer(f"{where}[{axis}]", entry), least)
        for axis, entry in enumerate(value)
    )


def _name(
    operation: str, attribute: str, value: Any, accepted: tuple[str, ...], hint: str = ""
) -> str:
    if isinstance(value, str):
        for name in accepted:
            if value.lower() == name.lower():
                return name
    raise AttributeValueError(
        f"{operation}: {attribute}: expected one of {', '.join(accepted)}; got {value!r}{hint}"
    )


def parse_shape(operation: str, name: str, value: Any) -> tuple[int, ...]:
    """Return a shape given as a list, tuple or 1-D integer array as a tuple of int.

    Raises
    ------
    AttributeValueError
        If it is no list of integers.
    ShapeError
        If an entry is negative.
    """
    where = f"{operation}: {name}"
    if not _is_list(value) or (isinstance(value, np.ndarray) and value.ndim != 1):
        raise AttributeValueError(f"{where}: expected a list of integers, got {value!r}")
    shape = tuple(_integer(f"{where}[{axis}]", extent) for axis, extent in enumerate(value))
    if any(extent < 0 for extent in shape):
        raise ShapeError(f"{where}: expected non-negative extents, got {shape}")
    return shape


def parse_attributes(
    operation: str,
    spatial_axes: int,
    *,
    transposed: bool,
    strides: Any,
    pads_begin: Any,
    pads_end: Any,
    dilations: Any,
    auto_pad: Any,
    groups: Any,
    data_format: Any,
    weights_format: Any,
    weights_format_name: str = "weights_format",
    output_padding: Any = 0,
    auto_pad_rule: Any = "native",
) -> Attributes:
    """Check every attribute of one call.

    Raises
    ------
    AttributeValueError
        Naming the operation, the attribute, what was expected and what came.
    """
    if auto_pad is None:
        auto_pad = "none"
    formats = TRANSPOSED_WEIGHTS_FORMATS if transposed else CONVOLUTION_WEIGHTS_FORMATS
    hint = ""
    if transposed and str(weights_format).upper() in CONVOLUTION_WEIGHTS_FORMATS:
        hint = (
            " (one table of the documents prints OIX and XIO for transposed convolution,"
            " but native oneDNN takes IOX and XOI only)"
        )
    # Pads are ignored under auto_pad, but nonsense in them is still a mistake worth telling.
    return Attributes(
        strides=_per_axis(operation, "strides", strides, spatial_axes, 1),
        pads_begin=_per_axis(operation, "pads_begin", pads_begin, spatial_axes, 0),
        pads_end=_per_axis(operation, "pads_end", pads_end, spatial_axes, 0),
        dilations=_per_axis(operation, "dilations", dilations, spatial_axes, 1),
        auto_pad=_name(operation, "auto_pad", auto_pad, AUTO_PADS),
        groups=_in_range(f"{operation}: groups", _integer(f"{operation}: groups", groups), 1),
        data_format=_name(operation, "data_format", data_format, DATA_FORMATS),
        weights_format=_name(operation, weights_format_name, weights_format, formats, hint),
        output_padding=_per_axis(operation, "output_padding", output_padding, spatial_axes, 0),
        auto_pad_rule=_name(operation, "auto_pad_rule", auto_pad_rule, AUTO_PAD_RULES),
    )
