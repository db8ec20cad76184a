"""An axis of a batch folded into another axis, and taken out of it again."""

from __future__ import annotations

from typing import Any

from jax import numpy as jnp

__all__ = ["fold", "unfold"]


def fold(array: Any, batch_axis: int, axis: int, groups: int = 1) -> Any:
    """Return an array without its batch axis, which becomes part of ``axis``.

    Parameters
    ----------
    array : jax.Array
    batch_axis : int
    axis : int
        Counted without the batch axis.
    groups : int
        Channels lie in so many groups; every group gets the batch's channels side by side.
    """
    first = jnp.moveaxis(array, batch_axis, 0)
    batch, *shape = first.shape
    head, extent, tail = shape[:axis], shape[axis], shape[axis + 1 :]
    apart = first.reshape(batch, *head, groups, extent // groups, *tail)
    return jnp.moveaxis(apart, 0, axis + 1).reshape(*head, batch * extent, *tail)


def unfold(array: Any, axis: int, batch: int, groups: int = 1) -> Any:
    """Return an array with the batch as its first axis, the inverse of `fold`."""
    head, extent, tail = array.shape[:axis], array.shape[axis], array.shape[axis + 1 :]
    apart = array.reshape(*head, groups, batch, extent // (groups * batch), *tail)
    return jnp.moveaxis(apart, axis + 1, 0).reshape(batch, *head, extent // batch, *tail)
