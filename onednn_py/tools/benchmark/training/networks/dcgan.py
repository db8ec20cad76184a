"""DCGAN: a generator of transposed convolutions against a discriminator (arXiv:1511.06434)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from .task import Task

__all__ = ["build"]

NOISE = 100
SLOPE = 0.2


def _generator(width: int, size: int) -> nn.Sequential:
    """Return a network from noise (N, 100, 1, 1) to images (N, 3, size, size)."""
    channels = width * size // 8
    layers: list[nn.Module] = [nn.ConvTranspose2d(NOISE, channels, 4, bias=False)]
    while channels > width:
        layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
        layers.append(nn.ConvTranspose2d(channels, channels // 2, 4, 2, 1, bias=False))
        channels //= 2
    layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
    layers += [nn.ConvTranspose2d(channels, 3, 4, 2, 1, bias=False), nn.Tanh()]
    return nn.Sequential(*layers)


def _discriminator(width: int, size: int) -> nn.Sequential:
    """Return a network from images (N, 3, size, size) to one number each."""
    channels = width
    layers: list[nn.Module] = [nn.Conv2d(3, channels, 4, 2, 1, bias=False)]
    layers.append(nn.LeakyReLU(SLOPE, inplace=True))
    while channels < width * size // 8:
        layers.append(nn.Conv2d(channels, 2 * channels, 4, 2, 1, bias=False))
        channels *= 2
        layers += [nn.BatchNorm2d(channels), nn.LeakyReLU(SLOPE, inplace=True)]
    layers += [nn.Conv2d(channels, 1, 4, bias=False), nn.Flatten(0)]
    return nn.Sequential(*layers)


def _judged(numbers: torch.Tensor, real: bool) -> torch.Tensor:
    """Return the loss where all images are to be judged as real, or as generated."""
    numbers = numbers.float()
    return nn.functional.binary_cross_entropy_with_logits(
        numbers, torch.full_like(numbers, float(real))
    )


def _discriminator_loss(
    modules: Sequence[nn.Module], samples: Sequence[torch.Tensor]
) -> torch.Tensor:
    discriminator, generator = modules
    images, noise = samples
    with torch.no_grad():
        generated = generator(noise)
    return _judged(discriminator(images), True) + _judged(discriminator(generated), False)


def _generator_loss(modules: Sequence[nn.Module], samples: Sequence[torch.Tensor]) -> torch.Tensor:
    discriminator, generator = modules
    return _judged(discriminator(generator(samples[1])), True)


def build(batch: int, size: int, width: int = 64) -> Task:
    """Return both networks on images (batch, 3, size, size); the size is a power of two."""
    modules: list[nn.Module] = [_discriminator(width, size), _generator(width, size)]
    for module in modules:
        for parameter in module.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0.0, 0.02)
    samples = [torch.rand(batch, 3, size, size) * 2 - 1, torch.randn(batch, NOISE, 1, 1)]
    return Task(modules, samples, [_discriminator_loss, _generator_loss])
