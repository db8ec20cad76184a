"""EfficientNet-B0: inverted residuals with squeeze and excitation (Tan, Le, arXiv:1905.11946)."""

from __future__ import annotations

import torch
from torch import nn

from .task import Task, classification

__all__ = ["build"]

# Of each stage: expansion, outputs, blocks, stride, kernel (table 1 of the paper).
STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
FIRST, LAST = 32, 1280


def _normed(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]


class _Excitation(nn.Module):  # type: ignore[misc]
    """Scales channels by gates that depend on the channels' means."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.gates = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.SiLU(inplace=True),
            nn.Conv2d(squeezed, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gates(x)


class _Block(nn.Module):  # type: ignore[misc]
    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int, kernel: int) -> None:
        super().__init__()
        width = inputs * expansion
        layers: list[nn.Module] = []
        if expansion > 1:
            layers += [*_normed(inputs, width, 1), nn.SiLU(inplace=True)]
        layers += [*_normed(width, width, kernel, stride, groups=width), nn.SiLU(inplace=True)]
        layers += [_Excitation(width, max(inputs // 4, 1)), *_normed(width, outputs, 1)]
        self.body = nn.Sequential(*layers)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.body(x)
        return x + y if self.adds else y


def build(batch: int, size: int, stages: int = len(STAGES), classes: int = 1000) -> Task:
    """Return the network on images (batch, 3, size, size)."""
    layers: list[nn.Module] = [*_normed(3, FIRST, 3, 2), nn.SiLU(inplace=True)]
    inputs = FIRST
    for expansion, outputs, blocks, stride, kernel in STAGES[:stages]:
        for block in range(blocks):
            layers.append(_Block(inputs, outputs, expansion, 1 if block else stride, kernel))
            inputs = outputs
    layers += [*_normed(inputs, LAST, 1), nn.SiLU(inplace=True)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(LAST, classes)]
    labels = torch.randint(classes, (batch,))
    return classification(nn.Sequential(*layers), torch.randn(batch, 3, size, size), labels)
