"""The networks whose training steps are timed: sizes, minibatches and losses in one table.

Each network is plain PyTorch code of its module here, without a word about this package. The
modules import PyTorch, so `build` imports them when a network is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["NETWORKS", "Network", "build"]


@dataclass(frozen=True)
class Network:
    """A network, and the problem that it is trained on.

    Attributes
    ----------
    title : str
    module : str
        The module of this package that has the function ``build``, which returns a `task.Task`.
    batch : int
        Samples of a step.
    size : int
        Length of each spatial axis of a sample.
    half_batch, half_size : int
        Both for float16, which PyTorch computes many times slower.
    small : mapping of str to Any
        Arguments of ``build`` that make a network of the same kinds of layers, but few and narrow,
        on small samples.
    arguments : mapping of str to Any
        Further arguments of ``build``.
    """

    title: str
    module: str
    batch: int
    size: int
    half_batch: int
    half_size: int
    small: Mapping[str, Any]
    arguments: Mapping[str, Any]


NETWORKS = {
    "resnet50": Network(
        "ResNet-50",
        "resnet",
        batch=8,
        size=224,
        half_batch=2,
        half_size=224,
        arguments={},
        small={"batch": 2, "size": 32, "depths": (1, 1), "width": 8, "classes": 10},
    ),
    "efficientnet": Network(
        "EfficientNet-B0",
        "efficientnet",
        batch=8,
        size=224,
        half_batch=2,
        half_size=224,
        arguments={},
        small={"batch": 2, "size": 32, "stages": 2, "classes": 10},
    ),
    "convnext": Network(
        "ConvNeXt-like",
        "convnext",
        batch=4,
        size=224,
        half_batch=2,
        half_size=224,
        arguments={},
        small={"batch": 2, "size": 32, "depths": (1, 1), "width": 8, "classes": 10},
    ),
    "unet": Network(
        "U-Net",
        "unet",
        batch=2,
        size=256,
        half_batch=1,
        half_size=96,
        arguments={"rank": 2, "width": 32, "levels": 5},
        small={"batch": 2, "size": 16, "rank": 2, "width": 4, "levels": 3},
    ),
    "unet3d": Network(
        "3-D U-Net",
        "unet",
        batch=1,
        size=64,
        half_batch=1,
        half_size=24,
        arguments={"rank": 3, "width": 32, "levels": 4},
        small={"batch": 1, "size": 8, "rank": 3, "width": 4, "levels": 3},
    ),
    "wavenet": Network(
        "WaveNet-like",
        "wavenet",
        batch=4,
        size=8192,
        half_batch=1,
        half_size=2048,
        arguments={},
        small={"batch": 2, "size": 64, "width": 8, "skip": 8, "classes": 16, "layers": 4},
    ),
    "dcgan": Network(
        "DCGAN",
        "dcgan",
        batch=64,
        size=64,
        half_batch=4,
        half_size=64,
        arguments={},
        small={"batch": 4, "size": 16, "width": 8},
    ),
}


def build(
    name: str,
    *,
    dtype: str = "f32",
    batch: int | None = None,
    small: bool = False,
) -> Any:
    """Return the `task.Task` of a network: its modules, its samples and its loss.

    Parameters
    ----------
    name : str
        A key of `NETWORKS`.
    dtype : str
        ``"f32"``, ``"bf16"`` or ``"f16"``: float16 has a smaller minibatch of its own.
    batch : int, optional
        In place of the table's.
    small : bool
        The network of the argument ``small``.
    """
    network = NETWORKS[name]
    half = dtype == "f16"
    arguments = {
        "batch": network.half_batch if half else network.batch,
        "size": network.half_size if half else network.size,
        **network.arguments,
        **(network.small if small else {}),
    }
    if batch is not None:
        arguments["batch"] = batch
    return importlib.import_module(f"{__name__}.{network.module}").build(**arguments)
