"""The strict door: documented names, inputs by index, what is required and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError

SRC = np.ones((2, 6, 7, 4), np.float32)
WEIGHTS = np.ones((3, 3, 4, 5), np.float32)
DST = np.ones((2, 4, 5, 5), np.float32)
REQUIRED = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}


def test_runs(backend: str) -> None:
    np.testing.assert_array_equal(
        onednn_py.run_op("Convolution", [SRC, WEIGHTS], REQUIRED, backend=backend),
        onednn_py.convolution(SRC, WEIGHTS, backend=backend),
    )


@pytest.mark.parametrize("missing", REQUIRED)
def test_required(missing: str) -> None:
    attributes = {name: value for name, value in REQUIRED.items() if name != missing}
    with pytest.raises(AttributeValueError, match=f"required attribute missing: {missing}"):
        onednn_py.run_op("Convolution", [SRC, WEIGHTS], attributes)
    if missing.startswith("pads"):
        attributes["auto_pad"] = "VALID"
        onednn_py.run_op("Convolution", [SRC, WEIGHTS], attributes)


def test_unknown_attribute_names_the_accepted() -> None:
    for name in ("stride", "filter_format", "dst_shape", "auto_pad_rule"):
        with pytest.raises(
            AttributeValueError, match=f"unknown attribute '{name}'; accepted are strides"
        ):
            onednn_py.run_op("Convolution", [SRC, WEIGHTS], REQUIRED | {name: 1})


@pytest.mark.parametrize("kind", ["convolution", "MatMul", None, 3, ["Convolution"]])
def test_unknown_kind(kind: Any) -> None:
    with pytest.raises(AttributeValueError, match="kind: expected one of Convolution, "):
        onednn_py.run_op(kind, [SRC, WEIGHTS], REQUIRED)


@pytest.mark.parametrize("inputs", [[SRC], [], [SRC, WEIGHTS, None, None], SRC, None])
def test_inputs(inputs: Any) -> None:
    with pytest.raises(AttributeValueError, match="inputs"):
        onednn_py.run_op("Convolution", inputs, REQUIRED)


def test_attributes_must_be_a_mapping() -> None:
    with pytest.raises(AttributeValueError, match="expected a mapping"):
        onednn_py.run_op("Convolution", [SRC, WEIGHTS], [("strides", 1)])


def test_shape_as_input_wins_over_the_attribute(backend: str) -> None:
    attributes = REQUIRED | {"strides": [2, 2]}
    shape = np.array([2, 10, 12, 4])
    result = onednn_py.run_op(
        "ConvolutionBackwardData",
        [DST, WEIGHTS, shape],
        attributes | {"dst_shape": [2, 9, 11, 4]},
        backend=backend,
    )
    assert result.shape == tuple(shape)
    result = onednn_py.run_op(
        "ConvolutionBackpropData",
        [DST, WEIGHTS],
        attributes | {"output_shape": [2, 9, 12, 4]},
        backend=backend,
    )
    assert result.shape == (2, 9, 12, 4)


def test_weights_shape_from_either_place(backend: str) -> None:
    by_input = onednn_py.run_op(
        "ConvolutionBackwardWeights",
        [SRC, DST, np.array(WEIGHTS.shape, np.int32)],
        REQUIRED,
        backend=backend,
    )
    by_attribute = onednn_py.run_op(
        "ConvolutionBackwardWeights",
        [SRC, DST],
        REQUIRED | {"weights_shape": WEIGHTS.shape},
        backend=backend,
    )
    np.testing.assert_array_equal(by_input, by_attribute)
    with pytest.raises(AttributeValueError, match="weights_shape is required"):
        onednn_py.run_op("ConvolutionBackwardWeights", [SRC, DST], REQUIRED)
