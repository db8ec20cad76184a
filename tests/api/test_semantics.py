"""Attributes and their meaning: every rule that the documents leave open or contradict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import ml_dtypes
import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError, ShapeError
from tests.support.einsum_backend import registered_einsum
from tests.support.reference import contract
from tests.support.requirements import HAS_ONEDNN


@pytest.fixture(params=["onednn", "numpy", "einsum"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """The package's backends, and one that is registered as any other could be."""
    if request.param == "onednn" and not HAS_ONEDNN:
        pytest.skip("no oneDNN library here")
    with registered_einsum() if request.param == "einsum" else nullcontext():
        yield request.param


NCX = {"data_format": "NCX", "weights_format": "OIX"}
IOX = {"data_format": "NCX", "weights_format": "IOX"}


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def integers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def same_pads(size: int, kernel: int, stride: int, dilation: int, auto_pad: str) -> tuple[int, int]:
    """The rule, written out again: SAME keeps ceil(size / stride) windows."""
    extent = (kernel - 1) * dilation + 1
    count = -(-size // stride)
    total = max(0, (count - 1) * stride + extent - size)
    small, large = total // 2, total - total // 2
    return (small, large) if auto_pad == "same_upper" else (large, small)


@pytest.mark.parametrize("auto_pad", ["same_upper", "same_lower"])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [5, 6, 9])
def test_same_padding_of_convolutions(
    size: int, kernel: int, stride: int, dilation: int, auto_pad: str, backend: str
) -> None:
    pads = same_pads(size, kernel, stride, dilation, auto_pad)
    src, weights = integers(2, 3, size), integers(4, 3, kernel, seed=1)
    common = NCX | {"strides": stride, "dilations": dilation, "backend": backend}
    explicit = common | {"pads_begin": pads[0], "pads_end": pads[1]}
    dst = onednn_py.convolution(src, weights, auto_pad=auto_pad, **common)
    assert dst.shape[-1] == -(-size // stride)
    np.testing.assert_array_equal(dst, onednn_py.convolution(src, weights, **explicit))
    for call in (
        lambda **k: onednn_py.convolution_backward_data(dst, weights, src.shape, **k),
        lambda **k: onednn_py.convolution_backward_weights(src, dst, weights.shape, **k),
    ):
        np.testing.assert_array_equal(call(auto_pad=auto_pad, **common), call(**explicit))
    # The same geometry read backwards: src is the transposed convolution's diff_dst.
    common["weights_format"] = explicit["weights_format"] = "IOX"
    for call in (
        lambda **k: onednn_py.conv_transpose_backward_data(src, weights, **k),
        lambda **k: onednn_py.conv_transpose_backward_weights(dst, src, weights.shape, **k),
    ):
        np.testing.assert_array_equal(call(auto_pad=auto_pad, **common), call(**explicit))


def test_auto_pad_ignores_pads(backend: str) -> None:
    src, weights = integers(1, 1, 7), integers(1, 1, 3)
    for auto_pad in ("valid", "VALID", "same_upper", "SAME_LOWER"):
        plain = onednn_py.convolution(src, weights, auto_pad=auto_pad, backend=backend, **NCX)
        padded = onednn_py.convolution(
            src, weights, auto_pad=auto_pad, pads_begin=5, pads_end=1, backend=backend, **NCX
        )
        np.testing.assert_array_equal(plain, padded)
    valid = onednn_py.convolution(src, weights, auto_pad="VALID", backend=backend, **NCX)
    none = onednn_py.convolution(src, weights, auto_pad="None", backend=backend, **NCX)
    np.testing.assert_array_equal(valid, none)


@pytest.mark.parametrize("auto_pad", ["same_upper", "same_lower"])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (4, 1), (2, 3), (5, 2)])
def test_same_padding_of_transposed_forward(
    kernel: int, stride: int, auto_pad: str, backend: str
) -> None:
    total = max(0, kernel - stride)
    begin = total // 2 if auto_pad == "same_upper" else total - total // 2
    src, weights = integers(1, 2, 5), integers(2, 3, kernel, seed=1)
    common = IOX | {"strides": stride, "backend": backend}
    np.testing.assert_array_equal(
        onednn_py.conv_transpose(src, weights, auto_pad=auto_pad, **common),
        onednn_py.conv_transpose(src, weights, pads_begin=begin, pads_end=total - begin, **common),
    )


