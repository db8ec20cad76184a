"""Forward passes and data gradients: a task for each block of the result.

Where the channels that are summed over lie in several chunks, each gives a partial result of a
block, and these are summed afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, NamedTuple

from onednn_py.overlap import SpatialAxis, needed_of_axis, spatial_axes
from onednn_py.problem.formats import TensorView
from onednn_py.problem.problem import Direction
from onednn_py.problem.recipe import Recipe

from . import blocks
from .layer import Graph, Interval, Source, Task, TaskRef, add_total, step_name
from .partition import (
    ChannelBlock,
    box_of,
    caller_axis,
    elements_like_windows,
    group_intervals,
    intervals,
    windows_like_elements,
)

__all__ = ["DataTasks", "data_tasks"]


class _ChannelSum(NamedTuple):
    """A block of the result's channels, and what its sum is made of."""

    result: Interval
    terms: list[ChannelBlock]


class _SpatialBlock(NamedTuple):
    """A block of the result along one spatial axis."""

    interval: Interval
    needed: Interval
    written: Interval
    pads: tuple[int, int]


@dataclass
class DataTasks:
    """The tasks of a forward pass or of a data gradient, made block by block.

    Attributes
    ----------
    name : str
        Of the result.
    call : BlockCall
    input, weights : Source
    bias : Source or None
    views : dict
        Of the input, the weights and the result.
    is_forward : bool
    minibatch : list of (int, int)
    channels : list
        Blocks of the result's channels.
    space : list
        For each spatial axis, the blocks along it.
    split_every : int
    """

    name: str
    call: blocks.BlockCall
    input: Source
    weights: Source
    bias: Source | None
    views: dict[str, TensorView]
    is_forward: bool
    minibatch: list[Interval]
    channels: list[_ChannelSum]
    space: list[list[_SpatialBlock]]
    split_every: int

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """Of the result, in the caller's order of axes."""
        canonical = [
            [stop - start for start, stop in self.minibatch],
            [one.result[1] - one.result[0] for one in self.channels],
            *([one.interval[1] - one.interval[0] for one in axis] for axis in self.space),
        ]
        order = self.views["result"].axes
        ordered = [canonical[order.index(axis)] for axis in range(len(order))]
        return tuple(map(tuple, ordered))

    @property
    def keys(self) -> Iterator[tuple[Any, ...]]:
        counts = [range(len(extents)) for extents in self.chunks]
        return ((self.name, *index) for index in product(*counts))

    def add_block(self, graph: Graph, key: tuple[Any, ...]) -> None:
        """Add the tasks that make one block of the result."""
        index = [key[1 + axis] for axis in self.views["result"].axes]
        minibatch, channels = self.minibatch[index[0]], self.channels[index[1]]
        space = [axis[number] for axis, number in zip(self.space, index[2:], strict=True)]
        result = [minibatch, channels.result, *(one.interval for one in space)]
        box = box_of(self.views["result"], result)
        shape = tuple(stop - start for start, stop in box)
        bias = self.bias.read(graph, [result[1]])[0] if self.bias else []
        if (
            not prod(shape)
            or any(one.needed[0] == one.needed[1] for one in space)
            or not channels.terms
        ):
            graph[key] = Task(key, blocks.empty_block, self.call, shape, *bias)
            return
        written = box_of(self.views["result"], [*result[:2], *(one.written for one in space)])
        places = tuple(
            slice(start - edge, stop - edge)
            for (start, stop), (edge, _) in zip(written, box, strict=True)
        )
        is_partial = len(channels.terms) > 1
        partials = []
        for number, term in enumerate(channels.terms):
            block, operands = self._term(graph, minibatch, term, space)
            block = block._replace(shape=shape, written=places, is_partial=is_partial)
            own = (step_name(self.name, "partial"), number, *key[1:]) if is_partial else key
            operands += [] if is_partial else bias
            graph[own] = Task(own, blocks.data_block, self.call, block, *operands)
            partials.append(TaskRef(own))
        if is_partial:
            add_total(graph, key, self.call, partials, bias, self.split_every)

    def _term(
        self,
        graph: Graph,
        minibatch: Interval,
        term: ChannelBlock,
        space: Sequence[_SpatialBlock],
    ) -> tuple[blocks.DataBlock, list[Any]]:
        """Return the call of one block of channels, and the pieces that it reads."""
        _, outputs, inputs, *kernel = self.views["weights"].canonical_shape
        channels = term.activations(
            of_src=self.is_forward, per_group=inputs if self.is_forward else outputs
        )
        needed = [minibatch, channels, *(one.needed for one in space)]
        pieces, input_grid = self.input.read(graph, box_of(self.views["input"], needed))
        whole_kernel = [(0, extent) for extent in kernel]
        weights_box = box_of(self.views["weights"], [*term, *whole_kernel])
        weights, weights_grid = self.weights.read(graph, weights_box)
        block = blocks.DataBlock(
            shape=(),
            written=(),
            pads_begin=tuple(one.pads[0] for one in space),
            pads_end=tuple(one.pads[1] for one in space),
            groups=term.groups[1] - term.groups[0],
            input_grid=input_grid,
            weights_grid=weights_grid,
            is_partial=False,
        )
        return block, [*pieces, *weights]


