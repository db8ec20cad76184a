"""``run_op`` gives the results of native oneDNN's Graph operations with the same attributes.

The tensors hold small integers, so that float32 holds every sum exactly: the order of summation
has no influence, the only rounding is that of the result, and results must be equal. Where the
CPU has no kernels of bfloat16, native computes the same numbers in float32.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import onednn_py
from tests.support.native_programs import (
    DTYPES,
    TOTALS,
    Outcome,
    Request,
    compile_program,
    data_shape,
    run_in_any_type,
    weights_shape,
)
from tests.support.primitive_cases import Geometry, geometry

CONVOLUTIONS = ("Convolution", "ConvolutionBackwardData", "ConvolutionBackwardWeights")
TRANSPOSED = ("ConvTranspose", "ConvTransposeBackwardData", "ConvTransposeBackwardWeights")
SAME_PADS = ("SAME_UPPER", "SAME_LOWER")

Run = Callable[[Sequence[Request]], list[Outcome]]


def same(
    name: str, channels: tuple[int, int], size: tuple[int, ...], kernel: tuple[int, ...],
    **others: Any,
) -> Geometry:  # fmt: skip
    """Return a geometry with SAME padding: size / stride windows, rounded up."""
    plain = geometry(name, channels, size, kernel, **others)
    windows = tuple(-(-s // step) for s, step in zip(size, plain.strides, strict=True))
    return dataclasses.replace(plain, windows=windows)


EXPLICIT = (
    geometry("1d", (16, 32), (20,), (3,), pads=1),
    geometry("1d_stride2_rest", (8, 16), (20,), (3,), 2, pads=1, pads_end=0),
    geometry("1d_dilated", (16, 16), (25,), (3,), dilations=3, pads=2),
    geometry("1d_groups", (16, 8), (16,), (4,), 2, pads=1, groups=4),
    geometry("stem", (3, 16), (17, 17), (7, 7), 2, pads=3),
    geometry("3x3", (32, 48), (12, 12), (3, 3), pads=1),
    geometry("3x3_stride2_rest", (16, 32), (14, 14), (3, 3), 2, pads=1),
    geometry("1x1", (32, 64), (10, 10), (1, 1)),
    geometry("asymmetric", (8, 16), (10, 12), (5, 4), (2, 1), pads=(0, 1), pads_end=(1, 2)),
    geometry("mixed_axes", (16, 16), (15, 13), (3, 2), (2, 1), (1, 3), (1, 2), (0, 1)),
    geometry("odd_channels", (5, 7), (9, 8), (3, 3), pads=1, minibatch=3),
    geometry("groups4_dilated", (32, 64), (11, 11), (3, 3), dilations=2, pads=2, groups=4),
    geometry("groups3_stride2", (6, 9), (9, 9), (3, 3), 2, pads=1, groups=3),
    geometry("depthwise", (32, 32), (12, 12), (3, 3), pads=1, groups=32),
    geometry("3d", (8, 16), (6, 5, 4), (3, 3, 3), pads=1),
    geometry("3d_groups", (8, 4), (6, 6, 6), (2, 2, 2), 2, groups=2),
)
SAME = (
    same("1d_stride1_even_kernel", (16, 8), (11,), (4,)),
    same("1d_stride2", (16, 8), (12,), (3,), strides=2),
    same("1d_odd_size", (16, 8), (11,), (4,), strides=2),
    same("1d_dilated", (8, 16), (12,), (2,), dilations=3),
    same("2d_stride2", (16, 32), (10, 10), (3, 3), strides=2),
    same("2d_mixed_axes", (3, 16), (12, 9), (5, 2), strides=(3, 1), dilations=(1, 3)),
    same("2d_groups", (16, 8), (8, 8), (4, 4), strides=2, groups=4),
    same("2d_kernel_below_stride", (16, 16), (12, 12), (2, 2), strides=4),
    same("3d", (4, 8), (6, 4, 6), (3, 2, 3), strides=(2, 1, 2)),
)
VALID = (
    geometry("1d", (8, 16), (21,), (3,), 2),
    geometry("2d", (16, 16), (9, 9), (3, 2), (2, 1), (1, 2)),
    geometry("2d_groups", (8, 12), (8, 8), (2, 2), 2, groups=4),
    geometry("3d", (8, 8), (5, 5, 4), (3, 3, 2)),
)


@dataclass(frozen=True)
class Case:
    """An operation, for ``run_op`` and for native oneDNN's Graph API."""

    kind: str
    geometry: Geometry
    data_format: str
    weights_format: str
    dtype: str
    auto_pad: str | None = None

    def __str__(self) -> str:
        padding = self.auto_pad or "pads"
        names = (self.kind, self.geometry.name, padding, self.data_format, self.weights_format)
        return "-".join((*names, self.dtype))

    @property
    def transposed(self) -> bool:
        return self.kind in TRANSPOSED

    @property
    def pads_are_automatic(self) -> bool:
        """Whether ``auto_pad`` determines the pads, so that the given pads are ignored."""
        return self.auto_pad not in (None, "None")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        g = self.geometry
        large = data_shape(g.minibatch, g.inputs, g.size, self.data_format)
        small = data_shape(g.minibatch, g.outputs, g.windows, self.data_format)
        src, dst = (small, large) if self.transposed else (large, small)
        weights = weights_shape(g.outputs, g.inputs, g.kernel, g.groups, self.weights_format)
        return {"src": src, "dst": dst, "weights": weights}

    def inputs(self) -> tuple[np.ndarray, ...]:
        """Return arrays of small integers, with the same values at every call."""
        names = ("src", "weights")
        if self.kind.endswith("BackwardData"):
            names = ("dst", "weights")
        elif self.kind.endswith("BackwardWeights"):
            names = ("src", "dst")
        rng = np.random.default_rng(0)
        dtype = DTYPES[self.dtype]
        return tuple(rng.integers(-4, 5, self.shapes()[name]).astype(dtype) for name in names)

    def attributes(self) -> dict[str, Any]:
        g, shapes = self.geometry, self.shapes()
        pads_begin, pads_end = g.pads_begin, tuple(max(pad, 0) for pad in g.pads_end)
        no_pads = (0,) * len(g.size)
        attributes: dict[str, Any] = {
            "strides": g.strides,
            "pads_begin": no_pads if self.pads_are_automatic else pads_begin,
            "pads_end": no_pads if self.pads_are_automatic else pads_end,
            "dilations": g.dilations,
            "data_format": self.data_format,
            "weights_format": self.weights_format,
        }
        if g.groups > 1:
            attributes["groups"] = g.groups
        if self.auto_pad:
            attributes["auto_pad"] = self.auto_pad
        if self.kind == "ConvolutionBackwardData":
            attributes["dst_shape"] = shapes["src"]
        elif self.kind.endswith("BackwardWeights"):
            attributes["weights_shape"] = shapes["weights"]
        elif self.kind == "ConvTranspose" and not self.pads_are_automatic:
            attributes["output_padding"] = tuple(max(-pad, 0) for pad in g.pads_end)
        return attributes

    def request(self) -> Request:
        return native_request(self.kind, self.inputs(), self.attributes(), self.dtype)