@pytest.mark.parametrize("auto_pad", ["same_upper", "same_lower"])
def test_documented_rule_puts_the_odd_element_on_the_other_side(
    auto_pad: str, backend: str
) -> None:
    diff_dst, weights = integers(1, 1, 3), integers(1, 1, 4, seed=1)
    common = NCX | {"strides": 1, "backend": backend}
    native = onednn_py.convolution_backward_data(
        diff_dst, weights, (3,), auto_pad=auto_pad, **common
    )
    documented = onednn_py.convolution_backward_data(
        diff_dst, weights, (3,), auto_pad=auto_pad, auto_pad_rule="documented", **common
    )
    begin = {"same_upper": 1, "same_lower": 2}[auto_pad]
    for result, pad in ((native, begin), (documented, 3 - begin)):
        explicit = onednn_py.convolution_backward_data(
            diff_dst, weights, pads_begin=pad, pads_end=3 - pad, **common
        )
        np.testing.assert_array_equal(result, explicit)
    assert not np.array_equal(native, documented)
    older = onednn_py.convolution_backprop_data(
        diff_dst, weights, (1, 1, 3), auto_pad=auto_pad, auto_pad_rule="documented",
        data_format="NCX", filter_format="OIX", backend=backend,
    )  # fmt: skip
    np.testing.assert_array_equal(older, documented)


def test_documented_rule_counts_output_padding(backend: str) -> None:
    """total = stride * (X - 1) + extent - dst + output_padding = 2 * 2 + 3 - 6 + 1 = 2."""
    diff_dst, weights = integers(1, 1, 3), integers(1, 1, 3, seed=1)
    result = onednn_py.convolution_backward_data(
        diff_dst, weights, (6,), strides=2, output_padding=1, auto_pad="same_upper",
        auto_pad_rule="documented", backend=backend, **NCX,
    )  # fmt: skip
    expected = contract(
        "src", (1, 1, 6), {"dst": diff_dst, "weights": weights}, strides=2, pads_begin=1
    )
    np.testing.assert_array_equal(result, expected)


def test_dst_shape_full_spatial_and_left_out(backend: str) -> None:
    diff_dst, weights = integers(2, 3, 3, 4), integers(3, 3, 5, 4, seed=1)
    attributes = {"strides": 2, "pads_begin": 1, "pads_end": 1, "backend": backend}
    least = onednn_py.convolution_backward_data(diff_dst, weights, **attributes)
    assert least.shape == (2, 5, 5, 5)
    for shape in ((2, 6, 5, 5), [6, 5], np.array([6, 5], np.int32), np.array([2, 6, 5, 5])):
        result = onednn_py.convolution_backward_data(diff_dst, weights, shape, **attributes)
        assert result.shape == (2, 6, 5, 5)
        np.testing.assert_array_equal(
            result,
            onednn_py.convolution_backward_data(
                diff_dst, weights, output_padding=(1, 0), **attributes
            ),
        )
    ignored = onednn_py.convolution_backward_data(
        diff_dst, weights, (5, 5), output_padding=1, **attributes
    )
    np.testing.assert_array_equal(ignored, least)
    for wrong in ((7, 5), (4, 5), (2, 6, 5, 4), (1, 6, 5, 5), (6,), (2, 2, 6, 5, 5)):
        with pytest.raises(ShapeError, match="dst_shape"):
            onednn_py.convolution_backward_data(diff_dst, weights, wrong, **attributes)


