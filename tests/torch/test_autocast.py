"""`torch.autocast` in bfloat16 and float16: results are as exact as PyTorch's own, or more."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import onednn_py.torch
from tests.support.torch_cases import integers
from tests.support.torch_comparison import assert_equal, assert_same_form, counted
from tests.support.torch_models import gradients, small, step

pytestmark = pytest.mark.frameworks

IMAGES = torch.randn(4, 3, 16, 12, generator=torch.Generator().manual_seed(0))
DTYPES = [torch.bfloat16, torch.float16]
FORMATS = [torch.contiguous_format, torch.channels_last]


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_training(dtype: torch.dtype, memory_format: torch.memory_format) -> None:
    """Losses and parameters are those of float32, up to the type's digits in each layer."""
    src = IMAGES.to(memory_format=memory_format)
    expected = step(small(memory_format), src)
    with onednn_py.torch.enabled(), counted() as calls, torch.autocast("cpu", dtype=dtype):
        found = step(small(memory_format), src)
    assert calls.calls == 3 * 5 * 2
    # Five layers, each of which rounds its tensors and its results.
    tolerance = 10 * torch.finfo(dtype).eps
    for ours, right in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.float(), right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_layer(dtype: torch.dtype, memory_format: torch.memory_format) -> None:
    """Small integers, exactly; the results' types are PyTorch's, strides too."""
    module = nn.Conv2d(3, 8, 3, stride=2, padding=1).to(memory_format=memory_format)
    with torch.no_grad():
        module.weight.copy_(integers(*module.weight.shape))
        module.bias.copy_(integers(8, seed=1))
    src = integers(2, 3, 8, 7, seed=2).to(memory_format=memory_format).requires_grad_()

    def run(dtype: torch.dtype) -> list[torch.Tensor | None]:
        module.zero_grad()
        src.grad = None
        with torch.autocast("cpu", dtype=dtype):
            dst = module(src)
        dst.backward(integers(*dst.shape, seed=3).to(dst.dtype))
        return [dst, src.grad, module.weight.grad, module.bias.grad]

    theirs = run(torch.bfloat16)
    with onednn_py.torch.enabled(), counted() as calls:
        ours = run(dtype)
    assert calls.calls == 2
    for index, (found, right) in enumerate(zip(ours, theirs, strict=True)):
        assert found is not None
        assert found.dtype is (torch.float32 if index else dtype)
        assert_same_form(found, right if index else right.to(dtype))
        assert_equal(found, right)


def test_half_precision_that_is_not_autocast() -> None:
    module = small().to(torch.bfloat16)
    src = IMAGES.to(torch.bfloat16)
    expected = gradients(module, src, module)
    with onednn_py.torch.enabled():
        found = gradients(module, src, module)
    for ours, right in zip(found, expected, strict=True):
        assert_same_form(ours, right)
        scale = right.abs().max().float()
        # Both round in each of five layers, and sum in orders of their own.
        assert (ours - right).abs().max() <= 20 * torch.finfo(torch.bfloat16).eps * scale


def test_autocast_keeps_what_it_has_cast() -> None:
    """Weights that autocast remembers are met twice in one pass, with one gradient."""
    module = nn.Conv2d(3, 3, 3, padding=1)

    def run() -> torch.Tensor:
        module.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            module(module(IMAGES)).float().square().mean().backward()
        assert module.weight.grad is not None
        return module.weight.grad

    expected = run()
    with onednn_py.torch.enabled():
        found = run()
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.05)


def test_the_scaler_of_gradients() -> None:
    module = small()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    before = [parameter.detach().clone() for parameter in module.parameters()]
    with onednn_py.torch.enabled():
        with torch.autocast("cpu", dtype=torch.float16):
            loss = module(IMAGES).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 64.0, "a gradient was not finite"
    assert all(
        not torch.equal(parameter, old)
        for parameter, old in zip(module.parameters(), before, strict=True)
        if parameter.grad is not None and parameter.grad.abs().max() > 1e-6
    )
