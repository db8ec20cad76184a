"""Data gradients added where windows meet src: exact, bounded, and chosen where they pay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onednn_py
from onednn_py import TensorSpec
from onednn_py.backends.numpy import col2im, products
from onednn_py.backends.numpy.workspace import Workspace
from tests.support.cases import CURATED, Case, case

INTO_SRC = ("convolution_backward_data", "conv_transpose")


@st.composite
def many_remainders(draw: st.DrawFn) -> Case:
    """Geometries whose stride leaves at least 16 remainders, in all numbers of axes."""
    axes = draw(st.integers(1, 3))
    longest = (0, 40, 9, 5)[axes]

    def each(least: int, most: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(least, most)) for _ in range(axes))

    strides, dilations = each(2, longest), each(1, 4)
    kernel = each(1, longest + 4)
    pads_begin, pads_end = each(0, longest + 5), each(0, longest + 5)
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    size = tuple(
        max(1, extent - begin - end + draw(st.integers(0, 3)) * stride + draw(st.integers(0, 3)))
        for extent, begin, end, stride in zip(extents, pads_begin, pads_end, strides, strict=True)
    )
    groups = draw(st.sampled_from([1, 1, 2, 5]))
    inputs, outputs = (groups * draw(st.integers(1, 4)) for _ in range(2))
    minibatch = draw(st.integers(1, 3))
    return Case(
        size, kernel, strides, dilations, pads_begin, pads_end, minibatch, groups, inputs, outputs
    )


def force(patch: pytest.MonkeyPatch, *, takes: bool) -> None:
    """Make plans take col2im for every data gradient, or for none."""
    patch.setattr(col2im, "FEWEST_REMAINDERS", 0 if takes else 10**9)
    patch.setattr(col2im, "MOST_REMAINDERS", -1 if takes else 10**9)
    onednn_py.cache_clear()


@contextmanager
def recorded_arrays() -> Iterator[list[np.ndarray]]:
    """The temporary arrays that threads have of their own inside the ``with`` block."""
    arrays: list[np.ndarray] = []
    plain = Workspace.empty

    def recorded(*arguments: object) -> np.ndarray:
        arrays.append(plain(*arguments))  # type: ignore[arg-type]
        return arrays[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workspace, "empty", recorded)
        yield arrays


def check(geometry: Case, dtype: str, seed: int = 0) -> None:
    tensors = geometry.integers(dtype, seed)
    for operation in INTO_SRC:
        for data_format in ("NCX", "NXC"):
            for weights_first in (True, False):
                tensors.check(
                    operation, "numpy", data_format=data_format, weights_first=weights_first
                )


@given(
    geometry=many_remainders(),
    dtype=st.sampled_from(["f32", "f64", "bf16", "f16"]),
    nbytes=st.sampled_from([1, 100, 1000, None]),
    threads=st.integers(1, 3),
    takes=st.booleans(),
)
@settings(max_examples=60)
def test_any_geometry_is_exact(
    geometry: Case, dtype: str, nbytes: int | None, threads: int, takes: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch, onednn_py.num_threads(threads):
        force(patch, takes=takes)
        if nbytes:
            for limit in ("MOST_TILE_BYTES", "PRODUCT_BYTES", "PART_BYTES"):
                patch.setattr(col2im, limit, nbytes)
        check(geometry, dtype)
    onednn_py.cache_clear()


@pytest.mark.parametrize("name", CURATED)
def test_every_kind_is_exact(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, takes=True)
    check(CURATED[name], "f32")


GAPS = case((31, 30), (5, 4), (7, 9), (3, 2), ((2, 0), (1, 3)), groups=2, inputs=4, outputs=6)


def test_elements_that_nothing_meets_are_the_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, takes=True)
    tensors = GAPS.integers("f32")
    positional, keywords = tensors.arguments("conv_transpose", "NCX", True)
    positional[2] = np.array([2, 3, 5, 7], np.float32)
    result = onednn_py.conv_transpose(*positional, **keywords, backend="numpy")
    np.testing.assert_array_equal(result[0, :, -1, -1], [2, 3, 5, 7])


def test_huge_pads_leave_nothing_to_add(monkeypatch: pytest.MonkeyPatch) -> None:
    """Window 0 ends before src and window 1 begins behind it; no kernel position meets it."""
    force(monkeypatch, takes=True)
    check(case(1, 2, 10**6, 1, (500_000, 499_999 + 2), inputs=2, outputs=3), "f32")


def test_views_with_any_strides_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, takes=True)
    tensors = GAPS.integers("f32")
    (diff_dst, weights, shape), keywords = tensors.arguments(INTO_SRC[0], "NXC", False)
    strided = [np.repeat(array, 2, axis=-2)[..., ::2, :] for array in (diff_dst, weights)]
    out = np.zeros((*shape[:-1], 2 * shape[-1]), np.float32)
    onednn_py.convolution_backward_data(
        *strided, shape, out=out[..., ::2], **keywords, backend="numpy"
    )
    np.testing.assert_array_equal(out[..., ::2], np.moveaxis(tensors.expected("src"), 1, -1))
    assert not out[..., 1::2].any()


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_bits_do_not_depend_on_threads(
    dtype: str, data_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, takes=True)
    tensors = case((90, 90), 18, 9, pads=3, minibatch=5, inputs=9, outputs=70).normals(dtype)
    positional, keywords = tensors.arguments(INTO_SRC[0], data_format, True)
    results, shapes = [], []
    for threads in (1, 2, 3):
        with onednn_py.num_threads(threads), recorded_arrays() as arrays:
            results.append(
                onednn_py.convolution_backward_data(*positional, **keywords, backend="numpy")
            )
        shapes.append(sorted(array.shape for array in arrays))
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    # Equal sums of other matrix products would be a coincidence of one BLAS.
    assert shapes[0] == shapes[1] == shapes[2]


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize(
    "geometry",
    [
        case((400, 400), 50, 20, minibatch=1, inputs=60, outputs=5),
        case((40, 40), 4, 4, minibatch=20, inputs=1, outputs=3000),
        case(3_000_000, 30, 20, minibatch=1, inputs=2, outputs=2),
    ],
    ids=["many_products", "many_source_channels", "long"],
)
def test_temporary_arrays_are_bounded(
    geometry: Case, data_format: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, takes=True)
    positional, keywords = geometry.normals(dtype).arguments(INTO_SRC[0], data_format, True)
    with recorded_arrays() as arrays:
        onednn_py.convolution_backward_data(*positional, **keywords, backend="numpy")
    assert 0 < max(array.nbytes for array in arrays) <= products.MOST_TILE_BYTES


def planned(
    kernel: int,
    strides: int,
    channels: int = 1,
    size: int = 2,
    axes: int = 1,
    groups: int = 1,
    dtype: str = "f4",
) -> str:
    """The plan of a data gradient of size**axes windows."""
    return repr(
        onednn_py.plan(
            "convolution_backward_data",
            TensorSpec((1, *(size,) * axes, channels), dtype),
            TensorSpec((*(kernel,) * axes, channels // groups, channels), dtype),
            strides=strides,
            groups=groups,
            backend="numpy",
        )
    )


def refused(*_: object) -> None:
    raise AssertionError("not this method")


@pytest.mark.parametrize("kernel", [10**5, 10**8])
def test_plans_of_huge_kernels_are_made_at_once(
    kernel: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onednn_py.backends.numpy.plan.correlations", refused)
    onednn_py.cache_clear()
    assert f"{kernel} kernel positions" in planned(kernel, kernel)
    assert onednn_py.cache_info().bytes < 10**5


def test_a_huge_kernel_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onednn_py.backends.numpy.plan.correlations", refused)
    many = 10**5
    weights = np.arange(many, dtype=np.float64).reshape(many, 1, 1)
    result = onednn_py.convolution_backward_data(
        np.array([[[2.0], [3.0]]]), weights, strides=many, backend="numpy"
    )
    np.testing.assert_array_equal(result.ravel(), [*(2 * weights.ravel()), *(3 * weights.ravel())])


@pytest.mark.parametrize(
    ("numbers", "pays"),
    [
        ({"kernel": 3, "strides": 3}, False),
        ({"kernel": 40, "strides": 4}, False),
        ({"kernel": 16, "strides": 16}, True),
        ({"kernel": 16, "strides": 16, "channels": 64, "size": 1000}, True),
        ({"kernel": 32, "strides": 16, "channels": 64, "size": 1000}, False),
        ({"kernel": 5000, "strides": 5000, "channels": 64, "size": 1000}, True),
        ({"kernel": 9, "strides": 4, "size": 25, "axes": 2}, False),
        ({"kernel": 4, "strides": 4, "size": 25, "axes": 2}, True),
        ({"kernel": 16, "strides": 16, "size": 160, "axes": 2}, True),
        ({"kernel": 16, "strides": 16, "size": 160, "axes": 2, "dtype": "f2"}, False),
        ({"kernel": 16, "strides": 16, "channels": 256, "size": 100, "groups": 256}, False),
        ({"kernel": 16, "strides": 16, "channels": 256, "size": 100, "groups": 16}, True),
    ],
)
def test_where_col2im_pays(
    numbers: dict[str, Any], pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    plain = col2im.pays
    monkeypatch.setattr(col2im, "pays", lambda *given: asked.append(plain(*given)) or asked[-1])
    onednn_py.cache_clear()
    planned(**numbers)
    assert asked == [pays]