def test_dst_shape_error_states_what_would_fit() -> None:
    diff_dst, weights = ones(1, 4, 1), ones(3, 1, 1)
    with pytest.raises(ShapeError, match=r"dst_shape.*expected 9 to 10, got 12"):
        onednn_py.convolution_backward_data(diff_dst, weights, (12,), strides=2)
    with pytest.raises(ShapeError, match=r"expected 7 to 8, got 9"):
        onednn_py.convolution_backward_data(
            diff_dst, weights, (9,), strides=2, auto_pad="same_upper"
        )


def test_transposed_backward_data_tolerates_an_untold_tail(backend: str) -> None:
    """Native takes a diff_dst with a tail shorter than the stride, whatever output_padding."""
    diff_dst, weights = integers(1, 1, 6), integers(1, 1, 3, seed=1)
    common = IOX | {"strides": 2, "backend": backend}
    untold = onednn_py.conv_transpose_backward_data(diff_dst, weights, **common)
    told = onednn_py.conv_transpose_backward_data(diff_dst, weights, output_padding=1, **common)
    np.testing.assert_array_equal(untold, told)
    src = integers(1, 1, 2)
    np.testing.assert_array_equal(
        onednn_py.conv_transpose_backward_weights(src, diff_dst, (1, 1, 3), **common),
        onednn_py.conv_transpose_backward_weights(
            src, diff_dst, (1, 1, 3), output_padding=1, **common
        ),
    )
    with pytest.raises(ShapeError, match="output_padding 1"):
        onednn_py.conv_transpose_backward_data(
            diff_dst[..., :5], weights, output_padding=1, **common
        )


@pytest.mark.parametrize("format_", ["OIX", "XIO", "oix"])
def test_transposed_weights_formats_are_iox_and_xoi(format_: str) -> None:
    with pytest.raises(AttributeValueError, match=r"IOX, XOI.*native oneDNN takes IOX and XOI"):
        onednn_py.conv_transpose(ones(1, 4, 2), ones(3, 2, 2), weights_format=format_)


def test_names_are_case_insensitive(backend: str) -> None:
    src, weights = integers(1, 2, 5), integers(3, 2, 3)
    np.testing.assert_array_equal(
        onednn_py.convolution(src, weights, backend=backend, **NCX),
        onednn_py.convolution(
            src, weights, data_format="ncx", weights_format="oix", auto_pad="NONE",
            backend=backend.upper(),
        ),
    )  # fmt: skip


def test_weights_gradient_comes_in_the_shape_asked_for(backend: str) -> None:
    src, diff_dst = integers(2, 4, 5), integers(2, 6, 7, seed=1)
    attributes = IOX | {"groups": 2, "backend": backend}
    native = onednn_py.conv_transpose_backward_weights(src, diff_dst, (4, 3, 3), **attributes)
    documented = onednn_py.conv_transpose_backward_weights(src, diff_dst, (2, 6, 3), **attributes)
    assert (native.shape, documented.shape) == ((4, 3, 3), (2, 6, 3))
    for group in range(2):
        np.testing.assert_array_equal(
            native[2 * group : 2 * group + 2], documented[:, 3 * group : 3 * group + 3]
        )


