"""A layer of a dask graph that is made when somebody looks at its tasks, and the reading of parts.

Until then it is a few tables, however many chunks there are: that is what a client sends to a
scheduler.
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, product
from typing import Any, NamedTuple, Protocol

import numpy as np
from dask.highlevelgraph import Layer, MaterializedLayer

from . import blocks

try:
    from dask.task_spec import Task, TaskRef
except ImportError:  # older versions have them under this name alone
    from dask._task_spec import Task, TaskRef

__all__ = [
    "BlockLayer",
    "Graph",
    "Interval",
    "Source",
    "Task",
    "TaskRef",
    "Tasks",
    "add_total",
    "step_name",
]

Interval = tuple[int, int]
Graph = dict[Any, Any]


class Tasks(Protocol):
    """What a layer is made of.

    Attributes
    ----------
    name : str
        Of the result.
    """

    name: str

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """Of the result."""

    @property
    def keys(self) -> Iterator[tuple[Any, ...]]:
        """Keys of the results."""

    def add_block(self, graph: Graph, key: tuple[Any, ...]) -> None:
        """Add the tasks that make one result."""


class BlockLayer(Layer):  # type: ignore[misc]
    """The tasks of one result, by the keys of its blocks.

    A block's tasks are the same whichever other blocks are made with them, keys included, so that a
    layer that was culled may meet another.
    """

    has_legacy_tasks = False

    def __init__(self, tasks: Tasks) -> None:
        super().__init__()
        self._tasks = tasks
        self._made: Graph | None = None

    def __getstate__(self) -> dict[str, Any]:
        # The tables are small, the tasks that they make are not.
        return {**self.__dict__, "_made": None}

    def _graph(self) -> Graph:
        if self._made is None:
            self._made = self._build(self._tasks.keys)
        return self._made

    def _build(self, keys: Any) -> Graph:
        graph: Graph = {}
        with _without_garbage_collection():
            for key in keys:
                self._tasks.add_block(graph, key)
        return graph

    def is_materialized(self) -> bool:
        return self._made is not None

    def get_output_keys(self) -> set[Any]:
        return set(self._tasks.keys)

    def cull(
        self, keys: set[Any], all_hlg_keys: Collection[Any]
    ) -> tuple[Layer, Mapping[Any, set[Any]]]:
        every = self.get_output_keys()
        wanted = every & keys
        is_made = self._made is not None and len(wanted) == len(every)
        graph = self._graph() if is_made else self._build(wanted)
        dependencies = {key: set(task.dependencies) for key, task in graph.items()}
        return MaterializedLayer(graph, annotations=self.annotations), dependencies

    def get_dependencies(self, key: Any, all_hlg_keys: Collection[Any]) -> set[Any]:
        return set(self[key].dependencies)

    def __getitem__(self, key: Any) -> Any:
        return self._graph()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._graph())

    def __len__(self) -> int:
        return len(self._graph())

    def __repr__(self) -> str:
        return f"BlockLayer of {type(self._tasks).__name__}"


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    # The collector would walk through all tasks again and again, which takes two thirds of the time
    # that a million of them take.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Part(NamedTuple):
    """What an interval takes of one chunk, along one axis."""

    chunk: int
    place: slice
    is_whole: bool
    code: str


@dataclass
class Source:
    """An array that tasks read parts of.

    Attributes
    ----------
    name : str
        Of the dask array.
    chunks : tuple of tuple of int
    part_name : str
        Of the tasks that take parts of its chunks.
    """

    name: str
    chunks: tuple[tuple[int, ...], ...]
    part_name: str
    _known: dict[tuple[int, Interval], tuple[_Part, ...]] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    def edges(self, axis: int) -> list[int]:
        """Return where chunks begin along an axis, and where the last one ends."""
        return [0, *accumulate(self.chunks[axis])]

    def read(self, graph: Graph, box: Sequence[Interval]) -> tuple[list[Any], tuple[int, ...]]:
        """Return references to the pieces of a box, adding what makes them, and their grid.

        A chunk that is needed whole is its own piece.

        Parameters
        ----------
        graph : dict
        box : sequence of (int, int)
            First element and end along every axis.
        """
        lines = [self._parts(axis, interval) for axis, interval in enumerate(box)]
        references = []
        for parts in product(*lines):
            chunk = (self.name, *[part.chunk for part in parts])
            if all(part.is_whole for part in parts):
                references.append(TaskRef(chunk))
                continue
            key = (self.part_name, *[part.code for part in parts])
            if key not in graph:
                places = tuple([part.place for part in parts])
                graph[key] = Task(key, blocks.take, TaskRef(chunk), places)
            references.append(TaskRef(key))
        return references, tuple(map(len, lines))

    def _parts(self, axis: int, interval: Interval) -> tuple[_Part, ...]:
        known = self._known.get((axis, interval))
        if known is None:
            known = tuple(self._find_parts(axis, interval))
            self._known[axis, interval] = known
        return known

    def _find_parts(self, axis: int, interval: Interval) -> Iterator[_Part]:
        edges = self.edges(axis)
        first = int(np.searchsorted(edges, interval[0], side="right")) - 1
        for chunk in range(first, len(edges) - 1):
            begin, end = edges[chunk : chunk + 2]
            if begin >= interval[1]:
                return
            start, stop = max(interval[0], begin) - begin, min(interval[1], end) - begin
            if start < stop:
                is_whole = stop - start == end - begin
                code = str(chunk) if is_whole else f"{chunk}[{start}:{stop}]"
                yield _Part(chunk, slice(start, stop), is_whole, code)


def step_name(name: str, step: str) -> str:
    """Return the name of the tasks of a step towards a result, as dask's displays group them."""
    head, token = name.rsplit("-", 1)
    return f"{head}-{step}-{token}"


def add_total(
    graph: Graph,
    key: tuple[Any, ...],
    call: blocks.BlockCall,
    partials: list[Any],
    bias: list[Any],
    split_every: int,
) -> None:
    """Add the tasks that sum partial results, in a tree whose order their number alone decides.

    Parameters
    ----------
    graph : dict
    key : tuple
        Of the result.
    call : BlockCall
    partials, bias : list of TaskRef
    split_every : int
        Most partial results of one task.
    """
    name, *index = key
    level = 0
    while len(partials) > split_every:
        groups = [partials[i : i + split_every] for i in range(0, len(partials), split_every)]
        partials = []
        for number, group in enumerate(groups):
            if len(group) == 1:
                partials += group
                continue
            own = (step_name(name, "sum"), level, number, *index)
            graph[own] = Task(own, blocks.partial_sum, *group)
            partials.append(TaskRef(own))
        level += 1
    graph[key] = Task(key, blocks.total, call, bool(bias), *partials, *bias)
