"""The weights' gradient: products that sum over the pixels of a tile, tile after tile."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.system.casting import round_into
from onednn_py.system.parallel import boxes, each, spans

from .correlation import Correlation
from .matrices import as_matrices, blank_matrices, in_place
from .products import TILE_BYTES, gathered, gathers_channels, pixels_at_once
from .windows import Tile, channels_last, lanes
from .workspace import Means

__all__ = ["products_gradient"]

Array = npt.NDArray[Any]

# Bytes of a gradient from which threads share out its channels instead of the pixels: a
# thread with pixels of its own has a whole gradient to add up.
SHARED_BYTES = 2 * 2**20

# Channels that a share has at least.
LEAST_CHANNELS = 32


def products_gradient(
    correlation: Correlation, source: Array, outputs: Array, target: Array, using: Means
) -> None:
    """Gather what every window reads, then sum over images and pixels by matrix products.

    target[g, o, c, tap] = sum over n and x of outputs[n, g, o, x] * source[n, g, c, x and tap]

    Parameters
    ----------
    correlation : Correlation
    source : ndarray, shape (N, G, C, *S)
    outputs : ndarray, shape (N, G, O, *X)
    target : ndarray, shape (G, O, C, *K)
    using : Means
    """
    images, groups, channels = source.shape[:3]
    taps, item_bytes = prod(correlation.counts), using.dtype.itemsize
    many = 1
    if using.threads > 1 and target.size * item_bytes > SHARED_BYTES:
        many = max(1, min(2 * using.threads, channels // LEAST_CHANNELS))
    length = -(-channels // many)
    grid = (images, *correlation.windows)
    pixels = pixels_at_once(length * taps, prod(grid), using)
    together = max(1, TILE_BYTES // (length * taps * pixels * item_bytes))
    shares = list(product(spans(groups, together), spans(channels, length)))
    parts = lanes(boxes(grid, pixels), -(-2 * using.threads // len(shares)))
    used = target[correlation.kernel]
    sums = [
        [
            _Sum(correlation, source[:, g, c], outputs[:, g], used[g, :, c], part, using)
            for part in parts
        ]
        for g, c in shares
    ]
    each(
        lambda one: one.run(alone=len(parts) == 1),
        [one for share in sums for one in share],
        using.threads,
    )
    for first, *others in sums:
        first.finish(others)


class _Sum:
    """The gradient of some channels, summed over some tiles."""

    def __init__(
        self,
        correlation: Correlation,
        source: Array,
        outputs: Array,
        target: Array,
        part: list[Tile],
        using: Means,
    ) -> None:
        self._correlation, self._source, self._outputs = correlation, source, outputs
        self._part, self._using = part, using
        self._last = gathers_channels(correlation, source)
        # (G, O, *K, C) or (G, O, C, *K), as the windows are gathered.
        self._target = np.moveaxis(target, 2, -1) if self._last else target
        self._values = self._target

    def run(self, *, alone: bool) -> None:
        """Sum; in the target itself, if no other sum goes there and BLAS can write into it."""
        target, using = self._target, self._using
        total = in_place(target, 1) if alone and target.dtype == using.dtype else None
        if total is None:
            self._values, total = blank_matrices(
                target.shape,
                1,
                using.shared,
                columns_first=target.strides[1] < target.strides[-1],
            )
        for number, (images, *positions) in enumerate(self._part):
            patches = gathered(
                self._source[images], self._correlation, tuple(positions), using, last=self._last
            )
            outputs = self._outputs[(images, slice(None), slice(None), *positions)]
            pixels = as_matrices(
                np.moveaxis(outputs, 0, 2),
                1,
                using.dtype,
                lambda shape: using.empty("pixels", shape),
                columns_first=channels_last(outputs),
            )
            if number == 0:
                np.matmul(pixels, patches.swapaxes(1, 2), out=total)
            else:
                sums = using.empty_like("sums", total)
                total += np.matmul(pixels, patches.swapaxes(1, 2), out=sums)

    def finish(self, others: list[_Sum]) -> None:
        """Add the sums over other tiles, and round the result."""
        for other in others:
            self._values += other._values
        if self._values is not self._target:
            round_into(self._target, self._values)