class TestEmpty:
    """A batch or a result of zero elements: empty or zero, as the mathematics says."""

    def test_minibatch_of_zero(self, backend: str) -> None:
        weights, bias = ones(3, 2, 4), ones(4)
        src, diff_dst = ones(0, 5, 2), ones(0, 3, 4)
        assert onednn_py.convolution(src, weights, bias, backend=backend).shape == (0, 3, 4)
        gradient = onednn_py.convolution_backward_data(diff_dst, weights, backend=backend)
        assert gradient.shape == (0, 5, 2)
        diff_weights, diff_bias = onednn_py.convolution_backward_weights(
            src, diff_dst, weights.shape, bias=True, backend=backend
        )
        assert not diff_weights.any()
        assert diff_weights.shape == (3, 2, 4)
        np.testing.assert_array_equal(diff_bias, np.zeros(4))

    def test_no_windows(self, backend: str) -> None:
        src, weights = ones(2, 2, 3), ones(3, 3, 4)
        dst = onednn_py.convolution(src, weights, backend=backend)
        assert dst.shape == (2, 0, 4)
        gradient = onednn_py.convolution_backward_data(dst, weights, (2,), backend=backend)
        np.testing.assert_array_equal(gradient, np.zeros((2, 2, 3)))
        diff_weights = onednn_py.convolution_backward_weights(
            src, dst, weights.shape, backend=backend
        )
        np.testing.assert_array_equal(diff_weights, np.zeros((3, 3, 4)))

    def test_windows_over_padding_only(self, backend: str) -> None:
        src, weights, bias = ones(1, 0, 2), ones(3, 2, 4), np.arange(4, dtype=np.float32)
        pads = {"pads_begin": 2, "pads_end": 2, "backend": backend}
        dst = onednn_py.convolution(src, weights, bias, **pads)
        np.testing.assert_array_equal(dst, np.broadcast_to(bias, (1, 2, 4)))
        diff_weights, diff_bias = onednn_py.convolution_backward_weights(
            src, dst, weights.shape, bias=True, **pads
        )
        assert not diff_weights.any()
        np.testing.assert_array_equal(diff_bias, 2 * bias)

    def test_no_channels(self, backend: str) -> None:
        src, weights, bias = ones(1, 4, 0), ones(2, 0, 3), np.arange(3, dtype=np.float32)
        dst = onednn_py.convolution(src, weights, bias, backend=backend)
        np.testing.assert_array_equal(dst, np.broadcast_to(bias, (1, 3, 3)))
        transposed = onednn_py.conv_transpose(ones(1, 4, 0), ones(2, 3, 0), bias, backend=backend)
        np.testing.assert_array_equal(transposed, np.broadcast_to(bias, (1, 5, 3)))


def test_pads_and_dilations_of_any_size_cost_nothing(backend: str) -> None:
    """A window far outside meets only padding; nothing of that size is allocated."""
    far = 2**30
    src, weights = ones(1, 1, 1), ones(1, 1, 2)
    dst = onednn_py.convolution(
        src, weights, dilations=far, pads_begin=far, pads_end=0, backend=backend, **NCX
    )
    np.testing.assert_array_equal(dst, [[[1.0]]])
    gradient = onednn_py.convolution_backward_weights(
        src, dst, (1, 1, 2), dilations=far, pads_begin=far, pads_end=0, backend=backend, **NCX
    )
    np.testing.assert_array_equal(gradient, [[[0.0, 1.0]]])


@pytest.mark.parametrize("far", [2**10, 2**14, 2**17, 2**22, 2**26, 2**30 - 1])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_offsets_beyond_32_bits_crash_nothing(far: int, dtype: type, backend: str) -> None:
    """oneDNN's kernels overflow where padding makes an image huge; some of them crash."""
    rng = np.random.default_rng(0)
    src = rng.integers(-2, 3, (2, 16, 5, 7)).astype(dtype)
    weights = rng.integers(-2, 3, (16, 16, 2, 2)).astype(dtype)
    # The first row of the kernel meets only padding, the second the rows from 1 on.
    attributes = NCX | {
        "dilations": (far, 1),
        "pads_begin": (far - 1, 0),
        "pads_end": 0,
        "backend": backend,
    }
    dst = onednn_py.convolution(src, weights, **attributes)
    expected = onednn_py.convolution(src[:, :, 1:], weights[:, :, 1:], backend=backend, **NCX)
    np.testing.assert_array_equal(dst, expected)
    diff_src, diff_weights, _ = onednn_py.convolution_backward(src, weights, dst, **attributes)
    assert not diff_src[:, :, 0].any()
    assert not diff_weights[:, :, 0].any()
    np.testing.assert_array_equal(
        diff_src[:, :, 1:],
        onednn_py.convolution_backward_data(dst, weights[:, :, 1:], backend=backend, **NCX),
    )