def native_request(
    kind: str, inputs: Sequence[np.ndarray], attributes: dict[str, Any], dtype: str = "f32"
) -> Request:
    shapes = {f"input{i}": array.shape for i, array in enumerate(inputs)}
    return Request({"kind": kind, **shapes, **attributes}, dtype, tuple(inputs))


def _native_cannot(case: Case) -> bool:
    """Tell whether native oneDNN refuses the case or computes it wrong, as tests below show."""
    g = case.geometry
    padded_same = case.auto_pad in SAME_PADS
    if case.kind == "ConvolutionBackwardData":
        return g.groups > 1
    if case.kind == "ConvTransposeBackwardData":
        return max(g.dilations) > 1
    if case.kind == "ConvTransposeBackwardWeights":
        return padded_same and max(g.strides) > 1
    if case.kind == "ConvTranspose" and padded_same:
        # Not a defect: only some sizes are those of a forward pass, which has stride elements of
        # dst for each of src, and more if the kernel is wider than the stride.
        sizes = zip(g.size, g.windows, g.strides, g.kernel, strict=True)
        return any(size != n * stride or k < stride for size, n, stride, k in sizes)
    return False


def _cases() -> Iterator[Case]:
    paddings = [(g, None) for g in EXPLICIT] + [(g, "VALID") for g in VALID]
    paddings += [(g, "None") for g in EXPLICIT[:2]]
    paddings += [(g, auto_pad) for g in SAME for auto_pad in SAME_PADS]
    for shape, auto_pad in paddings:
        for kind in CONVOLUTIONS + TRANSPOSED:
            first, last = ("IOX", "XOI") if kind in TRANSPOSED else ("OIX", "XIO")
            layouts = [("NCX", first, "f32"), ("NXC", last, "f32"), ("NXC", last, "bf16")]
            if not auto_pad:
                layouts += [("NCX", last, "f32"), ("NXC", first, "f32"), ("NCX", first, "bf16")]
            for layout in layouts:
                case = Case(kind, shape, *layout, auto_pad)
                if not _native_cannot(case):
                    yield case


