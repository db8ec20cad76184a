"""Calls that PyTorch computes faster are left to it; calls much like them are taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import onednn_py.torch
from onednn_py.torch import preference
from tests.support.torch_comparison import decided_anew, sixteen_bits_by

pytestmark = [pytest.mark.frameworks, pytest.mark.usefixtures("preferences")]

F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16


def reasons(
    src: tuple[int, ...], weights: tuple[int, ...], dtype: torch.dtype, last: bool, **given: Any
) -> tuple[set[str], set[str]]:
    """Why the forward pass and the gradients of weights and src are left, empty where taken."""
    rank = len(src) - 2
    memory = {2: torch.channels_last, 3: torch.channels_last_3d}.get(rank) if last else None
    data = torch.ones(src, dtype=dtype, requires_grad=given.pop("gradient_of_src", True))
    if memory:
        data = data.detach().contiguous(memory_format=memory).requires_grad_(data.requires_grad)
    kernel = torch.ones(weights, dtype=dtype, requires_grad=True)
    convolution = (torch.conv1d, torch.conv2d, torch.conv3d)[rank - 1]
    onednn_py.torch.reset_statistics()
    with onednn_py.torch.enabled():
        dst = convolution(data, kernel, **given)
        dst.backward(torch.ones_like(dst))
    left = onednn_py.torch.statistics().left
    return set(left.get("convolution", ())), set(left.get("convolution_backward", ()))


PRODUCTS = {"faster in PyTorch: small products of matrices"}
IN_LOOPS = {"faster in PyTorch: small in bfloat16 on a CPU without it"}
PIXEL = {"faster in PyTorch: 1x1 kernels on one pixel"}
STRIDED = {"faster in PyTorch: bfloat16, strided 1x1 kernels"}
GROUPED = {"faster in PyTorch: bfloat16 in groups"}
VOLUME = {"faster in PyTorch: bfloat16 volumes of few channels"}
DEPTHWISE = {"faster in PyTorch: depthwise in 16 bits"}
DEPTHWISE_VOLUME = {"faster in PyTorch: depthwise volumes"}
LARGE_ON_AVX2 = {"faster in PyTorch: large kernels between few channels, on AVX2"}
PARTS_ON_AVX2 = {"faster in PyTorch: weights of parts of registers, on AVX2"}


@pytest.fixture
def native_16_bits() -> Iterator[None]:
    with sixteen_bits_by(torch._C._ConvBackend.Mkldnn):
        yield


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("src", "weights", "dtype", "expected"),
    [
        ((1, 4, 20, 20), (4, 4, 3, 3), F32, PRODUCTS),
        ((2, 4, 20, 20), (4, 4, 3, 3), F32, set()),
        ((1, 4, 20, 20), (4, 4, 3, 3), F16, set()),
        ((1, 4, 6, 6, 6), (4, 4, 3, 3, 3), F32, PRODUCTS),
        ((16, 32, 1, 1), (8, 32, 1, 1), F32, set()),
        ((16, 32, 1, 1), (8, 32, 1, 1), F16, set()),
    ],
)
def test_of_float32(
    src: tuple[int, ...], weights: tuple[int, ...], dtype: torch.dtype, expected: set[str]
) -> None:
    assert reasons(src, weights, dtype, False) == (expected, expected)


def test_one_pixel_where_products_would_be_reduced() -> None:
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert reasons((16, 32, 1, 1), (8, 32, 1, 1), F32, False) == (PIXEL, PIXEL)
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.fixture
def loops_in_16_bits() -> Iterator[None]:
    with sixteen_bits_by(torch._C._ConvBackend.Slow2d):
        yield


@pytest.mark.usefixtures("loops_in_16_bits")
def test_small_calls_in_bfloat16_are_left_where_numpy_would_convert() -> None:
    gradients, both = ((1, 8, 26, 26), (8, 8, 3, 3)), ((1, 8, 18, 18), (8, 8, 3, 3))
    assert reasons(*both, BF16, True) == (IN_LOOPS, IN_LOOPS)
    assert reasons(*gradients, BF16, False) == (set(), IN_LOOPS)  # 660,000 products
    assert reasons((1, 8, 42, 42), (8, 8, 3, 3), BF16, False) == (set(), set())
    assert reasons(*both, F16, False) == (set(), set())
    assert reasons((1, 8, 18, 18), (8, 1, 3, 3), BF16, False, groups=8) == (set(), set())
    assert reasons((1, 8, 18, 18), (8, 4, 3, 3), BF16, False, groups=2) == (IN_LOOPS, IN_LOOPS)
    assert reasons((1, 8, 26, 26), (8, 4, 3, 3), BF16, False, groups=2) == (set(), set())


@pytest.mark.usefixtures("native_16_bits")
def test_strided_1x1_kernels_of_bfloat16_are_left_forward_channels_last() -> None:
    shapes = (8, 8, 20, 20), (8, 8, 1, 1)
    assert reasons(*shapes, BF16, True, stride=2) == (STRIDED, set())
    assert reasons((2, 8, 20, 20), (8, 8, 1, 1), BF16, True, stride=2) == (set(), set())
    assert reasons(*shapes, BF16, False, stride=2) == (set(), set())
    assert reasons(*shapes, F16, True, stride=2) == (set(), set())
    assert reasons(*shapes, BF16, True) == (set(), set())


@pytest.mark.usefixtures("native_16_bits")
def test_groups_of_bfloat16(threads: int) -> None:
    shapes = (2, 8, 20, 20), (8, 4, 3, 3)
    forward = GROUPED if threads == 1 else set()
    assert reasons(*shapes, BF16, True, groups=2) == (forward, set())
    assert reasons(*shapes, BF16, False, groups=2) == (set(), set())
    assert reasons(*shapes, BF16, False, groups=2, gradient_of_src=False) == (set(), GROUPED)
    assert reasons(*shapes, F16, True, groups=2) == (set(), set())
    # Groups of 8 channels, above 10 million products, and of 16.
    large = (8, 16, 40, 40)
    assert reasons(large, (16, 8, 3, 3), BF16, True, groups=2) == (GROUPED, set())
    assert reasons(large, (16, 8, 1, 1), BF16, True, groups=2)[0] == forward
    wide = (4, 32, 40, 40), (32, 16, 3, 3)
    assert reasons(*wide, BF16, True, groups=2) == (forward, set())


@pytest.mark.usefixtures("native_16_bits")
def test_volumes_of_few_channels_in_bfloat16_are_left_forward() -> None:
    shapes = (2, 2, 8, 8, 8), (16, 2, 3, 3, 3)
    assert reasons(*shapes, BF16, True) == (VOLUME, set())
    assert reasons(*shapes, BF16, False) == (set(), set())
    assert reasons(*shapes, BF16, True, stride=2) == (set(), set())
    assert reasons((2, 1, 8, 8, 8), (16, 1, 3, 3, 3), BF16, True) == (set(), set())
    assert reasons((2, 2, 8, 8, 8), (16, 2, 1, 3, 3), BF16, True) == (set(), set())
    assert reasons(*shapes, F16, True) == (set(), set())


@pytest.mark.usefixtures("native_16_bits")
def test_depthwise_in_16_bits_is_left_forward() -> None:
    shapes = (2, 8, 20, 20), (8, 1, 3, 3)
    assert reasons(*shapes, BF16, True, groups=8) == (DEPTHWISE, set())
    assert reasons(*shapes, F16, True, groups=8) == (DEPTHWISE, set())
    assert reasons(*shapes, BF16, False, groups=8) == (set(), set())
    assert reasons(*shapes, F32, True, groups=8) == (set(), set())


def test_depthwise_volumes_are_left_forward() -> None:
    shapes = (2, 16, 8, 8, 8), (16, 1, 3, 3, 3)
    assert reasons(*shapes, F32, True, groups=16) == (DEPTHWISE_VOLUME, set())
    assert reasons(*shapes, F32, True, groups=16, dilation=2) == (set(), set())
    assert reasons((2, 16, 8, 8, 8), (16, 2, 3, 3, 3), F32, True, groups=8) == (set(), set())
    assert reasons((2, 16, 8, 8, 8), (32, 1, 3, 3, 3), F32, True, groups=16) == (set(), set())
    assert reasons((2, 16, 8, 8), (16, 1, 3, 3), F32, True, groups=16) == (set(), set())


def test_large_depthwise_volumes_with_channels_last_are_taken() -> None:
    shapes = (1, 16, 80, 80, 80), (16, 1, 1, 1, 2)
    assert reasons(*shapes, F32, True, groups=16) == (set(), set())
    assert reasons(*shapes, F32, True, groups=16, stride=2) == (DEPTHWISE_VOLUME, set())


@pytest.mark.parametrize("has_avx2_alone", [False, True])
@pytest.mark.parametrize(
    ("src", "is_left"),
    [
        ((2, 16, 8, 8, 8), False),
        ((4, 16, 8, 8, 8), True),
        ((4, 16, 4, 4, 4), False),
        ((4, 48, 20, 20, 20), False),
        ((1, 12, 12, 12, 12), True),
        ((1, 12, 6, 6, 6), False),
    ],
)
def test_some_depthwise_volumes_with_channels_first_are_left(
    src: tuple[int, ...], is_left: bool, has_avx2_alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of few channels, and of many small images; on CPUs with AVX2 alone, all are taken."""
    monkeypatch.setattr(preference, "_has_avx2_alone", has_avx2_alone)
    left = DEPTHWISE_VOLUME if is_left and not has_avx2_alone else set()
    with decided_anew():
        assert reasons(src, (src[1], 1, 3, 3, 3), F32, False, groups=src[1]) == (left, set())


