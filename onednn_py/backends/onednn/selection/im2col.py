"""im2col: a problem as one product of matrices with the patches of src that its windows meet.

The patches are a copy of src: of each window the elements under the kernel, zeros where it stands
on the padding. Where windows are few and channels many, the copy is small beside the weights, which
matmul reads or writes as the caller has them. oneDNN's convolution primitives have blocks of their
own for weights, and sum over few pixels at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy.typing as npt

from onednn_py.problem.problem import Direction, Problem, TensorLayout
from onednn_py.system.casting import widen_into
from onednn_py.system.parallel import current_threads, each

from .matmul import Axis, Product, merged

__all__ = ["PatchProduct", "as_patch_product", "gather"]

Array = npt.NDArray[Any]
_Index = tuple[Any, ...]
_Sizes = tuple[int, ...]

# The copy of more windows for each output takes longer than what the product gains: of 675 drawn
# weights gradients with more, 11 gained.
MOST_WINDOWS = 16

# Each position of the kernel is a copy of its own.
MOST_POSITIONS = 256

# Up to so many elements are gathered on one thread: the interpreter's lock takes long to change
# hands.
SINGLE_THREADED = 2**21


@dataclass(frozen=True)
class PatchProduct(Product):
    """A problem whose src are patches, of shape (N, I, *kernel, *spatial of dst).

    Geometry and weights are those of the convolution.
    """

    __hash__ = Problem.__hash__

    @property
    def flat(self) -> Product | None:
        """The 1x1 problem of one line that the matrices are: windows are its pixels.

        None where the axes of windows, or of the elements of a patch, are not one.
        """
        count, output_stride = self.weights.shape[1], self.weights.strides[1]
        windows = [merged(self._window_axes(layout)) for layout in (self.src, self.dst)]
        columns = [
            merged(self._column_axes(layout, inputs))
            for layout, inputs in ((self.src, 1), (self.weights, 2))
        ]
        if None in windows or None in columns:
            return None
        (rows, src_row), (_, dst_row) = (axis or (0, 0) for axis in windows)
        (elements, src_column), (_, weights_column) = (axis or (0, 0) for axis in columns)
        changes: dict[str, Any] = {
            "src": TensorLayout((1, elements, rows), (self.src.extent, src_column, src_row)),
            "weights": TensorLayout((1, count, elements, 1), (1, output_stride, weights_column, 1)),
            "dst": TensorLayout((1, count, rows), (self.dst.extent, self.dst.strides[1], dst_row)),
            "strides": (1,),
            "dilations": (1,),
            "pads_begin": (0,),
            "pads_end": (0,),
        }
        return Product.of(self, adds=self.adds, **changes)

    @property
    def factors(self) -> tuple[str, str]:
        return self._matrices.factors

    @property
    def has_matrices(self) -> bool:
        return self.flat is not None

    def matrix(self, role: str) -> TensorLayout:
        return self._matrices.matrix(role)

    @property
    def _matrices(self) -> Product:
        flat = self.flat
        assert flat is not None, self.name
        return flat

    def _window_axes(self, layout: TensorLayout) -> list[Axis]:
        """Return images and windows in the order in which they lie in dst."""
        axes = list(zip(layout.shape, layout.strides, strict=True))
        images, windows = axes[0], axes[-len(self.kernel) :]
        return [*windows, images] if _images_are_innermost(self.dst) else [images, *windows]

    def _column_axes(self, layout: TensorLayout, inputs: int) -> list[Axis]:
        """Return inputs and kernel positions in the order in which they lie in the weights."""
        axes = list(zip(layout.shape, layout.strides, strict=True))
        positions = axes[inputs + 1 : inputs + 1 + len(self.kernel)]
        is_last = _inputs_are_innermost(self.weights)
        return [*positions, axes[inputs]] if is_last else [axes[inputs], *positions]


def _images_are_innermost(dst: TensorLayout) -> bool:
    return dst.shape[0] > 1 and dst.strides[0] < min(dst.strides[2:])


def _inputs_are_innermost(weights: TensorLayout) -> bool:
    return weights.strides[2] < min(weights.strides[3:])


def as_patch_product(problem: Problem) -> tuple[PatchProduct, set[str]] | None:
    """Return a weights gradient or a forward pass on patches, and the roles that NumPy copies.

    A problem without groups whose kernel has several elements, in the roles of a convolution. dst
    is copied where the pixels of all images are no axis. None for another problem, for too many
    windows or kernel positions, and where the weights of one output, or of one element of the
    patches, are no axis.
    """
    inner = problem.as_convolution()
    if inner.direction is Direction.BACKWARD_DATA or inner.groups > 1:
        return None
    if not (1 < prod(inner.kernel) <= MOST_POSITIONS and inner.weights.is_nested):
        return None
    dst, copied = inner.dst, {"src"}
    if dst.shape[0] * prod(dst.shape[2:]) > MOST_WINDOWS * dst.shape[1]:
        return None
    is_forward = inner.direction is Direction.FORWARD
    # matmul adds a bias to columns alone.
    is_biased = is_forward and inner.bias is not None
    if not (dst.is_nested and _is_matrix_of_images(dst)) or (is_biased and dst.strides[1] != 1):
        dst = _copy_of(dst, is_forward=is_forward)
        copied.add("dst")
    images, _, *pixels = dst.shape
    patches = (images, inner.src.shape[1], *inner.kernel, *pixels)
    axes = range(len(patches))
    positions, spatial = axes[2 : -len(pixels)], axes[-len(pixels) :]
    inputs = [*positions, 1] if _inputs_are_innermost(inner.weights) else [1, *positions]
    windows = [*spatial, 0] if _images_are_innermost(dst) else [0, *spatial]
    # Neighbours in src are copied as neighbours.
    is_last = inner.src.strides[1] == 1 and not _images_are_innermost(dst)
    order = [*windows, *inputs] if is_last else [*inputs, *windows]
    changes: dict[str, Any] = {"src": _dense(patches, order), "dst": dst}
    if not is_forward:
        changes["bias"] = None
    found = PatchProduct.of(inner, **changes)
    return (found, copied) if found.has_matrices else None


def _is_matrix_of_images(dst: TensorLayout) -> bool:
    """Whether the pixels of all images are one axis, and it or the channels are dense."""
    images, channels, *pixels = zip(dst.shape, dst.strides, strict=True)
    windows = merged([images, *pixels])
    return windows is not None and any(
        extent == 1 or stride == 1 for extent, stride in (windows, channels)
    )


def _copy_of(dst: TensorLayout, *, is_forward: bool) -> TensorLayout:
    """Return the layout of a copy: channels innermost, or images where a gradient reads it."""
    spatial = range(2, len(dst.shape))
    return _dense(dst.shape, [0, *spatial, 1] if is_forward else [1, *spatial, 0])


def _dense(shape: tuple[int, ...], order: list[int]) -> TensorLayout:
    """Return a layout without gaps whose axes lie in memory in an order, the outermost first."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return TensorLayout(shape, tuple(strides))


