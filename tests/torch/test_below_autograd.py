"""Calls that reach the kernels below autograd: by custom operations, and inside of control flow."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onednn_py.torch
from tests.support.torch_comparison import counted

pytestmark = pytest.mark.frameworks

FORMATS = (torch.contiguous_format, torch.channels_last)

# src, weights and whether they are transposed; results are large enough for the memory pool.
CALLS = {
    "3x3": ((4, 16, 40, 40), (32, 16, 3, 3), False),
    "product": ((2000, 16, 8, 8), (32, 16, 8, 8), False),
    "transposed": ((4, 16, 40, 40), (16, 32, 3, 3), True),
    "transposed product": ((2000, 16, 1, 1), (16, 32, 8, 8), True),
}


def tensors(name: str, form: torch.memory_format) -> tuple[torch.Tensor, torch.Tensor, list[Any]]:
    *shapes, transposed = CALLS[name]
    src, weights = (torch.ones(shape).contiguous(memory_format=form) for shape in shapes)
    return src, weights, [(1, 1), (0, 0), (1, 1), transposed, (0, 0), 1]


@pytest.mark.parametrize("form", FORMATS, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_no_result_is_a_view(name: str, form: torch.memory_format) -> None:
    src, weights, numbers = tensors(name, form)
    aten = torch.ops.aten
    with onednn_py.torch.enabled(), counted() as calls, torch._C._AutoDispatchBelowAutograd():
        dst = aten.convolution(src, weights, None, *numbers)
        found = aten.convolution_backward(dst, src, weights, None, *numbers, (True, True, False))
    assert calls.taken == {"convolution": 1, "convolution_backward": 1}
    assert dst.is_contiguous(memory_format=form)
    for result in (dst, *found[:2]):
        assert not result._is_view()


@pytest.mark.parametrize("form", FORMATS, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_results_of_custom_operations_are_written_in_place(
    name: str, form: torch.memory_format
) -> None:
    src, weights, numbers = tensors(name, form)

    @torch.library.custom_op("onednn_py_tests::convolution", mutates_args=())
    def operation(src: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.convolution(src, weights, None, *numbers)

    operation.register_autograd(lambda context, diff_dst: diff_dst)
    src.requires_grad_()
    with onednn_py.torch.enabled(), counted() as calls:
        operation(src).relu_()
        operation(src).detach_()
        with torch.no_grad():
            dst = operation(src)
        dst.mul_(torch.ones(1, requires_grad=True))
    assert calls.taken == {"convolution": 3}


def test_results_of_control_flow_are_written_in_place() -> None:
    src, weights, _ = tensors("3x3", torch.channels_last)
    weights.requires_grad_()

    def convolution(src: torch.Tensor) -> torch.Tensor:
        return torch.conv2d(src, weights)

    def doubled(src: torch.Tensor) -> torch.Tensor:
        return torch.conv2d(src, weights) * 2

    with onednn_py.torch.enabled(), counted() as calls:
        dst = torch.cond(torch.tensor(True), convolution, doubled, (src,))
        dst.relu_()
    assert calls.taken == {"convolution": 1}
