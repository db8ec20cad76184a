"""A training step: a network of the table with its optimizers, as the settings want it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from .networks import build
from .settings import Settings

__all__ = ["Training"]

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
FORMATS = {2: torch.channels_last, 3: torch.channels_last_3d}

SEED = 0

# Small enough that float16 stays finite over some hundred steps on one minibatch.
RATE, MOMENTUM = 1e-3, 0.9


class Training:
    """A network that is trained on one minibatch, with stochastic gradient descent.

    Equal settings give equal parameters and samples.
    """

    def __init__(self, settings: Settings) -> None:
        self._dtype = DTYPES[settings.dtype]
        self._autocast = settings.autocast
        torch.manual_seed(SEED)
        task = build(
            settings.network,
            dtype=settings.dtype,
            batch=settings.batch,
            small=settings.small,
        )
        dtype = torch.float32 if settings.autocast else self._dtype
        modules = [module.to(dtype) for module in task.modules]
        self._samples = [tensor.to(dtype) for tensor in task.samples]
        if settings.channels_last:
            modules = [_channels_last(module) for module in modules]
            self._samples = [
                sample.to(memory_format=FORMATS[sample.dim() - 2]) for sample in self._samples
            ]
        self._optimizers = [
            torch.optim.SGD(module.parameters(), RATE, MOMENTUM) for module in modules
        ]
        self._losses = task.losses
        if settings.compiled:
            # DCGAN's networks are both an nn.Sequential, whose sizes would seem to vary from call
            # to call; PyTorch 2.13 fails to compile convolutions for channels that vary.
            modules = [torch.compile(module, dynamic=False) for module in modules]
        self._modules = modules

    @property
    def shapes(self) -> list[str]:
        """The shapes of the samples, such as 8x3x224x224."""
        return ["x".join(map(str, sample.shape)) for sample in self._samples]

    def step(self) -> list[float]:
        """Train each module once; return their losses."""
        found = []
        for optimizer, loss_of in zip(self._optimizers, self._losses, strict=True):
            optimizer.zero_grad(set_to_none=True)
            with self._casting():
                loss = loss_of(self._modules, self._samples)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    def _casting(self) -> AbstractContextManager[Any]:
        if not self._autocast:
            return nullcontext()
        casting: AbstractContextManager[Any] = torch.autocast("cpu", self._dtype)
        return casting


def _channels_last(module: nn.Module) -> nn.Module:
    """Give a module's weights of 2-D and 3-D convolutions the memory format channels last."""
    for parameter in module.parameters():
        if parameter.dim() - 2 in FORMATS:
            parameter.data = parameter.data.to(memory_format=FORMATS[parameter.dim() - 2])
    return module