def gather(target: Array, src: Array, problem: Problem) -> None:
    """Write what the windows of a convolution meet.

    Parameters
    ----------
    target : ndarray
        Of shape (N, I, *kernel, *spatial of dst).
    src : ndarray
        Of shape (N, I, *spatial), perhaps in another type.
    problem : Problem
        For strides, dilations and pads.
    """
    ndim = len(problem.kernel)
    found = _positions(
        target.shape[2 : 2 + ndim],
        target.shape[2 + ndim :],
        src.shape[2:],
        problem.strides,
        problem.dilations,
        problem.pads_begin,
    )

    def copy(one: _Position) -> None:
        patch = target[one.patch]
        for padding in one.paddings:
            patch[padding] = 0
        widen_into(patch[one.inside], src[one.elements])

    threads = current_threads() if target.size > SINGLE_THREADED else 1
    each(copy, found, threads)


class _Position(NamedTuple):
    """A position in the kernel: what it has in the patches, and what it meets of src.

    Attributes
    ----------
    patch : tuple
        Of its elements in the patches.
    paddings : list of tuple
        Of the windows among these that stand on the padding there, once for each end of an axis.
    inside, elements : tuple
        Of the other windows, and of the elements of src.
    """

    patch: _Index
    paddings: list[_Index]
    inside: _Index
    elements: _Index


@lru_cache(maxsize=64)
def _positions(
    kernel: _Sizes,
    windows: _Sizes,
    sizes: _Sizes,
    strides: _Sizes,
    dilations: _Sizes,
    pads_begin: _Sizes,
) -> list[_Position]:
    """Return the positions of a kernel; to find them takes as long as to copy some thousands."""
    found = []
    for position in product(*map(range, kernel)):
        met = [
            _met(along * dilation - pad, stride, count, size)
            for along, dilation, pad, stride, count, size in zip(
                position, dilations, pads_begin, strides, windows, sizes, strict=True
            )
        ]
        paddings = []
        for axis, (inside, _) in enumerate(met):
            before = (slice(None),) * axis
            for outside in (slice(0, inside.start), slice(inside.stop, windows[axis])):
                if outside.start < outside.stop:
                    paddings.append(_behind_channels(*before, outside))
        found.append(
            _Position(
                _behind_channels(*position),
                paddings,
                _behind_channels(*(inside for inside, _ in met)),
                _behind_channels(*(elements for _, elements in met)),
            )
        )
    return found


def _behind_channels(*indices: Any) -> _Index:
    """Return an index of the axes behind images and channels, along which it takes all."""
    return (slice(None), slice(None), *indices)


def _met(first: int, stride: int, windows: int, size: int) -> tuple[slice, slice]:
    """Return which windows meet src at a kernel position, and at which elements.

    Parameters
    ----------
    first : int
        Where the first window meets src, perhaps before its beginning.
    """
    begin = min(windows, max(0, -(first // stride)))
    end = max(begin, min(windows, (size - 1 - first) // stride + 1))
    if begin == end:
        return slice(begin, end), slice(0, 0)
    start = first + begin * stride
    return slice(begin, end), slice(start, start + (end - begin - 1) * stride + 1, stride)
