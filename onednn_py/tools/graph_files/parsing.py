"""Parses oneDNN Graph files into operations and tensors.

``ONEDNN_GRAPH_DUMP=graph`` writes such files, and oneDNN's own tests read them. The parser knows
the format, not the meaning of operations; every mistake in a file is an error that names the
file, the operation and the field.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from onednn_py.errors import GraphFileError

__all__ = ["GraphOperation", "LogicalTensor", "parse_graph"]

LAYOUTS = ("strided", "any", "undef", "opaque")

# DNNL_GRAPH_UNKNOWN_DIM of version 3 and of earlier versions.
UNKNOWN = (-(2**63), -1)

_JSON_NAMES: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
}
_ATTRIBUTE_TYPES: dict[str, type] = {
    "s64": int,
    "s64[]": int,
    "f32": float,
    "f32[]": float,
    "string": str,
    "bool": bool,
}


@dataclass(frozen=True, slots=True)
class LogicalTensor:
    """A tensor as an operation of the file describes it.

    Attributes
    ----------
    id : int
    dtype : str
        oneDNN's spelling: f32, bf16, f16, s8, ...
    shape : tuple of int or None
        None where the file leaves it to be inferred.
    strides : tuple of int or None
        In elements; None where the file leaves the layout open.
    """

    id: int
    dtype: str
    shape: tuple[int, ...] | None
    strides: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class GraphOperation:
    """An operation of a graph file.

    Attributes
    ----------
    id : int
    name, kind : str
    attributes : mapping of str
        int, float, str, bool, or a list of int or float.
    inputs, outputs : tuple of LogicalTensor
        In index order.
    """

    id: int
    name: str
    kind: str
    attributes: Mapping[str, Any]
    inputs: tuple[LogicalTensor, ...]
    outputs: tuple[LogicalTensor, ...]

    def __str__(self) -> str:
        return f"operation {self.id} ({self.name or self.kind})"


def parse_graph(path: str | os.PathLike[str]) -> tuple[GraphOperation, ...]:
    """Return the operations of a file in topological order.

    Raises
    ------
    GraphFileError
        If the file cannot be read, is no graph file, or its operations form a cycle.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise GraphFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise GraphFileError(f"{path}: is no JSON: nested too deeply") from None
    except ValueError as error:
        raise GraphFileError(f"{path}: is no JSON: {error}") from None
    where = str(path)
    document = _typed(where, content, dict)
    operations = [_operation(*item) for item in _items(where, document, "graph", dict)]
    _refuse_duplicates(where, "operation", (operation.id for operation in operations))
    produced = (tensor.id for operation in operations for tensor in operation.outputs)
    _refuse_duplicates(where, "result of an operation: tensor", produced)
    return _topological(where, operations)


def _operation(where: str, entry: dict[str, Any]) -> GraphOperation:
    id_ = _identifier(where, entry)
    name = _typed(f"{where}: name", entry.get("name", ""), str)
    where = f"{where}, operation {id_}" + (f" ({name})" if name else "")
    attributes = _typed(f"{where}: attrs", entry.get("attrs", {}), dict)
    return GraphOperation(
        id=id_,
        name=name,
        kind=_member(where, entry, "kind", str),
        # oneDNN writes an empty object for an attribute that JSON cannot hold.
        attributes={
            key: _attribute(f"{where}: attrs: {key}", value)
            for key, value in attributes.items()
            if value != {}
        },
        inputs=tuple(_tensor(*item) for item in _items(where, entry, "inputs", dict)),
        outputs=tuple(_tensor(*item) for item in _items(where, entry, "outputs", dict)),
    )


