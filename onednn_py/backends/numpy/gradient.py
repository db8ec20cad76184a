"""The weights' gradient: matrix products that sum over the pixels of a tile, tile after tile."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.system.casting import round_into
from onednn_py.system.parallel import boxes, each, spans

from .correlation import Correlation
from .matrices import empty_matrices, view_as_matrices
from .products import TILE_BYTES, im2col, pixel_matrices, pixels_at_once, prefers_channels_last
from .windows import Tile, split
from .workspace import Workspace

__all__ = ["products_gradient"]

Array = npt.NDArray[Any]

# Above this number of bytes of a gradient, threads divide its channels instead of the pixels:
# a thread with pixels of its own has a whole gradient to add up.
CHANNEL_SPLIT_BYTES = 2 * 2**20

# Least number of channels in one part of such a division.
LEAST_CHANNELS = 32


def products_gradient(
    correlation: Correlation, source: Array, outputs: Array, target: Array, workspace: Workspace
) -> None:
    """Copy what every window reads, then sum over images and pixels by matrix products.

    target[g, o, c, k] is the sum over n and x of outputs[n, g, o, x] times the element of
    source[n, g, c] that window x reads at kernel position k.

    Parameters
    ----------
    correlation : Correlation
    source : ndarray, shape (N, G, C, *S)
    outputs : ndarray, shape (N, G, O, *X)
    target : ndarray, shape (G, O, C, *K)
    workspace : Workspace
    """
    images, groups, channels = source.shape[:3]
    positions, itemsize = prod(correlation.kernel_shape), workspace.dtype.itemsize
    channel_parts = 1
    if workspace.threads > 1 and target.size * itemsize > CHANNEL_SPLIT_BYTES:
        channel_parts = max(1, min(2 * workspace.threads, channels // LEAST_CHANNELS))
    channels_at_once = -(-channels // channel_parts)
    grid = (images, *correlation.target_shape)
    pixels = pixels_at_once(channels_at_once * positions, prod(grid), workspace)
    groups_at_once = max(1, TILE_BYTES // (channels_at_once * positions * pixels * itemsize))
    parts = list(product(spans(groups, groups_at_once), spans(channels, channels_at_once)))
    tile_lists = split(boxes(grid, pixels), -(-2 * workspace.threads // len(parts)))
    used = target[correlation.kernel]
    sums = [
        [
            _PartialSum(
                correlation, source[:, g, c], outputs[:, g], used[g, :, c], tiles, workspace
            )
            for tiles in tile_lists
        ]
        for g, c in parts
    ]
    each(
        lambda partial_sum: partial_sum.compute(alone=len(tile_lists) == 1),
        [partial_sum for of_part in sums for partial_sum in of_part],
        workspace.threads,
    )
    for first, *others in sums:
        first.finish(others)


class _PartialSum:
    """The gradient of some channels, summed over some tiles."""

    def __init__(
        self,
        correlation: Correlation,
        source: Array,
        outputs: Array,
        target: Array,
        tiles: list[Tile],
        workspace: Workspace,
    ) -> None:
        self._correlation, self._source, self._outputs = correlation, source, outputs
        self._tiles, self._workspace = tiles, workspace
        self._channels_last = prefers_channels_last(correlation, source)
        # (G, O, *K, C) or (G, O, C, *K), the order of `im2col`.
        self._target = np.moveaxis(target, 2, -1) if self._channels_last else target
        self._values = self._target

    def compute(self, *, alone: bool) -> None:
        """Sum over the tiles; in the target itself if this sum is ``alone`` and BLAS allows it."""
        target, workspace = self._target, self._workspace
        total = None
        if alone and target.dtype == workspace.dtype:
            total = view_as_matrices(target, 1)
        if total is None:
            self._values, total = empty_matrices(
                target.shape,
                1,
                workspace.shared,
                column_major=target.strides[1] < target.strides[-1],
            )
        for number, (images, *spatial) in enumerate(self._tiles):
            source, order = self._source[images], self._channels_last
            columns = im2col(source, self._correlation, spatial, workspace, channels_last=order)
            outputs = self._outputs[(images, slice(None), slice(None), *spatial)]
            pixels = pixel_matrices(outputs, workspace)
            if number == 0:
                np.matmul(pixels, columns.swapaxes(1, 2), out=total)
            else:
                products = workspace.empty_like("products", total)
                total += np.matmul(pixels, columns.swapaxes(1, 2), out=products)

    def finish(self, others: list[_PartialSum]) -> None:
        """Add the sums over other tiles, and round the result."""
        for other in others:
            self._values += other._values
        if self._values is not self._target:
            round_into(self._target, self._values)
