"""Every operation, exact on small integers and close on dense ones, in every format."""

from __future__ import annotations

import numpy as np
import pytest

import onednn_py
from tests.support.cases import CURATED, OPERATIONS, case

FORMATS = [(data, first) for data in ("NCX", "NXC") for first in (True, False)]


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", CURATED)
def test_exact_in_every_format(name: str, operation: str, dtype: str, backend: str) -> None:
    tensors = CURATED[name].integers(dtype)
    for data_format, weights_first in FORMATS:
        tensors.check(operation, backend, data_format=data_format, weights_first=weights_first)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", CURATED)
def test_dense(name: str, operation: str, dtype: str, backend: str) -> None:
    """Sparse integers can miss what dense data shows: a depthwise bug on aarch64 did."""
    CURATED[name].normals(dtype).check(operation, backend, exact=False)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", CURATED)
def test_float64_runs_on_numpy(name: str, operation: str) -> None:
    tensors = CURATED[name].normals("f64")
    tensors.check(operation, "auto", exact=False)
    positional, keywords = tensors.arguments(operation, "NCX", True)
    planned = onednn_py.plan(getattr(onednn_py, operation), *positional, **keywords)
    assert planned.backend == "numpy"


@pytest.mark.parametrize("form", ["native", "documented"])
@pytest.mark.parametrize("weights_first", [True, False])
@pytest.mark.parametrize("operation", [name for name in OPERATIONS if "transpose" in name])
def test_both_grouped_layouts_of_transposed_weights(
    operation: str, weights_first: bool, form: str, backend: str
) -> None:
    for groups, inputs, outputs in ((2, 6, 4), (3, 3, 9), (4, 4, 4)):
        geometry = case((6, 5), 3, 2, pads=1).with_groups(groups, inputs, outputs)
        geometry.integers("f32").check(
            operation, backend, weights_first=weights_first, form=form, data_format="NXC"
        )


@pytest.mark.parametrize("operation", ["convolution_backward_data", "conv_transpose"])
@pytest.mark.parametrize("bias", [True, False])
def test_output_padding_up_to_the_dilation(operation: str, bias: bool, backend: str) -> None:
    """Native refuses output_padding >= stride; the result then has a tail beyond its reach."""
    rng = np.random.default_rng(0)
    for stride, dilation, extra in ((1, 2, 1), (2, 4, 3), (2, 5, 2), (3, 2, 2), (1, 3, 2)):
        attributes = {
            "strides": stride,
            "dilations": dilation,
            "data_format": "NCX",
            "weights_format": "OIX" if operation == "convolution_backward_data" else "IOX",
            "backend": backend,
        }
        src = rng.integers(-3, 4, (2, 4, 5, 3)).astype(np.float32)
        weights = rng.integers(-3, 4, (4, 6, 2, 3)).astype(np.float32)
        function = getattr(onednn_py, operation)
        if bias and operation == "conv_transpose":
            vector = np.arange(6, dtype=np.float32)
            plain = function(src, weights, vector, **attributes)
            padded = function(src, weights, vector, output_padding=extra, **attributes)
            tail = np.broadcast_to(vector[:, None, None], padded.shape[1:])
        else:
            plain = function(src, weights, **attributes)
            padded = function(src, weights, output_padding=extra, **attributes)
            tail = np.zeros(padded.shape[1:])
        height, width = plain.shape[2:]
        assert padded.shape == (2, 6, height + extra, width + extra)
        np.testing.assert_array_equal(padded[:, :, :height, :width], plain)
        np.testing.assert_array_equal(padded[:, :, height:], tail[None, :, height:].repeat(2, 0))
        np.testing.assert_array_equal(padded[..., width:], tail[None, ..., width:].repeat(2, 0))


@pytest.mark.parametrize(("stride", "dilation", "extra"), [(1, 2, 1), (2, 5, 3), (2, 4, 2)])
def test_transposed_gradients_with_output_padding_beyond_the_stride(
    stride: int, dilation: int, extra: int, backend: str
) -> None:
    """The tail of diff_dst touches no window, but counts in the bias gradient."""
    rng = np.random.default_rng(1)
    attributes = {
        "strides": stride,
        "dilations": dilation,
        "output_padding": extra,
        "data_format": "NCX",
        "weights_format": "IOX",
        "backend": backend,
    }
    src = rng.integers(-3, 4, (2, 4, 5)).astype(np.float32)
    weights = rng.integers(-3, 4, (4, 6, 3)).astype(np.float32)
    shape = onednn_py.conv_transpose(src, weights, **attributes).shape
    diff_dst = rng.integers(-3, 4, shape).astype(np.float32)
    diff_weights, diff_bias = onednn_py.conv_transpose_backward_weights(
        src, diff_dst, weights.shape, bias=True, **attributes
    )
    reach = shape[-1] - extra
    cut = attributes | {"output_padding": 0}
    np.testing.assert_array_equal(
        diff_weights,
        onednn_py.conv_transpose_backward_weights(src, diff_dst[..., :reach], weights.shape, **cut),
    )
    np.testing.assert_array_equal(diff_bias, diff_dst.sum(axis=(0, 2)))
    np.testing.assert_array_equal(
        onednn_py.conv_transpose_backward_data(diff_dst, weights, **attributes),
        onednn_py.conv_transpose_backward_data(diff_dst[..., :reach], weights, **cut),
    )


def test_older_name_is_the_same_gradient(backend: str) -> None:
    tensors = CURATED["2d_asymmetric"].integers("f32")
    positional, keywords = tensors.arguments("convolution_backward_data", "NXC", False)
    expected = onednn_py.convolution_backward_data(*positional, **keywords, backend=backend)
    keywords["filter_format"] = keywords.pop("weights_format")
    actual = onednn_py.convolution_backprop_data(*positional, **keywords, backend=backend)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    "wrt", [("src",), ("weights",), ("bias",), ("src", "bias"), ("src", "weights", "bias")]
)
def test_joint_backward(transposed: bool, wrt: tuple[str, ...], backend: str) -> None:
    tensors = CURATED["2d_strided_dilated"].integers("f32")
    family = "conv_transpose" if transposed else "convolution"
    forward, keywords = tensors.arguments(family, "NXC", False)
    weights_call, _ = tensors.arguments(f"{family}_backward_weights", "NXC", False)
    src, weights, diff_dst = forward[0], forward[1], weights_call[1]
    joint = getattr(onednn_py, f"{family}_backward")
    gradients = joint(src, weights, diff_dst, **keywords, wrt=wrt, backend=backend)
    pair = getattr(onednn_py, f"{family}_backward_weights")(
        src, diff_dst, weights.shape, **keywords, bias=True, backend=backend
    )
    data_call, data_keywords = tensors.arguments(f"{family}_backward_data", "NXC", False)
    diff_src = getattr(onednn_py, f"{family}_backward_data")(
        *data_call, **data_keywords, backend=backend
    )
    expected = {"src": diff_src, "weights": pair[0], "bias": pair[1]}
    for name, gradient in zip(("src", "weights", "bias"), gradients, strict=True):
        if name in wrt:
            np.testing.assert_array_equal(gradient, expected[name])
        else:
            assert gradient is None
    again = joint(
        src, weights, diff_dst, **keywords, wrt=("src", "weights", "bias"), backend=backend
    )
    written = joint(
        src,
        weights,
        -diff_dst,
        **keywords,
        wrt=("src", "weights", "bias"),
        out=again,
        backend=backend,
    )
    for name, first, second in zip(expected, again, written, strict=True):
        assert first is second
        np.testing.assert_array_equal(second, -expected[name])
