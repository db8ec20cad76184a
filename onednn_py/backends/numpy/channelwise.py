"""Groups of hardly any channels: matrix products would be too thin, arrays are multiplied.

Pixels lie outside and groups inside, so that one loop of NumPy's runs over all channels of
a pixel, or of a row; ``einsum`` multiplies and adds in one go, all taps in one call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.system.casting import round_into, widen_into
from onednn_py.system.parallel import boxes, each

from .correlation import Correlation
from .products import MOST_TILE_BYTES, pixels_at_once
from .windows import GAP, Tile, lanes, windows
from .workspace import Means

__all__ = ["Channelwise", "channelwise_gradient", "is_thin"]

Array = npt.NDArray[Any]

# Products of one group's inputs and outputs up to which, if there are more groups than
# that, BLAS is left alone.
THIN_GROUP = 4

# Groups below which a row of pixels makes one loop, not a pixel; the weights are repeated
# for every pixel of it.
SHORT_LOOP = 512

# einsum's letters for taps and pixels; n is the images, g the groups.
TAPS, PIXELS = "ijk", "xyz"


def is_thin(weights: Array) -> bool:
    """Whether the groups of weights (G, O, C, *K) are too thin for matrix products."""
    groups, outputs, inputs = weights.shape[:3]
    return bool(outputs * inputs <= THIN_GROUP < groups)


class _Channelwise:
    """What both directions share: tiles, and tensors as einsum takes them."""

    def __init__(self, correlation: Correlation, groups: int, using: Means) -> None:
        self.correlation, self.groups, self.using = correlation, groups, using
        axes = len(correlation.axes)
        # Pixels of a row must lie side by side to be read as one.
        self.joined = groups < SHORT_LOOP and correlation.axes[-1].step == 1
        self.taps = TAPS[:axes]
        self.pixels = "n" + PIXELS[: axes - 1 if self.joined else axes]

    def tiles(self, images: int) -> list[Tile]:
        grid = (images, *self.correlation.windows)
        pixels = pixels_at_once(self.groups, prod(grid), self.using)
        if self.joined:
            # The weights are repeated for every pixel of a row, which may be a long one.
            row_bytes = prod(self.correlation.counts) * self.groups * self.using.dtype.itemsize
            longest = max(1, MOST_TILE_BYTES // row_bytes)
            if grid[-1] > longest:
                pixels = min(pixels, longest)
        return boxes(grid, pixels)

    def read(self, source: Array, positions: Tile) -> Array:
        """Return what the windows of a tile read of (N, G, *S) as (*taps, N, *X, G)."""
        channel = source[:, :, np.newaxis]
        read = windows(channel, self.correlation.axes, positions, self.using, last=True)
        axes = len(positions)
        ordered = read[:, :, 0].transpose(*range(2, 2 + axes), 0, *range(2 + axes, 2 * axes + 2), 1)
        return self.join(ordered, "joined")

    def pixels_of(self, outputs: Array) -> Array:
        """Return (N, G, *X) as (N, *X, G), in the type of the sums and the order in memory."""
        ordered = np.moveaxis(outputs, 1, -1)
        if ordered.dtype == self.using.dtype and ordered.strides[-1] == ordered.itemsize:
            return self.join(ordered, "pixels")
        copied = self.using.empty("pixels", ordered.shape)
        widen_into(copied, ordered)
        return self.join(copied, "pixels")

    def join(self, array: Array, name: str) -> Array:
        """Make one axis of the pixels of a row and their groups, where they are one loop."""
        if not self.joined:
            return array
        if array.strides[-2] != array.shape[-1] * array.strides[-1]:
            copied = self.using.empty(name, array.shape)
            np.copyto(copied, array)
            array = copied
        return array.reshape(*array.shape[:-2], -1)


class Channelwise(_Channelwise):
    """target[g, o, x] = sum over c and taps of weights[g, o, c, tap] * source[g, c, x and tap].

    The parameters are those of `products.Gather`.
    """

    def __init__(
        self,
        correlation: Correlation,
        source: Array,
        weights: Array,
        target: Array,
        bias: Array | None,
        using: Means,
    ) -> None:
        super().__init__(correlation, len(weights), using)
        self._source, self._target, self._bias = source, target[correlation.target], bias
        self._tiles = self.tiles(len(source))
        # (O, C, *taps, X, G): repeated along a row, as long as rows of tiles are.
        factors = np.moveaxis(weights[correlation.kernel], 0, -1)[..., np.newaxis, :]
        row = max(tile[-1].stop - tile[-1].start for tile in self._tiles) if self.joined else 1
        self._factors = using.shared((*factors.shape[:-2], row, factors.shape[-1]))
        widen_into(self._factors, np.broadcast_to(factors, self._factors.shape))
        self._equation = f"{self.taps}{self.pixels}g,{self.taps}g->{self.pixels}g"

    def jobs(self) -> list[Callable[[], None]]:
        """Return calls that together compute the target, in any order and on any thread."""
        return [partial(self._run, tile) for tile in self._tiles]

    def _run(self, tile: Tile) -> None:
        images, *positions = tile
        target = self._target[(images, slice(None), slice(None), *positions)]
        for number in range(target.shape[2]):
            # (N, *X, G)
            channel = np.moveaxis(target[:, :, number], 1, -1)
            sums = self._sums_for(channel)
            self._sum(number, images, tuple(positions), self.join(sums, "joined sums"))
            if self._bias is not None:
                sums += self._bias[:, number]
            if sums is not channel:
                round_into(channel, sums)

    def _sums_for(self, channel: Array) -> Array:
        """Return where the sums of (N, *X, G) are made: in place, where einsum goes along."""
        *pixels, groups = channel.shape
        steps = channel.strides[-2:]
        fits = channel.dtype == self.using.dtype and steps[1] == channel.itemsize
        if fits and (not self.joined or steps[0] == groups * steps[1]):
            return channel
        # What is copied into another order must not share lines of the cache.
        gap = 0 if self.joined else GAP
        return self.using.empty("sums", (*pixels, groups + gap))[..., :groups]

    def _sum(self, number: int, images: slice, positions: Tile, sums: Array) -> None:
        row = positions[-1].stop - positions[-1].start if self.joined else 1
        factors = self._factors[number, ..., :row, :]
        for channel, taps in enumerate(factors.reshape(*factors.shape[:-2], -1)):
            read = self.read(self._source[images, :, channel], positions)
            if channel == 0:
                np.einsum(self._equation, read, taps, out=sums)
            else:
                more = self.using.empty("more", sums.shape)
                sums += np.einsum(self._equation, read, taps, out=more)


def channelwise_gradient(
    correlation: Correlation, source: Array, outputs: Array, target: Array, using: Means
) -> None:
    """target[g, o, c, tap] = sum over n and x of outputs[n, g, o, x] * source[n, g, c, x and tap].

    The parameters are those of `gradient.products_gradient`.
    """
    rows = _Channelwise(correlation, len(target), using)
    equation = f"{rows.taps}{rows.pixels}g,{rows.pixels}g->{rows.taps}g"
    used = np.moveaxis(target[correlation.kernel], 0, -1)
    parts = lanes(rows.tiles(len(source)), 2 * using.threads)
    sums = np.zeros((len(parts), *used.shape), using.dtype)

    def add(lane: int) -> None:
        for images, *positions in parts[lane]:
            for o, c in np.ndindex(used.shape[:2]):
                right = rows.pixels_of(outputs[(images, slice(None), o, *positions)])
                read = rows.read(source[images, :, c], tuple(positions))
                products = np.einsum(equation, read, right)
                if rows.joined:
                    products = products.reshape(*products.shape[:-1], -1, rows.groups).sum(-2)
                sums[lane, o, c] += products

    each(add, range(len(parts)), using.threads)
    round_into(used, sums.sum(axis=0))
