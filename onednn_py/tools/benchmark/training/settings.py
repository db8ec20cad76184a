"""What is trained, and how: the settings of a benchmark, as options give them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onednn_py.config import Effort

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """How a network is trained.

    Attributes
    ----------
    network : str
        A key of `networks.NETWORKS`.
    dtype : str
        ``"f32"``, ``"bf16"`` or ``"f16"``: of parameters and samples; with ``autocast`` that of
        the operations that autocast chooses, and parameters are float32.
    batch : int or None
        In place of the network's own.
    compiled : bool
        Whether `torch.compile` compiles the network, with Inductor.
    channels_last : bool
        Whether parameters and samples have PyTorch's memory format channels_last.
    effort : str
        Of the enabled steps: ``"heuristic"`` or ``"measure"``.
    small : bool
        A network of the same kinds of layers, but few and narrow.
    """

    network: str
    dtype: str = "f32"
    batch: int | None = None
    autocast: bool = False
    compiled: bool = False
    channels_last: bool = False
    effort: Effort = "heuristic"
    small: bool = False

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Settings:
        return cls(**content)
