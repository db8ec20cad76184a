"""The cases that are compared with native oneDNN's primitives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import onednn_py
from tests.support.native_programs import DTYPES, Request, data_shape, weights_shape


@dataclass(frozen=True)
class Geometry:
    """A convolution from spatial shape `size`, `inputs` channels, to `windows`, `outputs` channels.

    A transposed convolution goes from `windows`, `outputs` channels, to `size`, `inputs` channels.
    """

    name: str
    inputs: int
    outputs: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    windows: tuple[int, ...]
    groups: int = 1
    minibatch: int = 2

    @property
    def pads_end(self) -> tuple[int, ...]:
        """End pads up to the end of the last window; negative if elements remain behind it."""
        axes = zip(self.size, self.windows, self.kernel, self.strides, self.dilations,
                   self.pads_begin, strict=True)  # fmt: skip
        return tuple(
            (windows - 1) * stride + (kernel - 1) * dilation + 1 - size - begin
            for size, windows, kernel, stride, dilation, begin in axes
        )


def geometry(
    name: str, channels: tuple[int, int], size: tuple[int, ...], kernel: tuple[int, ...],
    strides: int | tuple[int, ...] = 1, dilations: int | tuple[int, ...] = 1,
    pads: int | tuple[int, ...] = 0, pads_end: int | tuple[int, ...] | None = None,
    **others: int,
) -> Geometry:  # fmt: skip
    """Return a geometry with the number of windows that follows from the pads."""

    def per_axis(value: int | tuple[int, ...]) -> tuple[int, ...]:
        return (value,) * len(size) if isinstance(value, int) else value

    begin, steps, spread = per_axis(pads), per_axis(strides), per_axis(dilations)
    end = begin if pads_end is None else per_axis(pads_end)
    windows = tuple(
        (size[i] + begin[i] + end[i] - (kernel[i] - 1) * spread[i] - 1) // steps[i] + 1
        for i in range(len(size))
    )
    return Geometry(name, *channels, size, kernel, steps, spread, begin, windows, **others)


GEOMETRIES = (
    geometry("1d", (16, 32), (20,), (3,), pads=1),
    geometry("1d_stride3_asymmetric", (8, 24), (31,), (5,), 3, pads=2, pads_end=0),
    geometry("1d_dilated", (16, 16), (29,), (3,), dilations=3, pads=3),
    geometry("1d_groups", (16, 8), (17,), (4,), 2, pads=1, groups=4),
    geometry("1d_depthwise", (16, 16), (33,), (3,), pads=1, groups=16),
    geometry("1d_few_channels", (1, 3), (40,), (7,), 2, pads=3, minibatch=5),
    geometry("stem", (3, 16), (18, 18), (7, 7), 2, pads=3),
    geometry("3x3", (32, 48), (12, 12), (3, 3), pads=1),
    geometry("3x3_stride2", (32, 32), (13, 13), (3, 3), 2, pads=1),
    geometry("3x3_stride2_rest", (32, 32), (14, 14), (3, 3), 2, pads=1, pads_end=0),
    geometry("3x3_valid", (16, 64), (9, 11), (3, 3), minibatch=1),
    geometry("3x3_large_image", (16, 16), (28, 28), (3, 3), pads=1),
    geometry("3x3_minibatch7", (16, 32), (7, 7), (3, 3), pads=1, minibatch=7),
    geometry("1x1", (32, 64), (10, 10), (1, 1)),
    geometry("1x1_many_channels", (128, 96), (7, 7), (1, 1)),
    geometry("1x1_stride2", (32, 48), (11, 11), (1, 1), 2),
    geometry("1x1_stride2_rest", (32, 48), (12, 12), (1, 1), 2),
    geometry("1x7", (16, 16), (9, 14), (1, 7), pads=(0, 3)),
    geometry("5x5_asymmetric", (8, 16), (10, 12), (5, 5), pads=(0, 1), pads_end=(1, 2)),
    geometry("4x4_stride2", (16, 8), (16, 16), (4, 4), 2, pads=1),
    geometry("2x2_stride3_rest", (16, 16), (13, 13), (2, 2), 3),
    geometry("dilated2", (16, 32), (14, 14), (3, 3), dilations=2, pads=2),
    geometry("mixed_axes", (16, 16), (15, 13), (3, 2), (2, 1), (1, 3), (1, 2), (0, 1)),
    geometry("odd_channels", (5, 7), (9, 8), (3, 3), pads=1, minibatch=3),
    geometry("whole_image", (16, 32), (6, 6), (6, 6)),
    geometry("wide_pads", (16, 16), (6, 6), (3, 3), pads=3),
    geometry("groups4", (32, 64), (10, 10), (3, 3), pads=1, groups=4),
    geometry("groups2_odd", (6, 10), (9, 9), (3, 3), 2, pads=1, groups=2),
    geometry("groups3_dilated", (24, 12), (11, 11), (3, 3), dilations=2, pads=2, groups=3),
    geometry("depthwise", (32, 32), (12, 12), (3, 3), pads=1, groups=32),
    geometry("depthwise_stride2", (32, 32), (13, 13), (3, 3), 2, pads=1, groups=32),
    geometry("depthwise_odd", (17, 17), (9, 9), (5, 5), pads=2, groups=17),
    geometry("depthwise_multiplier2", (8, 16), (9, 9), (3, 3), pads=1, groups=8),
    geometry("3d", (8, 16), (6, 6, 6), (3, 3, 3), pads=1),
    geometry("3d_stride2", (16, 16), (7, 6, 5), (3, 3, 3), 2, pads=1),
    geometry("3d_1x1", (16, 32), (5, 4, 3), (1, 1, 1)),
    geometry("3d_groups_dilated", (16, 8), (7, 7, 7), (2, 2, 2), dilations=2, groups=2),
    geometry("3d_depthwise", (16, 16), (5, 6, 7), (3, 3, 3), pads=1, groups=16),
)

CONVOLUTIONS = (
    onednn_py.convolution,
    onednn_py.convolution_backward_data,
    onednn_py.convolution_backward_weights,
)
TRANSPOSED = (
    onednn_py.conv_transpose,
    onednn_py.conv_transpose_backward_data,
    onednn_py.conv_transpose_backward_weights,
)
FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS = range(3)


@dataclass(frozen=True)
class Case:
    """A call of an operation, for onednn_py and for native oneDNN."""

    geometry: Geometry
    transposed: bool
    direction: int
    dtype: str
    data_format: str
    weights_format: str
    bias: bool = False

    def __str__(self) -> str:
        words = [self.function.__name__, self.geometry.name, self.dtype, self.data_format]
        return "-".join([*words, self.weights_format] + ["bias"] * self.bias)

    @property
    def function(self) -> Callable[..., Any]:
        return (TRANSPOSED if self.transposed else CONVOLUTIONS)[self.direction]

    @property
    def src_shape(self) -> tuple[int, ...]:
        return self._activations(self.transposed)

    @property
    def dst_shape(self) -> tuple[int, ...]:
        return self._activations(not self.transposed)

    @property
    def weights_shape(self) -> tuple[int, ...]:
        g = self.geometry
        return weights_shape(g.outputs, g.inputs, g.kernel, g.groups, self.weights_format)

    @property
    def bias_shape(self) -> tuple[int, ...]:
        return (self.geometry.inputs if self.transposed else self.geometry.outputs,)

    @property
    def terms(self) -> int:
        """The number of products in the longest sum of the result."""
        g = self.geometry
        if self.direction == BACKWARD_WEIGHTS:
            return g.minibatch * math.prod(g.size)
        return max(g.inputs, g.outputs) // g.groups * math.prod(g.kernel)

    def inputs(self) -> tuple[np.ndarray, ...]:
        """Return dense random tensors, with the same values at every call."""
        src, weights, dst = self.src_shape, self.weights_shape, self.dst_shape
        shapes = {
            FORWARD: [src, weights] + [self.bias_shape] * self.bias,
            BACKWARD_DATA: [dst, weights],
            BACKWARD_WEIGHTS: [src, dst],
        }[self.direction]
        rng = np.random.default_rng(0)
        dtype = DTYPES[self.dtype]
        return tuple(rng.standard_normal(shape, np.float32).astype(dtype) for shape in shapes)

    def result_shapes(self) -> list[tuple[int, ...]]:
        if self.direction == BACKWARD_WEIGHTS:
            return [self.weights_shape] + [self.bias_shape] * self.bias
        return [self.dst_shape if self.direction == FORWARD else self.src_shape]

    def request(self) -> Request:
        """Return the case as a request to the native program."""
        g = self.geometry
        ends = (g.windows, g.size) if self.transposed else (g.size, g.windows)
        channels = (g.outputs, g.inputs) if self.transposed else (g.inputs, g.outputs)
        tokens = {
            "op": "deconv" if self.transposed else "conv",
            "dir": ("fwd", "bwd_d", "bwd_w")[self.direction],
            "bias": int(self.bias), "g": g.groups, "mb": g.minibatch,
            "ic": channels[0], "oc": channels[1], "src": ends[0], "dst": ends[1],
            "kernel": g.kernel, "strides": g.strides, "dilations": g.dilations,
            "pads_begin": g.pads_begin, "pads_end": g.pads_end,
            "data": self.data_format.lower(), "weights": self.weights_format.lower(),
        }  # fmt: skip
        return Request(tokens, self.dtype, self.inputs())

    def run(self, inputs: tuple[np.ndarray, ...]) -> tuple[str, list[np.ndarray]]:
        """Return our implementation's name and our results."""
        g = self.geometry
        attributes: dict[str, Any] = {
            "strides": g.strides,
            "dilations": g.dilations,
            "pads_begin": g.pads_begin,
            "pads_end": tuple(max(pad, 0) for pad in g.pads_end),
            "groups": g.groups,
            "data_format": self.data_format,
            "weights_format": self.weights_format,
        }
        if self.transposed:
            attributes["output_padding"] = tuple(max(-pad, 0) for pad in g.pads_end)
        arguments: tuple[Any, ...] = inputs
        if self.direction == BACKWARD_DATA and not self.transposed:
            arguments += (self.src_shape,)
        if self.direction == BACKWARD_WEIGHTS:
            arguments += (self.weights_shape,)
            attributes["bias"] = self.bias
        plan = onednn_py.plan(self.function, *arguments, backend="onednn", **attributes)
        results = plan(*inputs)
        return plan.implementation, list(results) if isinstance(results, tuple) else [results]

    def _activations(self, small: bool) -> tuple[int, ...]:
        g = self.geometry
        channels, spatial = (g.outputs, g.windows) if small else (g.inputs, g.size)
        return data_shape(g.minibatch, channels, spatial, self.data_format)


