"""What is left to lax because it is faster there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import pytest

import onednn_py
from onednn_py.jax import conv_general_dilated, rules
from tests.support.jax_cases import integers

pytestmark = pytest.mark.frameworks

LAST = ("NHWC", "HWIO", "NHWC")


@pytest.fixture(autouse=True)
def no_named_backend() -> Iterator[None]:
    with onednn_py.use_backend("auto"):
        yield


def callbacks(*shapes: Any, dtype: str = "float32", **options: Any) -> int:
    """Return how many callbacks the forward operation has."""
    function = partial(conv_general_dilated, window_strides=(1, 1), padding="SAME", **options)
    structs = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    return jax.jit(function).lower(*structs).as_text().count("callback")


@pytest.mark.parametrize(
    ("channels", "size", "is_ours"), [(4, 8, True), (16, 16, False), (64, 56, True)]
)
def test_the_range_of_products(onednn: str, channels: int, size: int, is_ours: bool) -> None:
    shapes = (8, channels, size, size), (channels, channels, 3, 3)
    assert (callbacks(*shapes) > 0) == is_ours


def test_a_named_backend_computes_all(onednn: str) -> None:
    shapes = (8, 16, 16, 16), (16, 16, 3, 3)
    assert callbacks(*shapes) == 0
    with onednn_py.use_backend("onednn"):
        assert callbacks(*shapes) > 0


@pytest.mark.parametrize("is_native", [True, False])
def test_small_problems_in_converted_float16(
    onednn: str, is_native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    supports = {"f32": True, "bf16": True, "f16": is_native, "graph_api": True}
    monkeypatch.setattr(rules, "_supported", supports)
    small, large = ((8, 4, 8, 8), (4, 4, 3, 3)), ((8, 64, 56, 56), (64, 64, 3, 3))
    assert (callbacks(*small, dtype="float16") > 0) == is_native
    assert callbacks(*small, dtype="bfloat16") > 0
    assert callbacks(*large, dtype="float16") > 0


def test_few_input_channels_that_are_last(onednn: str) -> None:
    assert callbacks((8, 224, 224, 3), (7, 7, 3, 64), dimension_numbers=LAST) == 0
    assert callbacks((8, 3, 224, 224), (64, 3, 7, 7)) > 0


def test_without_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_supported", {})
    monkeypatch.setattr(onednn_py, "info", lambda: {"supports": None})
    shapes = (8, 4, 8, 8), (4, 4, 3, 3)
    assert callbacks(*shapes) == 0
    with onednn_py.use_backend("numpy"):
        assert callbacks(*shapes) > 0


def test_small_integers_stay_small() -> None:
    assert set(integers((100,)).tolist()) == {-2.0, -1.0, 0.0, 1.0, 2.0}
