"""What a convolution's three primitives have in common: everything but their two operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from onednn_py.problem.geometry import effective_kernel, windows

__all__ = ["Geometry", "Settings", "merged"]

Shape = tuple[int, ...]


class Settings(NamedTuple):
    """The settings of ``onednn_py`` that were in force when a function was traced."""

    backend: str
    effort: Any
    fpmath_mode: str


@dataclass(frozen=True)
class Geometry:
    """A convolution without lhs dilation and with pads that are not negative.

    Attributes
    ----------
    size, kernel : tuple of int
        Spatial shapes of src and of weights, in the order of the specs.
    strides, dilations : tuple of int
    pads : tuple of (int, int)
    groups : int
    src_spec, weights_spec, dst_spec : tuple of int
        Axes as ``jax.lax.ConvDimensionNumbers`` has them: minibatch and channels, or output and
        input channels, then the spatial axes.
    precision
        What ``lax`` made of the argument of this name; it matters where ``lax`` computes.
    settings : Settings
    """

    size: Shape
    kernel: Shape
    strides: Shape
    pads: tuple[tuple[int, int], ...]
    dilations: Shape
    groups: int
    src_spec: Shape
    weights_spec: Shape
    dst_spec: Shape
    precision: Any
    settings: Settings

    @property
    def extents(self) -> Shape:
        """The dilated kernel's spatial shape."""
        return tuple(map(effective_kernel, self.kernel, self.dilations))

    @property
    def dst_size(self) -> Shape:
        """The spatial shape of dst."""
        return tuple(map(windows, self.size, self.extents, self.strides, map(sum, self.pads)))

    def dst_shape(self, src: Shape, weights: Shape) -> Shape:
        """Return the shape of dst."""
        channels = weights[self.weights_spec[0]]
        return _laid_out(self.dst_spec, src[self.src_spec[0]], channels, self.dst_size)

    def src_shape(self, dst: Shape, weights: Shape) -> Shape:
        """Return the shape of src."""
        channels = weights[self.weights_spec[1]] * self.groups
        return _laid_out(self.src_spec, dst[self.dst_spec[0]], channels, self.size)

    def weights_shape(self, src: Shape, dst: Shape) -> Shape:
        """Return the shape of weights."""
        inputs = src[self.src_spec[1]] // self.groups
        return _laid_out(self.weights_spec, dst[self.dst_spec[1]], inputs, self.kernel)

    def in_groups(self, times: int) -> Geometry:
        """Return the geometry of ``times`` convolutions side by side, each with its groups."""
        return replace(self, groups=self.groups * times)


def _laid_out(spec: Shape, first: int, second: int, spatial: Shape) -> Shape:
    shape = [0] * len(spec)
    for axis, extent in zip(spec, (first, second, *spatial), strict=True):
        shape[axis] = extent
    return tuple(shape)


def merged(pairs: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    """Return pads as pairs of plain int."""
    return tuple((int(low), int(high)) for low, high in pairs)
