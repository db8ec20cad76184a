"""Small networks with every kind of convolution, and a step of training."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

__all__ = ["Small", "gradients", "small", "step"]


class Small(nn.Module):
    """An encoder, a depthwise layer and a transposed one, each of small size.

    Takes (N, 3, height, width), both even, and gives the same shape.
    """

    def __init__(self) -> None:
        super().__init__()
        # No bias before a norm: its gradient is zero, of which each kernel computes other noise.
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, padding="same", groups=8, bias=False)
        self.pointwise = nn.Conv2d(8, 16, 1)
        self.dilated = nn.Conv2d(16, 16, 3, padding=2, dilation=2, groups=2)
        self.last = nn.ConvTranspose2d(16, 3, 3, stride=2, padding=1, output_padding=1)

    def forward(self, src: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.norm(self.first(src)))
        hidden = torch.relu(self.pointwise(self.depthwise(hidden)))
        result: torch.Tensor = self.last(torch.relu(self.dilated(hidden)))
        return result


def small(memory_format: torch.memory_format = torch.contiguous_format) -> nn.Module:
    """Return the network, whose parameters are the same each time."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return Small().to(memory_format=memory_format)


def gradients(
    model: Callable[[torch.Tensor], torch.Tensor], src: torch.Tensor, module: nn.Module
) -> list[torch.Tensor]:
    """Return the loss and the gradients of ``module``'s parameters, after one pass of ``model``."""
    module.zero_grad(set_to_none=True)
    loss = model(src).square().mean()
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in module.parameters() if p.grad is not None)]


def step(module: nn.Module, src: torch.Tensor, steps: int = 3) -> list[torch.Tensor]:
    """Return the losses of some steps of training, and the parameters after them."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(steps):
        losses.append(gradients(module, src, module)[0])
        optimizer.step()
    return [*losses, *(parameter.detach() for parameter in module.parameters())]
