"""Correlations as matrix products."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from onednn_py.system.casting import round_into
from onednn_py.system.parallel import boxes, spans

from .correlation import Correlation
from .matrices import as_matrices, in_place
from .windows import Tile, channels_last, is_sparse, piece, windows
from .workspace import Means

__all__ = ["Gather", "Shift", "gathered", "gathers_channels", "pixels_at_once", "store"]

Array = npt.NDArray[Any]

# Bytes of gathered windows that one matrix product reads: few enough for the caches, many
# enough to outweigh the Python around it.
TILE_BYTES = 4 * 2**20

# Pixels that a product has nevertheless, so that it outweighs packing the weights, up to
# this number of bytes.
LEAST_PIXELS = 384
MOST_TILE_BYTES = 16 * 2**20

# Elements that lie together from which gathering pixel by pixel is faster than row by row.
CHANNEL_RUN = 16

# A sum shifted costs about as much as so many elements gathered.
SHIFT_COST = 4


class Gather:
    """Gather what every window reads, then one product for all taps and channels.

    target[g, o, x] = sum over c and taps of weights[g, o, c, tap] * source[g, c, x and tap]

    Parameters
    ----------
    correlation : Correlation
    source : ndarray, shape (N, G, C, *S)
    weights : ndarray, shape (G, O, C, *K)
    target : ndarray, shape (N, G, O, *X)
    bias : ndarray, shape (G, O), or None
    using : Means
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
        self._correlation, self._using = correlation, using
        self._source, self._target, self._bias = source, target[correlation.target], bias
        self._last = gathers_channels(correlation, source)
        used = weights[correlation.kernel]
        self._weights = _matrices_of(np.moveaxis(used, 2, -1) if self._last else used, 1, using)

    def jobs(self) -> list[Callable[[], None]]:
        """Return calls that together compute the target, in any order and on any thread."""
        groups, _, depth = self._weights.shape
        grid = (len(self._source), *self._correlation.windows)
        pixels = pixels_at_once(depth, prod(grid), self._using)
        together = max(1, TILE_BYTES // (depth * pixels * self._using.dtype.itemsize))
        work = product(spans(groups, together), boxes(grid, pixels))
        return [partial(self._run, *box) for box in work]

    def _run(self, groups: slice, tile: Tile) -> None:
        images, *positions = tile
        source = self._source[images, groups]
        patches = gathered(
            source, self._correlation, tuple(positions), self._using, last=self._last
        )
        target = np.moveaxis(self._target[(images, groups, slice(None), *positions)], 0, 2)
        sums, matrices = _sums_for(target, self._using)
        np.matmul(self._weights[groups], patches, out=matrices)
        store(target, sums, None if self._bias is None else self._bias[groups])


class Shift:
    """Multiply every pixel with all taps, then add up what meets in one window.

    The sums are those of `Gather`, for steps of one. With few channels in the target and
    many in the source, there is less to add than there would be to gather. The parameters
    are the same.
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
        self._correlation, self._using = correlation, using
        self._source, self._target, self._bias = source, target[correlation.target], bias
        # (G, *K, O, C): a row for every tap and channel of the target.
        ordered = np.moveaxis(weights[correlation.kernel], (1, 2), (-2, -1))
        self._weights = _matrices_of(ordered, ordered.ndim - 2, using)

    @staticmethod
    def pays(correlation: Correlation, source: Array, target: Array) -> bool:
        """Whether adding costs less than gathering, and needs no more memory."""
        return (
            prod(correlation.counts) > 1
            and SHIFT_COST * target.shape[2] <= source.shape[2]
            and all(
                axis.step == 1 and not is_sparse(axis, slice(0, axis.windows))
                for axis in correlation.axes
            )
        )

    def jobs(self) -> list[Callable[[], None]]:
        """Return calls that together compute the target, in any order and on any thread."""
        groups, rows, _ = self._weights.shape
        grid = (len(self._source), *self._correlation.windows)
        pixels = pixels_at_once(rows, prod(grid), self._using)
        work = product(spans(groups, 1), boxes(grid, pixels))
        return [partial(self._run, *box) for box in work]

    def _run(self, groups: slice, tile: Tile) -> None:
        images, *positions = tile
        using = self._using
        source = self._source[images, groups]
        read = piece(
            source, self._correlation.axes, tuple(positions), using, last=channels_last(source)
        )
        pixels = as_matrices(
            np.moveaxis(read, 0, 2),
            1,
            using.dtype,
            lambda shape: using.empty("pixels", shape),
            columns_first=channels_last(read),
        )
        products = using.empty("products", (1, self._weights.shape[1], pixels.shape[2]))
        np.matmul(self._weights[groups], pixels, out=products)
        target = np.moveaxis(self._target[(images, groups, slice(None), *positions)], 0, 2)
        sums = using.empty("sums", target.shape)
        moved = self._moved(products, len(source), read.shape[3:], target.shape[3:])
        np.add.reduce(moved, axis=tuple(range(len(positions))), out=sums)
        store(target, sums, None if self._bias is None else self._bias[groups])

    def _moved(
        self, products: Array, images: int, lengths: tuple[int, ...], pixels: tuple[int, ...]
    ) -> Array:
        """Return (*taps, 1, O, N, *X), each tap's products where the windows are."""
        axes = self._correlation.axes
        spread = products.reshape(*self._correlation.counts, 1, -1, images, *lengths)
        taps, steps = spread.strides[: len(axes)], spread.strides[-len(axes) :]
        moves = [
            tap + axis.dilation * step for axis, tap, step in zip(axes, taps, steps, strict=True)
        ]
        return as_strided(
            spread,
            (*spread.shape[: -len(axes)], *pixels),
            (*moves, *spread.strides[len(axes) :]),
        )


def gathers_channels(correlation: Correlation, source: Array) -> bool:
    """Whether `gathered` puts the channels of a pixel side by side, not the pixels of a row."""
    if prod(correlation.counts) == 1:
        return channels_last(source)
    # With one group, the taps of a row lie together with the channels.
    run: int = source.shape[2] * (correlation.counts[-1] if source.shape[1] == 1 else 1)
    return run >= CHANNEL_RUN


def gathered(
    source: Array, correlation: Correlation, positions: Tile, using: Means, *, last: bool
) -> Array:
    """Return what a tile's windows read as matrices (G, K, P), for BLAS.

    K runs over the taps and then the channels if ``last``, the other way round if not; P
    over images and pixels. It is a view of ``source`` (N, G, C, *S) where that can be.
    """
    axes = correlation.axes
    pointwise = prod(correlation.counts) == 1
    read = windows(source, axes, positions, using, last=None if pointwise else last)
    taps = tuple(range(3, 3 + len(axes)))
    pixels = (0, *range(3 + len(axes), read.ndim))
    ordered = read.transpose((1, *taps, 2, *pixels) if last else (1, 2, *taps, *pixels))
    return as_matrices(
        ordered,
        len(taps) + 1,
        using.dtype,
        lambda shape: using.empty("patches", shape),
        columns_first=last,
    )


def pixels_at_once(elements_a_pixel: int, pixels: int, using: Means) -> int:
    """Return how many of all ``pixels`` one thread takes at a time."""
    bytes_a_pixel = elements_a_pixel * using.dtype.itemsize
    most = MOST_TILE_BYTES // bytes_a_pixel
    # Two tiles for every thread, so that none waits long for another.
    fair = pixels // (2 * using.threads) if using.threads > 1 else pixels
    wanted = max(1, min(LEAST_PIXELS, most), min(TILE_BYTES // bytes_a_pixel, fair))
    if pixels <= wanted:
        return wanted
    # As many tiles for every thread.
    rounds = max(1, pixels // (wanted * using.threads))
    return max(1, min(most, -(-pixels // (rounds * using.threads))))


def store(target: Array, sums: Array, bias: Array | None) -> None:
    """Write sums (G, O, N, *X) into the target, with the bias (G, O), each rounded once."""
    if bias is not None:
        sums += bias.reshape(*bias.shape, *(1,) * (sums.ndim - 2))
    if sums is not target:
        round_into(target, sums)


def _sums_for(target: Array, using: Means) -> tuple[Array, Array]:
    """Return where the sums of a target (G, O, N, *X) are made, and the same as matrices.

    That is the target itself if BLAS can write into it.
    """
    direct = in_place(target, 1) if target.dtype == using.dtype else None
    if direct is not None:
        return target, direct
    groups, channels, *pixels = target.shape
    if channels_last(np.moveaxis(target, 2, 0)):
        # All channels of a pixel together: they are copied into the target in one run.
        sums = using.empty("sums", (*pixels, groups, channels))
        matrices = sums.reshape(-1, groups, channels).transpose(1, 2, 0)
        return np.moveaxis(sums, (-2, -1), (0, 1)), matrices
    sums = using.empty("sums", target.shape)
    return sums, sums.reshape(groups, channels, -1)


def _matrices_of(weights: Array, rows: int, using: Means) -> Array:
    """Return weights (G, *A, *B) as matrices (G, A, B) for all threads.

    A copy lies in memory in much the same order as the weights do.
    """
    return as_matrices(
        weights,
        rows,
        using.dtype,
        using.shared,
        columns_first=abs(weights.strides[rows]) < abs(weights.strides[-1]),
    )
