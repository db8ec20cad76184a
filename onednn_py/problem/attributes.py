"""Attributes: foreign values to checked ones, with errors that name what was expected."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onednn_py.errors import AttributeValueError, ShapeError, brief

from .foreign import as_array, is_foreign_array
from .formats import DATA_FORMATS, WEIGHTS_FORMATS, named_format, spatial_name
from .operations import Operation

__all__ = [
    "ATTRIBUTES",
    "GROUPS_AXIS",
    "LARGEST",
    "Attributes",
    "documented_attributes",
    "parse_attributes",
    "parse_shape",
]

AUTO_PADS = ("none", "valid", "same_upper", "same_lower")
AUTO_PAD_RULES = ("native", "documented")

# Attributes that were checked, since calls with new sizes mostly have the same.
_parsed: dict[Any, Attributes] = {}
MOST_KEPT = 256

# Types whose equal values are the same value: True is no int here.
_CONSTANT = frozenset((int, str, type(None)))

# oneDNN's kernels keep strides, pads and dilations in 32-bit integers.
LARGEST = 2**31 - 1

# What a message says of weights or a format with an axis of groups, as OpenVINO has them.
GROUPS_AXIS = (
    "weights have no axis of groups: (groups, C, *rest) is reshaped to (groups * C, *rest)"
)

# A longer list is no list of extents or axes; some would take for ever to be read.
MOST_ENTRIES = 64


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
    auto_pad_rule: str


def _integer(where: str, value: Any) -> int:
    """Return ``value`` as an int. Booleans and floats are refused: they are mistakes here."""
    try:
        number = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise AttributeValueError(f"{where}: expected an integer, got {brief(value)}")
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


def _entries(where: str, value: Any, expected: str) -> Any:
    """Return a list of integers that is not too long to be read, or None if ``value`` is no list.

    Raises
    ------
    AttributeValueError
        If it is an array that is no list of integers, or so long that it is no shape.
    """
    if is_foreign_array(value):
        value = as_array(where, value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "iu" or value.ndim > 1:
            raise AttributeValueError(f"{where}: expected {expected}; got {brief(value)}")
        return value.tolist() if value.ndim else None
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes, bytearray)):
        return None
    try:
        length = len(value)
    except OverflowError:  # a range may have more entries than a C integer can count
        length = LARGEST
    if length > MOST_ENTRIES:
        raise AttributeValueError(f"{where}: expected {expected}; got {length} entries")
    return value


def _per_axis(operation: str, name: str, value: Any, axes: int, least: int) -> tuple[int, ...]:
    where = f"{operation}: {name}"
    expected = f"one integer or {axes}, one per spatial axis"
    entries = _entries(where, value, expected)
    if entries is None:
        return (_in_range(where, _integer(where, value), least),) * axes
    if len(entries) != axes:
        raise AttributeValueError(f"{where}: expected {expected}; got {brief(value)}")
    return tuple(
        _in_range(f"{where}[{axis}]", _integer(f"{where}[{axis}]", entry), least)
        for axis, entry in enumerate(entries)
    )


def _name(operation: str, attribute: str, value: Any, accepted: tuple[str, ...]) -> str:
    if isinstance(value, str):
        for name in accepted:
            if value.lower() == name.lower():
                return name
    raise AttributeValueError(
        f"{operation}: {attribute}: expected one of {', '.join(accepted)}; got {brief(value)}"
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
    entries = _entries(where, value, "a list of integers")
    if entries is None:
        raise AttributeValueError(f"{where}: expected a list of integers, got {brief(value)}")
    shape = tuple(_integer(f"{where}[{axis}]", extent) for axis, extent in enumerate(entries))
    if any(extent < 0 for extent in shape):
        raise ShapeError(f"{where}: expected non-negative extents, got {brief(shape)}")
    return shape


@dataclass(frozen=True, slots=True)
class _Attribute:
    """How an attribute is checked.

    Attributes
    ----------
    default
        Its value where it is left out; None for the last format that the operation takes.
    check : callable
        From the operation, the attribute's name in it, the value and the number of spatial axes
        to the checked value.
    required, documented : bool
        Whether the oneDNN Graph documents mark it so, and whether they have it at all.
    """

    default: Any
    check: Callable[[Operation, str, Any, int], Any]
    required: bool = False
    documented: bool = True


def _per_axis_from(least: int) -> Callable[[Operation, str, Any, int], tuple[int, ...]]:
    return lambda operation, name, value, axes: _per_axis(operation.name, name, value, axes, least)


def _auto_pad_rule(operation: Operation, name: str, value: Any, _: int) -> str:
    return _name(operation.name, name, value, AUTO_PAD_RULES)


def _auto_pad(operation: Operation, name: str, value: Any, _: int) -> str:
    return _name(operation.name, name, "none" if value is None else value, AUTO_PADS)


def _groups(operation: Operation, name: str, value: Any, _: int) -> int:
    where = f"{operation.name}: {name}"
    return _in_range(where, _integer(where, value), 1)


def _data_format(operation: Operation, name: str, value: Any, axes: int) -> str:
    return _format(f"{operation.name}: {name}", value, axes, DATA_FORMATS)


def _weights_format(operation: Operation, name: str, value: Any, axes: int) -> str:
    hint = ""
    if isinstance(value, str) and value.upper().startswith("G"):
        hint = f"; {GROUPS_AXIS}"
    elif isinstance(value, str) and named_format(value, WEIGHTS_FORMATS[not operation.transposed]):
        hint = f", which is no format of {'transposed ' if operation.transposed else ''}convolution"
        if operation.transposed:
            hint += (
                " (one table of the documents prints OIX and XIO for transposed convolution,"
                " but native oneDNN takes IOX and XOI only)"
            )
    return _format(
        f"{operation.name}: {name}", value, axes, WEIGHTS_FORMATS[operation.transposed], hint
    )


def _format(where: str, value: Any, axes: int, formats: tuple[str, ...], hint: str = "") -> str:
    """Return a format by its documented name, or by its name for so many spatial axes."""
    found = named_format(value, formats) if isinstance(value, str) else None
    if found is None:
        also = " or ".join(spatial_name(format_, axes) for format_ in formats)
        raise AttributeValueError(
            f"{where}: expected one of {', '.join(formats)}; got {brief(value)}"
            f"{hint or f' ({also} will do, too)'}"
        )
    if value.upper() not in (found, spatial_name(found, axes)):
        raise AttributeValueError(
            f"{where}: expected {spatial_name(found, axes)} or {found} for arrays of {axes + 2}"
            f" axes, got {value!r}, which is for {len(value)} axes"
        )
    return found


# In documented order, undocumented attributes last. Pads are ignored under auto_pad, but nonsense
# in them is a mistake worth telling all the same.
ATTRIBUTES = {
    "strides": _Attribute(1, _per_axis_from(1), required=True),
    "pads_begin": _Attribute(0, _per_axis_from(0), required=True),
    "pads_end": _Attribute(0, _per_axis_from(0), required=True),
    "dilations": _Attribute(1, _per_axis_from(1), required=True),
    "auto_pad": _Attribute("none", _auto_pad),
    "groups": _Attribute(1, _groups),
    "data_format": _Attribute("NXC", _data_format),
    "weights_format": _Attribute(None, _weights_format),
    "output_padding": _Attribute(0, _per_axis_from(0)),
    "auto_pad_rule": _Attribute("native", _auto_pad_rule, documented=False),
}


def _names(operation: Operation) -> dict[str, str]:
    """Return the operation's own names of the attributes."""
    return {**{name: name for name in ATTRIBUTES}, "weights_format": operation.weights_format}


