"""Data gradients by products for all kernel positions of a window, added where they meet src.

Where the stride leaves many remainders, correlations would be many small matrix products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from onednn_py.problem.dtypes import DATA_TYPES
from onednn_py.problem.problem import Direction, Problem
from onednn_py.system.casting import round_into
from onednn_py.system.parallel import boxes, spans

from .channelwise import is_thin
from .matrices import empty_matrices
from .meetings import AxisMeetings
from .products import CHANNEL_RUN, MOST_TILE_BYTES, pixel_matrices, weight_matrices
from .windows import Tile, is_channels_last
from .workspace import Workspace

__all__ = ["Col2im", "pays"]

Array = npt.NDArray[Any]

# With fewer remainders, correlations take hardly longer even where they do. More than the most
# are never made: planning would take longer than computing.
FEWEST_REMAINDERS = 16
MOST_REMAINDERS = 2**12

# Adding so many bytes of products takes about as long as the Python code of a correlation, or of
# an elementwise correlation of thin groups.
CORRELATION_BYTES = 2**18
THIN_CORRELATION_BYTES = 2**16

# Adding a product takes longer than copying a window element, but not longer than copying this
# many for the correlations' matrix products.
ADDITION_COST = 8

# More additions of boxes for every remainder take longer than a correlation.
MOST_BOXES = 4

# Bytes of products that are added while they are in the cache, unless so few windows, for which
# a matrix product outweighs packing the weights, have more.
PRODUCT_BYTES = 2**20
LEAST_WINDOWS = 128

# Bytes of images and groups that one call computes, if a single image or group has fewer.
PART_BYTES = 2**19


def pays(problem: Problem, axes: Sequence[AxisMeetings]) -> bool:
    """Whether a convolution's data gradient is computed faster than by correlations."""
    if problem.direction is not Direction.BACKWARD_DATA:
        return False
    remainders = prod(map(min, problem.kernel, (axis.between for axis in axes)))
    if not FEWEST_REMAINDERS <= remainders <= MOST_REMAINDERS:
        return remainders > MOST_REMAINDERS
    if prod(axis.most_boxes for axis in axes) > remainders * MOST_BOXES:
        return False
    data_type = DATA_TYPES[problem.dtype]
    itemsize = data_type.accumulator.itemsize
    channel_bytes = prod(axis.size for axis in axes) * itemsize
    if channel_bytes > MOST_TILE_BYTES and data_type.accumulator != data_type.numpy:
        return False  # the sums would be a copy of a whole channel
    (images, inputs), outputs = problem.src.shape[:2], problem.dst.shape[1]
    most = CORRELATION_BYTES
    if is_thin(problem.weights):
        most, outputs = THIN_CORRELATION_BYTES, 0  # elementwise products copy nothing
    pairs = images * prod(len(axis.kernel) * len(axis.windows) for axis in axes)
    return pairs * (inputs - outputs // ADDITION_COST) * itemsize <= remainders * most


@dataclass(frozen=True)
class Col2im:
    """target[n, g, o, p]: the sum over c, k and x of weights[g, o, c, k] * source[n, g, c, x].

    The sum is over the kernel positions k and windows x that meet at p.

    Parameters
    ----------
    axes : sequence of AxisMeetings
    source : ndarray, shape (N, G, C, *X)
    weights : ndarray, shape (G, O, C, *K)
    target : ndarray, shape (N, G, O, *S)
    bias : ndarray, shape (G, O), or None
    workspace : Workspace
    """

    axes: Sequence[AxisMeetings]
    source: Array
    weights: Array
    target: Array
    bias: Array | None
    workspace: Workspace

    def calls(self) -> list[Callable[[], None]]:
        """Return calls that together compute the target, in any order and on any thread.

        They are the same for any number of threads.
        """
        met = self.weights[_within([axis.kernel for axis in self.axes])]
        images, groups, channels, *size = self.target.shape
        channel_bytes = prod(size) * self.workspace.dtype.itemsize
        channels_at_once = min(channels, max(1, MOST_TILE_BYTES // channel_bytes))
        grid = boxes((images, groups), PART_BYTES // (channel_bytes * channels_at_once))
        calls: list[Callable[[], None]] = []
        for part in spans(channels, channels_at_once):
            # (G, *K, O, C) or (G, O, *K, C), as the target's axes lie in memory.
            order = (-2, -1) if self.channels_last else (1, -1)
            rows = np.moveaxis(met[:, part], (1, 2), order)
            weights = weight_matrices(rows, rows.ndim - 2, self.workspace)
            calls += [partial(self._compute, weights, (*box, part)) for box in grid]
        return calls

    @property
    def channels_last(self) -> bool:
        return is_channels_last(self.target)

    def _compute(self, weights: Array, part: Tile) -> None:
        """Compute the target of some images, groups and channels."""
        images, groups, channels = part
        target = np.moveaxis(self.target[part], 0, 2)
        source, weights, sums = self.source[images, groups], weights[groups], target
        if target.dtype != self.workspace.dtype:
            empty = partial(self.workspace.empty, "sums")
            sums, _ = empty_matrices(target.shape, 1, empty, column_major=self.channels_last)
        sums[...] = 0
        grid = (len(source), *(len(axis.windows) for axis in self.axes))
        # Of its products, or of what it reads.
        window_bytes = len(weights) * max(weights.shape[1:]) * self.workspace.dtype.itemsize
        least = min(LEAST_WINDOWS, MOST_TILE_BYTES // window_bytes)
        for tile in boxes(grid, max(1, least, PRODUCT_BYTES // window_bytes)):
            self._add(sums[:, :, tile[0]], source[tile[0]], weights, tile[1:])
        if self.bias is not None:
            bias = self.bias[groups, channels]
            sums += bias.reshape(*bias.shape, *(1,) * (sums.ndim - 2))
        if sums is not target:
            round_into(target, sums)

    def _add(self, sums: Array, source: Array, weights: Array, tile: Tile) -> None:
        """Add the products of a tile of windows to the sums (G, O, N, *S)."""
        spatial = list(zip(self.axes, tile, strict=True))
        products = self._products(sums.shape[1], source, weights, tile)
        steps = [step for axis in self.axes for step in (axis.dilation, axis.stride)]
        outer, inner = sums.strides[:3], np.repeat(sums.strides[3:], 2).tolist()
        for box in product(*(list(axis.boxes(span)) for axis, span in spatial)):
            of_box: tuple[Any, ...] = tuple(span for _, *both in box for span in both)
            behind: tuple[Any, ...] = tuple(slice(first, None) for first, _, _ in box)
            added, begin = products[(..., *of_box)], sums[(..., *behind)]
            # Steps of a single element may be larger than memory.
            strides = [
                stride * step if count > 1 else 0
                for stride, step, count in zip(inner, steps, added.shape[3:], strict=True)
            ]
            met = as_strided(begin, added.shape, (*outer, *strides))
            np.add(met, added, out=met)

    def _products(self, outputs: int, source: Array, weights: Array, tile: Tile) -> Array:
        """Return (G, O, N, K, X, K, X ...), with kernel positions and windows axis by axis."""
        windows = [axis.windows[span] for axis, span in zip(self.axes, tile, strict=True)]
        read = source[_within(windows)]
        kernel = tuple(len(axis.kernel) for axis in self.axes)
        run = min(kernel[-1], self.axes[-1].between)
        rows = (*kernel, outputs) if self.channels_last else (outputs, *kernel)
        products, matrices = empty_matrices(
            (len(weights), *rows, len(read), *read.shape[3:]),
            len(rows),
            partial(self.workspace.empty, "products"),
            column_major=self.channels_last or run >= CHANNEL_RUN,
        )
        np.matmul(weights, pixel_matrices(read, self.workspace), out=matrices)
        if self.channels_last:
            products = np.moveaxis(products, len(rows), 1)
        pairs = [(axis, axis + len(rows)) for axis in range(2, len(rows) + 1)]
        return products.transpose(0, 1, len(rows) + 1, *chain.from_iterable(pairs))


def _within(ranges: Sequence[range]) -> tuple[Any, ...]:
    """Return an index that takes these ranges of the last axes."""
    return (..., *(slice(along.start, along.stop) for along in ranges))