def data_tasks(
    name: str,
    call: blocks.BlockCall,
    recipe: Recipe,
    sources: dict[str, Source],
    split_every: int,
) -> DataTasks:
    """Return the tasks of a forward pass or of a data gradient.

    Parameters
    ----------
    name : str
        Of the result.
    call : BlockCall
    recipe : Recipe
    sources : dict
        By role.
    split_every : int
    """
    operation, views = recipe.operation, recipe.views
    is_forward = operation.direction is Direction.FORWARD
    role = "src" if is_forward else "dst"
    source, view = sources[role], views[role]
    gathers = operation.transposed != is_forward
    edges = [source.edges(axis) for axis in view.axes]
    return DataTasks(
        name,
        call,
        source,
        sources["weights"],
        sources.get("bias"),
        {"input": view, "weights": views["weights"], "result": views[operation.result_role]},
        is_forward,
        intervals(edges[0]),
        _channels(views["weights"], sources["weights"], edges[1], is_forward=is_forward),
        [
            _space(axis, own, gathers=gathers)
            for axis, own in zip(spatial_axes(recipe), edges[2:], strict=True)
        ],
        split_every,
    )


def _space(axis: SpatialAxis, edges: Sequence[int], *, gathers: bool) -> list[_SpatialBlock]:
    cut = windows_like_elements if gathers else elements_like_windows
    return [
        _SpatialBlock(interval, *needed_of_axis(axis, interval, gathers=gathers))
        for interval in cut(axis, edges)
    ]


def _channels(
    view: TensorView, weights: Source, edges: Sequence[int], *, is_forward: bool
) -> list[_ChannelSum]:
    """Return blocks of the result's channels, for an input whose channels are cut at ``edges``."""
    groups, outputs, inputs, *_ = view.canonical_shape
    if groups > 1:
        whole = [
            ChannelBlock(one, (0, outputs), (0, inputs))
            for one in group_intervals(groups, inputs if is_forward else outputs, edges)
        ]
        per_group, summed_of_group = (outputs, inputs) if is_forward else (inputs, outputs)
        return [
            _ChannelSum(
                one.activations(of_src=not is_forward, per_group=per_group),
                [one] if summed_of_group else [],
            )
            for one in whole
        ]
    summed = [one for one in intervals(edges) if one[0] < one[1]]
    # Channels of the result are chunked as those of the weights.
    axis = caller_axis(view, 1 if is_forward else 2)
    return [
        _ChannelSum(
            result,
            [
                ChannelBlock((0, 1), *((result, one) if is_forward else (one, result)))
                for one in summed
            ],
        )
        for result in intervals(weights.edges(axis))
    ]
