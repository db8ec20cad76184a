"""Products: 1x1 problems without strides as products of matrices, for oneDNN's matmul.

The pixels of all images are one axis where their strides allow it, as they do with channels last.
Otherwise those of an image are, and data gradients and forward passes are products of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from onednn_py.problem.problem import Direction, Problem, TensorLayout

from .chunks import Addend

__all__ = ["Axis", "Product", "as_product", "is_matrix", "merged"]

# An extent and a stride.
Axis = tuple[int, int]


@dataclass(frozen=True)
class Product(Addend):
    """A forward pass or a weights gradient whose tensors are matrices of pixels and channels."""

    __hash__ = Problem.__hash__

    @property
    def factors(self) -> tuple[str, str]:
        """The roles of the first and of the second factor."""
        if self.direction is Direction.FORWARD:
            return ("weights", "src") if self._rows_are_channels else ("src", "weights")
        outputs_are_rows = self.weights.strides[1] >= self.weights.strides[2]
        return ("dst", "src") if outputs_are_rows else ("src", "dst")

    @property
    def has_matrices(self) -> bool:
        """Whether this is a single product of matrices, or of batches in a forward pass."""
        if not (is_matrix(self.src) and is_matrix(self.dst)):
            return False
        return self.direction is Direction.FORWARD or all(
            merged(_pixel_axes(layout)) for layout in (self.src, self.dst)
        )

    def matrix(self, role: str) -> TensorLayout:
        """Return shape and strides of a tensor as a factor or as the product.

        The axes are rows and columns, or a batch, rows and columns.
        """
        batch, rows, columns = (1, 0), (1, 0), (1, 0)
        first, second = self.factors
        if role in ("src", "dst"):
            batch, pixels = _pixels(getattr(self, role), self._is_batched)
            layout: TensorLayout = getattr(self, role)
            channels = layout.shape[1], layout.strides[1]
            is_forward = self.direction is Direction.FORWARD
            has_rows = self._rows_are_channels if is_forward else role == first
            rows, columns = (channels, pixels) if has_rows else (pixels, channels)
        elif role == "weights":
            outputs, inputs = zip(self.weights.shape[1:3], self.weights.strides[1:3], strict=True)
            rows, columns = (outputs, inputs) if second == "src" else (inputs, outputs)
        elif self.bias is not None:
            channels = self.bias.shape[0], self.bias.strides[0]
            rows, columns = (channels, columns) if self._rows_are_channels else (rows, channels)
        axes = _with_strides(batch, rows, columns)
        axes = axes if self._is_batched else axes[1:]
        return TensorLayout(tuple(n for n, _ in axes), tuple(stride for _, stride in axes))

    @property
    def _rows_are_channels(self) -> bool:
        _, (_, step) = _pixels(self.dst, self._is_batched)
        return step == 1

    @property
    def _is_batched(self) -> bool:
        return self.direction is Direction.FORWARD and not all(
            merged(_pixel_axes(layout)) for layout in (self.src, self.dst)
        )


def _pixel_axes(layout: TensorLayout) -> list[Axis]:
    images, _, *pixels = zip(layout.shape, layout.strides, strict=True)
    return [images, *pixels]


def merged(axes: Iterable[Axis]) -> Axis | None:
    """Return axes, the outermost first, as one axis; None where distances are not even."""
    count, step = 1, 0
    for extent, stride in axes:
        if extent > 1:
            if count > 1 and step != extent * stride:
                return None
            count, step = count * extent, stride
    return count, step


def _pixels(layout: TensorLayout, is_batched: bool) -> tuple[Axis, Axis]:
    """Return the axes of the batch and of its pixels."""
    images, *pixels = _pixel_axes(layout)
    if is_batched:
        return images, merged(pixels) or (0, 0)
    return (1, 0), merged([images, *pixels]) or (0, 0)


def _with_strides(*axes: Axis) -> list[Axis]:
    """Return the axes with strides that a dense matrix has for those of one element."""
    batch, rows, columns = axes
    if columns[0] == 1:
        columns = 1, 1
    if rows[0] == 1:
        rows = 1, columns[0] if columns[1] == 1 else 1
    if batch[0] == 1:
        batch = 1, max(extent * stride for extent, stride in (rows, columns))
    return [batch, rows, columns]


def is_matrix(layout: TensorLayout) -> bool:
    """Whether the pixels of each image are one axis, and it or the channels are dense."""
    pixels = merged(_pixel_axes(layout)[1:])
    if pixels is None:
        return False
    channels = layout.shape[1], layout.strides[1]
    return any(extent == 1 or stride == 1 for extent, stride in (pixels, channels))


def as_product(problem: Problem) -> Product | None:
    """Return a 1x1 problem without strides or groups as a product, None if it is no such problem.

    A data gradient is a forward pass of diff_dst, and a transposed problem the same as a
    convolution.
    """
    if problem.groups > 1 or any(extent > 1 for extent in problem.kernel):
        return None
    ones, zeros = (1,) * len(problem.kernel), (0,) * len(problem.kernel)
    changes: dict[str, Any] = {
        "transposed": False,
        "strides": ones,
        "dilations": ones,
        "pads_begin": zeros,
        "pads_end": zeros,
    }
    if problem.direction is Direction.BACKWARD_DATA:
        changes |= {
            "direction": Direction.FORWARD,
            "src": problem.dst,
            "dst": problem.src,
            "weights": problem.weights.swapped(1, 2),
        }
    return Product.of(problem, **changes)
