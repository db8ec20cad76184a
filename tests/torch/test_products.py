"""Kernels as large as src: products of matrices, with the values and strides of PyTorch's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch

import onednn_py.torch
from onednn_py.torch import kernels
from tests.support.torch_cases import FORMS, TorchCase
from tests.support.torch_comparison import assert_same_form, counted

pytestmark = pytest.mark.frameworks

DTYPES = ("float32", "bfloat16", "float16")
PIXEL = TorchCase(
    size=(1, 1),
    kernel=(1, 1),
    stride=(1, 1),
    padding=(0, 0),
    dilation=(1, 1),
    output_padding=(0, 0),
    channels=(24, 10),
    minibatch=4,
)
LINE: dict[str, Any] = {"stride": (1,), "padding": (0,), "dilation": (1,), "output_padding": (0,)}
CASES = {
    "pixel": PIXEL,
    "strided pixel": replace(PIXEL, stride=(2, 3)),
    "patch": replace(PIXEL, size=(4, 3), kernel=(4, 3), stride=(2, 1)),
    "without bias": replace(PIXEL, size=(2, 3), kernel=(2, 3), bias=False),
    "line": replace(PIXEL, size=(5,), kernel=(5,), **LINE),
}


def transposed(case: TorchCase) -> TorchCase:
    """Return the case that makes the patch from a pixel."""
    return replace(case, transposed=True, size=(1,) * len(case.size))


class Products:
    """How many calls were found to be products inside a ``with`` block."""

    def __enter__(self) -> Products:
        self.number = 0
        found = kernels.as_product

        def noted(*arguments: Any) -> Any:
            product = found(*arguments)
            self.number += product is not None
            return product

        self._patch = mock.patch.object(kernels, "as_product", noted)
        self._patch.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._patch.stop()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["contiguous", "channels_last"])
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_values_and_strides(name: str, is_transposed: bool, form: str, dtype: str) -> None:
    if form == "channels_last" and len(CASES[name].size) == 1:
        form = "contiguous"
    case = replace(CASES[name], dtype=dtype, forms=(form,) * 3)
    case = transposed(case) if is_transposed else case
    with Products() as products, counted() as calls:
        case.check()
    assert calls.calls == 2
    if dtype == "float32":
        assert products.number == 2
        assert not calls.left
    for integers in (True, False):
        case.check(integers)


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["pixel", "patch"])
def test_each_form_of_each_tensor(name: str, form: str, is_transposed: bool) -> None:
    for place in range(3):
        forms = ["contiguous"] * 3
        forms[place] = form
        case = replace(CASES[name], forms=tuple(forms))
        (transposed(case) if is_transposed else case).check()


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("form", ["contiguous", "channels_last"])
def test_strides_are_those_of_fake_kernels(form: str, is_transposed: bool) -> None:
    for name in ("pixel", "patch"):
        case = replace(CASES[name], forms=(form,) * 3)
        case = transposed(case) if is_transposed else case
        tensors = case.tensors(integers=True)
        with onednn_py.torch.enabled():
            ours = case.results(*tensors)
        for found, fake in zip(ours, case.fake_results(*tensors), strict=True):
            assert_same_form(found, fake)


@pytest.mark.parametrize("number", range(8))
def test_masks(number: int) -> None:
    mask = (bool(number & 1), bool(number & 2), bool(number & 4))
    for case in (CASES["pixel"], transposed(CASES["patch"])):
        replace(case, mask=mask).check()


@pytest.mark.parametrize(
    "case",
    [
        replace(PIXEL, groups=2),
        replace(PIXEL, size=(3, 3)),
        replace(PIXEL, size=(2, 2), kernel=(4, 4), padding=(1, 1)),
        replace(PIXEL, size=(3, 3), kernel=(2, 2), dilation=(2, 2)),
        replace(PIXEL, size=(4, 3), kernel=(4, 3), forms=("channels_last", "contiguous", "sliced")),
        transposed(replace(PIXEL, kernel=(2, 2), stride=(3, 3), output_padding=(1, 1))),
    ],
    ids=["groups", "pixels", "pads", "dilation", "mixed", "output_padding"],
)
def test_other_calls_are_none(case: TorchCase) -> None:
    with Products() as products:
        case.check()
    assert products.number == 0


def layer() -> tuple[torch.nn.Module, torch.Tensor]:
    return torch.nn.Conv2d(24, 10, 1), torch.randn(4, 24, 1, 1, requires_grad=True)


def test_gradients_inside_of_autocast_are_not_cast() -> None:
    convolution, src = layer()
    with onednn_py.torch.enabled():
        loss = convolution(src).square().sum()
        with torch.autocast("cpu", torch.bfloat16):
            inside = torch.autograd.grad(loss, [src, *convolution.parameters()], retain_graph=True)
        outside = torch.autograd.grad(loss, [src, *convolution.parameters()])
    for one, other in zip(inside, outside, strict=True):
        assert torch.equal(one, other)


def test_double_backward_and_vmap() -> None:
    convolution, src = layer()

    def penalty(one: torch.Tensor) -> torch.Tensor:
        (gradient,) = torch.autograd.grad(convolution(one).square().sum(), one, create_graph=True)
        return gradient.square().sum()

    plain = torch.autograd.grad(penalty(src), src)[0]
    batched = torch.func.vmap(convolution)(src.detach()[None].expand(3, -1, -1, -1, -1))
    with onednn_py.torch.enabled(), counted() as calls:
        ours = torch.autograd.grad(penalty(src), src)[0]
        ours_batched = torch.func.vmap(convolution)(src.detach()[None].expand(3, -1, -1, -1, -1))
    assert sum(calls.taken.values()) >= 4
    torch.testing.assert_close(ours, plain)
    torch.testing.assert_close(ours_batched, batched)


def test_reduced_precision_of_products_is_not_that_of_convolutions() -> None:
    """`torch.set_float32_matmul_precision` concerns products, convolutions have their own."""
    before = torch.get_float32_matmul_precision()
    convolution, src = layer()
    with torch.no_grad(), onednn_py.torch.enabled():
        exact = convolution(src)
        try:
            torch.set_float32_matmul_precision("medium")
            with Products() as products:
                again = convolution(src)
        finally:
            torch.set_float32_matmul_precision(before)
    assert products.number == 0
    torch.testing.assert_close(again, exact, rtol=1e-5, atol=1e-5)


def test_every_call_on_one_pixel_is_taken(preferences: None) -> None:
    """PyTorch's own kernel takes several times as long, and so would ours."""
    convolution, src = layer()
    with onednn_py.torch.enabled(), counted() as calls:
        convolution(src).square().sum().backward()
    assert not calls.left


@pytest.mark.parametrize("place", [0, 2])
def test_activations_of_two_memory_formats_are_computed_as_of_one(place: int) -> None:
    forms = ["channels_last"] * 3
    case = TorchCase(
        size=(9, 8), kernel=(3, 3), stride=(1, 1), padding=(1, 1), dilation=(1, 1),
        output_padding=(0, 0), channels=(16, 24), forms=tuple(forms),
    )  # fmt: skip
    tensors = list(case.tensors(integers=False))
    with onednn_py.torch.enabled():
        expected = case.results(*tensors)
        tensors[place] = tensors[place].contiguous()
        found = case.results(*tensors)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)
        assert_same_form(one, other)
