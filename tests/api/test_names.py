"""Names as people have them: formats of other libraries, plans by name, formats that would fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError, ShapeError, TensorSpec
from onednn_py.problem.formats import DATA_FORMATS, WEIGHTS_FORMATS, spatial_name
from tests.support.call_cases import CALLS, DST, SRC, WEIGHTS, arrays_of

# For one to three spatial axes, what the documented names are called elsewhere.
DATA_NAMES = {"NCX": ("NCW", "NCHW", "NCDHW"), "NXC": ("NWC", "NHWC", "NDHWC")}
WEIGHTS_NAMES = {
    "OIX": ("OIW", "OIHW", "OIDHW"),
    "XIO": ("WIO", "HWIO", "DHWIO"),
    "IOX": ("IOW", "IOHW", "IODHW"),
    "XOI": ("WOI", "HWOI", "DHWOI"),
}
DOCUMENTED = {"strides": 1, "pads_begin": 0, "pads_end": 0, "dilations": 1}


def test_the_names_are_those_of_the_contract() -> None:
    for format_, names in {**DATA_NAMES, **WEIGHTS_NAMES}.items():
        assert tuple(spatial_name(format_, axes) for axes in (1, 2, 3)) == names


def cube(case: str, axes: int) -> tuple[Any, list[Any], dict[str, Any], str, str]:
    """Return a function's call with four elements along every axis, and its names of formats."""
    function, tensors, attributes = CALLS[case]
    shape = (4,) * (axes + 2)
    given = [
        t if t.ndim == 1 else np.random.default_rng(0).random(shape, np.float32) for t in tensors
    ]
    if function.__name__ in ("convolution_backward", "conv_transpose_backward"):
        attributes = {**attributes, "auto_pad": "same_upper"}
    if "weights_shape" in attributes:
        attributes = {**attributes, "weights_shape": shape, "auto_pad": "same_upper"}
    weights = (
        "filter_format" if function is onednn_py.convolution_backprop_data else "weights_format"
    )
    return function, given, attributes, weights, function.__name__


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("case", CALLS)
def test_aliases_mean_the_documented_names(case: str, axes: int, backend: str) -> None:
    function, tensors, attributes, weights_format, name = cube(case, axes)
    for data in DATA_FORMATS:
        for weights in WEIGHTS_FORMATS["transpose" in name]:
            formats = {"data_format": data, weights_format: weights}
            expected = function(*tensors, **attributes, **formats, backend=backend)
            misses = onednn_py.cache_info().misses
            for changed in (str.upper, str.lower, str.title):
                alias = {key: changed(spatial_name(value, axes)) for key, value in formats.items()}
                actual = function(*tensors, **attributes, **alias, backend=backend)
                for found, right in zip(arrays_of(actual), arrays_of(expected), strict=True):
                    np.testing.assert_array_equal(found, right)
                specs = [TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors]
                planned = onednn_py.plan(name, *specs, **attributes, **alias, backend=backend)
                for found, right in zip(
                    arrays_of(planned(*tensors)), arrays_of(expected), strict=True
                ):
                    np.testing.assert_array_equal(found, right)
            assert onednn_py.cache_info().misses == misses, "another name, another plan"


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_an_alias_must_fit_the_number_of_axes(axes: int) -> None:
    src = np.ones((4,) * (axes + 2), np.float32)
    for other in {1, 2, 3} - {axes}:
        expected = f"expected {spatial_name('NCX', axes)} or NCX for arrays of {axes + 2} axes"
        with pytest.raises(AttributeValueError, match=f"data_format: {expected}"):
            onednn_py.convolution(src, src, data_format=spatial_name("NCX", other))
        expected = f"expected {spatial_name('OIX', axes)} or OIX for arrays of {axes + 2} axes"
        with pytest.raises(AttributeValueError, match=f"weights_format: {expected}"):
            onednn_py.convolution(src, src, weights_format=spatial_name("OIX", other))


