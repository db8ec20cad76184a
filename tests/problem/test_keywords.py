"""Keywords of other libraries get an error that says what they are called here."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError
from onednn_py.api import FUNCTIONS
from onednn_py.problem.keywords import _OURS, translated
from tests.support.call_cases import CALLS

ACCEPTED = {name: tuple(inspect.signature(f).parameters) for name, f in FUNCTIONS.items()}


@pytest.mark.parametrize(
    ("keyword", "ours"),
    [
        ("padding", "pads_begin and pads_end or auto_pad"),
        ("pads", "pads_begin and pads_end"),
        ("stride", "strides"),
        ("window_strides", "strides"),
        ("dilation", "dilations"),
        ("rhs_dilation", "dilations"),
        ("dilation_rate", "dilations"),
        ("group", "groups"),
        ("feature_group_count", "groups"),
        ("dimension_numbers", "data_format and (weights|filter)_format"),
        ("kernel_size", "the shape of the weights"),
        ("kernel_shape", "the shape of the weights"),
        ("lhs_dilation", "strides of conv_transpose"),
        ("back_end", "backend"),
        ("nonsense", "the keywords are "),
    ],
)
@pytest.mark.parametrize("case", CALLS)
def test_every_function_names_its_own(case: str, keyword: str, ours: str) -> None:
    function, tensors, attributes = CALLS[case]
    with pytest.raises(TypeError, match=rf"unexpected keyword argument '{keyword}': .*{ours}"):
        function(*tensors, **attributes, **{keyword: 1})
    for planned in (function, function.__name__):
        with pytest.raises(TypeError, match=rf"^plan: {function.__name__}.*'{keyword}': .*{ours}"):
            onednn_py.plan(planned, *tensors, **attributes, **{keyword: 1})


@pytest.mark.parametrize(
    ("function", "ours"),
    [
        ("convolution_backward_data", "dst_shape or output_padding"),
        ("convolution_backprop_data", "output_padding"),
        ("conv_transpose", "output_padding"),
        ("conv_transpose_backward", "output_padding"),
    ],
)
def test_output_size_is_what_the_function_has(function: str, ours: str) -> None:
    assert ours in translated("output_size", ACCEPTED[function])


def test_nothing_is_named_that_a_function_does_not_have() -> None:
    for name, accepted in ACCEPTED.items():
        for keyword in _OURS:
            said = translated(keyword, accepted)
            if said.startswith("here that is") and "conv_transpose" not in said:
                words = (
                    said.removeprefix("here that is ").replace(" or ", " ").replace(" and ", " ")
                )
                assert set(words.split()) <= set(accepted), (name, keyword)
            assert keyword not in accepted or keyword == "output_shape"


def test_several_unknown_keywords_and_long_ones() -> None:
    function, tensors, _ = CALLS["convolution"]
    with pytest.raises(TypeError, match="'padding': .*; 'stride': here that is strides"):
        function(*tensors, padding=1, stride=1)
    with pytest.raises(TypeError) as caught:
        function(*tensors, **{"x" * 10_000: 1})
    assert len(str(caught.value)) <= 600
    assert isinstance(caught.value, AttributeValueError)


def test_signatures_show_no_catch_all() -> None:
    for function in FUNCTIONS.values():
        kinds = {one.kind for one in inspect.signature(function).parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds
        assert "unknown" not in function.__annotations__


def test_run_op_says_what_attributes_are_called() -> None:
    tensors: list[Any] = [np.ones((1, 4, 4, 1), np.float32), np.ones((2, 2, 1, 1), np.float32)]
    with pytest.raises(AttributeValueError, match="unknown attribute 'padding'.*pads_begin"):
        onednn_py.run_op("Convolution", tensors, {"padding": 1})


def test_misspelt_keywords_only_are_taken_for_ours() -> None:
    accepted = inspect.signature(onednn_py.convolution_backward_data).parameters
    assert translated("Strides", accepted) == "did you mean strides?"
    assert "numpy.pad" in translated("padding_mode", accepted)
    of_both = inspect.signature(onednn_py.convolution_backward).parameters
    assert translated("bias", of_both) == 'here wrt names it, as in wrt=("src", "weights", "bias")'
    transposed = inspect.signature(onednn_py.conv_transpose).parameters
    for name in ("output_shape", "output_size"):
        assert translated(name, transposed).endswith("follows from the pads and output_padding")
    for other in ("output_mask", "device"):
        assert translated(other, accepted).startswith("the keywords are diff_dst, weights")
