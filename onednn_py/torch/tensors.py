"""Tensors as arrays and arrays as tensors, on the same memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch

from onednn_py.system.memory_pool import pool

__all__ = ["Array", "array_of", "channels_first", "channels_last", "result_maker"]

Array = npt.NDArray[Any]

_DTYPES = {
    torch.float32: np.dtype(np.float32),
    torch.float16: np.dtype(np.float16),
    torch.bfloat16: np.dtype(ml_dtypes.bfloat16),
}


def array_of(tensor: torch.Tensor) -> Array:
    """Return a tensor's array, which shares its memory.

    ``tensor.numpy()`` knows no bfloat16, whose bits are read as integers instead.
    """
    if tensor.requires_grad:  # parameters in inference mode; no graph is recorded here
        tensor = tensor.detach()
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.view(torch.int16)
        array: Array = tensor.numpy().view(_DTYPES[torch.bfloat16])
    else:
        array = tensor.numpy()
    return array


def channels_last(array: Array) -> Array:
    """Return the view (N, *spatial, C) of an array of shape (N, C, *spatial)."""
    return array.transpose(0, *range(2, array.ndim), 1)


def channels_first(array: Array) -> Array:
    """Return the view (N, C, *spatial) of an array of shape (N, *spatial, C)."""
    return array.transpose(0, array.ndim - 1, *range(1, array.ndim - 1))


def result_maker(
    shape: Sequence[int], dtype: torch.dtype, is_channels_last: bool
) -> Callable[[], tuple[Array, torch.Tensor]]:
    """Return a function that makes uninitialised results on memory of the pool.

    Parameters
    ----------
    shape : sequence of int
        (N, C, *spatial), or that of weights; one axis for a bias.
    dtype : torch.dtype
    is_channels_last : bool
        Whether the second axis is the innermost in memory.

    Returns
    -------
    callable
        Without arguments; it returns an array and a tensor on the same memory. The array has its
        axes in the order of memory, the tensor has those of ``shape``. The memory goes back to the
        pool when the last tensor on it is gone.
    """
    in_memory = tuple(shape)
    axes: tuple[int, ...] | None = None
    if is_channels_last:
        in_memory = (shape[0], *shape[2:], shape[1])
        axes = (0, len(shape) - 1, *range(1, len(shape) - 1))
    numpy_dtype = _DTYPES[dtype]
    # PyTorch takes arrays of its own types alone.
    make = pool.maker(in_memory, np.dtype(np.int16) if dtype is torch.bfloat16 else numpy_dtype)

    def made() -> tuple[Array, torch.Tensor]:
        array = make()
        tensor = torch.from_numpy(array)
        if dtype is torch.bfloat16:
            tensor, array = tensor.view(dtype), array.view(numpy_dtype)
        if axes is not None:
            tensor = tensor.permute(axes)
        return array, tensor

    return made
