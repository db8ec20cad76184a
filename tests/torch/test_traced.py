"""Traces are the same, with and without: operations, names of values, and places in the program."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import torch
from torch import nn

from onednn_py.torch import enabled
from onednn_py.torch.traced import call_within
from tests.support.torch_comparison import counted

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

F = torch.nn.functional


class Layers(nn.Module):
    """Convolutions by modules and by functions, of named values and of others."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.second = nn.ConvTranspose2d(8, 4, 2)
        self.weights = nn.Parameter(torch.ones(4, 8, 3, 3))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        found = torch.relu(self.first(image))
        kept = F.conv2d(found, self.weights)
        more = self.second(F.conv_transpose2d(kept * 2, self.weights))
        return more + F.conv2d(found, torch.ones(4, 8, 1, 1)).mean()


IMAGE = torch.ones(1, 3, 12, 12)


def traced(module: nn.Module) -> list[str]:
    """Return the texts of a trace, without the numbers that PyTorch gives its classes."""
    trace: Any = torch.jit.trace(module, (IMAGE,), check_trace=False)
    texts = [trace.code, trace.first.code, str(trace.graph), str(trace.inlined_graph)]
    return [re.sub(r"___torch_mangle_\d+\.", "", text) for text in texts]


def test_traces() -> None:
    module = Layers()
    alone = traced(module)
    assert "found = " in alone[0]
    with enabled(), counted() as calls:
        assert traced(module) == alone
    assert "torch.jit.trace records the call" in calls.left["convolution"]


def test_graphs_for_exporters() -> None:
    """Their names come from one frame further out, as those of inputs of ONNX models."""

    def graph() -> str:
        return str(torch.jit._get_trace_graph(module, (IMAGE,))[0])

    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1))
    alone = graph()
    assert "%input" in alone
    with enabled():
        assert graph() == alone


def test_an_error_while_a_call_is_traced() -> None:
    class Wrong(nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return F.conv2d(image, torch.ones(4, 5, 3, 3))

    with enabled(), pytest.raises(RuntimeError, match="to have 5 channels"):
        torch.jit.trace(Wrong(), (IMAGE,))


def test_variables_keep_their_values() -> None:
    frame = inspect.currentframe()
    assert frame is not None
    kept = 1
    assert call_within(frame, [2].pop) == 2
    assert kept == 1
    assert not [name for name in frame.f_locals if "onednn_py" in name]
