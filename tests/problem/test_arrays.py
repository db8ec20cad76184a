"""Strided, misaligned and overlapping arrays, in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError
from onednn_py.problem.arrays import element_strides, map_one_file, overlaps, share_memory
from tests.support.cases import CURATED, OPERATIONS
from tests.support.memory_layouts import (
    FORMS,
    read_only,
)
from tests.support.reference import DTYPES


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_inputs_of_any_strides(operation: str, form, backend: str) -> None:
    for name in ("2d_strided_dilated", "2d_blocked_channels", "2d_groups_16", "1d_strided"):
        for dtype in ("f32", "f16", "bf16"):
            tensors = CURATED[name].integers(dtype)
            positional, keywords = tensors.arguments(operation, "NXC", False)
            function = getattr(onednn_py, operation)
            expected = function(*positional, **keywords, backend=backend)
            strange = [form(x) if isinstance(x, np.ndarray) else x for x in positional]
            actual = function(*strange, **keywords, backend=backend)
            np.testing.assert_equal(actual, expected)


def test_byte_swapped_inputs(backend: str) -> None:
    src, weights = np.arange(20, dtype=">f4").reshape(1, 10, 2), np.ones((3, 2, 4), ">f4")
    actual = onednn_py.convolution(src, weights, backend=backend)
    assert actual.dtype == np.float32
    assert actual.dtype.isnative
    native = onednn_py.convolution(
        src.astype(np.float32), weights.astype(np.float32), backend=backend
    )
    np.testing.assert_array_equal(actual, native)


def test_broadcast_and_sliding_inputs(backend: str) -> None:
    src = np.broadcast_to(np.float32(2), (2, 8, 3))
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(12, dtype=np.float32), 5)
    weights = windows[:3, :3, None].repeat(2, axis=2)[..., ::-1]
    assert element_strides(src) is None
    assert element_strides(windows) is None
    np.testing.assert_array_equal(
        onednn_py.convolution(src, weights, backend=backend),
        onednn_py.convolution(src.copy(), weights.copy(), backend=backend),
    )


def empty_like(form, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    made = form(np.full(shape, 9, DTYPES[dtype]))
    made.flags.writeable = True
    return made


@pytest.mark.parametrize("form", [form for form in FORMS if form is not read_only])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_out_of_any_strides(operation: str, form, backend: str) -> None:
    for name in ("2d_strided_dilated", "2d_blocked_channels", "3d_groups"):
        for dtype in ("f32", "f16", "bf16"):
            tensors = CURATED[name].integers(dtype)
            positional, keywords = tensors.arguments(operation, "NXC", False)
            function = getattr(onednn_py, operation)
            expected = function(*positional, **keywords, backend=backend)
            if isinstance(expected, tuple):
                out = tuple(empty_like(form, e.shape, dtype) for e in expected)
                actual = function(*positional, **keywords, out=out, backend=backend)
                assert actual[0] is out[0]
                assert actual[1] is out[1]
            else:
                out = empty_like(form, expected.shape, dtype)
                assert function(*positional, **keywords, out=out, backend=backend) is out
                actual = out
            np.testing.assert_equal(actual, expected)


def test_gaps_of_out_are_left_alone(backend: str) -> None:
    room = np.full((2, 10, 8), 7, np.float32)
    out = room[:, 1:9:2, 2:7]
    onednn_py.convolution(
        np.ones((2, 6, 3), np.float32), np.ones((3, 3, 5), np.float32), out=out, backend=backend
    )
    outside = np.ones(room.shape, bool)
    outside[:, 1:9:2, 2:7] = False
    assert (room[outside] == 7).all()
    assert (out == 9).all()


def test_out_that_overlaps_an_input(backend: str) -> None:
    room = np.random.default_rng(0).integers(-4, 5, (2, 12, 6)).astype(np.float32)
    weights = np.random.default_rng(1).integers(-4, 5, (3, 6, 6)).astype(np.float32)
    expected = onednn_py.convolution(room.copy(), weights, pads_begin=1, pads_end=1)
    for shift in (0, 1, 2):
        memory = np.zeros(room.size + 2, np.float32)
        src = memory[: room.size].reshape(room.shape)
        src[...] = room
        out = memory[shift : shift + room.size].reshape(room.shape)
        onednn_py.convolution(src, weights, pads_begin=1, pads_end=1, out=out, backend=backend)
        np.testing.assert_array_equal(out, expected)


def test_outs_that_overlap_each_other(backend: str) -> None:
    src, diff_dst = np.ones((1, 4, 2), np.float32), np.ones((1, 2, 3), np.float32)
    memory = np.zeros(18, np.float32)
    diff_weights, diff_bias = memory.reshape(3, 2, 3), memory[:3]
    with pytest.raises(AttributeValueError, match="diff_bias.*shares memory with"):
        onednn_py.convolution_backward_weights(
            src, diff_dst, (3, 2, 3), bias=True, out=(diff_weights, diff_bias), backend=backend
        )
    memory = np.zeros(36, np.float32)
    diff_weights, diff_bias = memory[::2].reshape(3, 2, 3), memory[1:7:2]
    onednn_py.convolution_backward_weights(
        src, diff_dst, (3, 2, 3), bias=True, out=(diff_weights, diff_bias), backend=backend
    )
    np.testing.assert_array_equal(memory[::2], np.full(18, 2))
    np.testing.assert_array_equal(memory[1:7:2], np.full(3, 2))


def test_axes_of_one_element_may_have_any_stride() -> None:
    base = np.zeros((3, 5), np.float32)
    strange = np.lib.stride_tricks.as_strided(base, (1, 3, 1, 5), (0, 20, -8, 4))
    assert element_strides(strange) == element_strides(base.reshape(1, 3, 1, 5)) == (15, 5, 5, 1)


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((3, 4), (16, 4), False),
        ((3, 4), (12, 4), True),
        ((3, 4), (4, 16), False),
        ((3, 4), (4, 8), True),
        ((3, 4), (4, 12), False),
        ((3, 4), (-16, 4), False),
        ((3, 1), (0, 4), True),
        ((1, 4), (0, 4), False),
        ((2, 2), (4, 2), True),
    ],
)
def test_overlaps(shape, strides, expected: bool) -> None:
    room = np.zeros(64, np.float32)[32:]
    assert overlaps(np.lib.stride_tricks.as_strided(room, shape, strides)) is expected


def test_subclasses_are_read_as_plain_arrays(tmp_path, backend: str) -> None:
    mapped = np.memmap(tmp_path / "src", np.float32, "w+", shape=(1, 6, 2))
    mapped[...] = 3
    result = onednn_py.convolution(mapped, np.ones((3, 2, 1), np.float32), backend=backend)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, np.full((1, 4, 1), 18))


FORMS_OF_OUTPUTS = {
    "copy": np.array,
    "mapped": lambda array: array,
    "plain": np.asarray,
    "view": lambda array: array[:],
    "view of plain": lambda array: np.asarray(array)[:],
    "reshaped twice": lambda array: np.asarray(array).reshape(-1).reshape(array.shape),
}


@pytest.mark.parametrize("read", [np.asarray, lambda array: array], ids=["plain", "mapped"])
@pytest.mark.parametrize("form", FORMS_OF_OUTPUTS.values(), ids=FORMS_OF_OUTPUTS)
def test_memory_of_one_file_at_two_addresses(
    form: Any, read: Any, tmp_path: Path, backend: str
) -> None:
    path, shape = tmp_path / "tensor", (1, 64, 64, 8)
    mapped = np.memmap(path, np.float32, "w+", shape=shape)
    mapped[...] = np.arange(mapped.size).reshape(shape) % 7
    kept, src = mapped.copy(), read(mapped)
    weights = np.ones((3, 3, 8, 8), np.float32)
    options = {"pads_begin": 1, "pads_end": 1, "backend": backend}
    expected = onednn_py.convolution(kept, weights, **options)
    plan = onednn_py.plan("convolution", src, weights, **options)
    for _ in range(2):  # the second call is known
        for call in (onednn_py.convolution, plan):
            mapped[...] = kept
            out = form(np.memmap(path, np.float32, "r+", shape=shape))
            if call is plan:
                plan(src, weights, out=out)
            else:
                onednn_py.convolution(src, weights, out=out, **options)
            np.testing.assert_array_equal(out, expected)


def test_parts_of_one_file(tmp_path: Path) -> None:
    """Bytes are compared, not files: in one mapping by NumPy, in two by their place in the file."""
    path, rows = tmp_path / "tensors", np.arange(64, dtype=np.float32).reshape(8, 8)
    rows.tofile(path)
    first = np.memmap(path, np.float32, "r+", shape=(8, 8))
    second = np.memmap(path, np.float32, "r+", offset=128, shape=(4, 8))
    other = np.memmap(path, np.float32, "r+", shape=(8, 8))
    np.testing.assert_array_equal(second, rows[4:])
    assert map_one_file(first, second)
    assert map_one_file(np.asarray(first)[4:], second[:1])
    assert map_one_file(first[7::-1][3:], other[4:5])
    assert not map_one_file(first[:4], second)
    assert not map_one_file(first[3::-1], second)
    assert not map_one_file(first[:0], other)
    assert not map_one_file(first[::2], first[1::2])
    assert not share_memory(first[::2], first[1::2])
    assert share_memory(first, other)
    (tmp_path / "copy").write_bytes(path.read_bytes())
    assert not map_one_file(first, np.memmap(tmp_path / "copy", np.float32, "r+", shape=(8, 8)))
    path.unlink()
    assert map_one_file(first, other)


def test_gradients_in_parts_of_one_file(tmp_path: Path, backend: str) -> None:
    src, weights = np.ones((1, 8, 8, 4), np.float32), np.ones((3, 3, 4, 4), np.float32)
    diff_dst = np.ones((1, 6, 6, 4), np.float32)
    path = tmp_path / "gradients"
    np.zeros(src.size + weights.size, np.float32).tofile(path)
    outs = (
        np.memmap(path, np.float32, "r+", shape=src.shape),
        np.memmap(path, np.float32, "r+", offset=src.nbytes, shape=weights.shape),
        None,
    )
    expected = onednn_py.convolution_backward(src, weights, diff_dst, backend=backend)
    for _ in range(2):
        onednn_py.convolution_backward(src, weights, diff_dst, out=outs, backend=backend)
        np.testing.assert_array_equal(outs[0], expected[0])
        np.testing.assert_array_equal(outs[1], expected[1])


def test_every_second_element_of_an_odd_size(backend: str) -> None:
    """oneDNN refuses descriptors whose axes step over less than the inner one's extent."""
    src = np.arange(50, dtype=np.float32).reshape(1, 2, 5, 5)
    weights = np.ones((2, 2, 1, 1), np.float32)
    formats = {"data_format": "NCX", "weights_format": "OIX", "backend": backend}
    expected = onednn_py.convolution(src[..., ::2].copy(), weights, **formats)
    np.testing.assert_array_equal(
        onednn_py.convolution(src[..., ::2], weights, **formats), expected
    )
    out = np.zeros((1, 2, 5, 5), np.float32)[..., ::2]
    onednn_py.convolution(src[..., ::2], weights, out=out, **formats)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("family", ["convolution_backward", "conv_transpose_backward"])
