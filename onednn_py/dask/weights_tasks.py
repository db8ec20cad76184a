"""Weights and bias gradients: sums over the minibatch and over space, in a tree of fixed order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, NamedTuple

from onednn_py.overlap import SpatialAxis, spatial_axes
from onednn_py.problem.formats import TensorView
from onednn_py.problem.recipe import Recipe

from . import blocks
from .layer import Graph, Interval, Source, Task, TaskRef, add_total, step_name
from .partition import (
    ChannelBlock,
    box_of,
    caller_axis,
    intervals,
    windows_like_elements,
)

__all__ = ["BiasTasks", "WeightsTasks", "weights_tasks"]


class _SpatialBlock(NamedTuple):
    """Windows along one spatial axis, the elements that they meet, and the pads between them."""

    windows: Interval
    elements: Interval
    pads: tuple[int, int]


@dataclass
class WeightsTasks:
    """The tasks of a weights gradient, made block by block.

    Attributes
    ----------
    name : str
        Of the result.
    call : BlockCall
    src, diff_dst : Source
    views : dict
        By role.
    has_windows : str
        The role of the tensor that windows are counted on.
    minibatch : list of (int, int)
    groups, outputs, inputs : list of (int, int)
        Blocks of the result's channels.
    space : list
        For each spatial axis, the blocks that are summed.
    split_every : int
    """

    name: str
    call: blocks.BlockCall
    src: Source
    diff_dst: Source
    views: dict[str, TensorView]
    has_windows: str
    minibatch: list[Interval]
    groups: list[Interval]
    outputs: list[Interval]
    inputs: list[Interval]
    space: list[list[_SpatialBlock]]
    split_every: int

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """Of the result, in the caller's order of axes."""
        view = self.views["weights"]
        chunks: list[tuple[int, ...]] = [(extent,) for extent in view.shape]
        for canonical, cut in self._cut_axes().items():
            axis = caller_axis(view, canonical)
            per_block = view.split[view.split_axis + 1] if canonical == 0 else 1
            chunks[axis] = tuple((stop - start) * per_block for start, stop in cut)
        return tuple(chunks)

    def _cut_axes(self) -> dict[int, list[Interval]]:
        """Return the blocks along the canonical axes of the weights that are cut."""
        if self.views["weights"].canonical_shape[0] > 1:
            return {0: self.groups}
        return {1: self.outputs, 2: self.inputs}

    @property
    def keys(self) -> Iterator[tuple[Any, ...]]:
        counts = [range(len(extents)) for extents in self.chunks]
        return ((self.name, *index) for index in product(*counts))

    def _block(self, key: tuple[Any, ...]) -> ChannelBlock:
        view = self.views["weights"]
        cut = [self.groups[0], self.outputs[0], self.inputs[0]]
        for canonical, own in self._cut_axes().items():
            cut[canonical] = own[key[1 + caller_axis(view, canonical)]]
        return ChannelBlock(*cut)

    def add_block(self, graph: Graph, key: tuple[Any, ...]) -> None:
        """Add the tasks that make one block of the result."""
        view, block = self.views["weights"], self._block(key)
        kernel = [(0, extent) for extent in view.canonical_shape[3:]]
        shape = tuple(stop - start for start, stop in box_of(view, [*block, *kernel]))
        terms = []
        if prod(shape):
            terms = [
                (minibatch, space)
                for minibatch in self.minibatch
                for space in product(*self.space)
                if minibatch[0] < minibatch[1]
            ]
        if not terms:
            graph[key] = Task(key, blocks.empty_block, self.call, shape)
            return
        is_partial = len(terms) > 1
        partials = []
        for number, (minibatch, space) in enumerate(terms):
            own = (step_name(self.name, "partial"), number, *key[1:]) if is_partial else key
            call, operands = self._term(graph, block, minibatch, space)
            call = call._replace(shape=shape, is_partial=is_partial)
            graph[own] = Task(own, blocks.weights_block, self.call, call, *operands)
            partials.append(TaskRef(own))
        if is_partial:
            add_total(graph, key, self.call, partials, [], self.split_every)

    def _term(
        self,
        graph: Graph,
        block: ChannelBlock,
        minibatch: Interval,
        space: Sequence[_SpatialBlock],
    ) -> tuple[blocks.WeightsBlock, list[Any]]:
        """Return the call of one part of the sum, and the pieces that it reads."""
        _, outputs, inputs, *_ = self.views["weights"].canonical_shape
        windows, elements = [one.windows for one in space], [one.elements for one in space]
        boxes = {}
        for role, per_group in (("src", inputs), ("dst", outputs)):
            channels = block.activations(of_src=role == "src", per_group=per_group)
            places = windows if role == self.has_windows else elements
            boxes[role] = box_of(self.views[role], [minibatch, channels, *places])
        src, src_grid = self.src.read(graph, boxes["src"])
        diff_dst, diff_dst_grid = self.diff_dst.read(graph, boxes["dst"])
        call = blocks.WeightsBlock(
            shape=(),
            pads_begin=tuple(one.pads[0] for one in space),
            pads_end=tuple(one.pads[1] for one in space),
            groups=block.groups[1] - block.groups[0],
            src_grid=src_grid,
            diff_dst_grid=diff_dst_grid,
            is_partial=False,
        )
        return call, [*src, *diff_dst]


