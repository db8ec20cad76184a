"""docs/coming-from.md: every row's two calls run, and compute the same.

The rows of PyTorch and JAX are compared with these libraries, Keras' with what Keras does on JAX,
and ONNX's and OpenVINO's with the oracle of the other tests.
"""

from __future__ import annotations

import importlib
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import onednn_py
from tests.support.paths import ROOT
from tests.support.reference import contract

PAGE = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(.+?)` \| `(.+?)` \|$", re.MULTILINE)


def rows(library: str) -> list[tuple[str, str]]:
    """Return the calls of a section's table, the library's and ours."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (found,) = [text for text in section if text.startswith(library)]
    return ROW.findall(found)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def channels_last(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(array, 1, -1))


def plain(value: Any) -> np.ndarray:
    """Return a result as float64, whichever library it belongs to."""
    if hasattr(value, "detach"):
        value = value.detach().float().numpy()
    return np.asarray(value).astype(np.float64)


def assert_row(theirs: str, ours: str, names: dict[str, Any]) -> None:
    functions = {name: getattr(onednn_py, name) for name in onednn_py.__all__}
    expected, actual = eval(theirs, dict(names)), eval(ours, {**functions, **names})
    if not isinstance(actual, tuple):
        expected, actual = [expected], [actual]
    # A result in bfloat16 has eight digits.
    tolerance = 1e-2 if "bfloat16" in ours else 1e-4
    for right, found in zip(expected, actual, strict=True):
        assert isinstance(found, np.ndarray)
        assert plain(found).shape == plain(right).shape
        assert np.abs(plain(right)).max() > 1
        np.testing.assert_allclose(plain(found), plain(right), rtol=tolerance, atol=tolerance)


def test_the_page_has_rows_of_all_libraries() -> None:
    libraries = ("PyTorch", "JAX", "Keras", "ONNX", "OpenVINO")
    counts = {library: len(rows(library)) for library in libraries}
    assert min(counts.values()) >= 4
    assert PAGE.count("\n| `") == sum(counts.values()), "a row that is not parsed"


@pytest.fixture(scope="module")
def torch_names() -> dict[str, Any]:
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    shapes = {
        **{"src": (2, 4, 9, 8), "weights": (6, 4, 3, 3), "diff_dst": (2, 6, 5, 4), "bias": (6,)},
        **{"even": (6, 4, 2, 4), "grouped": (6, 2, 3, 3), "line": (2, 4, 9)},
        **{"line_weights": (6, 4, 3), "volume": (1, 4, 4, 5, 4), "volume_weights": (6, 4, 3, 2, 3)},
    }
    tensors = {name: torch.from_numpy(numbers(*shape)) for name, shape in shapes.items()}
    return {
        **tensors,
        "formats": {"data_format": "NCHW", "weights_format": "OIHW"},
        "torch": torch,
        "F": torch.nn.functional,
        "aten": torch.ops.aten,
        "layer": torch.nn.Conv2d(4, 6, 3, stride=2, padding=1),
    }


@pytest.mark.frameworks
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@pytest.mark.parametrize(("theirs", "ours"), rows("PyTorch"))
def test_pytorch(theirs: str, ours: str, torch_names: dict[str, Any]) -> None:
    assert_row(theirs, ours, torch_names)


def channels_last_tensors() -> dict[str, np.ndarray]:
    src, diff_dst = numbers(2, 4, 9, 8), numbers(2, 6, 5, 4)
    weights = numbers(3, 3, 4, 6)
    return {
        **{"src": channels_last(src), "diff_dst": channels_last(diff_dst), "weights": weights},
        **{"grouped": numbers(3, 3, 2, 6), "turned": numbers(3, 3, 4, 6), "first_src": src},
        **{"first_weights": np.ascontiguousarray(weights.transpose(3, 2, 0, 1))},
        **{"across": numbers(3, 3, 4, 2), "series": numbers(2, 9, 4)},
        "series_weights": numbers(3, 4, 6),
    }


@pytest.mark.frameworks
@pytest.mark.parametrize(("theirs", "ours"), rows("JAX"))
def test_jax(theirs: str, ours: str) -> None:
    jax = importlib.import_module("jax")
    tensors = {name: jax.numpy.asarray(one) for name, one in channels_last_tensors().items()}
    layout = ("NHWC", "HWIO", "NHWC")
    assert_row(theirs, ours, {**tensors, "jax": jax, "lax": jax.lax, "layout": layout})