def test_formats_of_the_other_family_are_refused() -> None:
    with pytest.raises(AttributeValueError, match="'HWIO', which is no format of transposed"):
        onednn_py.conv_transpose(SRC, WEIGHTS, weights_format="HWIO")
    with pytest.raises(AttributeValueError, match="'IOHW', which is no format of convolution"):
        onednn_py.convolution(SRC, WEIGHTS, weights_format="IOHW")


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("Convolution", "data_format", "NHWC"),
        ("Convolution", "weights_format", "hwio"),
        ("ConvTranspose", "weights_format", "IOHW"),
        ("ConvolutionBackpropData", "filter_format", "OIHW"),
    ],
)
def test_run_op_takes_documented_names_alone(kind: str, name: str, value: str) -> None:
    tensors = [SRC, WEIGHTS]
    expected = "as the documents have them; got .*the functions alone"
    with pytest.raises(AttributeValueError, match=f"{kind}: {name}: .*{expected}"):
        onednn_py.run_op(kind, tensors, {**DOCUMENTED, name: value})
    onednn_py.run_op("Convolution", tensors, {**DOCUMENTED, "data_format": "nxc"})


def test_run_op_writes_no_format_that_is_no_text() -> None:
    """A number of so many digits cannot be written."""
    for name in ("data_format", "weights_format"):
        with pytest.raises(AttributeValueError, match=f"{name}: expected one of"):
            onednn_py.run_op("Convolution", [SRC, WEIGHTS], {**DOCUMENTED, name: 10**5000})


@pytest.mark.parametrize("name", ["convolution_backward_data", "ConvolutionBackwardData"])
def test_plans_by_name(name: str, backend: str) -> None:
    planned = onednn_py.plan(name, DST, WEIGHTS, pads_begin=1, backend=backend)
    expected = onednn_py.convolution_backward_data(DST, WEIGHTS, pads_begin=1, backend=backend)
    np.testing.assert_array_equal(planned(DST, WEIGHTS), expected)


