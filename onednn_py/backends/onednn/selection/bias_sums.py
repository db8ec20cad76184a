"""Bias gradients as products with ones: short sums in float32, and sums of these.

Where products may write the gradient, they add up everything (`gradient_products`). Otherwise NumPy
adds the sums of `ones_products` up in float64, and rounds.

Products are three to five times as fast as NumPy's sums beside a weights gradient: 256 channels, 56
x 56, minibatch 8 in bfloat16 0.26 / 1.0 ms (channels first), 0.3 / 1.7 ms (channels last). oneDNN's
reduction takes 0.46 ms, and 68 ms in its reference implementation, which is all it has for channels
last.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd
from typing import NamedTuple

from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Problem, TensorLayout

from .chunks import Chunk
from .formulation import SUM_DTYPE, Formulation

__all__ = [
    "MOST_ONES",
    "OnesProduct",
    "chunk_layout",
    "gradient_products",
    "have_few_pixels",
    "is_dense",
    "ones_products",
    "partial_sums",
    "products_write_gradient",
    "row_levels",
    "summing_chunks",
    "sums_at_once",
    "sums_nbytes",
    "sums_shape",
]

# Terms of a sum in float32 that NumPy adds up. Rows of pixels are added one to the other, with
# channels last: as many terms as NumPy's sums have, or twice as many where the errors of many sums
# cancel. The pixels of a channel are summed in vectors, with channels first.
MOST_ROWS = 2**7
MANY_ROWS = 2**13
MOST_ONES = 2**10

# Terms of a sum of rows where products add up everything. The error of the whole stays within 2.5 *
# 2**-23 of a sum of random numbers of one sign, as it does with the vectors above. oneDNN's gemm
# gives each thread whole sums; only with 128 terms for each thread would it share them out.
SUMMED_ROWS = 2**4

# With channels first, an image of more than MOST_ONES pixels is cut into equal rows of at least so
# many; NumPy sums where there is no such divisor. Nor are sums of shorter rows worth a product if
# NumPy has to add them up.
LEAST_PIXELS = 2**5

# Numbers of such rows that are tried.
MOST_DIVISORS = 2**14

# A diff_dst of up to so many elements stays in the caches, and is summed with the first chunk, in
# 0.84 to 0.87 of the time of a call that sums chunk by chunk: 1x1 weights with channels first by
# products, 16 to 64 images. With two to six times as many elements it is 0.96 to 1.00.
MOST_SUMMED_AT_ONCE = 2**18

# Layouts whose products are kept.
MOST_LAYOUTS = 256

# Several pixels make a row where channels are few and the innermost axis.
ROW = 2**8


class OnesProduct(NamedTuple):
    """A product of a part of diff_dst, or of sums of it, with ones.

    Attributes
    ----------
    first, second, sums : TensorLayout
        Shapes and strides of the factors and of the product.
    ones_first : bool
        Whether the ones are the first factor.
    begin : int
        Elements from the first element of what is read to that of the part.
    """

    first: TensorLayout
    second: TensorLayout
    sums: TensorLayout
    ones_first: bool
    begin: int = 0

    @property
    def terms(self) -> int:
        """How many numbers each sum adds up, and so many ones are read."""
        return self.first.shape[-1]


def chunk_layout(formulation: Formulation, chunk: Chunk) -> tuple[str, TensorLayout] | None:
    """Return the role and the layout in which a chunk's primitive reads all of its diff_dst.

    None where chunks share images, or where the primitive does not see all elements. The first
    chunk may sum the whole of it (`sums_at_once`).
    """
    asked, role = formulation.asked.dst, _role_of_dst(formulation)
    if sums_at_once(formulation):
        is_first = chunk is formulation.chunks[0]
        return (role, asked) if is_first and role not in formulation.copied else None
    layout: TensorLayout = getattr(chunk.problem, role)
    images = layout.shape[0] * len(formulation.chunks)
    if layout.shape[1:] != asked.shape[1:] or images != asked.shape[0]:
        return None
    return role, layout


def _role_of_dst(formulation: Formulation) -> str:
    return next(role for role, of_asked in formulation.roles.items() if of_asked == "dst")


def summing_chunks(formulation: Formulation) -> int:
    """Return how many chunks have a `chunk_layout`, if the first one has."""
    return 1 if sums_at_once(formulation) else len(formulation.chunks)


def sums_nbytes(formulation: Formulation) -> int:
    """Return how many bytes of the workspace the sums take that are not the gradient."""
    found = chunk_layout(formulation, formulation.chunks[0])
    if found is None:
        return 0
    layout, chunks, numbers = found[1], summing_chunks(formulation), 0
    if products_write_gradient(formulation.asked):
        levels = [*gradient_products(layout)]
        if chunks > 1:
            levels += row_levels(chunks, layout.shape[1])
            numbers = (chunks - 1) * layout.shape[1]  # a chunk's own sums are among the levels
        numbers += sum(one.sums.size for level in levels[:-1] for one in level)
    else:
        numbers = partial_sums(layout) * chunks
    return numbers * DTYPES[SUM_DTYPE].itemsize


def sums_at_once(formulation: Formulation) -> bool:
    """Whether the whole of diff_dst is summed with the first chunk.

    Chunks share images, or have so few elements that a product for each takes longer.
    """
    if formulation.dst_is_weights or formulation.takes_planes:
        return True
    is_whole = len(formulation.chunks) > 1 and _role_of_dst(formulation) not in formulation.copied
    return is_whole and formulation.asked.dst.size <= MOST_SUMMED_AT_ONCE


@lru_cache(MOST_LAYOUTS)
def sums_shape(layout: TensorLayout) -> tuple[int, int] | None:
    """Return into how many channels and sums of each the sums of an image come, None for NumPy's.

    One sum a channel where channels are the innermost axis, as many as rows take.
    """
    channels, pixels = layout.shape[1], layout.size // (layout.shape[0] * layout.shape[1])
    if is_dense(layout, "nxc"):
        return channels, 1
    if not is_dense(layout, "ncx"):
        return None
    if pixels <= MOST_ONES:
        return channels, 1
    numbers = range(-(-pixels // MOST_ONES), pixels // LEAST_PIXELS + 1)[:MOST_DIVISORS]
    parts = next((number for number in numbers if pixels % number == 0), None)
    return None if parts is None else (channels, parts)


def ones_products(layout: TensorLayout) -> list[OnesProduct]:
    """Return the products that sum a tensor of shape (N, C, *spatial), none where NumPy must."""
    shape = sums_shape(layout)
    if shape is None:
        return []
    channels, parts = shape
    if is_dense(layout, "nxc"):
        pixels = layout.size // channels
        folded = gcd(pixels, max(1, 2 ** (ROW // channels).bit_length() // 2))
        return list(_sums_of_rows(pixels // folded, folded * channels))
    rows = layout.shape[0] * channels * parts
    return [_sum_of_columns(rows, layout.size // rows)]


@lru_cache(MOST_LAYOUTS)
def gradient_products(layout: TensorLayout) -> tuple[Sequence[OnesProduct], ...]:
    """Return products that sum a tensor of shape (N, C, *spatial) to C numbers, none for NumPy.

    By levels: the first reads the tensor, the next what the products before it write, one behind
    another. The last is one product.
    """
    shape = sums_shape(layout)
    if shape is None or shape[1] > MOST_ONES:
        return ()
    channels, parts = shape
    if is_dense(layout, "nxc"):
        return tuple(row_levels(layout.size // channels, channels))
    images = layout.shape[0]
    levels = [ones_products(layout)]
    if images > 1:
        levels += row_levels(images, channels * parts)
    if parts > 1:
        levels.append([_sum_of_columns(channels, parts)])
    return tuple(levels)


def products_write_gradient(problem: Problem) -> bool:
    """Whether products may write the bias gradient of a problem where the caller has it."""
    return (
        problem.dtype == SUM_DTYPE
        and problem.has_dense_bias
        and bool(gradient_products(problem.dst))
    )


def have_few_pixels(layout: TensorLayout) -> bool:
    """Whether rows of pixels are so short that NumPy sums faster than it adds up their sums."""
    pixels = layout.size // (layout.shape[0] * layout.shape[1])
    return pixels < LEAST_PIXELS and not is_dense(layout, "nxc")


def row_levels(rows: int, length: int) -> list[list[OnesProduct]]:
    """Return products that add up the rows of a matrix, at each level so many to one."""
    levels = []
    while rows > SUMMED_ROWS:
        full, rest = divmod(rows, SUMMED_ROWS)
        level = [_sum_of_rows(SUMMED_ROWS, full * length)]
        if rest:
            level.append(_sum_of_rows(rest, length, full * SUMMED_ROWS * length))
        levels.append(level)
        rows = full + bool(rest)
    return [*levels, [_sum_of_rows(rows, length)]]


def _sum_of_rows(rows: int, length: int, begin: int = 0) -> OnesProduct:
    """Return the product that adds up rows of a matrix that begins at an element."""
    return OnesProduct(
        TensorLayout((1, rows), (rows, 1)),
        TensorLayout((rows, length), (length, 1)),
        TensorLayout((1, length), (length, 1)),
        ones_first=True,
        begin=begin,
    )


def _sum_of_columns(rows: int, length: int) -> OnesProduct:
    """Return the product that adds up the numbers of each row."""
    return OnesProduct(
        TensorLayout((rows, length), (length, 1)),
        TensorLayout((length, 1), (1, 1)),
        TensorLayout((rows, 1), (1, 1)),
        ones_first=False,
    )


def partial_sums(layout: TensorLayout) -> int:
    """Return how many partial sums the products have."""
    return sum(product.sums.size for product in ones_products(layout))


def _sums_of_rows(rows: int, length: int) -> list[OnesProduct]:
    """Return products that add up rows, so many at a time, and the rest."""
    most = 2 * MOST_ROWS if rows >= MANY_ROWS else MOST_ROWS
    products = []
    for begin, batch, terms in ((0, rows // most, most), (rows - rows % most, 1, rows % most)):
        if batch and terms:
            product = OnesProduct(
                TensorLayout((1, 1, terms), (terms, terms, 1)),
                TensorLayout((batch, terms, length), (terms * length, length, 1)),
                TensorLayout((batch, 1, length), (length, length, 1)),
                ones_first=True,
                begin=begin * length,
            )
            products.append(product)
    return products


def is_dense(layout: TensorLayout, order: str) -> bool:
    dense = layout.with_channels(order)
    return all(
        extent == 1 or stride == wanted
        for extent, stride, wanted in zip(layout.shape, layout.strides, dense.strides, strict=True)
    )