def keras_on(jax: Any) -> SimpleNamespace:
    """Return what Keras' functions of the page do, as its JAX backend does it."""
    lax = jax.lax

    def conv(
        inputs, kernel, strides=1, padding="valid", data_format=None, dilation_rate=1, groups=1
    ):
        axes = kernel.ndim - 2
        space = "HW"[:axes]
        data = f"NC{space}" if data_format == "channels_first" else f"N{space}C"
        pads = padding if isinstance(padding, list) else padding.upper()
        return lax.conv_general_dilated(
            inputs, kernel, (strides,) * axes, pads, rhs_dilation=(dilation_rate,) * axes,
            dimension_numbers=(data, f"{space}IO", data), feature_group_count=groups,
        )  # fmt: skip

    def depthwise_conv(inputs, kernel, padding):
        height, width, channels, multiplier = kernel.shape
        kernel = kernel.reshape(height, width, 1, channels * multiplier)
        return conv(inputs, kernel, padding=padding, groups=channels)

    def conv_transpose(inputs, kernel, strides, padding):
        return lax.conv_transpose(
            inputs, kernel, (strides, strides), padding.upper(), transpose_kernel=True,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip

    def conv_1d(filters, kernel_size, padding, kernel):
        assert (filters, kernel_size, padding) == (kernel.shape[2], kernel.shape[0], "causal")
        return lambda inputs: conv(inputs, kernel, padding=[(kernel_size - 1, 0)])

    return SimpleNamespace(
        ops=SimpleNamespace(
            conv=conv, depthwise_conv=depthwise_conv, conv_transpose=conv_transpose
        ),
        layers=SimpleNamespace(Conv1D=conv_1d),
    )


@pytest.mark.frameworks
@pytest.mark.parametrize(("theirs", "ours"), rows("Keras"))
def test_keras(theirs: str, ours: str) -> None:
    jax = importlib.import_module("jax")
    assert_row(theirs, ours, {**channels_last_tensors(), "keras": keras_on(jax)})


def onnx_pads(src, kernel, strides, dilations, pads, auto_pad):
    """Return begins and ends as ONNX has them, SAME from the formula of its document."""
    if auto_pad == "NOTSET":
        return pads[:2], pads[2:]
    assert auto_pad == "SAME_LOWER"
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    totals = [
        max((-(-size // s) - 1) * s + extent - size, 0)
        for size, s, extent in zip(src, strides, extents, strict=True)
    ]
    return [total - total // 2 for total in totals], [total // 2 for total in totals]


def onnx_conv(
    src, weights, bias=None, *, group=1, strides=(1, 1), pads=(0,) * 4, dilations=(1, 1),
    kernel_shape=None, auto_pad="NOTSET",
):  # fmt: skip
    kernel = weights.shape[2:]
    assert kernel_shape in (None, list(kernel))
    begin, end = onnx_pads(src.shape[2:], kernel, strides, dilations, pads, auto_pad)
    sizes = [
        (size + b + e - (k - 1) * d - 1) // s + 1
        for size, b, e, k, d, s in zip(
            src.shape[2:], begin, end, kernel, dilations, strides, strict=True
        )
    ]
    dst = contract(
        "dst", (src.shape[0], weights.shape[0], *sizes), {"src": src, "weights": weights},
        strides=strides, pads_begin=begin, dilations=dilations, groups=group,
    )  # fmt: skip
    return dst if bias is None else dst + bias[:, None, None]


def onnx_conv_transpose(src, weights, *, group, strides, pads, output_padding):
    sizes = [
        s * (count - 1) + extra + k - b - e
        for s, count, extra, k, b, e in zip(
            strides,
            src.shape[2:],
            output_padding,
            weights.shape[2:],
            pads[:2],
            pads[2:],
            strict=True,
        )
    ]
    return contract(
        "src", (src.shape[0], weights.shape[1] * group, *sizes), {"dst": src, "weights": weights},
        strides=strides, pads_begin=pads[:2], groups=group,
    )  # fmt: skip


@pytest.mark.parametrize(("theirs", "ours"), rows("ONNX"))
def test_onnx(theirs: str, ours: str) -> None:
    tensors = {"X": numbers(2, 4, 9, 8), "W": numbers(6, 2, 3, 3), "B": numbers(6)}
    tensors["Y"] = numbers(2, 6, 5, 4)
    assert_row(theirs, ours, {**tensors, "Conv": onnx_conv, "ConvTranspose": onnx_conv_transpose})


def openvino_group_convolution(
    data, filters, strides, pads_begin, pads_end, dilations, auto_pad="EXPLICIT"
):
    if auto_pad == "SAME_UPPER":  # ONNX's SAME_LOWER with the sides exchanged
        pads_end, pads_begin = onnx_pads(
            data.shape[2:], filters.shape[3:], strides, dilations, (), "SAME_LOWER"
        )
    weights = filters.reshape(-1, *filters.shape[2:])
    pads = [*pads_begin, *pads_end]
    return onnx_conv(
        data, weights, group=len(filters), strides=strides, pads=pads, dilations=dilations
    )


def openvino_group_backprop(data, filters, strides, *, pads_begin, pads_end, output_padding=(0, 0)):
    weights = filters.reshape(-1, *filters.shape[2:])
    return onnx_conv_transpose(
        data, weights, group=len(filters), strides=strides, pads=[*pads_begin, *pads_end],
        output_padding=output_padding,
    )  # fmt: skip


OPSET = SimpleNamespace(
    convolution=lambda data, filters, *numbers, **keywords: openvino_group_convolution(
        data, filters[np.newaxis], *numbers, **keywords
    ),
    group_convolution=openvino_group_convolution,
    convolution_backprop_data=lambda data, filters, *numbers, **keywords: openvino_group_backprop(
        data, filters[np.newaxis], *numbers, **keywords
    ),
    group_convolution_backprop_data=openvino_group_backprop,
)


@pytest.mark.parametrize(("theirs", "ours"), rows("OpenVINO"))
def test_openvino(theirs: str, ours: str) -> None:
    tensors = {"data": numbers(2, 4, 9, 8), "filters": numbers(6, 4, 3, 3)}
    tensors |= {"grouped": numbers(2, 3, 2, 3, 3), "diff_dst": numbers(2, 6, 5, 4)}
    assert_row(theirs, ours, {**tensors, "opset": OPSET})
