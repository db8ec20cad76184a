"""Many groups of very few channels: elementwise products instead of thin matrix products.

Arrays have their pixels first and groups last, so that one inner loop of NumPy runs over all
groups of a pixel, or of a row of pixels. ``einsum`` multiplies and adds all kernel positions
in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.problem.problem import TensorLayout
from onednn_py.system.casting import round_into, widen_into
from onednn_py.system.parallel import boxes, each

from .correlation import Correlation
from .products import MOST_TILE_BYTES, CorrelationMethod, pixels_at_once
from .windows import GAP, Tile, split, windows
from .workspace import Workspace

__all__ = ["Channelwise", "channelwise_gradient", "is_thin"]

Array = npt.NDArray[Any]

# Groups are thin up to this product of one group's inputs and outputs, if there are more
# groups than that.
THIN_GROUP = 4

# With fewer groups, one inner loop runs over a row of pixels instead of one pixel; the
# weights are repeated for every pixel of the row.
SHORT_LOOP = 512

# einsum's letters for kernel positions and pixels; n is the images, g the groups.
KERNEL, PIXELS = "ijk", "xyz"


def is_thin(weights: Array | TensorLayout) -> bool:
    """Whether the groups of weights (G, O, C, *K) are too thin for matrix products."""
    groups, outputs, inputs = weights.shape[:3]
    return bool(outputs * inputs <= THIN_GROUP < groups)


class _EinsumLayout:
    """Arrays, subscripts and tiles of a correlation as einsum takes them."""

    def __init__(self, correlation: Correlation, groups: int, workspace: Workspace) -> None:
        self.correlation, self.groups, self.workspace = correlation, groups, workspace
        axes = len(correlation.axes)
        # Only pixels that are adjacent in the source can be read as one axis.
        self.merges_rows = groups < SHORT_LOOP and correlation.axes[-1].step == 1
        self.kernel = KERNEL[:axes]
        self.pixels = "n" + PIXELS[: axes - 1 if self.merges_rows else axes]

    def tiles(self, images: int) -> list[Tile]:
        grid = (images, *self.correlation.target_shape)
        pixels = pixels_at_once(self.groups, prod(grid), self.workspace)
        if self.merges_rows:
            # The weights are repeated for every pixel of a row, which may be a long one.
            positions = prod(self.correlation.kernel_shape)
            bytes_a_pixel = positions * self.groups * self.workspace.dtype.itemsize
            longest_row = max(1, MOST_TILE_BYTES // bytes_a_pixel)
            if grid[-1] > longest_row:
                pixels = min(pixels, longest_row)
        return boxes(grid, pixels)

    def row(self, tile: Tile) -> int:
        """Return the number of pixels that one inner loop runs over."""
        return tile[-1].stop - tile[-1].start if self.merges_rows else 1

    def windows(self, source: Array, spatial: Sequence[slice]) -> Array:
        """Return what the windows of a tile read of (N, G, *S) as (*K, N, *X, G)."""
        channel, correlation = source[:, :, np.newaxis], self.correlation
        read = windows(channel, correlation.axes, spatial, self.workspace, channels_last=True)
        axes = len(spatial)
        ordered = read[:, :, 0].transpose(*range(2, 2 + axes), 0, *range(2 + axes, 2 * axes + 2), 1)
        return self.merged(ordered, "merged windows")

    def outputs(self, outputs: Array) -> Array:
        """Return (N, G, *X) as (N, *X, G), of the sums' type and dense along G."""
        ordered = np.moveaxis(outputs, 1, -1)
        if ordered.dtype == self.workspace.dtype and ordered.strides[-1] == ordered.itemsize:
            return self.merged(ordered, "outputs")
        copied = self.workspace.empty("outputs", ordered.shape)
        widen_into(copied, ordered)
        return self.merged(copied, "outputs")

    def merged(self, array: Array, name: str) -> Array:
        """Merge the pixels of a row and their groups into one axis, if rows are merged at all."""
        if not self.merges_rows:
            return array
        if array.strides[-2] != array.shape[-1] * array.strides[-1]:
            copied = self.workspace.empty(name, array.shape)
            np.copyto(copied, array)
            array = copied
        return array.reshape(*array.shape[:-2], -1)

    def empty_sums(self, channel: Array) -> Array:
        """Return an array for the sums of (N, *X, G): itself, if einsum can write into it."""
        *pixels, groups = channel.shape
        row_stride, group_stride = channel.strides[-2:]
        fits = channel.dtype == self.workspace.dtype and group_stride == channel.itemsize
        if fits and (not self.merges_rows or row_stride == groups * group_stride):
            return channel
        # The gap avoids cache conflicts in the copy into another order of axes.
        gap = 0 if self.merges_rows else GAP
        return self.workspace.empty("sums", (*pixels, groups + gap))[..., :groups]


