"""Wrong input of every kind: the right exception, a message that helps, never a crash."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import (
    AttributeValueError,
    DTypeError,
    LibraryNotFoundError,
    OneDNNError,
    OneDNNMemoryError,
    OneDNNPyError,
    ShapeError,
    WisdomFileError,
    WisdomFileNotFoundError,
    WisdomFileUnreadableError,
)

# What strides and dilations of two axes cannot be.
NO_STEPS = [
    *(0, -1, 1.0, "1", None, True, 2**31, 2**70, {1: 1}, np.array(2.0)),
    *([1], [1, 2, 3], [1, 0], [1, 1.5], [[1], [1]], np.ones((2, 2), int)),
]
SRC = np.ones((2, 6, 7, 4), np.float32)
WEIGHTS = np.ones((3, 3, 4, 5), np.float32)
DST = np.ones((2, 4, 5, 5), np.float32)


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (ShapeError, ValueError),
        (AttributeValueError, ValueError),
        (DTypeError, TypeError),
        (LibraryNotFoundError, ImportError),
        (WisdomFileError, ValueError),
        (WisdomFileUnreadableError, OSError),
        (WisdomFileNotFoundError, FileNotFoundError),
        (OneDNNError, RuntimeError),
        (OneDNNMemoryError, MemoryError),
        (OneDNNMemoryError, OneDNNError),
    ],
)
def test_exceptions_are_also_the_builtin_that_fits(kind: type, builtin: type) -> None:
    assert issubclass(kind, OneDNNPyError)
    assert issubclass(kind, builtin)


def test_a_failing_call_carries_status_and_function() -> None:
    error = OneDNNError("dnnl_memory_create", "runtime_error", "why")
    for copy in (error, pickle.loads(pickle.dumps(error))):
        assert (copy.function, copy.status) == ("dnnl_memory_create", "runtime_error")
        assert "dnnl_memory_create" in str(copy)
        assert "why" in str(copy)


@pytest.mark.parametrize("name", ["strides", "dilations"])
@pytest.mark.parametrize("value", NO_STEPS)
def test_strides_and_dilations(name: str, value: Any, backend: str) -> None:
    with pytest.raises(AttributeValueError, match=f"convolution: {name}"):
        onednn_py.convolution(SRC, WEIGHTS, **{name: value}, backend=backend)


@pytest.mark.parametrize("name", ["pads_begin", "pads_end"])
@pytest.mark.parametrize("value", [-1, 0.5, "0", None, [0], [0, -2], 2**31, 2**64])
def test_pads(name: str, value: Any, backend: str) -> None:
    with pytest.raises(AttributeValueError, match=f"convolution_backward_weights: {name}"):
        onednn_py.convolution_backward_weights(
            SRC, DST, WEIGHTS.shape, **{name: value}, backend=backend
        )


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"auto_pad": "same"}, "auto_pad: expected one of none, valid, same_upper, same_lower"),
        ({"auto_pad": 1}, "auto_pad"),
        ({"groups": 0}, "groups"),
        ({"groups": 2.0}, "groups"),
        ({"groups": -1}, "groups"),
        ({"data_format": "NHCW"}, r"data_format: .* NCX, NXC; got 'NHCW' \(NCHW or NHWC will do"),
        (
            {"data_format": "ncw"},
            "data_format: expected NCHW or NCX for arrays of 4 axes, got 'ncw'",
        ),
        ({"data_format": None}, "data_format"),
        ({"weights_format": "HIWO"}, "weights_format: expected one of OIX, XIO"),
        ({"weights_format": "WIO"}, "weights_format: expected HWIO or XIO for arrays of 4 axes"),
        ({"weights_format": "IOHW"}, "'IOHW', which is no format of convolution"),
        ({"weights_format": "IOX"}, "weights_format"),
        ({"backend": "cuda"}, "backend: expected one of auto, onednn, numpy"),
        ({"backend": 3}, "backend"),
    ],
)
def test_names(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(AttributeValueError, match=message):
        onednn_py.convolution(SRC, WEIGHTS, **attributes)


@pytest.mark.parametrize("value", [2, (0, 3), -1, 1.5, 2**40])
def test_output_padding(value: Any, backend: str) -> None:
    with pytest.raises(AttributeValueError, match="output_padding"):
        onednn_py.conv_transpose(
            SRC, np.ones((3, 3, 5, 4), np.float32), strides=2, output_padding=value, backend=backend
        )


@pytest.mark.parametrize(
    ("src", "weights"),
    [
        (SRC[0], WEIGHTS),
        (SRC[0, 0], WEIGHTS[0, 0]),
        (SRC, WEIGHTS[0]),
        (SRC[..., None, None], WEIGHTS[..., None, None]),
        (SRC[..., :3], WEIGHTS),
        (SRC, WEIGHTS[:, :, :2]),
        (SRC, WEIGHTS[:0]),
        (SRC[:, :1], WEIGHTS),
        (np.float32(1), WEIGHTS),
    ],
)
def test_shapes_that_do_not_fit(src: Any, weights: Any, backend: str) -> None:
    expected = (ShapeError, DTypeError) if np.isscalar(src) else ShapeError
    with pytest.raises(expected, match="convolution: "):
        onednn_py.convolution(src, weights, backend=backend)


def test_shape_errors_give_expected_and_got() -> None:
    with pytest.raises(ShapeError, match=r"weights: expected \(\*kernel, 3, O\) for XIO; got"):
        onednn_py.convolution(SRC[..., :3], WEIGHTS)
    with pytest.raises(ShapeError, match=r"weights: expected \(5, I/groups, \*kernel\) for OIX"):
        onednn_py.convolution_backward_data(DST, WEIGHTS, weights_format="OIX")
    with pytest.raises(ShapeError, match=r"\(\*kernel, 2, 4\) or \(\*kernel, 4, 2\) for XOI"):
        onednn_py.conv_transpose_backward_weights(
            SRC, np.ones((2, 8, 9, 4), np.float32), (3, 3, 3, 3), groups=2
        )
    with pytest.raises(ShapeError, match="src has 4 channels.*groups = 3"):
        onednn_py.convolution(SRC, WEIGHTS, groups=3)
    with pytest.raises(ShapeError, match="minibatch 2.*has 1"):
        onednn_py.convolution_backward_weights(SRC, DST[:1], WEIGHTS.shape)
    with pytest.raises(ShapeError, match="axis 1: src of size 7 gives diff_dst of size 5, got 4"):
        onednn_py.convolution_backward_weights(SRC, DST[:, :, :4], WEIGHTS.shape)
    with pytest.raises(ShapeError, match=r"bias: expected shape \(5,\), got \(4,\)"):
        onednn_py.convolution(SRC, WEIGHTS, np.ones(4, np.float32))
    with pytest.raises(ShapeError, match="kernel extends over 9 elements, but src"):
        onednn_py.convolution(SRC, WEIGHTS, dilations=4)


@pytest.mark.parametrize(
    "shape",
    [
        *(None, 3, "3344", np.zeros(4), [[3, 3, 4, 5]]),
        *([3, 3, 4.0, 5], [3, 3, 4], [3, 3, 4, 6], [3, -3, 4, 5], [0, 3, 4, 5]),
    ],
)
def test_weights_shape(shape: Any, backend: str) -> None:
    with pytest.raises((ShapeError, AttributeValueError), match="convolution_backward_weights: "):
        onednn_py.convolution_backward_weights(SRC, DST, shape, backend=backend)


@pytest.mark.parametrize(
    "tensor",
    [
        SRC.tolist(),
        None,
        "array",
        object(),
        SRC.astype(np.int32),
        SRC.astype(complex),
        SRC.astype(object),
        SRC.astype(bool),
        SRC.astype("U1"),
        SRC.astype(np.longdouble),
        np.ma.masked_array(SRC),
        np.zeros(SRC.shape, [("a", np.float32)]),
        memoryview(SRC.astype(np.int32)),
        bytearray(5),
    ],
)
def test_tensors_that_are_none(tensor: Any, backend: str) -> None:
    with pytest.raises(DTypeError, match="src|diff_dst"):
        onednn_py.convolution(tensor, WEIGHTS, backend=backend)
    with pytest.raises(DTypeError, match="src|diff_dst"):
        onednn_py.convolution_backward_weights(SRC, tensor, WEIGHTS.shape, backend=backend)


def test_mixed_dtypes_are_named(backend: str) -> None:
    with pytest.raises(DTypeError, match="one dtype, got src f32, weights f16"):
        onednn_py.convolution(SRC, WEIGHTS.astype(np.float16), backend=backend)


def test_huge_results_are_refused(backend: str) -> None:
    src, weights = np.ones((1, 2, 2, 1), np.float32), np.ones((1, 1, 1, 1), np.float32)
    with pytest.raises(ShapeError, match="more than memory can address"):
        onednn_py.convolution(
            src, weights, pads_begin=2**31 - 1, pads_end=2**31 - 1, backend=backend
        )
    with pytest.raises(MemoryError):
        onednn_py.convolution(src, weights, pads_begin=2**25, backend=backend)


class TestOut:
    def call(self, out: Any, backend: str) -> np.ndarray:
        return onednn_py.convolution(SRC, WEIGHTS, out=out, backend=backend)

    @pytest.mark.parametrize(
        ("out", "kind"),
        [
            (np.empty((2, 4, 5, 6), np.float32), ShapeError),
            (np.empty((2, 4, 5, 5), np.float64), DTypeError),
            ([[0.0]], DTypeError),
            ("out", DTypeError),
            (np.ma.empty((2, 4, 5, 5), np.float32), DTypeError),
            (np.broadcast_to(np.float32(0), (2, 4, 5, 5)), AttributeValueError),
        ],
    )
    def test_unfit(self, out: Any, kind: type, backend: str) -> None:
        with pytest.raises(kind, match=r"convolution: out \(dst\)"):
            self.call(out, backend)

    def test_read_only(self, backend: str) -> None:
        out = np.zeros((2, 4, 5, 5), np.float32)
        out.flags.writeable = False
        with pytest.raises(AttributeValueError, match="read-only"):
            self.call(out, backend)
        assert not out.any()

    def test_overlapping_itself(self, backend: str) -> None:
        base = np.zeros(200, np.float32)
        out = np.lib.stride_tricks.as_strided(base, (2, 4, 5, 5), (80, 20, 4, 4))
        with pytest.raises(AttributeValueError, match="overlap"):
            self.call(out, backend)

    def test_pairs(self, backend: str) -> None:
        weights = np.empty(WEIGHTS.shape, np.float32)
        with pytest.raises(AttributeValueError, match=r"\(diff_weights, diff_bias\), got 3"):
            onednn_py.convolution_backward_weights(
                SRC, DST, WEIGHTS.shape, bias=True, out=(weights, None, None), backend=backend
            )
        with pytest.raises(ShapeError, match="diff_bias"):
            onednn_py.convolution_backward_weights(
                SRC, DST, WEIGHTS.shape, bias=True, out=(weights, np.empty(4, np.float32))
            )
        with pytest.raises(AttributeValueError, match="diff_src, diff_weights, diff_bias"):
            onednn_py.convolution_backward(SRC, WEIGHTS, DST, out=weights, backend=backend)


@pytest.mark.parametrize("wrt", ["diff_src", ("src", "diff_weights")])
def test_wrt_by_the_names_of_the_results(wrt: Any) -> None:
    with pytest.raises(AttributeValueError, match="those of the tensors, without diff_"):
        onednn_py.convolution_backward(SRC, WEIGHTS, DST, wrt=wrt)


class ForeignScalar:
    """An array of another library, without axes, which is a collection by its methods alone."""

    def __dlpack__(self) -> None: ...

    def __dlpack_device__(self) -> None: ...

    def __len__(self) -> int:
        raise TypeError("len() of a 0-d tensor")

    def __contains__(self, key: object) -> bool:
        raise TypeError("a 0-d tensor contains nothing")

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("iteration over a 0-d tensor")


@pytest.mark.parametrize(
    "wrt", [(), "dst", ("src", "input"), ("weights", 3), np.array(["src"]), ForeignScalar()]
)
def test_wrt(wrt: Any) -> None:
    with pytest.raises(AttributeValueError, match="wrt: expected some of src, weights, bias"):
        onednn_py.convolution_backward(SRC, WEIGHTS, DST, wrt=wrt)


def test_joint_src_must_be_the_one_that_diff_dst_belongs_to(backend: str) -> None:
    with pytest.raises(ShapeError, match="convolution_backward"):
        onednn_py.convolution_backward(SRC[:, :5], WEIGHTS, DST, wrt="src", backend=backend)
    with pytest.raises(ShapeError, match="conv_transpose_backward"):
        onednn_py.conv_transpose_backward(
            SRC, np.ones((3, 3, 5, 4), np.float32), DST, wrt="src", backend=backend
        )


@pytest.mark.parametrize(
    "call",
    [
        lambda: onednn_py.convolution(SRC, WEIGHTS, strides=10**5000),
        lambda: onednn_py.convolution(SRC, WEIGHTS, groups=-(10**5000)),
        lambda: onednn_py.convolution_backward_weights(SRC, DST, (3, 3, 4, 10**5000)),
        lambda: onednn_py.convolution_backward_weights(SRC, DST, WEIGHTS.shape, bias="no"),
        lambda: onednn_py.convolution_backward_weights(SRC, DST, WEIGHTS.shape, bias=DST),
        lambda: onednn_py.convolution_backward(SRC, WEIGHTS, DST, wrt=None),
        lambda: onednn_py.convolution_backward(SRC, WEIGHTS, DST, wrt=[[1]]),
        lambda: onednn_py.plan([], SRC, WEIGHTS),
        lambda: onednn_py.TensorSpec(None, np.float32),
        lambda: onednn_py.TensorSpec((1.7, 5), np.float32),
        lambda: onednn_py.TensorSpec((-1, 5), np.float32),
        lambda: onednn_py.TensorSpec((1, 5), "junk"),
        lambda: onednn_py.TensorSpec((1, 5), None),
        lambda: onednn_py.conv_transpose(
            np.ones((0, 5, 5, 5, 1), np.float32),
            np.ones((2, 2, 2, 1, 1), np.float32),
            strides=2**31 - 1,
        ),
    ],
)
def test_nonsense_of_every_kind(call: Any) -> None:
    with pytest.raises(OneDNNPyError):
        call()


def test_a_tail_that_is_all_of_the_result(backend: str) -> None:
    """Pads beyond the windows leave nothing but output_padding."""
    result = onednn_py.conv_transpose(
        np.ones((1, 1, 1), np.float32), np.ones((2, 1, 1), np.float32), dilations=10,
        pads_begin=13, output_padding=9, backend=backend,
    )  # fmt: skip
    np.testing.assert_array_equal(result, np.zeros((1, 7, 1)))


@pytest.mark.parametrize("setting", ["backend", "fpmath_mode"])
def test_wrong_settings_name_the_operation(setting: str) -> None:
    wrong: dict[str, Any] = {setting: "cuda"}
    with pytest.raises(AttributeValueError, match=f"^convolution: {setting}: expected one of"):
        onednn_py.convolution(SRC, WEIGHTS, **wrong)
    with pytest.raises(AttributeValueError, match=f"^plan: convolution: {setting}: expected"):
        onednn_py.plan("convolution", SRC, WEIGHTS, **wrong)


def test_a_long_wrt_ends_at_once() -> None:
    wrt: Any = range(10**18)
    with pytest.raises(AttributeValueError, match="wrt: expected some of src, weights, bias"):
        onednn_py.convolution_backward(SRC, WEIGHTS, DST, wrt=wrt)


def test_a_huge_minibatch_is_planned_at_once(backend: str) -> None:
    src, weights = (onednn_py.TensorSpec(shape, "f4") for shape in ((2**60, 1, 1), (1, 1, 1)))
    assert onednn_py.plan("convolution", src, weights, backend=backend).backend == backend
