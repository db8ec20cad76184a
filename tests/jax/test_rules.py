"""What is left to lax because it is faster there."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import pytest

import onednn_py
from onednn_py.jax import conv_general_dilated
from tests.support.jax_cases import integers

pytestmark = pytest.mark.frameworks

LAST = ("NHWC", "HWIO", "NHWC")


def callbacks(*shapes: Any, **options: Any) -> int:
    """Return how many callbacks the forward operation has."""
    function = partial(conv_general_dilated, window_strides=(1, 1), padding="SAME", **options)
    text = jax.jit(function).lower(*(jax.ShapeDtypeStruct(s, "float32") for s in shapes)).as_text()
    return text.count("callback")


@pytest.mark.parametrize(
    ("channels", "size", "is_ours"), [(4, 8, True), (16, 16, False), (64, 56, True)]
)
def test_the_range_of_products(onednn: str, channels: int, size: int, is_ours: bool) -> None:
    shapes = (8, channels, size, size), (channels, channels, 3, 3)
    assert (callbacks(*shapes) > 0) == is_ours


def test_few_input_channels_that_are_last(onednn: str) -> None:
    assert callbacks((8, 224, 224, 3), (7, 7, 3, 64), dimension_numbers=LAST) == 0
    assert callbacks((8, 3, 224, 224), (64, 3, 7, 7)) > 0


def test_without_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn_py, "info", lambda: {"library": None})
    shapes = (8, 4, 8, 8), (4, 4, 3, 3)
    assert callbacks(*shapes) == 0
    with onednn_py.use_backend("numpy"):
        assert callbacks(*shapes) > 0


def test_small_integers_stay_small() -> None:
    assert set(integers((100,)).tolist()) == {-2.0, -1.0, 0.0, 1.0, 2.0}
