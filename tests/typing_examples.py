"""Calls as type checkers see them: mypy checks this file, nothing runs it.

What must be refused has an ignore with its code; mypy reports an ignore that nothing needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import onednn_py
import onednn_py.testing

if TYPE_CHECKING:
    from typing_extensions import assert_type

    from onednn_py.api.types import SupportsDLPack

Array = npt.NDArray[Any]

SRC = np.ones((1, 4, 4, 3), np.float32)
WEIGHTS = np.ones((3, 3, 3, 2), np.float32)
DST = np.ones((1, 2, 2, 2), np.float32)
SHAPE = (3, 3, 3, 2)


def results() -> None:
    assert_type(onednn_py.convolution(SRC, WEIGHTS, strides=(1, 1), auto_pad="SAME_UPPER"), Array)
    assert_type(onednn_py.convolution_backward_data(DST, WEIGHTS, SRC.shape, groups=1), Array)
    assert_type(onednn_py.conv_transpose(SRC, WEIGHTS, weights_format="IOX"), Array)
    assert_type(onednn_py.convolution(memoryview(b""), WEIGHTS, data_format="NHWC"), Array)
    gradients = onednn_py.convolution_backward(SRC, WEIGHTS, DST, wrt=("src", "bias"))
    assert_type(gradients.diff_src, Array | None)
    onednn_py.convolution_backward(SRC, WEIGHTS, DST, out=gradients)


def keywords_and_outputs(tensor: SupportsDLPack) -> None:
    attributes: onednn_py.ConvolutionAttributes = {"strides": 2, "data_format": "NCX"}
    assert_type(onednn_py.convolution(SRC, WEIGHTS, **attributes), Array)
    onednn_py.convolution(SRC, WEIGHTS, out=tensor)
    onednn_py.convolution_backward_weights(SRC, DST, SHAPE, bias=True, out=(tensor, None))
    onednn_py.convolution_backward(SRC, WEIGHTS, DST, out=(None, tensor, None))
    transposed: onednn_py.ConvTransposeAttributes = {"output_padding": 1, "weights_format": "IOX"}
    onednn_py.conv_transpose(SRC, WEIGHTS, **transposed)


def weights_gradients() -> None:
    assert_type(onednn_py.convolution_backward_weights(SRC, DST, SHAPE, strides=1), Array)
    both = onednn_py.convolution_backward_weights(SRC, DST, SHAPE, bias=True, backend="numpy")
    assert_type(both, tuple[Array, Array])
    wants_bias = bool(SHAPE[0])
    either = onednn_py.convolution_backward_weights(SRC, DST, SHAPE, bias=wants_bias)
    assert_type(either, Array | tuple[Array, Array])
    either = onednn_py.conv_transpose_backward_weights(SRC, DST, SHAPE, bias=wants_bias)
    assert_type(either, Array | tuple[Array, Array])
    assert_type(
        onednn_py.conv_transpose_backward_weights(SRC, DST, SHAPE, output_padding=[0, 0]), Array
    )


def comparisons() -> None:
    cases = onednn_py.testing.cases(["resnet50"], directions="BWD_D", max_flops=1e8)
    assert_type(cases[0].tensors(), tuple[Array, ...])
    assert_type(onednn_py.testing.compare(onednn_py, cases, against="onednn").failed, int)
    onednn_py.testing.assert_matches({"convolution": onednn_py.convolution}, cases[0])


def plans() -> None:
    spec = onednn_py.TensorSpec(SRC.shape, np.float32)
    forward = onednn_py.plan(onednn_py.convolution, spec, WEIGHTS, pads_begin=1, effort="measure")
    assert_type(forward(SRC, WEIGHTS), Array)
    assert_type(forward(SRC, forward.pack("weights", WEIGHTS), out=DST), Array)
    assert_type(onednn_py.plan("convolution", spec, WEIGHTS)(SRC, WEIGHTS), Any)
    both = onednn_py.plan(onednn_py.convolution_backward, SRC, WEIGHTS, DST)
    assert_type(both(SRC, WEIGHTS, DST), onednn_py.Gradients)


def settings_and_facts() -> None:
    with onednn_py.use_backend("onednn"), onednn_py.use_fpmath_mode("tf32"):
        assert_type(onednn_py.info()["threads"], int)
        assert_type(onednn_py.info()["library"], str | None)
        assert_type(onednn_py.info()["rejected"][0]["reason"], str)
    assert_type(onednn_py.wisdom.load("wisdom.json"), int)
    assert_type(onednn_py.cache_info().bytes, int)


def wrong_names() -> None:
    onednn_py.convolution(SRC, WEIGHTS, data_format="NHCW")  # type: ignore[arg-type]
    onednn_py.convolution(SRC, WEIGHTS, weights_format="IOX")  # type: ignore[arg-type]
    onednn_py.conv_transpose(SRC, WEIGHTS, weights_format="OIX")  # type: ignore[arg-type]
    onednn_py.convolution(SRC, WEIGHTS, auto_pad="same")  # type: ignore[arg-type]
    onednn_py.convolution(SRC, WEIGHTS, backend="cuda")  # type: ignore[arg-type]
    onednn_py.convolution(SRC, WEIGHTS, fpmath_mode="fp8")  # type: ignore[arg-type]
    onednn_py.convolution(SRC, WEIGHTS, padding=1)  # type: ignore[arg-type]
    onednn_py.convolution_backward_data(DST, WEIGHTS, auto_pad_rule="mine")  # type: ignore[arg-type]
    onednn_py.convolution_backward(SRC, WEIGHTS, DST, wrt=("dst",))  # type: ignore[arg-type]
    onednn_py.plan(onednn_py.convolution, SRC, WEIGHTS, effort="much")  # type: ignore[call-overload]
    onednn_py.use_backend("cuda")  # type: ignore[arg-type]
    onednn_py.use_effort("much")  # type: ignore[arg-type]
    onednn_py.use_fpmath_mode("fp8")  # type: ignore[arg-type]


def wrong_arguments() -> None:
    onednn_py.convolution([1.0], WEIGHTS)  # type: ignore[arg-type]
    onednn_py.convolution(SRC, WEIGHTS, strides=1.5)  # type: ignore[arg-type]
    onednn_py.convolution_backward_weights(SRC, DST)  # type: ignore[call-overload]
    onednn_py.convolution_backward_weights(SRC, DST, SHAPE, padding=1)  # type: ignore[call-overload]
    onednn_py.set_num_threads("two")  # type: ignore[arg-type]


def wrong_results() -> None:
    onednn_py.convolution_backward(SRC, WEIGHTS, DST).diff_dst  # type: ignore[attr-defined]  # noqa: B018
    onednn_py.convolution_backward_weights(SRC, DST, SHAPE).append(1)  # type: ignore[attr-defined]
    onednn_py.info()["gpu"]  # type: ignore[typeddict-item]
    planned = onednn_py.plan(onednn_py.convolution, SRC, WEIGHTS)
    planned(SRC, WEIGHTS).diff_src  # type: ignore[attr-defined]  # noqa: B018
    planned("src", WEIGHTS)  # type: ignore[arg-type]
