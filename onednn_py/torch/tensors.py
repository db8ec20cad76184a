"""Tensors as arrays and arrays as tensors, on the same memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch

__all__ = ["array_of", "channels_first", "channels_last", "tensor_of"]

Array = npt.NDArray[Any]

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def array_of(tensor: torch.Tensor) -> Array:
    """Return a tensor's array, which shares its memory.

    ``tensor.numpy()`` knows no bfloat16, whose bits are read as integers instead.
    """
    if tensor.requires_grad:  # parameters in inference mode; no graph is recorded here
        tensor = tensor.detach()
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.view(torch.int16)
        array: Array = tensor.numpy().view(_BFLOAT16)
    else:
        array = tensor.numpy()
    return array


def tensor_of(array: Array) -> torch.Tensor:
    """Return an array's tensor, which shares its memory and keeps it alive."""
    if array.dtype == _BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def channels_last(array: Array) -> Array:
    """Return the view (N, *spatial, C) of an array of shape (N, C, *spatial)."""
    return array.transpose(0, *range(2, array.ndim), 1)


def channels_first(array: Array) -> Array:
    """Return the view (N, C, *spatial) of an array of shape (N, *spatial, C)."""
    return array.transpose(0, array.ndim - 1, *range(1, array.ndim - 1))