def weights_tasks(
    name: str,
    call: blocks.BlockCall,
    recipe: Recipe,
    sources: dict[str, Source],
    split_every: int,
) -> WeightsTasks:
    """Return the tasks of a weights gradient; the parameters are those of `data_tasks`."""
    views, transposed = recipe.views, recipe.operation.transposed
    edges = {
        role: [sources[role].edges(axis) for axis in views[role].axes] for role in ("src", "dst")
    }
    has_windows, has_elements = ("src", "dst") if transposed else ("dst", "src")
    groups, outputs, inputs, *_ = views["weights"].canonical_shape
    if groups > 1:
        per_group = {"src": inputs, "dst": outputs}
        cuts = [
            edge // per_group[role] for role in edges if per_group[role] for edge in edges[role][1]
        ]
        group_blocks = intervals([0, *cuts, groups])
        output_blocks, input_blocks = [(0, outputs)], [(0, inputs)]
    else:
        group_blocks = [(0, 1)]
        output_blocks, input_blocks = intervals(edges["dst"][1]), intervals(edges["src"][1])
    finest = max(edges.values(), key=lambda own: len(own[0]))
    return WeightsTasks(
        name,
        call,
        sources["src"],
        sources["dst"],
        {role: views[role] for role in ("src", "weights", "dst")},
        has_windows,
        intervals(finest[0]),
        group_blocks,
        output_blocks,
        input_blocks,
        [
            _space(axis, of_windows, of_elements)
            for axis, of_windows, of_elements in zip(
                spatial_axes(recipe), edges[has_windows][2:], edges[has_elements][2:], strict=True
            )
        ],
        split_every,
    )


def _space(
    axis: SpatialAxis, of_windows: Sequence[int], of_elements: Sequence[int]
) -> list[_SpatialBlock]:
    """Return blocks of windows, as the tensor with more chunks is cut, that meet some element."""
    blocks_of_windows = intervals(of_windows)
    if len(of_elements) > len(of_windows):
        blocks_of_windows = windows_like_elements(axis, of_elements)
    found = []
    for block in blocks_of_windows:
        elements, windows = axis.meeting((0, axis.size), block)
        if windows[0] < windows[1]:
            found.append(_SpatialBlock(windows, elements, axis.pads(elements, windows)))
    return found


@dataclass
class BiasTasks:
    """The tasks of a bias gradient: sums of the chunks of diff_dst.

    Attributes
    ----------
    name : str
        Of the result.
    call : BlockCall
    diff_dst : Source
    split_every : int
    """

    name: str
    call: blocks.BlockCall
    diff_dst: Source
    split_every: int

    @property
    def chunks(self) -> tuple[tuple[int, ...]]:
        return (self.diff_dst.chunks[self.call.channel_axis],)

    @property
    def keys(self) -> Iterator[tuple[Any, ...]]:
        return ((self.name, index) for index in range(len(self.chunks[0])))

    def add_block(self, graph: Graph, key: tuple[Any, ...]) -> None:
        """Add the tasks that make one block of the result."""
        counts = [range(len(extents)) for extents in self.diff_dst.chunks]
        counts[self.call.channel_axis] = range(key[1], key[1] + 1)
        partials = []
        for number, index in enumerate(product(*counts)):
            own = (step_name(self.name, "partial"), number, key[1])
            chunk = TaskRef((self.diff_dst.name, *index))
            graph[own] = Task(own, blocks.bias_sum, self.call, chunk)
            partials.append(TaskRef(own))
        add_total(graph, key, self.call, partials, [], self.split_every)
