"""What a network is trained on: modules, samples, and the losses of a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

__all__ = ["Task", "classification"]


@dataclass
class Task:
    """A network and one minibatch, on which every step trains.

    Attributes
    ----------
    modules : list of Module
        Each with an optimizer of its own.
    samples : list of Tensor
        Inputs in float32, which the step casts to the type of the parameters.
    losses : list of callable
        Each takes the modules and the samples and returns the loss that one module is trained
        on: as many as modules, in their order.
    """

    modules: list[nn.Module]
    samples: list[torch.Tensor]
    losses: list[Callable[[Sequence[nn.Module], Sequence[torch.Tensor]], torch.Tensor]]


def classification(module: nn.Module, samples: torch.Tensor, labels: torch.Tensor) -> Task:
    """Return the task of a network that gives (N, classes, *spatial) for labels (N, *spatial).

    The loss is taken in float32 whatever the type of the network, as autocast does it.
    """

    def loss(modules: Sequence[nn.Module], samples: Sequence[torch.Tensor]) -> torch.Tensor:
        return nn.functional.cross_entropy(modules[0](samples[0]).float(), labels)

    return Task([module], [samples], [loss])
