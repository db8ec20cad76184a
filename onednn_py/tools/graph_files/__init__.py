"""oneDNN Graph files: dumped programs and oneDNN's own test inputs, replayed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from onednn_py.errors import AttributeValueError, GraphFileError, brief
from onednn_py.problem.attributes import parse_shape
from onednn_py.problem.operations import DOCUMENTED

from .agreement import Comparison
from .parsing import GraphOperation, LogicalTensor, parse_graph
from .replay import COMPARABLE, OperationReport, Replay, Runner
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
        In topological order.
    """

    def __init__(self, path: str, operations: tuple[GraphOperation, ...]) -> None:
        self.path = path
        self.operations = operations

    def __repr__(self) -> str:
        kinds = ", ".join(operation.kind for operation in self.operations)
        return f"<Graph {self.path}: {kinds}>"

    @property
    def input_names(self) -> dict[str, int]:
        """Ids of the tensors that can be given, by every unambiguous name.

        A tensor's names are its id, ``operation.input`` with the operation's name and the
        input's documented name, and the documented name alone.
        """
        ids: dict[str, set[int]] = {}
        for operation, name, tensor in self._inputs():
            names = [str(tensor.id), name]
            if operation.name:
                names.append(f"{operation.name}.{name}")
            for key in names:
                ids.setdefault(key, set()).add(tensor.id)
        return {name: next(iter(named)) for name, named in ids.items() if len(named) == 1}

    def run(
        self,
        inputs: Mapping[str | int, Any] | None = None,
        *,
        seed: int = 0,
        backend: str | None = None,
        compare: str | Sequence[str] = (),
        on_start: Callable[[GraphOperation], None] | None = None,
    ) -> Replay:
        """Run every operation that this package supports, and report on all of them.

        A tensor that is neither given nor the result of an operation that ran holds small
        random integers, for which every backend must give the same bits.

        Parameters
        ----------
        inputs : mapping of str or int to ndarray, optional
            Tensors by a name of `input_names` or by id. The array may have another type than
            the file's if its values are exact in the file's.
        seed : int
            Of the random tensors.
        backend : {"auto", "onednn", "numpy"}, optional
        compare : {"numpy", "native", "auto"} or sequence of them
            Compare each result with that of the NumPy backend, of native oneDNN's Graph API in
            a C++ program compiled for it, or of both, the latter only where it can be built.
        on_start : callable, optional
            Called with each operation that is about to run.

        Returns
        -------
        Replay
            An operation that fails is a report in it, not an exception.

        Raises
        ------
        GraphFileError, ShapeError, DTypeError, AttributeValueError
            If a given tensor is not in the file or does not fit it, an argument is wrong,
            or the tensors do not fit in memory.
        ComparisonUnavailableError
            If ``compare`` names ``"native"``, and native oneDNN cannot be run.
        LibraryNotFoundError
            If ``backend="onednn"`` and no library can be used.
        """
        if type(seed) is not int or seed < 0:
            raise AttributeValueError(f"seed: expected a non-negative integer, got {seed!r}")
        if inputs is not None and not isinstance(inputs, Mapping):
            raise AttributeValueError(
                f"inputs: expected a mapping, got {type(inputs).__qualname__}"
            )
        compare = [compare] if isinstance(compare, str) else compare
        if not isinstance(compare, Sequence) or not all(isinstance(one, str) for one in compare):
            raise AttributeValueError(f"compare: expected names, got {brief(compare)}")
        if on_start is not None and not callable(on_start):
            raise AttributeValueError(
                f"on_start: expected a callable, got {type(on_start).__qualname__}"
            )
        names = self.input_names
        tensors: dict[int, tuple[LogicalTensor, bool]] = {}
        for operation, documented_name, tensor in self._inputs():
            is_shape = documented_name == DOCUMENTED[operation.kind].shape_argument
            tensors.setdefault(tensor.id, (tensor, is_shape))
        given: dict[int, Any] = {}
        given_shapes: dict[int, tuple[int, ...]] = {}
        for name, array in (inputs or {}).items():
            id_ = names.get(str(name))
            where = f"{self.path}: input {name}"
            if id_ is None:
                accepted = ", ".join(names) or "none"
                raise GraphFileError(f"{where}: no such tensor; there are {accepted}")
            if id_ in given or id_ in given_shapes:
                raise GraphFileError(f"{where}: tensor {id_} is given twice")
            tensor, is_shape = tensors[id_]
            if is_shape:
                given_shapes[id_] = parse_shape(self.path, f"input {name}", np.asarray(array))
            else:
                given[id_] = given_tensor(where, array, tensor)
        reports = []
        try:
            runner = Runner(self.operations, given, given_shapes, seed, backend, compare)
            for operation in self.operations:
                if on_start is not None:
                    on_start(operation)
                reports.append(runner.report(operation))
        except GraphFileError as error:
            raise GraphFileError(f"{self.path}: {error}") from None
        return Replay(tuple(reports), runner.results, runner.inputs)

    def _inputs(self) -> Iterator[tuple[GraphOperation, str, LogicalTensor]]:
        """Yield the inputs of all supported operations, with their documented names."""
        for operation in self.operations:
            if operation.kind in DOCUMENTED:
                names = DOCUMENTED[operation.kind].documented_inputs
                for name, tensor in zip(names, operation.inputs, strict=False):
                    yield operation, name, tensor
