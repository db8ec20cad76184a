"""Tensors as arrays and arrays as tensors, on the same memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch

from onednn_py.system.allocator import LARGEST_KEPT
from onednn_py.system.memory_pool import SMALLEST_LEASE, pool, size_class
from onednn_py.system.small_holes import small_holes_filled

__all__ = [
    "SMALLEST_HOLE",
    "Array",
    "are_allocated",
    "array_of",
    "channels_last",
    "lasting_maker",
    "result_maker",
]

Array = npt.NDArray[Any]

# Results of one size that lie on the pool's memory at a time; further ones lie on PyTorch's. Short
# lives share the two blocks. Results that live until the gradients are computed leave their memory
# to PyTorch's own tensors then, which cannot take that of the pool.
MOST_POOLED = 2

# By their size, such results' arrays, which are alive as long as the tensors on them.
_pooled: dict[int, list[Callable[[], Array | None]]] = {}

# Where a call's tensors are smaller, a hole that one of them leaves in the heap is of no account.
SMALLEST_HOLE = 2**20

# Tensors without elements that are made at a time.
MADE_AT_ONCE = 64

# By their types, tensors that are still without elements.
_without_elements: dict[torch.dtype, list[torch.Tensor]] = {}

_DTYPES = {
    torch.float32: np.dtype(np.float32),
    torch.float16: np.dtype(np.float16),
    torch.bfloat16: np.dtype(ml_dtypes.bfloat16),
}


class _Memory:
    """A tensor as NumPy reads it by ``__array_interface__``, alive as long as the array."""

    def __init__(self, tensor: torch.Tensor, dtype: np.dtype[Any]) -> None:
        self._tensor = tensor
        self.__array_interface__ = {
            "version": 3,
            "shape": tuple(tensor.shape),
            "typestr": dtype.str,
            "data": (tensor.data_ptr(), False),
            "strides": tuple(stride * dtype.itemsize for stride in tensor.stride()),
        }


def are_allocated(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether tensors with elements have memory: the storage of one may have been freed."""
    for tensor in tensors:
        if tensor.data_ptr() == tensor.storage_offset() * tensor.element_size():
            return False
    return True


def array_of(tensor: torch.Tensor) -> Array:
    """Return a tensor's array, which shares its memory.

    Not by ``tensor.numpy()``, after which PyTorch resizes the tensor's storage no more: it may be
    the program's own, such as the parameters that FSDP frees between layers.
    """
    dtype = _DTYPES[tensor.dtype]
    if tensor.dtype is torch.bfloat16:  # which NumPy has no name for
        bits: Array = np.asarray(_Memory(tensor, np.dtype(np.int16)))
        return bits.view(dtype)
    return np.asarray(_Memory(tensor, dtype))


def channels_last(array: Array) -> Array:
    """Return the view (N, *spatial, C) of an array of shape (N, C, *spatial)."""
    return array.transpose(0, *range(2, array.ndim), 1)


def result_maker(
    shape: Sequence[int], dtype: torch.dtype, is_channels_last: bool
) -> Callable[[], torch.Tensor]:
    """Return a function that makes uninitialised results of the shape of activations.

    Parameters
    ----------
    shape : sequence of int
        (N, C, *spatial).
    dtype : torch.dtype
    is_channels_last : bool
        Whether the second axis is the innermost in memory.

    Returns
    -------
    callable
        Without arguments; it returns a tensor, whose memory may be of the pool and goes back to it
        when the last tensor on it is gone.
    """
    in_memory, axes = _order_in_memory(shape, is_channels_last)
    nbytes = prod(shape) * dtype.itemsize
    if nbytes < SMALLEST_LEASE:
        like = _uninitialised(in_memory, dtype)
        return partial(torch.empty_like, like if axes is None else like.permute(axes))
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

    if nbytes >= LARGEST_KEPT:
        return pooled
    places = _pooled.setdefault(size_class(nbytes), [_nothing] * MOST_POOLED)

    def pooled_or_allocated() -> torch.Tensor:
        for place, alive in enumerate(places):
            if alive() is None:
                array = make()
                places[place] = weakref.ref(array)
                return on_array(array)
        tensor = _uninitialised(in_memory, dtype)
        return tensor if axes is None else tensor.permute(axes)

    return pooled_or_allocated


def lasting_maker(
    shape: Sequence[int], dtype: torch.dtype, is_channels_last: bool, is_beside_large: bool
) -> Callable[[], torch.Tensor]:
    """Return a function that makes uninitialised gradients of weights or of a bias.

    They live until the next step, on PyTorch's memory.

    Parameters
    ----------
    shape : sequence of int
        That of weights; one axis for a bias.
    dtype : torch.dtype
    is_channels_last : bool
        Whether the second axis is the innermost in memory.
    is_beside_large : bool
        Whether another tensor of the call has `SMALLEST_HOLE` bytes and more.

    Returns
    -------
    callable
        Without arguments; it returns a tensor.
    """
    in_memory, axes = _order_in_memory(shape, is_channels_last)
    make = _lasting if is_beside_large else _uninitialised

    def lasting() -> torch.Tensor:
        tensor = make(in_memory, dtype)
        return tensor if axes is None else tensor.permute(axes)

    return lasting


def _order_in_memory(
    shape: Sequence[int], is_channels_last: bool
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Return a shape in the order of its axes in memory, and how to permute it back if at all."""
    if not is_channels_last:
        return tuple(shape), None
    return (shape[0], *shape[2:], shape[1]), (0, len(shape) - 1, *range(1, len(shape) - 1))


def _uninitialised(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="cpu")


def _lasting(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return an uninitialised tensor, whose storage's C++ object lies among others.

    Tensors are made many at a time. The object of a single one would lie between the large tensors
    of the call, which die before it does; see `small_holes_filled`.
    """
    if torch.is_inference_mode_enabled():  # whose tensors cannot be used outside of it
        return _uninitialised(shape, dtype)
    waiting = _without_elements.setdefault(dtype, [])
    try:
        tensor = waiting.pop()
    except IndexError:
        with small_holes_filled():
            tensor, *others = (_uninitialised((0,), dtype) for _ in range(MADE_AT_ONCE))
        waiting.extend(others)
    return tensor.resize_(shape)


def _nothing() -> None:
    return None
