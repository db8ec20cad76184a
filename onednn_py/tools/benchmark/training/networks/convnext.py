"""A network like ConvNeXt: 7x7 depthwise convolutions between linear layers (arXiv:2201.03545).

Of the paper's smallest size, with fewer blocks in the third stage.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from .task import Task, classification

__all__ = ["build"]

EXPANSION = 4


class _ChannelsLast(nn.Module):  # type: ignore[misc]
    """Applies layers to (N, H, W, C) inside a network of (N, C, H, W)."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return y


class _Block(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.pointwise = _ChannelsLast(
            nn.LayerNorm(width),
            nn.Linear(width, EXPANSION * width),
            nn.GELU(),
            nn.Linear(EXPANSION * width, width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = x + self.pointwise(self.depthwise(x))
        return y


def build(
    batch: int,
    size: int,
    depths: Sequence[int] = (3, 3, 5, 3),
    width: int = 96,
    classes: int = 1000,
) -> Task:
    """Return the network on images (batch, 3, size, size)."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 4), _ChannelsLast(nn.LayerNorm(width))]
    for stage, depth in enumerate(depths):
        channels = width << stage
        if stage:
            layers.append(_ChannelsLast(nn.LayerNorm(channels // 2)))
            layers.append(nn.Conv2d(channels // 2, channels, 2, 2))
        layers += [_Block(channels) for _ in range(depth)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(channels)]
    layers.append(nn.Linear(channels, classes))
    labels = torch.randint(classes, (batch,))
    return classification(nn.Sequential(*layers), torch.randn(batch, 3, size, size), labels)
