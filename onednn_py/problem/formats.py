"""Formats: from the caller's axis order to the canonical one, without copying.

Canonical are (N, C, *spatial) for activations and (G, O/G, I/G, *kernel) for weights.
Splitting and permuting axes never needs a copy, so that a view of the caller's array
serves for reading and for writing, and its strides follow from the caller's by the
same two steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

__all__ = [
    "DATA_FORMATS",
    "WEIGHTS_FORMATS",
    "TensorView",
    "activation_view",
    "are_nested",
    "bias_view",
    "convolution_weights_view",
    "dense_strides",
    "named_format",
    "spatial_name",
    "transposed_weights_view",
]

DATA_FORMATS = ("NCX", "NXC")
# By whether the operation is transposed.
WEIGHTS_FORMATS = {False: ("OIX", "XIO"), True: ("IOX", "XOI")}

Array = npt.NDArray[Any]


def spatial_name(format_: str, axes: int) -> str:
    """Return the name of a format for so many spatial axes: NCHW of NCX for two."""
    return format_.replace("X", "DHW"[-axes:])


def named_format(name: str, formats: tuple[str, ...]) -> str | None:
    """Return the format that a name means, for any number of spatial axes, None for no format."""
    for format_ in formats:
        if name.upper() in (format_, *(spatial_name(format_, axes) for axes in (1, 2, 3))):
            return format_
    return None


@dataclass(frozen=True, slots=True)
class TensorView:
    """How a tensor of the caller's shape is seen in canonical order.

    Attributes
    ----------
    shape : tuple of int
        The caller's shape.
    split : tuple of int
        Shape after one axis was split into (groups, rest); equal to ``shape`` if none is.
    split_axis : int
        The axis that is split, -1 for none.
    axes : tuple of int
        Permutation of the split shape that gives the canonical order.
    """

    shape: tuple[int, ...]
    split: tuple[int, ...]
    split_axis: int
    axes: tuple[int, ...]

    @property
    def canonical_shape(self) -> tuple[int, ...]:
        return tuple(map(self.split.__getitem__, self.axes))

    def canonical(self, array: Array) -> Array:
        """Return ``array`` in canonical order, as a view."""
        if self.split_axis >= 0:
            array = array.reshape(self.split)
        return array.transpose(self.axes)

    def canonical_strides(self, strides: tuple[int, ...]) -> tuple[int, ...]:
        """Return the canonical view's strides, given those of the caller's array."""
        if self.split_axis >= 0:
            axis = self.split_axis
            inner = strides[axis]
            outer = inner * self.split[axis + 1]
            strides = (*strides[:axis], outer, inner, *strides[axis + 1 :])
        return tuple(map(strides.__getitem__, self.axes))


def activation_view(shape: tuple[int, ...], data_format: str) -> TensorView:
    """View of src, dst or their gradients: NCX or NXC to (N, C, *spatial)."""
    rank = len(shape)
    axes = tuple(range(rank)) if data_format == "NCX" else (0, rank - 1, *range(1, rank - 1))
    return TensorView(shape, shape, -1, axes)


def bias_view(channels: int) -> TensorView:
    return TensorView((channels,), (channels,), -1, (0,))


def _outer_inner_kernel(rank: int, format_: str) -> tuple[int, ...]:
    """Axes of the two channel dimensions and the kernel: OIX, IOX as they are; XIO, XOI turned."""
    if format_[0] == "X":
        return (rank - 1, rank - 2, *range(rank - 2))
    return tuple(range(rank))


def _split(
    shape: tuple[int, ...], axis: int, groups: int, order: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Split ``axis`` into (groups, rest).

    Returns the split shape, where the axes of ``order`` went, and the groups' axis.
    """
    split = (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    moved = tuple(position + (position >= axis) for position in order)
    return split, moved, axis


def convolution_weights_view(
    shape: tuple[int, ...], weights_format: str, groups: int
) -> TensorView:
    """View of convolution weights: (O, I/G, *kernel) or (*kernel, I/G, O) to canonical."""
    order = _outer_inner_kernel(len(shape), weights_format)
    split, moved, group_axis = _split(shape, order[0], groups, order)
    return TensorView(shape, split, group_axis, (group_axis, *moved))


def transposed_weights_view(
    shape: tuple[int, ...], weights_format: str, groups: int, *, documented: bool
) -> TensorView:
    """View of transposed convolution weights to canonical.

    Native, PyTorch and ONNX use (I, O/G, *kernel); the oneDNN Graph documents print
    (I/G, O, *kernel). ``documented`` says which of the two ``shape`` is. XOI is the same with
    the kernel in front and the channels exchanged.
    """
    order = _outer_inner_kernel(len(shape), weights_format)
    grouped = order[1] if documented else order[0]
    split, moved, group_axis = _split(shape, grouped, groups, order)
    input_axis, output_axis, *kernel_axes = moved
    return TensorView(shape, split, group_axis, (group_axis, output_axis, input_axis, *kernel_axes))


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of a C-contiguous array of ``shape``."""
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def are_nested(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether every axis steps over the whole next inner axis, as oneDNN requires."""
    least = 1
    for stride, extent in sorted(zip(strides, shape, strict=True)):
        if extent > 1:
            if stride < least:
                return False
            least = stride * extent
    return True