CASES = list(_cases())
SUBJECT = "graph operations"
TOTALS[SUBJECT] = {"compared": 0}


@pytest.fixture(scope="module")
def run_native(tmp_path_factory: pytest.TempPathFactory) -> Run:
    program = compile_program("graph", tmp_path_factory.mktemp("graph"))
    return lambda requests: run_in_any_type(program, requests)


@pytest.fixture(scope="module")
def outcomes(run_native: Run) -> dict[Case, Outcome]:
    return dict(zip(CASES, run_native([case.request() for case in CASES]), strict=True))


def assert_equal(ours: np.ndarray, native: np.ndarray) -> None:
    """Fail unless shape, type and all values are equal; zeros of either sign are equal."""
    assert ours.shape == native.shape
    assert ours.dtype == native.dtype
    np.testing.assert_array_equal(ours.astype(np.float64), native.astype(np.float64))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_native(case: Case, outcomes: dict[Case, Outcome]) -> None:
    native = outcomes[case]
    assert native.status == "success", f"native: {native.detail}"
    ours = onednn_py.run_op(case.kind, case.inputs(), case.attributes(), backend="onednn")
    assert_equal(ours, native.arrays[0])
    TOTALS[SUBJECT]["compared"] += 1


@pytest.mark.parametrize("kind", CONVOLUTIONS + TRANSPOSED)
def test_every_operation_has_many_cases(kind: str) -> None:
    assert sum(case.kind == kind for case in CASES) >= 80


def test_one_wrong_number_is_found() -> None:
    right = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert_equal(right, right.copy())
    for wrong in (right + np.eye(2, 3, dtype=np.float32), right.T, right.astype(np.float64)):
        with pytest.raises(AssertionError):
            assert_equal(right, wrong)


def _products(
    dst_size: int, src_size: int, kernel: int, stride: int, dilation: int, pad_begin: int
) -> Iterator[tuple[int, int, int]]:
    """Yield (kernel index, dst index, src index) of all products of a transposed convolution."""
    for k in range(kernel):
        for i in range(src_size):
            j = i * stride + k * dilation - pad_begin
            if 0 <= j < dst_size:
                yield k, j, i


def _reference_data(
    diff_dst: np.ndarray, weights: np.ndarray, src_size: int, stride: int, dilation: int,
) -> np.ndarray:  # fmt: skip
    """Compute ConvTransposeBackwardData without padding: NCX, IOX, one spatial axis."""
    diff_src = np.zeros((diff_dst.shape[0], weights.shape[0], src_size))
    for k, j, i in _products(diff_dst.shape[2], src_size, weights.shape[2], stride, dilation, 0):
        diff_src[:, :, i] += diff_dst[:, :, j] @ weights[:, :, k].T
    return diff_src


def _reference_weights(
    src: np.ndarray, diff_dst: np.ndarray, kernel: int, stride: int, pad_begin: int
) -> np.ndarray:
    """Compute ConvTransposeBackwardWeights without dilation: NCX, IOX, one spatial axis."""
    diff_weights = np.zeros((src.shape[1], diff_dst.shape[1], kernel))
    for k, j, i in _products(diff_dst.shape[2], src.shape[2], kernel, stride, 1, pad_begin):
        diff_weights[:, :, k] += src[:, :, i].T @ diff_dst[:, :, j]
    return diff_weights


