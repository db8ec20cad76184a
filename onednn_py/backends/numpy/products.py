"""Correlations as matrix products of the weights and the source, tile by tile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from .matrices import as_matrices, view_as_matrices
from .windows import Tile, is_channels_last, is_sparse, padded_source, windows
from .workspace import Workspace

__all__ = [
    "CorrelationMethod",
    "Im2col",
    "Kn2row",
    "im2col",
    "pixel_matrices",
    "pixels_at_once",
    "prefers_channels_last",
    "weight_matrices",
]

Array = npt.NDArray[Any]

# Bytes of window elements that one matrix product reads: few enough for the caches, many
# enough to outweigh the Python code around it.
TILE_BYTES = 4 * 2**20

# A product has at least this many pixels, so that it outweighs packing the weights, unless
# their window elements exceed this number of bytes.
LEAST_PIXELS = 384
MOST_TILE_BYTES = 16 * 2**20

# Contiguous elements from which copying windows pixel by pixel is faster than row by row.
CHANNEL_RUN = 16

# Adding one shifted product costs about as much as copying this many window elements.
SHIFT_COST = 4


@dataclass(frozen=True)
class CorrelationMethod(ABC):
    """target[n, g, o, x]: the sum over c and k of weights[g, o, c, k] times a source element.

    It is the element of source[n, g, c] that window x reads at kernel position k.

    Parameters
    ----------
    correlation : Correlation
    source : ndarray, shape (N, G, C, *S)
    weights : ndarray, shape (G, O, C, *K)
    target : ndarray, shape (N, G, O, *X)
    bias : ndarray, shape (G, O), or None
    workspace : Workspace
    """

    correlation: Correlation
    source: Array
    weights: Array
    target: Array
    bias: Array | None
    workspace: Workspace

    @abstractmethod
    def calls(self) -> list[Callable[[], None]]:
        """Return calls that together compute the target, in any order and on any thread."""

    @property
    def grid(self) -> tuple[int, ...]:
        """(N, *X) of the elements that the correlation covers."""
        return (len(self.source), *self.correlation.target_shape)

    def target_tile(self, groups: slice, tile: Tile) -> Array:
        """Return the target of a tile as (G, O, N, *X)."""
        images, *spatial = tile
        covered = self.target[self.correlation.target]
        return np.moveaxis(covered[(images, groups, slice(None), *spatial)], 0, 2)

    def store(self, target: Array, sums: Array, groups: slice) -> None:
        """Write sums (G, O, N, *X) into the target, with the bias, each rounded once."""
        if self.bias is not None:
            sums += self.bias[groups].reshape(*sums.shape[:2], *(1,) * (sums.ndim - 2))
        if sums is not target:
            round_into(target, sums)


class Im2col(CorrelationMethod):
    """Copy what every window reads, then one product for all kernel positions and channels."""

    def calls(self) -> list[Callable[[], None]]:
        used = self.weights[self.correlation.kernel]
        if prefers_channels_last(self.correlation, self.source):
            used = np.moveaxis(used, 2, -1)
        weights = weight_matrices(used, 1, self.workspace)
        groups, _, depth = weights.shape
        pixels = pixels_at_once(depth, prod(self.grid), self.workspace)
        groups_at_once = max(1, TILE_BYTES // (depth * pixels * self.workspace.dtype.itemsize))
        parts = product(spans(groups, groups_at_once), boxes(self.grid, pixels))
        return [partial(self._compute, weights, *part) for part in parts]

    def _compute(self, weights: Array, groups: slice, tile: Tile) -> None:
        images, *spatial = tile
        source, order = self.source, prefers_channels_last(self.correlation, self.source)
        columns = im2col(
            source[images, groups], self.correlation, spatial, self.workspace, channels_last=order
        )
        target = self.target_tile(groups, tile)
        sums, matrices = self._empty_sums(target)
        np.matmul(weights[groups], columns, out=matrices)
        self.store(target, sums, groups)

    def _empty_sums(self, target: Array) -> tuple[Array, Array]:
        """Return an array for the sums of a target (G, O, N, *X), and a view of it as matrices.

        The array is the target itself if BLAS can write into it.
        """
        view = view_as_matrices(target, 1) if target.dtype == self.workspace.dtype else None
        if view is not None:
            return target, view
        groups, channels, *pixels = target.shape
        if is_channels_last(np.moveaxis(target, 2, 0)):
            # With the channels of a pixel side by side, the copy into the target is fast.
            sums = self.workspace.empty("sums", (*pixels, groups, channels))
            matrices = sums.reshape(-1, groups, channels).transpose(1, 2, 0)
            return np.moveaxis(sums, (-2, -1), (0, 1)), matrices
        sums = self.workspace.empty("sums", target.shape)
        return sums, sums.reshape(groups, channels, -1)


class Kn2row(CorrelationMethod):
    """Multiply every pixel by the weights of all kernel positions, then add shifted products.

    For steps of 1 only. With few channels in the target and many in the source, this adds
    fewer elements than `Im2col` would copy.
    """

    @staticmethod
    def pays(correlation: Correlation, source: Array, target: Array) -> bool:
        """Whether adding costs less than copying, and needs no more memory."""
        return (
            prod(correlation.kernel_shape) > 1
            and SHIFT_COST * target.shape[2] <= source.shape[2]
            and all(
                axis.step == 1 and not is_sparse(axis, slice(0, len(axis.target)))
                for axis in correlation.axes
            )
        )

    def calls(self) -> list[Callable[[], None]]:
        # (G, *K, O, C): a row for every kernel position and channel of the target.
        ordered = np.moveaxis(self.weights[self.correlation.kernel], (1, 2), (-2, -1))
        weights = weight_matrices(ordered, ordered.ndim - 2, self.workspace)
        groups, rows, _ = weights.shape
        pixels = pixels_at_once(rows, prod(self.grid), self.workspace)
        parts = product(spans(groups, 1), boxes(self.grid, pixels))
        return [partial(self._compute, weights, *part) for part in parts]

    def _compute(self, weights: Array, group: slice, tile: Tile) -> None:
        images, *spatial = tile
        source = self.source[images, group]
        axes, order = self.correlation.axes, is_channels_last(source)
        read = padded_source(source, axes, spatial, self.workspace, channels_last=order)
        pixels = pixel_matrices(read, self.workspace)
        products = self.workspace.empty("products", (1, weights.shape[1], pixels.shape[2]))
        np.matmul(weights[group], pixels, out=products)
        target = self.target_tile(group, tile)
        sums = self.workspace.empty("sums", target.shape)
        shifted = self._shifted(products, len(source), read.shape[3:], target.shape[3:])
        np.add.reduce(shifted, axis=tuple(range(len(spatial))), out=sums)
        self.store(target, sums, group)

    def _shifted(
        self, products: Array, images: int, lengths: tuple[int, ...], pixels: tuple[int, ...]
    ) -> Array:
        """Return a view (*K, 1, O, N, *X): at x, each kernel position's product for window x."""
        axes = self.correlation.axes
        grid = products.reshape(*self.correlation.kernel_shape, 1, -1, images, *lengths)
        kernel_strides, strides = grid.strides[: len(axes)], grid.strides[-len(axes) :]
        shifted_strides = [
            kernel_stride + axis.dilation * stride
            for axis, kernel_stride, stride in zip(axes, kernel_strides, strides, strict=True)
        ]
        shape = (*grid.shape[: -len(axes)], *pixels)
        return as_strided(grid, shape, (*shifted_strides, *grid.strides[len(axes) :]))


