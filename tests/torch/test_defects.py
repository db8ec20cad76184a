"""Calls at which PyTorch's own kernels fail run here, whatever is faster."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch

import onednn_py.torch
from onednn_py.torch import kernels
from onednn_py.torch.contest import ROUNDS
from tests.support.torch_cases import integers
from tests.support.torch_comparison import counted

pytestmark = pytest.mark.frameworks

Call = tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]

# The forward pass, and the gradient of weights where that of src is not asked for.
DILATED: Call = (2, 8, 12, 11), (8, 1, 3, 3), {"dilation": 2, "groups": 8}
COLUMN: Call = (2, 16, 8, 4), (2, 8, 2, 3), {"stride": 2, "padding": (1, 0), "groups": 2}
POINTS: Call = (2, 24, 13, 11), (24, 8, 1, 1), {"stride": 2, "transposed": True}
WIDE: Call = (
    (2, 16, 5, 80),
    (16, 16, 1, 3),
    {"stride": (1, 2), "padding": (0, 16), "dilation": (1, 16)},
)
FOLDED: Call = (2, 16, 12, 40), (16, 16, 4, 4), {"stride": 4}
CANCELLED: Call = (1, 16, 2, 15), (16, 16, 2, 5), {"stride": (1, 5), "padding": (0, 2)}
BEHIND: Call = (
    (1, 4, 6, 8, 20),
    (4, 16, 2, 2, 2),
    {"stride": 2, "output_padding": 1, "transposed": True},
)
WINDOWLESS: Call = (3, 4, 1, 9), (32, 4, 3, 3), {"padding": (2, 1), "dilation": (2, 1)}
WINDOWLESS_TRANSPOSED: Call = (
    (1, 8, 7, 2),
    (8, 17, 3, 1),
    {"stride": (1, 2), "padding": (2, 1), "dilation": 2, "transposed": True},
)
ROWS: Call = (4, 32, 8, 32), (32, 8, 3, 3), {"padding": 2, "dilation": 2, "groups": 4}

FAILING = {
    "dilated float16": (DILATED, "float16", (True, True)),
    "bfloat16 on one column": (COLUMN, "bfloat16", (True, False)),
    "strided 1x1 weights": (POINTS, "float32", (False, True)),
    "wide pads": (WIDE, "float32", (False, True)),
    "bfloat16 and strides folded into channels": (FOLDED, "bfloat16", (True, False)),
    "bfloat16 and pads that cancel": (CANCELLED, "bfloat16", (True, False)),
    "bfloat16 planes behind all windows": (BEHIND, "bfloat16", (True, False)),
    "bfloat16 dilated rows": (ROWS, "bfloat16", (False, True)),
    "bfloat16 without a whole window": (WINDOWLESS, "bfloat16", (False, True)),
    "bfloat16 transposed, without a whole window": (
        *(WINDOWLESS_TRANSPOSED, "bfloat16"),
        (False, True),
    ),
}


def runs(call: Call, dtype: str, directions: tuple[bool, bool]) -> list[tuple[Any, torch.Tensor]]:
    """Return functions without arguments, and what each is to return, in float64."""
    src_shape, weights_shape, given = call
    attributes = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, **given}
    transposed = attributes.pop("transposed", False)
    rank = len(src_shape) - 2
    functions = {
        (2, False): torch.conv2d,
        (2, True): torch.conv_transpose2d,
        (3, True): torch.conv_transpose3d,
    }

    def both(src: torch.Tensor, weights: torch.Tensor) -> list[Any]:
        function = functions[rank, transposed]
        weights = weights.detach().requires_grad_()

        def forward() -> torch.Tensor:
            return function(src, weights, **attributes).detach()

        def backward() -> torch.Tensor:
            lists = [
                [value] * rank if isinstance(value, int) else list(value)
                for value in (attributes[name] for name in ("stride", "padding", "dilation"))
            ]
            dst = function(src.double(), weights.double(), **attributes).shape
            return torch.ops.aten.convolution_backward(
                integers(*dst, seed=2).to(src), src, weights.detach(), None,
                *lists, transposed, [0] * rank, attributes["groups"], [False, True, False],
            )[1]  # fmt: skip

        return [run for run, asked in zip((forward, backward), directions, strict=True) if asked]

    last = {2: torch.channels_last, 3: torch.channels_last_3d}[rank]
    src = integers(*src_shape, dtype=dtype).contiguous(memory_format=last)
    weights = integers(*weights_shape, dtype=dtype, seed=1)
    expected = [run() for run in both(src.double(), weights.double())]
    return list(zip(both(src, weights), expected, strict=True))


@pytest.mark.parametrize("effort", ["heuristic", "measure"])
@pytest.mark.parametrize("name", FAILING)
def test_they_are_never_left(name: str, effort: Any) -> None:
    with (
        mock.patch.object(kernels, "reason_to_leave", return_value="left by choice"),
        onednn_py.torch.enabled(effort=effort),
    ):
        for run, expected in runs(*FAILING[name]):
            with counted() as calls:
                for _ in range(2 * ROUNDS + 3):
                    found = run()
                    assert torch.allclose(found.double(), expected, rtol=2**-7, atol=0)
            assert calls.left_calls == sum(
                number
                for reasons in calls.left.values()
                for reason, number in reasons.items()
                if reason == "data type float64"
            )
            assert sum(calls.taken.values()) == 2 * ROUNDS + 3


NEAR: dict[str, tuple[Call, str]] = {
    "float32": (DILATED, "float32"),
    "float16 without dilation": ((*DILATED[:2], {"groups": 8}), "float16"),
    "two columns": (((2, 16, 8, 6), *COLUMN[1:]), "bfloat16"),
    "whole tiles": (((2, 32, 12, 40), (16, 32, 4, 4), {"stride": 4}), "bfloat16"),
    "padded columns": ((*FOLDED[:2], {"stride": 4, "padding": 2}), "bfloat16"),
    "forward without a whole window": (WINDOWLESS, "bfloat16"),
    "forward with dilated rows": (ROWS, "bfloat16"),
}


@pytest.mark.parametrize("name", NEAR)
def test_calls_much_like_them_are_left(name: str) -> None:
    with (
        mock.patch.object(kernels, "reason_to_leave", return_value="left by choice"),
        onednn_py.torch.enabled(),
    ):
        ((run, _),) = runs(*NEAR[name], (True, False))
        with counted() as calls:
            run()
    assert calls.left == {"convolution": {"left by choice": 1}}
