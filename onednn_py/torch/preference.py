"""Which calls are left to PyTorch because it is as fast or faster, by measurement."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .signature import Geometry

__all__ = ["reason_to_leave"]


def reason_to_leave(
    name: str,
    geometry: Geometry,
    src: torch.Tensor,
    weights: torch.Tensor,
    dst_shape: Sequence[int],
    is_channels_last: bool,
    mask: Sequence[bool] | None,
) -> str:
    """Return why PyTorch's kernel is preferred, empty where ours is."""
    return ""
