"""Memory layouts in numbers and in words."""

from __future__ import annotations

import re

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.binding.layouts import (
    blocks_of,
    dtype_of,
    layout_name,
    shape_of,
    strides_of,
)
from onednn_py.backends.onednn.binding.runtime import current_engine
from tests.support.requirements import needs_onednn

pytestmark = needs_onednn


@pytest.mark.parametrize(
    ("strides", "name"),
    [
        ((60, 20, 5, 1), "abcd"),
        ((60, 1, 15, 3), "acdb"),
        ((1, 8, 24, 96), "dcba"),
    ],
)
def test_plain_layouts(strides: tuple[int, ...], name: str) -> None:
    engine = current_engine()
    desc = engine.strided_desc((2, 3, 4, 5), "f32", strides)
    assert layout_name(engine.library, desc) == name


def test_a_layout_that_the_implementation_chooses() -> None:
    engine = current_engine()
    assert layout_name(engine.library, engine.any_desc((2, 3, 4, 5), "f32")) == "opaque"


def test_blocked_layouts_name_their_blocks() -> None:
    spec = onednn_py.TensorSpec((1, 14, 14, 32), np.float32)
    weights = onednn_py.TensorSpec((3, 3, 32, 32), np.float32)
    plan = onednn_py.plan("convolution_backward_data", spec, weights, pads_begin=1, pads_end=1)
    (layouts,) = (line for line in repr(plan).splitlines() if "layouts:" in line)
    assert re.search(r"weights [A-Da-d]{4}\d+[ab]", layouts)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_numbers_of_a_layout_by_strides(dtype: str) -> None:
    engine = current_engine()
    desc = engine.strided_desc((2, 3, 4, 5), dtype, (90, 1, 15, 3))
    assert shape_of(engine.library, desc) == (2, 3, 4, 5)
    assert strides_of(engine.library, desc) == (90, 1, 15, 3)
    assert blocks_of(engine.library, desc) == ()
    assert dtype_of(engine.library, desc) == dtype


def test_an_opaque_layout_has_neither_strides_nor_blocks() -> None:
    engine = current_engine()
    desc = engine.any_desc((2, 3, 4), "f32")
    assert shape_of(engine.library, desc) == (2, 3, 4)
    assert strides_of(engine.library, desc) is None
    assert blocks_of(engine.library, desc) is None


def test_blocks_are_named_from_the_outermost_in() -> None:
    engine = current_engine()
    tensors = [engine.any_desc(shape, "f32") for shape in ((1, 32, 14, 14), (48, 32, 3, 3))]
    dst = engine.any_desc((1, 48, 14, 14), "f32")
    geometry = (1, 1), (0, 0), (1, 1), (1, 1)
    primitive = engine.convolution_desc(
        "convolution", "forward", (*tensors, None, dst), geometry, fpmath_mode="strict"
    )
    weights = engine.desc_of(primitive, "weights")
    blocks = blocks_of(engine.library, weights)
    assert blocks
    name = layout_name(engine.library, weights)
    assert name.endswith("".join(f"{size}{'abcd'[axis]}" for size, axis in blocks))
