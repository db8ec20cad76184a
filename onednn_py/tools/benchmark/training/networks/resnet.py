"""ResNet-50: residual blocks of 1x1, 3x3 and 1x1 convolutions (He et al., arXiv:1512.03385).

The stride stands in the 3x3 convolution, as in most implementations since.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from .task import Task, classification

__all__ = ["build"]

EXPANSION = 4


def _normed(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
    )


class _Bottleneck(nn.Module):  # type: ignore[misc]
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = EXPANSION * width
        self.body = nn.Sequential(
            _normed(inputs, width, 1),
            nn.ReLU(inplace=True),
            _normed(width, width, 3, stride),
            nn.ReLU(inplace=True),
            _normed(width, outputs, 1),
        )
        changes = stride != 1 or inputs != outputs
        self.shortcut = _normed(inputs, outputs, 1, stride) if changes else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def build(
    batch: int,
    size: int,
    depths: Sequence[int] = (3, 4, 6, 3),
    width: int = 64,
    classes: int = 1000,
) -> Task:
    """Return the network on images (batch, 3, size, size)."""
    layers: list[nn.Module] = [
        _normed(3, width, 7, 2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    inputs = width
    for stage, depth in enumerate(depths):
        for block in range(depth):
            layers.append(_Bottleneck(inputs, width << stage, 2 if stage and not block else 1))
            inputs = EXPANSION * width << stage
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)]
    labels = torch.randint(classes, (batch,))
    return classification(nn.Sequential(*layers), torch.randn(batch, 3, size, size), labels)
