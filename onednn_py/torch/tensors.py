"""Tensors as arrays and arrays as tensors, on the same memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch

from onednn_py.system.allocator import LARGEST_KEPT
from onednn_py.system.memory_pool import SMALLEST_LEASE, pool, size_class

__all__ = ["Array", "array_of", "channels_last", "result_maker"]

Array = npt.NDArray[Any]

# Results of one size that lie on the pool's memory at a time; further ones lie on PyTorch's. Short
# lives share the two blocks. Results that live until the gradients are computed leave their memory
# to PyTorch's own tensors then, which cannot take that of the pool.
MOST_POOLED = 2

# By their size, such results' arrays, which are alive as long as the tensors on them.
_pooled: dict[int, list[Callable[[], Array | None]]] = {}

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


def result_maker(
    shape: Sequence[int], dtype: torch.dtype, is_channels_last: bool, is_pooled: bool = True
) -> Callable[[], torch.Tensor]:
    """Return a function that makes uninitialised results.

    Parameters
    ----------
    shape : sequence of int
        (N, C, *spatial), or that of weights; one axis for a bias.
    dtype : torch.dtype
    is_channels_last : bool
        Whether the second axis is the innermost in memory.
    is_pooled : bool
        Whether the memory may be of the pool, and goes back to it when the last tensor on it is
        gone; otherwise it is of PyTorch's allocator.

    Returns
    -------
    callable
        Without arguments; it returns a tensor.
    """
    in_memory = tuple(shape)
    axes: tuple[int, ...] | None = None
    if is_channels_last:
        in_memory = (shape[0], *shape[2:], shape[1])
        axes = (0, len(shape) - 1, *range(1, len(shape) - 1))
    # PyTorch takes arrays of its own types alone.
    is_bfloat16 = dtype is torch.bfloat16
    make = pool.maker(in_memory, np.dtype(np.int16) if is_bfloat16 else _DTYPES[dtype])

    def on_array(array: Array) -> torch.Tensor:
        tensor = torch.from_numpy(array)
        if is_bfloat16:
            tensor = tensor.view(dtype)
        return tensor if axes is None else tensor.permute(axes)

    def pooled() -> torch.Tensor:
        return on_array(make())

    def allocated() -> torch.Tensor:
        tensor = torch.empty(in_memory, dtype=dtype, device="cpu")
        return tensor if axes is None else tensor.permute(axes)

    if not is_pooled:
        return allocated
    nbytes = prod(shape) * dtype.itemsize
    if nbytes < SMALLEST_LEASE or nbytes >= LARGEST_KEPT:
        return pooled
    places = _pooled.setdefault(size_class(nbytes), [_nothing] * MOST_POOLED)

    def pooled_or_allocated() -> torch.Tensor:
        for place, alive in enumerate(places):
            if alive() is None:
                array = make()
                places[place] = weakref.ref(array)
                return on_array(array)
        return allocated()

    return pooled_or_allocated


def _nothing() -> None:
    return None
