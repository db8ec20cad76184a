"""Numerical errors: their units, and the families of implementations."""

from __future__ import annotations

import numpy as np
import pytest

from onednn_py.problem.dtypes import DATA_TYPES
from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.verification.numerical_errors import (
    family,
    grouped,
    measure,
    spacing,
)
from onednn_py.tools.verification.verifier import runners
from tests.support.requirements import needs_onednn

pytestmark = needs_onednn


def test_correct_rounding_is_off_by_half_an_ulp() -> None:
    # With one product in each sum the result is rounded once, and no terms cancel.
    case = Case(parse_descriptor("mb64ic1iw1oc1kw1"), "FWD_D", "bf16", "NCX")
    measurements = measure(case, runners(["numpy"]))
    for measurement in measurements:
        assert 0.3 < measurement.largest_ulps <= 0.5
        assert measurement.tolerable
    groups = grouped(measurements)
    assert [group.cases for group in groups] == [1, 1]
    assert groups[-1].family == "NumPy"


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_spacing_is_that_of_numpy(dtype: str) -> None:
    values = np.array([0, 1, -1.5, 4, 1e-3], DATA_TYPES[dtype].numpy)
    expected = np.abs(np.spacing(values)).astype(np.float64)
    assert spacing(values.astype(np.float64), dtype).tolist() == expected.tolist()


def test_families() -> None:
    names = {
        "brgconv_bwd_w:avx512_core_bf16": "oneDNN brgemm",
        "conv:any+brgconv_1x1:avx512_core": "oneDNN brgemm",
        "x64:gemm:jit": "oneDNN gemm",
        "jit_dw:avx512_core": "oneDNN jit depthwise",
        "jit_bf16_1x1:avx512_core_bf16": "oneDNN jit 1x1",
        "conv:any+jit:avx2": "oneDNN jit",
        "ref:any": "oneDNN reference",
        "acl": "oneDNN acl",
    }
    for name, expected in names.items():
        assert family("onednn", name) == expected
    assert family("native", "jit:avx2") == "native jit"
    assert family("onednn", "numpy") == "NumPy"
