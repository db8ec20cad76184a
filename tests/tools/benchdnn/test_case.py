"""Cases: calls of the package for benchdnn's problems."""

from __future__ import annotations

import json

import numpy as np
import pytest

from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import DIRECTIONS, Case
from onednn_py.tools.benchdnn.filling import fill_integers

CASES = [
    Case(parse_descriptor(text, transposed=transposed), direction, dtype, data_format)
    for text, transposed in (
        ("g2ic4ih7iw5oc6kh3kw2sh2ph1dw1", False),
        ("g2ic4ih4iw5oc6kh3kw2sh2ph1oh8ow6", True),
        ("ic6iw9oc5ow5kw3sw2", True),
    )
    for direction in DIRECTIONS
    for dtype in ("f32", "bf16", "f16")
    for data_format in ("NCX", "NXC")
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.options)
def test_case_is_a_call_with_exact_sums(case: Case) -> None:
    inputs = fill_integers(case)
    assert [tensor.shape for tensor in inputs] == [case.shape(role) for role in case.input_roles]
    reference = case.call([tensor.astype(np.float64) for tensor in inputs], "numpy")
    results = case.call(inputs, "numpy")
    assert len(results) == len(case.result_roles)
    for role, result, exact in zip(case.result_roles, results, reference, strict=True):
        assert result.shape == case.shape(role)
        np.testing.assert_array_equal(exact % 1, 0)
        np.testing.assert_array_equal(result.astype(np.float64), exact)
        assert np.abs(exact).max() > 0
    problem = case.problem()
    assert problem.transposed == case.descriptor.transposed
    assert problem.pads_end == case.descriptor.pads_end
    assert (problem.bias is not None) == case.has_bias


def test_options_select_the_case() -> None:
    case = Case(parse_descriptor('ic8iw9oc8kw3n"a*b"', transposed=True), "BWD_WB", "f16", "NXC")
    assert case.options == (
        "--dir=BWD_WB --dt=f16 --format=NXC --deconv 'mb2ic8iw9oc8ow11kw3pw0n\"a*b\"'"
    )


def test_a_case_survives_json() -> None:
    descriptor = parse_descriptor('g2ic8ih5oc16kh4sh2ph1dh1n"a,b"', transposed=True)
    case = Case(descriptor, "BWD_WB", "bf16", "NXC")
    assert Case.from_json(json.loads(json.dumps(case.to_json()))) == case
