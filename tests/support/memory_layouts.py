"""The same values, in every way in which an array may lie in memory."""

from __future__ import annotations

import numpy as np


def gaps(array: np.ndarray) -> np.ndarray:
    """The same values, every axis with a gap after each element."""
    room = np.full([2 * n + 1 for n in array.shape], 7, array.dtype)
    view = room[tuple(slice(1, None, 2) for _ in array.shape)]
    view[...] = array
    return view


def crop(array: np.ndarray) -> np.ndarray:
    """The same values, a window of a larger array."""
    room = np.full([n + 3 for n in array.shape], 7, array.dtype)
    view = room[tuple(slice(2, -1) for _ in array.shape)]
    view[...] = array
    return view


def reversed_(array: np.ndarray) -> np.ndarray:
    """Negative strides."""
    return np.ascontiguousarray(np.flip(array))[tuple(slice(None, None, -1) for _ in array.shape)]


def transposed(array: np.ndarray) -> np.ndarray:
    """Fortran order."""
    return np.asfortranarray(array)


def misaligned(array: np.ndarray) -> np.ndarray:
    raw = np.zeros(array.nbytes + 1, np.uint8)
    view = raw[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def odd_strides(array: np.ndarray) -> np.ndarray:
    """A field of a structure: strides that are no multiple of the element."""
    room = np.zeros(array.shape, [("value", array.dtype), ("flag", np.uint8)])
    room["value"] = array
    return room["value"]


def channels_outermost(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.swapaxes(0, 1)).swapaxes(0, 1)


def images_innermost(array: np.ndarray) -> np.ndarray:
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 0, -1)), -1, 0)


FORMS = [gaps, crop, reversed_, transposed, misaligned, read_only, odd_strides]