def prefers_channels_last(correlation: Correlation, source: Array) -> bool:
    """Whether `im2col` copies the channels of a pixel together, not the pixels of a row."""
    if prod(correlation.kernel_shape) == 1:
        return is_channels_last(source)
    # With one group, the kernel positions of a row are contiguous with the channels.
    run: int = source.shape[2] * (correlation.kernel_shape[-1] if source.shape[1] == 1 else 1)
    return run >= CHANNEL_RUN


def im2col(
    source: Array,
    correlation: Correlation,
    spatial: Sequence[slice],
    workspace: Workspace,
    *,
    channels_last: bool,
) -> Array:
    """Return what a tile's windows read of (N, G, C, *S) as matrices (G, K, P), for BLAS.

    K counts kernel positions, then channels if ``channels_last``, else channels first; P
    counts images and pixels. The result is a view of ``source`` where possible.
    """
    axes = correlation.axes
    order = None if prod(correlation.kernel_shape) == 1 else channels_last
    read = windows(source, axes, spatial, workspace, channels_last=order)
    kernel = tuple(range(3, 3 + len(axes)))
    pixels = (0, *range(3 + len(axes), read.ndim))
    ordered = read.transpose(
        (1, *kernel, 2, *pixels) if channels_last else (1, 2, *kernel, *pixels)
    )
    return as_matrices(
        ordered,
        len(kernel) + 1,
        workspace.dtype,
        partial(workspace.empty, "columns"),
        column_major=channels_last,
    )


def pixel_matrices(array: Array, workspace: Workspace) -> Array:
    """Return (N, G, C, *S) as matrices (G, C, P), for BLAS; P counts images and pixels."""
    return as_matrices(
        np.moveaxis(array, 0, 2),
        1,
        workspace.dtype,
        partial(workspace.empty, "pixels"),
        column_major=is_channels_last(array),
    )


def weight_matrices(weights: Array, row_axes: int, workspace: Workspace) -> Array:
    """Return weights (G, *A, *B) as matrices (G, A, B) for all threads.

    A copy is row-major or column-major, whichever is closer to the weights.
    """
    is_column_major = abs(weights.strides[row_axes]) < abs(weights.strides[-1])
    return as_matrices(
        weights, row_axes, workspace.dtype, workspace.shared, column_major=is_column_major
    )


def pixels_at_once(elements_a_pixel: int, pixels: int, workspace: Workspace) -> int:
    """Return how many of all ``pixels`` a tile has."""
    bytes_a_pixel = elements_a_pixel * workspace.dtype.itemsize
    most = MOST_TILE_BYTES // bytes_a_pixel
    # At least two tiles for every thread, so that none waits long for another.
    fair = pixels // (2 * workspace.threads) if workspace.threads > 1 else pixels
    wanted = max(1, min(LEAST_PIXELS, most), min(TILE_BYTES // bytes_a_pixel, fair))
    if pixels <= wanted:
        return wanted
    # The same number of tiles for every thread.
    rounds = max(1, pixels // (wanted * workspace.threads))
    return max(1, min(most, -(-pixels // (rounds * workspace.threads))))