class Channelwise(CorrelationMethod):
    """Elementwise products of all groups, added over kernel positions by einsum."""

    def calls(self) -> list[Callable[[], None]]:
        layout = _EinsumLayout(self.correlation, len(self.weights), self.workspace)
        tiles = layout.tiles(len(self.source))
        # (O, C, *K, X, G), where X is 1, or the longest row of a tile.
        factors = np.moveaxis(self.weights[self.correlation.kernel], 0, -1)[..., np.newaxis, :]
        row = max(layout.row(tile) for tile in tiles)
        repeated = self.workspace.shared((*factors.shape[:-2], row, factors.shape[-1]))
        widen_into(repeated, np.broadcast_to(factors, repeated.shape))
        return [partial(self._compute, layout, repeated, tile) for tile in tiles]

    def _compute(self, layout: _EinsumLayout, factors: Array, tile: Tile) -> None:
        images, *spatial = tile
        equation = f"{layout.kernel}{layout.pixels}g,{layout.kernel}g->{layout.pixels}g"
        factors = factors[..., : layout.row(tile), :]
        factors = factors.reshape(*factors.shape[:-2], -1)
        target = np.moveaxis(self.target_tile(slice(None), tile), 0, -1)
        for output, channel in enumerate(target):
            sums = layout.empty_sums(channel)
            merged = layout.merged(sums, "merged sums")
            for number, channel_factors in enumerate(factors[output]):
                read = layout.windows(self.source[images, :, number], spatial)
                if number == 0:
                    np.einsum(equation, read, channel_factors, out=merged)
                else:
                    products = self.workspace.empty("products", merged.shape)
                    merged += np.einsum(equation, read, channel_factors, out=products)
            if self.bias is not None:
                sums += self.bias[:, output]
            if sums is not channel:
                round_into(channel, sums)


def channelwise_gradient(
    correlation: Correlation, source: Array, outputs: Array, target: Array, workspace: Workspace
) -> None:
    """Compute what `gradient.products_gradient` does, by elementwise products.

    The parameters are the same.
    """
    layout = _EinsumLayout(correlation, len(target), workspace)
    equation = f"{layout.kernel}{layout.pixels}g,{layout.pixels}g->{layout.kernel}g"
    used = np.moveaxis(target[correlation.kernel], 0, -1)
    tile_lists = split(layout.tiles(len(source)), 2 * workspace.threads)
    sums = np.zeros((len(tile_lists), *used.shape), workspace.dtype)

    def add(number: int) -> None:
        for images, *spatial in tile_lists[number]:
            for o, c in np.ndindex(used.shape[:2]):
                right = layout.outputs(outputs[(images, slice(None), o, *spatial)])
                read = layout.windows(source[images, :, c], spatial)
                products = np.einsum(equation, read, right)
                if layout.merges_rows:
                    products = products.reshape(*products.shape[:-1], -1, layout.groups).sum(-2)
                sums[number, o, c] += products

    each(add, range(len(tile_lists)), workspace.threads)
    round_into(used, sums.sum(axis=0))
