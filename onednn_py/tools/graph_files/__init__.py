"""oneDNN Graph files: dumped programs and oneDNN's own test inputs, replayed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from onednn_py.api.run_op import KINDS
from onednn_py.errors import AttributeValueError, GraphFileError
from onednn_py.problem.attributes import parse_shape

from .agreement import Comparison
from .calls import is_shape_input
from .parsing import GraphOperation, LogicalTensor, parse_graph
from .replay import COMPARABLE, OperationReport, Replay, run_operations
from .tensors import given_tensor

__all__ = [
    "COMPARABLE",
    "Comparison",
    "Graph",
    "GraphOperation",
    "LogicalTensor",
    "OperationReport",
    "Replay",
    "load_graph",
]


def load_graph(path: str | os.PathLike[str]) -> Graph:
    """Read a graph file, as ``ONEDNN_GRAPH_DUMP=graph`` writes it, to be run.

    Parameters
    ----------
    path : path-like
        A JSON file: a dump, or an input of oneDNN's own tests.

    Returns
    -------
    Graph

    Raises
    ------
    GraphFileError
        If the file cannot be read, is no graph file, or contradicts itself; the message names
        the operation and the field.

    Examples
    --------
    >>> import onednn_py
    >>> onednn_py.load_graph("missing.json")
    Traceback (most recent call last):
        ...
    onednn_py.errors.GraphFileError: missing.json: cannot be read: No such file or directory
    """
    return Graph(str(path), parse_graph(path))


class Graph:
    """The operations of a graph file.

    Attributes
    ----------
    path : str
    operations : tuple of GraphOperation
        Each behind those whose results it reads.
    """

    def __init__(self, path: str, operations: tuple[GraphOperation, ...]) -> None:
        self.path = path
        self.operations = operations

    def __repr__(self) -> str:
        kinds = ", ".join(operation.kind for operation in self.operations)
        return f"<Graph {self.path}: {kinds}>"

    @property
    def input_names(self) -> dict[str, int]:
        """Ids of the tensors that can be given, by every name that is theirs alone.

        These are the id itself, ``operation.input`` with the operation's name and the
        input's documented name, and the input's name alone.
        """
        ids: dict[str, set[int]] = {}
        for operation in self._ours():
            for tensor, name in zip(operation.inputs, KINDS[operation.kind].inputs, strict=False):
                keys = [str(tensor.id), name]
                if operation.name:
                    keys.append(f"{operation.name}.{name}")
                for key in keys:
                    ids.setdefault(key, set()).add(tensor.id)
        return {key: next(iter(named)) for key, named in ids.items() if len(named) == 1}

    def run(
        self,
        inputs: Mapping[str | int, Any] | None = None,
        *,
        seed: int = 0,
        backend: str | None = None,
        compare: str | Sequence[str] = (),
        on_start: Callable[[GraphOperation], None] | None = None,
    ) -> Replay:
        """Run every operation that this package has, and say what came of each.

        A tensor that is neither given nor made by an operation that ran holds small random
        integers, for which every backend must give the same bits.

        Parameters
        ----------
        inputs : mapping of str or int to ndarray, optional
            Tensors by a name of `input_names` or by their id. A type other than the file's
            will do if its values are exact in that.
        seed : int
            Of the random tensors.
        backend : {"auto", "onednn", "numpy"}, optional
        compare : {"numpy", "native", "auto"} or sequence of them
            What else computes each operation, to be compared: the NumPy backend, native
            oneDNN's Graph API in a C++ program compiled on the spot, or both, native only
            where that can be done.
        on_start : callable, optional
            Called with each operation that is about to run.

        Returns
        -------
        Replay
            An operation that fails is a report in it, not an exception.

        Raises
        ------
        GraphFileError, ShapeError, DTypeError, AttributeValueError
            If a given tensor is none of the file's or does not fit it, an argument is wrong,
            or the tensors do not fit in memory.
        ComparisonUnavailableError
            If ``"native"`` is asked for and something is missing for it.
        LibraryNotFoundError
            If ``backend="onednn"`` and no library can be used.
        """
        if type(seed) is not int or seed < 0:
            raise AttributeValueError(f"seed: expected a non-negative integer, got {seed!r}")
        names = self.input_names
        mentions = self._mentions()
        given: dict[int, Any] = {}
        extents: dict[int, tuple[int, ...]] = {}
        for name, array in (inputs or {}).items():
            id_ = names.get(str(name))
            where = f"{self.path}: input {name}"
            if id_ is None:
                accepted = ", ".join(names) or "none"
                raise GraphFileError(f"{where}: no such tensor; there are {accepted}")
            if id_ in given or id_ in extents:
                raise GraphFileError(f"{where}: tensor {id_} is given twice")
            tensor, is_shape = mentions[id_]
            if is_shape:
                extents[id_] = parse_shape(self.path, f"input {name}", np.asarray(array))
            else:
                given[id_] = given_tensor(where, array, tensor)
        try:
            return run_operations(
                self.operations,
                given,
                extents,
                seed=seed,
                backend=backend,
                compare=[compare] if isinstance(compare, str) else compare,
                on_start=on_start,
            )
        except GraphFileError as error:
            raise GraphFileError(f"{self.path}: {error}") from None

    def _ours(self) -> list[GraphOperation]:
        return [operation for operation in self.operations if operation.kind in KINDS]

    def _mentions(self) -> dict[int, tuple[LogicalTensor, bool]]:
        """Return each input's first mention by an operation of ours, and whether it is a shape."""
        mentions: dict[int, tuple[LogicalTensor, bool]] = {}
        for operation in self._ours():
            for index, tensor in enumerate(operation.inputs):
                is_shape = is_shape_input(operation.kind, index)
                mentions.setdefault(tensor.id, (tensor, is_shape))
        return mentions