def test_kernels_of_16_bits_that_are_not_onednns_are_not_preferred() -> None:
    with sixteen_bits_by(torch._C._ConvBackend.SlowDilated2d):
        assert reasons((2, 8, 20, 20), (8, 1, 3, 3), BF16, True, groups=8)[0] == set()
        assert reasons((8, 64, 20, 20), (64, 64, 1, 1), BF16, True, stride=2)[0] == set()


@pytest.fixture
def avx2(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(preference, "_has_avx2_alone", True)
    with decided_anew():
        yield


@pytest.mark.usefixtures("avx2")
def test_large_kernels_between_few_channels_are_left_forward_on_avx2() -> None:
    shapes = (4, 4, 40, 40), (8, 4, 7, 7)
    assert reasons(*shapes, F32, True) == (LARGE_ON_AVX2, set())
    assert reasons(*shapes, F32, False) == (set(), set())
    assert reasons((4, 4, 12, 12), (8, 4, 7, 7), F32, True) == (set(), set())
    assert reasons((4, 4, 40, 40), (8, 4, 5, 5), F32, True) == (set(), set())
    assert reasons((4, 20, 40, 40), (8, 20, 7, 7), F32, True) == (set(), set())
    assert reasons((4, 4, 40, 40), (8, 2, 7, 7), F32, True, groups=2) == (set(), set())
    assert reasons(*shapes, F16, True) == (set(), set())


@pytest.mark.usefixtures("avx2")
def test_weights_of_parts_of_registers_are_left_on_avx2() -> None:
    alone = {"gradient_of_src": False}
    shapes = (8, 16, 20, 20), (18, 16, 3, 3)
    assert reasons(*shapes, F32, True, **alone) == (set(), PARTS_ON_AVX2)
    assert reasons(*shapes, F32, True) == (set(), set())
    assert reasons(*shapes, F32, False, **alone) == (set(), set())
    assert reasons((8, 16, 20, 20), (20, 16, 3, 3), F32, True, **alone) == (set(), set())
    assert reasons((8, 16, 20, 20), (6, 16, 3, 3), F32, True, **alone) == (set(), set())
    assert reasons((8, 64, 20, 20), (18, 64, 1, 1), F32, True, **alone) == (set(), set())
    assert reasons((1, 16, 20, 20), (18, 16, 3, 3), F32, True, **alone)[1] != PARTS_ON_AVX2


def test_other_cpus_have_no_rules_of_avx2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preference, "_has_avx2_alone", False)
    with decided_anew():
        assert reasons((4, 4, 40, 40), (8, 4, 7, 7), F32, True) == (set(), set())
        found = reasons((8, 16, 20, 20), (18, 16, 3, 3), F32, True, gradient_of_src=False)
    assert found == (set(), set())