def test_joint_outs_that_are_inputs(family: str, backend: str) -> None:
    rng = np.random.default_rng(0)
    src, weights, diff_dst = (
        rng.integers(-3, 4, shape).astype(np.float32) for shape in ((2, 6, 4), (3, 4, 4), (2, 6, 4))
    )
    keywords = {"pads_begin": 1, "pads_end": 1, "wrt": ("src", "weights", "bias")}
    joint = getattr(onednn_py, family)
    expected = joint(src, weights, diff_dst, **keywords, backend=backend)
    for out in ("weights", "src", "diff_dst"):
        inputs = {"src": src.copy(), "weights": weights.copy(), "diff_dst": diff_dst.copy()}
        outs = (None, inputs[out], None) if out == "weights" else (inputs[out], None, None)
        actual = joint(**inputs, **keywords, out=outs, backend=backend)
        np.testing.assert_equal(tuple(actual), tuple(expected))
    room = np.zeros(60, np.float32)
    with pytest.raises(AttributeValueError, match="share memory"):
        joint(
            src, weights, diff_dst, **keywords, backend=backend,
            out=(room[:48].reshape(2, 6, 4), room[:48].reshape(3, 4, 4), None),
        )  # fmt: skip


@pytest.mark.parametrize("shape", [(1, 2**62, 4), (2**31, 2**31, 2), (2**62, 0, 4)])
def test_a_spec_is_as_large_as_an_array_may_be(shape: tuple[int, ...]) -> None:
    with pytest.raises(onednn_py.ShapeError, match="more than memory can address"):
        onednn_py.TensorSpec(shape, np.float32)


def test_equal_specs_have_equal_hashes() -> None:
    specs = [onednn_py.TensorSpec((1, 5, 2), dtype) for dtype in (np.float32, "f4", np.dtype("f4"))]
    assert len(set(specs)) == 1
    assert specs[0].dtype == np.dtype("f4")


def test_a_boolean_is_no_extent() -> None:
    with pytest.raises(onednn_py.ShapeError, match="expected integers"):
        onednn_py.TensorSpec((True, 5, 2), np.float32)