def all_cases() -> Iterator[Case]:
    """Yield the cases to compare, except those that meet known defects of native oneDNN."""
    for position, shape in enumerate(GEOMETRIES):
        for transposed in (False, True):
            for direction, dtype, data_format, last, bias in _variants(position):
                weights_format = (("IOX", "XOI") if transposed else ("OIX", "XIO"))[last]
                case = Case(shape, transposed, direction, dtype, data_format, weights_format, bias)
                if not _meets_known_defect(case):
                    yield case


def _variants(position: int) -> Iterator[tuple[int, str, str, bool, bool]]:
    """Yield direction, dtype, data format, whether the weights are channels last, and bias."""
    yield FORWARD, "f32", "NCX", False, position % 2 == 0
    yield FORWARD, "bf16", "NXC", True, position % 2 == 1
    for direction in (BACKWARD_DATA, BACKWARD_WEIGHTS):
        for dtype in ("f32", "bf16"):
            yield direction, dtype, "NCX", False, False
            yield direction, dtype, "NXC", True, False
        if position % 3 == 0:
            yield direction, "f32", "NCX", True, False
            yield direction, "f32", "NXC", False, False
        if position % 6 == 0:
            yield direction, "f16", "NCX", False, False
    yield BACKWARD_WEIGHTS, "f32", "NCX", True, True
    yield BACKWARD_WEIGHTS, "bf16", "NXC", False, True


def _meets_known_defect(case: Case) -> bool:
    """Tell whether the case meets a known defect of native oneDNN, on any CPU."""
    g = case.geometry
    if max(g.kernel) == 1 < max(g.strides) and case.direction == BACKWARD_WEIGHTS:
        # oneDNN writes out of bounds with few input channels (uxlfoundation/oneDNN#6035), also
        # of a transposed convolution, which runs the same code with src and dst exchanged.
        return min(g.inputs, g.outputs) // g.groups < 16
    if case.direction == BACKWARD_WEIGHTS and case.dtype == "bf16" and g.size[-1] < g.strides[-1]:
        # jit_bf16 stores columns of src by their index modulo stride, and reads some unwritten.
        return True
    forward_inside = case.direction == (BACKWARD_DATA if case.transposed else FORWARD)
    if forward_inside and case.dtype == "bf16":
        # Before v3.13, AMX implementations skip a window (uxlfoundation/oneDNN#5568).
        return any(s > k for s, k in zip(g.strides, g.kernel, strict=True))
    return False
