"""Memory layouts in words."""

from __future__ import annotations

import re

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.binding.layouts import layout_name
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