def documented_attributes(operation: Operation) -> tuple[str, ...]:
    """Return the attributes that the documents give an operation, by its names of them."""
    names = {
        attribute: name
        for attribute, name in _names(operation).items()
        if ATTRIBUTES[attribute].documented
    }
    if not operation.has_output_padding:
        del names["output_padding"]
    return (*names.values(), *filter(None, [operation.shape_argument]))


def parse_attributes(
    operation: Operation, spatial_axes: int, arguments: Mapping[str, Any]
) -> Attributes:
    """Check every attribute of one call.

    Parameters
    ----------
    operation : Operation
    spatial_axes : int
    arguments : mapping
        Attributes by the operation's names of them; those that are left out have their defaults.

    Raises
    ------
    AttributeValueError
        Naming the operation, the attribute, what was expected and what came.
    """
    key = _key(operation, spatial_axes, arguments)
    known = _parsed.get(key)
    if known is not None:
        return known
    parsed = _parse(operation, spatial_axes, arguments)
    if key is not None:
        if len(_parsed) >= MOST_KEPT:
            _parsed.clear()
        _parsed[key] = parsed
    return parsed


def _key(operation: Operation, spatial_axes: int, arguments: Mapping[str, Any]) -> Any:
    """Return a key that equal attributes share, None if equal values may mean something else."""
    for value in arguments.values():
        kind = type(value)
        if kind is tuple:
            if not {int}.issuperset(map(type, value)):
                return None
        elif kind not in _CONSTANT:
            return None
    return (operation.name, spatial_axes, *arguments.items())


def _parse(operation: Operation, spatial_axes: int, arguments: Mapping[str, Any]) -> Attributes:
    given, parsed = dict(arguments), {}
    for attribute, name in _names(operation).items():
        rule = ATTRIBUTES[attribute]
        default = rule.default
        if default is None:
            default = WEIGHTS_FORMATS[operation.transposed][-1]
        parsed[attribute] = rule.check(operation, name, given.pop(name, default), spatial_axes)
    if given:
        raise AttributeValueError(f"{operation.name}: unknown attribute {brief(min(given))}")
    return Attributes(**parsed)