class TestDidYouMean:
    SRC = np.ones((2, 3, 16, 16), np.float32)
    WEIGHTS = np.ones((8, 3, 5, 5), np.float32)
    DST = np.ones((2, 8, 12, 12), np.float32)

    def test_weights_of_another_format(self) -> None:
        expected = (
            r"expected .*\(\*kernel, 3, O\) for XIO; got .*; did you mean weights_format='OIX'\?"
        )
        with pytest.raises(ShapeError, match=expected):
            onednn_py.convolution(self.SRC, self.WEIGHTS, data_format="NCX")
        with pytest.raises(ShapeError, match=r"did you mean filter_format='OIX'\?"):
            onednn_py.convolution_backprop_data(self.DST, self.WEIGHTS, data_format="NCX")
        with pytest.raises(ShapeError, match=r"did you mean weights_format='OIX'\?"):
            onednn_py.convolution_backward(self.SRC, self.WEIGHTS, self.DST, data_format="NCX")
        with pytest.raises(ShapeError, match=r"did you mean weights_format='IOX'\?"):
            onednn_py.conv_transpose(self.DST, self.WEIGHTS, data_format="NCHW")
        with pytest.raises(ShapeError, match=r"did you mean weights_format='OIX'\?"):
            onednn_py.convolution_backward_weights(
                self.SRC, self.DST, self.WEIGHTS.shape, data_format="NCX"
            )

    def test_where_the_channels_happen_to_fit(self) -> None:
        """Weights of three outputs: what does not fit is the kernel."""
        weights = np.ones((20, 3, 3, 3), np.float32)
        with pytest.raises(
            ShapeError, match=r"kernel extends.*did you mean weights_format='OIX'\?"
        ):
            onednn_py.convolution(self.SRC, weights, data_format="NCX")

    def test_both_formats(self) -> None:
        with pytest.raises(ShapeError, match="data_format='NCX', weights_format='OIX'"):
            onednn_py.convolution(self.SRC, self.WEIGHTS)

    def test_nothing_is_suggested_that_would_not_fit(self) -> None:
        with pytest.raises(ShapeError) as caught:
            onednn_py.convolution(self.SRC, self.WEIGHTS[:, :2])
        assert "did you mean" not in str(caught.value)

    def test_groups_that_were_forgotten(self) -> None:
        src, weights = np.ones((1, 32, 14, 14), np.float32), np.ones((32, 1, 3, 3), np.float32)
        formats: Any = {"data_format": "NCX", "weights_format": "OIX"}
        with pytest.raises(ShapeError, match=r"got \(32, 1, 3, 3\); did you mean groups=32\?"):
            onednn_py.convolution(src, weights, **formats)
        onednn_py.convolution(src, weights, groups=32, **formats)
        with pytest.raises(ShapeError, match=r"did you mean groups=32\?"):
            onednn_py.convolution_backward_weights(src, src[..., 2:, 2:], weights.shape, **formats)
        # The weights of all groups at once.
        with pytest.raises(ShapeError, match=r"did you mean groups=1\?"):
            onednn_py.convolution(src, np.ones((8, 32, 3, 3), np.float32), groups=2, **formats)

    def test_weights_with_an_axis_of_groups(self) -> None:
        src, weights = np.ones((1, 8, 9, 9), np.float32), np.ones((2, 3, 4, 3, 3), np.float32)
        formats: Any = {"data_format": "NCX", "weights_format": "OIX"}
        remedy = r"\(groups, C, \*rest\) is reshaped to \(groups \* C, \*rest\)"
        with pytest.raises(ShapeError, match=f"src 4, weights 5; .*{remedy}"):
            onednn_py.convolution(src, weights, groups=2, **formats)
        with pytest.raises(ShapeError, match=remedy):
            onednn_py.convolution(src, weights, groups=np.int64(2), **formats)
        with pytest.raises(AttributeValueError, match=f"got 'GOIX'; .*{remedy}"):
            onednn_py.convolution(src, weights[0], data_format="NCX", weights_format="GOIX")
        with pytest.raises(ShapeError, match="src 4, weights 5; src and dst begin with an axis of"):
            onednn_py.convolution(src, weights, **formats)
        dst = onednn_py.convolution(src, weights.reshape(6, 4, 3, 3), groups=2, **formats)
        assert dst.shape == (1, 6, 7, 7)
        with pytest.raises(ShapeError) as caught:
            onednn_py.convolution(src, weights[0, 0], groups=2, **formats)
        assert ";" not in str(caught.value).partition("got")[2]

    def test_a_width_that_happens_to_be_a_number_of_channels(self) -> None:
        """The caller's formats agree; one of channels last with the other of channels first not."""
        src, weights = np.ones((1, 32, 64, 64), np.float32), np.ones((64, 32, 3, 3), np.float32)
        formats: Any = {"data_format": "NCX", "weights_format": "OIX"}
        with pytest.raises(ShapeError, match=r"did you mean groups=1\?"):
            onednn_py.convolution(src, weights, groups=2, **formats)

    def test_where_only_the_bias_tells(self) -> None:
        """Three inputs, three rows and three outputs: the shapes fit as XIO, the bias does not."""
        src, weights = np.ones((1, 9, 9, 3), np.float32), np.ones((3, 3, 3, 4), np.float32)
        meant = r"bias: expected shape \(4,\), got \(3,\); did you mean weights_format='OIX'\?"
        with pytest.raises(ShapeError, match=meant):
            onednn_py.convolution(src, weights, np.ones(3, np.float32))
        for bias in (np.ones(5, np.float32), np.ones((3, 1), np.float32)):
            with pytest.raises(ShapeError) as caught:
                onednn_py.convolution(src, weights, bias)
            assert "did you mean" not in str(caught.value)
