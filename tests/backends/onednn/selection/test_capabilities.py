"""The abilities that `info` reports are those of the plans and of the library."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest

import onednn_py
from onednn_py import TensorSpec
from onednn_py.backends.onednn.binding.library import library
from tests.support.requirements import needs_onednn

pytestmark = needs_onednn

DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}


@pytest.mark.parametrize("dtype", DTYPES)
def test_plans_compute_unsupported_types_in_f32(dtype: str) -> None:
    plan = onednn_py.plan(
        onednn_py.convolution_backward_data,
        TensorSpec((1, 6, 6, 16), DTYPES[dtype]),
        TensorSpec((3, 3, 16, 16), DTYPES[dtype]),
        backend="onednn",
    )
    assert ("through f32" in str(plan)) != onednn_py.info()["supports"][dtype]


def test_f32_is_always_supported() -> None:
    assert onednn_py.info()["supports"]["f32"]


def test_the_graph_api_is_found_by_its_functions() -> None:
    opened = library()
    assert opened.exports("dnnl_version")
    assert not opened.exports("dnnl_no_such_function")
    has_graph_api = hasattr(ctypes.CDLL(opened.path), "dnnl_graph_op_create")
    assert onednn_py.info()["supports"]["graph_api"] == has_graph_api
