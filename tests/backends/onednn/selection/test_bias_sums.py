"""Products with ones: every element of diff_dst is in one short sum of its channel."""

from __future__ import annotations

import numpy as np
import pytest

from onednn_py.backends.onednn.selection.bias_sums import (
    MOST_ONES,
    MOST_ROWS,
    SUMMED_ROWS,
    OnesProduct,
    gradient_products,
    ones_products,
    partial_sums,
    row_levels,
    sums_shape,
)
from onednn_py.problem.problem import TensorLayout

SHAPES = {
    "one image": (1, 5, 6, 7),
    "several": (3, 5, 6, 7),
    "many rows": (4, 3, 70, 31),
    "very many rows": (2, 300, 128, 40),
    "many pixels": (2, 3, 90, 64),
    "a line": (2, 5, 64),
    "volume": (2, 5, 4, 3, 5),
    "few pixels": (50, 6, 3, 3),
    "one channel": (2, 1, 9, 9),
    "more channels than a row has": (3, 700, 8, 8),
}


def layout_of(shape: tuple[int, ...], order: str) -> TensorLayout:
    return TensorLayout(shape, (0,) * len(shape)).with_channels(order)


def numbers_in(layout: TensorLayout) -> tuple[np.ndarray, np.ndarray]:
    """Return integers in the order of a tensor's memory, and the sum of each channel."""
    numbers = np.random.default_rng(0).integers(-9, 10, layout.size).astype(np.float32)
    strides = [4 * stride for stride in layout.strides]
    tensor = np.ndarray(layout.shape, np.float32, numbers, 0, strides)
    return numbers, tensor.sum(axis=(0, *range(2, tensor.ndim)), dtype=np.float64)


def product_of(one: OnesProduct, numbers: np.ndarray) -> np.ndarray:
    """Return what a product with ones writes, of what begins at its first element."""
    read = one.second if one.ones_first else one.first
    strides = [4 * stride for stride in read.strides]
    part = np.ndarray(read.shape, np.float32, numbers, 4 * one.begin, strides)
    found = np.ones(one.first.shape) @ part if one.ones_first else part @ np.ones(one.second.shape)
    assert found.shape == one.sums.shape
    assert one.sums.strides == one.sums.dense().strides
    return found.ravel()


@pytest.mark.parametrize("order", ["ncx", "nxc"])
@pytest.mark.parametrize("name", SHAPES)
def test_products_are_the_sums(name: str, order: str) -> None:
    layout = layout_of(SHAPES[name], order)
    numbers, expected = numbers_in(layout)
    shape, products = sums_shape(layout), ones_products(layout)
    assert shape is not None
    assert max(one.terms for one in products) <= (2 * MOST_ROWS if order == "nxc" else MOST_ONES)
    every = np.concatenate([product_of(one, numbers) for one in products])
    assert every.size == partial_sums(layout)
    np.testing.assert_array_equal(every.reshape(-1, *shape).sum(axis=(0, 2)), expected)


@pytest.mark.parametrize("order", ["ncx", "nxc"])
@pytest.mark.parametrize("name", SHAPES)
def test_products_of_products_are_the_gradient(name: str, order: str) -> None:
    layout = layout_of(SHAPES[name], order)
    numbers, expected = numbers_in(layout)
    levels = gradient_products(layout)
    for level, products in enumerate(levels):
        terms = max(one.terms for one in products)
        assert terms <= MOST_ONES
        of_rows = order == "nxc" or (level > 0 and products[0].ones_first)
        assert terms <= SUMMED_ROWS or not of_rows
        numbers = np.concatenate([product_of(one, numbers) for one in products], dtype=np.float32)
    assert len(levels[-1]) == 1
    np.testing.assert_array_equal(numbers, expected)


@pytest.mark.parametrize("spatial", [(37, 1031), (1200, 1200), (128, 128, 128)])
def test_more_parts_of_an_image_than_ones(spatial: tuple[int, ...]) -> None:
    layout = layout_of((1, 2, *spatial), "ncx")
    shape = sums_shape(layout)
    assert shape is not None
    assert shape[1] > MOST_ONES
    assert gradient_products(layout) == ()
    assert max(one.terms for one in ones_products(layout)) <= MOST_ONES


def test_rows_that_fill_the_ones() -> None:
    levels = gradient_products(layout_of((1, 2, 1024, 1024), "ncx"))
    assert [one.terms for (one,) in levels] == [MOST_ONES, MOST_ONES]


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 31, 32, 33, 255, 256, 257, 272, 4096, 4097])
def test_levels_of_rows(rows: int) -> None:
    numbers = np.arange(rows * 3, dtype=np.float32)
    expected = numbers.reshape(rows, 3).astype(np.float64).sum(axis=0)
    for products in row_levels(rows, 3):
        numbers = np.concatenate([product_of(one, numbers) for one in products], dtype=np.float64)
        numbers = numbers.astype(np.float32)
    np.testing.assert_allclose(numbers, expected, rtol=1e-6)


def test_layouts_that_numpy_sums() -> None:
    dense = layout_of((2, 6, 8, 9), "ncx")
    assert ones_products(dense)
    apart = TensorLayout(dense.shape, (2 * dense.strides[0], *dense.strides[1:]))
    prime = layout_of((1, 2, 10007), "ncx")
    for layout in (apart, prime):
        assert gradient_products(layout) == ()
        assert sums_shape(layout) is None
        assert ones_products(layout) == []
        assert partial_sums(layout) == 0
