"""Calls bound to tensors: where they lie in memory, lists of no axes, and addresses alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onednn_py.torch
from onednn_py.backends.onednn.execution.steps import Steps
from onednn_py.backends.onednn.selection import select
from onednn_py.dispatch.bound_call import BoundCall
from tests.support.torch_cases import integers
from tests.support.torch_comparison import assert_equal

pytestmark = pytest.mark.frameworks

aten = torch.ops.aten
SRC, WEIGHTS = integers(2, 4, 8, 7), integers(6, 4, 3, 3, seed=1)


def test_a_bias_without_axes_is_no_error_of_ours() -> None:
    diff_dst = integers(2, 6, 6, 5)

    def run() -> Any:
        return aten.convolution_backward(
            diff_dst, SRC, WEIGHTS, [],
            [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, False],
        )  # fmt: skip

    expected = run()
    with onednn_py.torch.enabled():
        assert_equal(run()[:2], expected[:2])


@pytest.mark.parametrize("first", [0, 2], ids=["aligned first", "misaligned first"])
@pytest.mark.parametrize("step", [1, 2], ids=["dense", "sliced"])
def test_tensors_that_begin_inside_an_element(first: int, step: int) -> None:
    src = integers(2, 4, 9, 14)

    def at(offset: int) -> torch.Tensor:
        memory = bytearray(src.nbytes + offset)
        tensor = torch.frombuffer(memory, dtype=src.dtype, offset=offset)
        tensor = tensor.view(src.shape).copy_(src)[..., ::step]
        assert tensor.data_ptr() % 4 == offset % 4
        return tensor

    expected = torch.nn.functional.conv2d(src[..., ::step].contiguous(), WEIGHTS)
    with onednn_py.torch.enabled():
        for offset in (first, 2 - first):
            assert_equal(torch.nn.functional.conv2d(at(offset), WEIGHTS), expected)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("images", [1, 3])
def test_addresses_are_enough_for_a_bias_gradient_apart(
    images: int, layout: torch.memory_format, monkeypatch: pytest.MonkeyPatch, fresh_cache: None
) -> None:
    src = integers(images, 4, 12, 11).contiguous(memory_format=layout)
    diff_dst = integers(images, 6, 10, 9, seed=2).contiguous(memory_format=layout)

    def run() -> Any:
        return aten.convolution_backward(
            diff_dst, src, WEIGHTS, [6],
            [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True],
        )  # fmt: skip

    expected, summed = run(), []
    program = Steps.program

    def noted(self: Steps, *arguments: Any, **keywords: Any) -> Any:
        made = program(self, *arguments, **keywords)
        summed.extend(step.name for step in made.steps if step.name.startswith("sum of"))
        return made

    monkeypatch.setattr(select, "gains_from_bias_apart", lambda asked, _: asked.has_bias_gradient)
    monkeypatch.setattr(Steps, "program", noted)
    monkeypatch.setattr(BoundCall, "run", None)
    with onednn_py.torch.enabled():
        for _ in range(2):
            assert_equal(run(), expected)
    assert set(summed) == {"sum of diff_bias"}
