"""A bias added to dst behind a primitive that takes none, as products with ones.

Data gradients, which transposed convolutions are, take no bias. oneDNN's matmul reads and writes a
float32 dst of 1 to 6 MB at 67 to 107 GB/s, NumPy at 24 to 43 (two cores, AVX-512).
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from onednn_py.problem.problem import TensorLayout

from .bias_sums import OnesProduct, is_dense

__all__ = ["MOST_ADDED_ONES", "BiasAddition", "bias_addition"]

# Rows, or pixels of a channel, that one product reaches: its ones are kept as long as the process.
MOST_ADDED_ONES = 2**16

# Products at the most, for 268 million pixels.
MOST_ADDITIONS = 2**12


class BiasAddition(NamedTuple):
    """Products that add a bias to all of dst.

    Attributes
    ----------
    repeated : OnesProduct or None
        Makes the first factor of the others: the bias, once for each image.
    products : tuple of OnesProduct
        Each adds the bias to a part of dst.
    """

    repeated: OnesProduct | None
    products: tuple[OnesProduct, ...]


def bias_addition(dst: TensorLayout) -> BiasAddition | None:
    """Return the products that add a bias to dst, (N, C, *spatial).

    None where it has gaps, or is so large that NumPy may do it.
    """
    images, channels = dst.shape[:2]
    pixels = prod(dst.shape[2:])
    if images * pixels > MOST_ADDITIONS * MOST_ADDED_ONES:
        return None
    row = TensorLayout((1, 1, channels), (channels, channels, 1))
    if is_dense(dst, "nxc"):
        return BiasAddition(
            None,
            tuple(
                OnesProduct(
                    _column(rows), row, _matrix(rows, channels, channels), True, begin * channels
                )
                for begin, rows in _parts(images * pixels)
            ),
        )
    if not is_dense(dst, "ncx") or images > MOST_ADDED_ONES:
        return None
    repeated = OnesProduct(_column(images), row, _matrix(images, channels, channels), True)
    rows = images * channels
    products = tuple(
        OnesProduct(
            _column(rows),
            TensorLayout((1, 1, number), (number, number, 1)),
            _matrix(rows, number, pixels),
            False,
            begin,
        )
        for begin, number in _parts(pixels)
    )
    return BiasAddition(repeated, products)


def _parts(extent: int) -> list[tuple[int, int]]:
    """Return the beginnings and lengths of parts of at most `MOST_ADDED_ONES`."""
    return [
        (begin, min(MOST_ADDED_ONES, extent - begin)) for begin in range(0, extent, MOST_ADDED_ONES)
    ]


def _column(rows: int) -> TensorLayout:
    return TensorLayout((1, rows, 1), (rows, 1, 1))


def _matrix(rows: int, columns: int, step: int) -> TensorLayout:
    return TensorLayout((1, rows, columns), (rows * step, step, 1))
