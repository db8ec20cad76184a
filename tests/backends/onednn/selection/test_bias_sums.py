"""Products with ones: every element of diff_dst is in one short sum of its channel."""

from __future__ import annotations

import numpy as np
import pytest

from onednn_py.backends.onednn.selection.bias_sums import (
    MOST_ONES,
    MOST_ROWS,
    ones_products,
    partial_sums,
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
    "one channel": (2, 1, 9, 9),
    "more channels than a row has": (3, 700, 8, 8),
}


def layout_of(shape: tuple[int, ...], order: str) -> TensorLayout:
    return TensorLayout(shape, (0,) * len(shape)).with_channels(order)


@pytest.mark.parametrize("order", ["ncx", "nxc"])
@pytest.mark.parametrize("name", SHAPES)
def test_products_are_the_sums(name: str, order: str) -> None:
    layout = layout_of(SHAPES[name], order)
    numbers = np.random.default_rng(0).integers(-9, 10, layout.size).astype(np.float32)
    strides = [4 * stride for stride in layout.strides]
    expected = np.ndarray(layout.shape, np.float32, numbers, 0, strides).astype(np.float64)
    expected = expected.sum(axis=(0, *range(2, expected.ndim)))
    shape = sums_shape(layout)
    assert shape is not None
    sums = []
    for product in ones_products(layout):
        read, ones = product.first, product.second
        if product.ones_first:
            read, ones = ones, read
        assert ones.size <= (2 * MOST_ROWS if order == "nxc" else MOST_ONES)
        strides = [4 * stride for stride in read.strides]
        part = np.ndarray(read.shape, np.float32, numbers, 4 * product.begin, strides)
        ones = np.ones(ones.shape, np.float32)
        found = ones @ part if product.ones_first else part @ ones
        assert found.shape == product.sums.shape
        assert product.sums.strides == product.sums.dense().strides
        sums.append(found.ravel())
    every = np.concatenate(sums)
    assert every.size == partial_sums(layout)
    np.testing.assert_array_equal(every.reshape(-1, *shape).sum(axis=(0, 2)), expected)


def test_layouts_that_numpy_sums() -> None:
    dense = layout_of((2, 6, 8, 9), "ncx")
    assert ones_products(dense)
    apart = TensorLayout(dense.shape, (2 * dense.strides[0], *dense.strides[1:]))
    few_pixels = layout_of((50, 6, 3, 3), "ncx")
    prime = layout_of((1, 2, 10007), "ncx")
    for layout in (apart, few_pixels, prime):
        assert sums_shape(layout) is None
        assert ones_products(layout) == []
        assert partial_sums(layout) == 0
