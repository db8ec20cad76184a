"""Matrix products: the size of tiles, and where shifted products pay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onednn_py.backends.numpy.correlation import AxisCorrelation, Correlation
from onednn_py.backends.numpy.products import MOST_TILE_BYTES, Kn2row, pixels_at_once
from onednn_py.backends.numpy.workspace import borrowed_workspace

F32 = np.dtype(np.float32)


@given(
    elements=st.integers(1, 10**8),
    pixels=st.integers(1, 10**7),
    threads=st.integers(1, 9),
)
def test_tiles_are_bounded_and_suffice_for_all_threads(
    elements: int, pixels: int, threads: int
) -> None:
    with borrowed_workspace(F32, threads) as workspace:
        found = pixels_at_once(elements, pixels, workspace)
    assert found >= 1
    assert found == 1 or 4 * elements * found <= MOST_TILE_BYTES
    # Below 384 pixels a thread, packing the weights would cost more than a thread gains.
    if pixels >= 2 * 384 * threads:
        assert -(-pixels // found) >= threads


def axis(kernel: int, step: int = 1, dilation: int = 1) -> AxisCorrelation:
    return AxisCorrelation(range(kernel), range(20), 0, dilation, step, source_size=30)


@pytest.mark.parametrize(
    ("axes", "inputs", "outputs", "pays"),
    [
        ((axis(3), axis(3)), 64, 2, True),
        ((axis(3), axis(3)), 64, 64, False),
        ((axis(1), axis(1)), 64, 2, False),
        ((axis(3), axis(3, step=2)), 64, 2, False),
        ((axis(3), axis(3, dilation=10**6)), 64, 2, False),
    ],
)
def test_where_shifted_products_pay(
    axes: tuple[AxisCorrelation, ...], inputs: int, outputs: int, pays: bool
) -> None:
    source, target = np.empty((1, 1, inputs, 30, 30)), np.empty((1, 1, outputs, 20, 20))
    assert Kn2row.pays(Correlation(axes), source, target) == pays
