"""A network like WaveNet: gated, causal 1-D convolutions of growing dilation (arXiv:1609.03499)."""

from __future__ import annotations

import torch
from torch import nn

from .task import Task, classification

__all__ = ["build"]

KERNEL = 2

# Dilations double from layer to layer, and begin again at 1 after so many layers.
CYCLE = 10


class _Layer(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int, skip: int, dilation: int) -> None:
        super().__init__()
        self.reach = (KERNEL - 1) * dilation
        self.gated = nn.Conv1d(width, 2 * width, KERNEL, dilation=dilation)
        self.residual = nn.Conv1d(width, width, 1)
        self.skip = nn.Conv1d(width, skip, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # Padding at the beginning alone: no output depends on later samples.
        filtered, gate = self.gated(nn.functional.pad(x, (self.reach, 0))).chunk(2, 1)
        y = torch.tanh(filtered) * torch.sigmoid(gate)
        return x + self.residual(y), self.skip(y)


class _WaveNet(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int, skip: int, classes: int, layers: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.layers = nn.ModuleList(
            _Layer(width, skip, 1 << number % CYCLE) for number in range(layers)
        )
        self.last = nn.Sequential(
            nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, classes, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        total: torch.Tensor | int = 0
        for layer in self.layers:
            x, skip = layer(x)
            total = total + skip
        y: torch.Tensor = self.last(total)
        return y


def build(
    batch: int, size: int, width: int = 64, skip: int = 128, classes: int = 256, layers: int = 20
) -> Task:
    """Return the network on signals (batch, 1, size)."""
    labels = torch.randint(classes, (batch, size))
    samples = torch.randn(batch, 1, size)
    return classification(_WaveNet(width, skip, classes, layers), samples, labels)
