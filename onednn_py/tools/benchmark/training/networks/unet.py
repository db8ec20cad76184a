"""U-Net for images (arXiv:1505.04597) and volumes (arXiv:1606.06650).

The contracting half keeps what the expanding half, of transposed convolutions, is joined with.
"""

from __future__ import annotations

import torch
from torch import nn

from .task import Task, classification

__all__ = ["build"]

CLASSES = 4


def _pair(rank: int, inputs: int, outputs: int) -> nn.Sequential:
    """Return two 3x3 (3x3x3) convolutions, each with its norm."""
    convolution = nn.Conv2d if rank == 2 else nn.Conv3d
    norm = nn.BatchNorm2d if rank == 2 else nn.BatchNorm3d
    layers: list[nn.Module] = []
    for channels in (inputs, outputs):
        layers.append(convolution(channels, outputs, 3, padding=1, bias=False))
        layers += [norm(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class _UNet(nn.Module):  # type: ignore[misc]
    def __init__(self, rank: int, inputs: int, width: int, levels: int) -> None:
        super().__init__()
        convolution = nn.Conv2d if rank == 2 else nn.Conv3d
        transposed = nn.ConvTranspose2d if rank == 2 else nn.ConvTranspose3d
        widths = [width << level for level in range(levels)]
        self.down = nn.ModuleList(
            _pair(rank, before, after)
            for before, after in zip([inputs, *widths], widths, strict=False)
        )
        self.pool = nn.MaxPool2d(2) if rank == 2 else nn.MaxPool3d(2)
        self.up = nn.ModuleList(transposed(2 * w, w, 2, 2) for w in reversed(widths[:-1]))
        self.join = nn.ModuleList(_pair(rank, 2 * w, w) for w in reversed(widths[:-1]))
        self.last = convolution(width, CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept: list[torch.Tensor] = []
        for number, down in enumerate(self.down):
            x = down(self.pool(x) if number else x)
            kept.append(x)
        kept.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        y: torch.Tensor = self.last(x)
        return y


def build(batch: int, size: int, rank: int, width: int, levels: int) -> Task:
    """Return the network on images (batch, 3, size, size) or volumes (batch, 1, size, ...)."""
    inputs = 3 if rank == 2 else 1
    labels = torch.randint(CLASSES, (batch, *[size] * rank))
    samples = torch.randn(batch, inputs, *[size] * rank)
    return classification(_UNet(rank, inputs, width, levels), samples, labels)