def _attribute(where: str, entry: Any) -> Any:
    entry = _typed(where, entry, dict)
    name = _one_of(f"{where}: type", _member(where, entry, "type", str), _ATTRIBUTE_TYPES)
    type_ = _ATTRIBUTE_TYPES[name]
    if name.endswith("[]"):
        return [value for _, value in _items(where, entry, "value", type_)]
    if type_ is bool and entry.get("value") in (0, 1):
        # oneDNN writes booleans as numbers.
        return bool(entry["value"])
    return _member(where, entry, "value", type_)


def _tensor(where: str, entry: dict[str, Any]) -> LogicalTensor:
    shape = _extents(where, entry, "shape")
    layout = _one_of(f"{where}: layout_type", entry.get("layout_type", "strided"), LAYOUTS)
    strides = None
    if layout == "strided" and shape is not None and "stride" in entry:
        strides = _extents(where, entry, "stride")
        if strides is not None and len(strides) != len(shape):
            raise GraphFileError(
                f"{where}: stride: expected {len(shape)} entries, one for each of shape;"
                f" got {list(strides)}"
            )
    return LogicalTensor(
        _identifier(where, entry), _member(where, entry, "dtype", str), shape, strides
    )


def _extents(where: str, entry: dict[str, Any], name: str) -> tuple[int, ...] | None:
    """Return sizes or strides, None if any of them is unknown."""
    extents = [extent for _, extent in _items(where, entry, name, int)]
    if any(extent in UNKNOWN for extent in extents):
        return None
    if any(extent < 0 for extent in extents):
        raise GraphFileError(f"{where}: {name}: expected no negative entries, got {extents}")
    return tuple(extents)


def _identifier(where: str, entry: dict[str, Any]) -> int:
    id_: int = _member(where, entry, "id", int)
    if id_ < 0:
        raise GraphFileError(f"{where}: id: expected a non-negative integer, got {id_}")
    return id_


def _items(where: str, entry: dict[str, Any], name: str, type_: type) -> Iterator[tuple[str, Any]]:
    """Yield the position and the value of each item of a list."""
    for i, value in enumerate(_member(where, entry, name, list)):
        position = f"{where}: {name}[{i}]"
        yield position, _typed(position, value, type_)


def _member(where: str, entry: dict[str, Any], name: str, type_: type) -> Any:
    if name not in entry:
        raise GraphFileError(f"{where}: the field {name!r} is missing")
    return _typed(f"{where}: {name}", entry[name], type_)


def _one_of(where: str, value: Any, accepted: Collection[str]) -> str:
    text: str = _typed(where, value, str)
    if text not in accepted:
        raise GraphFileError(f"{where}: expected one of {', '.join(accepted)}; got {text!r}")
    return text


def _typed(where: str, value: Any, type_: type) -> Any:
    accepted = (int, float) if type_ is float else (type_,)
    # In Python, true and false are integers.
    if not isinstance(value, accepted) or (isinstance(value, bool) and type_ is not bool):
        raise GraphFileError(f"{where}: expected {_JSON_NAMES[type_]}, got {_abridged(value)}")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise GraphFileError(f"{where}: expected an integer of 64 bits, got {_abridged(value)}")
    return value


def _abridged(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return _JSON_NAMES[type(value)]
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _refuse_duplicates(where: str, noun: str, ids: Iterable[int]) -> None:
    for id_, count in Counter(ids).items():
        if count > 1:
            raise GraphFileError(f"{where}: {noun} {id_} is there twice")


def _topological(where: str, operations: list[GraphOperation]) -> tuple[GraphOperation, ...]:
    by_id = {operation.id: operation for operation in operations}
    producers = {tensor.id: o.id for o in operations for tensor in o.outputs}
    depends = {
        operation.id: [producers[t.id] for t in operation.inputs if t.id in producers]
        for operation in operations
    }
    try:
        return tuple(by_id[id_] for id_ in TopologicalSorter(depends).static_order())
    except CycleError as error:
        cycle = " -> ".join(str(by_id[id_]) for id_ in error.args[1][:8])
        raise GraphFileError(f"{where}: operations depend on their own results: {cycle}") from None