def _integers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float32)


def _attributes(**others: Any) -> dict[str, Any]:
    defaults = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    return {**defaults, "data_format": "NCX", **others}


def test_native_drops_the_dilations_of_conv_transpose_backward_data(run_native: Run) -> None:
    """Native infers the shape with the dilations, but creates its primitive without them.

    If the shapes happen to agree, the result is wrong; otherwise native refuses the primitive.
    """
    kind = "ConvTransposeBackwardData"
    diff_dst, weights = _integers(2, 3, 5), _integers(4, 3, 2)
    agreeing = _attributes(weights_format="IOX", strides=[2], dilations=[2])
    elsewhere = _attributes(weights_format="IOX", strides=[1], dilations=[2])
    requests = [native_request(kind, (diff_dst, weights), a) for a in (agreeing, elsewhere)]
    wrong, refused = run_native(requests)

    right = _reference_data(diff_dst, weights, 2, stride=2, dilation=2)
    ours = onednn_py.run_op(kind, (diff_dst, weights), agreeing, backend="onednn")
    np.testing.assert_array_equal(ours, right)
    assert wrong.status == "success"
    undilated = _reference_data(diff_dst, weights, 2, stride=2, dilation=1)
    np.testing.assert_array_equal(wrong.arrays[0], undilated)
    assert not np.array_equal(wrong.arrays[0], right)

    right = _reference_data(diff_dst, weights, 3, stride=1, dilation=2)
    ours = onednn_py.run_op(kind, (diff_dst, weights), elsewhere, backend="onednn")
    np.testing.assert_array_equal(ours, right)
    assert refused.status == "invalid_arguments"


def test_native_takes_the_same_pads_of_conv_transpose_backward_weights_from_src(
    run_native: Run,
) -> None:
    """The pads depend on diff_dst's size, 10 here; from src's, 5, native gets a begin pad of 1."""
    kind = "ConvTransposeBackwardWeights"
    src, diff_dst = _integers(2, 4, 5), _integers(2, 3, 10)
    attributes = _attributes(
        weights_format="IOX", strides=[2], auto_pad="SAME_UPPER", weights_shape=[4, 3, 3]
    )
    [native] = run_native([native_request(kind, (src, diff_dst), attributes)])

    right = _reference_weights(src, diff_dst, 3, stride=2, pad_begin=0)
    ours = onednn_py.run_op(kind, (src, diff_dst), attributes, backend="onednn")
    np.testing.assert_array_equal(ours, right)
    assert native.status == "success"
    shifted = _reference_weights(src, diff_dst, 3, stride=2, pad_begin=1)
    np.testing.assert_array_equal(native.arrays[0], shifted)
    assert not np.array_equal(native.arrays[0], right)


@pytest.mark.parametrize("groups", [2, 6])
def test_native_refuses_groups_of_convolution_backward_data(groups: int, run_native: Run) -> None:
    """Native refuses the shape, so the gradient is compared with those of the single groups."""
    kind = "ConvolutionBackwardData"
    diff_dst, weights = _integers(2, 12, 5, 5), _integers(12, 6 // groups, 3, 3)
    attributes = _attributes(
        weights_format="OIX", strides=[2, 2], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]
    )
    whole = {**attributes, "groups": groups, "dst_shape": [2, 6, 9, 9]}
    single = {**attributes, "dst_shape": [2, 6 // groups, 9, 9]}
    pairs = zip(np.split(diff_dst, groups, 1), np.split(weights, groups, 0), strict=True)
    requests = [native_request(kind, (diff_dst, weights), whole)]
    requests += [native_request(kind, pair, single) for pair in pairs]
    grouped, *singles = run_native(requests)

    ours = onednn_py.run_op(kind, (diff_dst, weights), whole, backend="onednn")
    assert_equal(ours, np.concatenate([outcome.arrays[0] for outcome in singles], axis=1))
    assert grouped.status == "invalid_shape"
