"""Shape inference: sizes and attributes of every spatial axis to pads and the missing size.

Each solver works in the roles of a convolution: ``size`` is the extent of the tensor that
strides step over (src of a convolution, dst of a transposed one), ``count`` the number of
windows, the extent of the other tensor. docs/semantics.md gives the evidence for each rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from onednn_py.errors import AttributeValueError, ShapeError

from .attributes import Attributes
from .geometry import (
    axis_from_size,
    documented_same_pads,
    effective_kernel,
    exact_pad_end,
    same_total,
    split_same,
    transposed_same_total,
    windows,
)

__all__ = [
    "Geometry",
    "check_output_padding",
    "solve_both",
    "solve_count",
    "solve_size",
    "solve_transposed_both",
    "solve_transposed_count",
]


@dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes, window counts and exact pads of all spatial axes."""

    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Axis:
    """One spatial axis of a call, and its description for error messages."""

    operation: str
    index: int
    kernel: int
    stride: int
    dilation: int
    pads: tuple[int, int]
    auto_pad: str
    output_padding: int
    documented: bool

    @property
    def extent(self) -> int:
        return effective_kernel(self.kernel, self.dilation)

    @property
    def is_same(self) -> bool:
        return self.auto_pad.startswith("same")

    def convolution_pads(self, size: int) -> tuple[int, int]:
        """Return the pads of a convolution of ``size`` elements."""
        return self._pads(same_total(size, self.extent, self.stride))

    def transposed_pads(self) -> tuple[int, int]:
        """Return the pads of a transposed convolution's forward pass, whatever its size."""
        return self._pads(transposed_same_total(self.extent, self.stride))

    def _pads(self, total: int) -> tuple[int, int]:
        """Return the pads, of which there are ``total`` if auto_pad is SAME."""
        if self.is_same:
            return split_same(total, self.auto_pad)
        return (0, 0) if self.auto_pad == "valid" else self.pads

    def describe(self, pads: tuple[int, int]) -> str:
        return (
            f"kernel {self.kernel}, stride {self.stride}, dilation {self.dilation},"
            f" pads {pads[0]} and {pads[1]}"
        )

    def fail(self, message: str) -> ShapeError:
        return ShapeError(f"{self.operation}: spatial axis {self.index}: {message}")


def _axes(operation: str, kernel: tuple[int, ...], attributes: Attributes) -> list[_Axis]:
    for axis, extent in enumerate(kernel):
        if extent < 1:
            raise ShapeError(
                f"{operation}: spatial axis {axis}: the kernel must have at least one element,"
                f" got {extent}"
            )
    return [
        _Axis(
            operation=operation,
            index=axis,
            kernel=kernel[axis],
            stride=attributes.strides[axis],
            dilation=attributes.dilations[axis],
            pads=(attributes.pads_begin[axis], attributes.pads_end[axis]),
            auto_pad=attributes.auto_pad,
            output_padding=attributes.output_padding[axis],
            documented=attributes.auto_pad_rule == "documented",
        )
        for axis in range(len(kernel))
    ]


def _geometry(axes: list[_Axis], solved: list[tuple[int, int, tuple[int, int]]]) -> Geometry:
    """Assemble (size, count, pads) of all axes, with exact end pads."""
    return Geometry(
        sizes=tuple(size for size, _, _ in solved),
        counts=tuple(count for _, count, _ in solved),
        pads_begin=tuple(pads[0] for _, _, pads in solved),
        pads_end=tuple(
            exact_pad_end(size, count, axis.extent, axis.stride, pads[0])
            for axis, (size, count, pads) in zip(axes, solved, strict=True)
        ),
    )


def check_output_padding(operation: str, attributes: Attributes) -> None:
    """Refuse output_padding that reaches max(stride, dilation), as PyTorch and ONNX do.

    Raises
    ------
    AttributeValueError
    """
    for axis, extra in enumerate(attributes.output_padding):
        limit = max(attributes.strides[axis], attributes.dilations[axis])
        if extra >= limit:
            raise AttributeValueError(
                f"{operation}: output_padding[{axis}]: must be less than"
                f" max(stride, dilation) = {limit}, got {extra}"
            )


def solve_count(
    operation: str, sizes: tuple[int, ...], kernel: tuple[int, ...], attributes: Attributes
) -> Geometry:
    """Convolution forward: the window counts that the sizes give."""
    axes = _axes(operation, kernel, attributes)
    return _geometry(axes, [_count(axis, sizes[axis.index], "src") for axis in axes])


def _count(axis: _Axis, size: int, name: str) -> tuple[int, int, tuple[int, int]]:
    pads = axis.convolution_pads(size)
    count = windows(size, axis.extent, axis.stride, sum(pads))
    if count < 0:
        raise axis.fail(
            f"the kernel extends over {axis.extent} elements, but {name} with its pads has"
            f" only {size + sum(pads)} ({axis.describe(pads)})"
        )
    return size, count, pads


def solve_both(
    operation: str,
    sizes: tuple[int, ...],
    counts: tuple[int, ...],
    kernel: tuple[int, ...],
    attributes: Attributes,
) -> Geometry:
    """Convolution backward weights: src and diff_dst are given and must fit."""
    axes = _axes(operation, kernel, attributes)
    solved = []
    for axis in axes:
        size, expected, pads = _count(axis, sizes[axis.index], "src")
        if expected != counts[axis.index]:
            raise axis.fail(
                f"src of size {size} gives diff_dst of size {expected},"
                f" got {counts[axis.index]} ({axis.describe(pads)})"
            )
        solved.append((size, expected, pads))
    return _geometry(axes, solved)


def solve_size(
    operation: str,
    counts: tuple[int, ...],
    kernel: tuple[int, ...],
    attributes: Attributes,
    sizes: tuple[int, ...] | None,
    shape_name: str,
) -> Geometry:
    """Convolution backward data and conv_transpose forward: the size behind the windows.

    Given ``sizes`` must be sizes whose convolution gives ``counts``; output_padding is then
    ignored, as native does. Without ``sizes`` it is added to the smallest such size.
    """
    axes = _axes(operation, kernel, attributes)
    solved = []
    for axis in axes:
        count = counts[axis.index]
        if sizes is None:
            solved.append(_unknown_size(axis, count))
        else:
            solved.append(_known_size(axis, count, sizes[axis.index], shape_name))
    return _geometry(axes, solved)


def _unknown_size(axis: _Axis, count: int) -> tuple[int, int, tuple[int, int]]:
    pads = axis.transposed_pads()
    if axis.is_same and axis.documented:
        pads = pads[::-1]
    size = axis_from_size(count, axis.extent, axis.stride, sum(pads), axis.output_padding)
    if size < 0:
        raise axis.fail(
            f"{count} windows and these pads leave a result of size {size} ({axis.describe(pads)})"
        )
    return size, count, pads


def _known_size(
    axis: _Axis, count: int, size: int, shape_name: str
) -> tuple[int, int, tuple[int, int]]:
    least_tail, most_tail = 0, axis.stride - 1
    if axis.is_same and axis.documented:
        pads = documented_same_pads(
            size, count, axis.extent, axis.stride, axis.output_padding, axis.auto_pad
        )
        most_tail = max(most_tail, axis.output_padding)
    else:
        pads = axis.convolution_pads(size)
    tail = size - axis_from_size(count, axis.extent, axis.stride, sum(pads), 0)
    if least_tail <= tail <= most_tail:
        return size, count, pads
    if axis.is_same and not axis.documented:
        least, most = axis.stride * (count - 1) + 1, axis.stride * count
    else:
        least = axis_from_size(count, axis.extent, axis.stride, sum(pads), 0)
        most = least + most_tail
    expected = str(most) if least >= most else f"{max(least, 0)} to {most}"
    raise axis.fail(
        f"{shape_name} must be a size whose convolution gives {count} windows: expected"
        f" {expected}, got {size} ({axis.describe(pads)})"
    )


def solve_transposed_count(
    operation: str, sizes: tuple[int, ...], kernel: tuple[int, ...], attributes: Attributes
) -> Geometry:
    """conv_transpose backward data: the size of src behind a diff_dst of ``sizes``.

    Without output_padding this is the forward convolution of diff_dst (native), which
    tolerates a tail shorter than the stride; with it, the sizes must match exactly.
    """
    axes = _axes(operation, kernel, attributes)
    solved = []
    for axis in axes:
        size = sizes[axis.index]
        if not axis.output_padding:
            solved.append(_count(axis, size, "diff_dst"))
            continue
        pads = axis.transposed_pads()
        steps = size - axis_from_size(1, axis.extent, axis.stride, sum(pads), axis.output_padding)
        if steps % axis.stride or steps < -axis.stride:
            raise axis.fail(
                f"no src gives a diff_dst of size {size} with output_padding"
                f" {axis.output_padding} ({axis.describe(pads)})"
            )
        solved.append((size, steps // axis.stride + 1, pads))
    return _geometry(axes, solved)


def solve_transposed_both(
    operation: str,
    sizes: tuple[int, ...],
    counts: tuple[int, ...],
    kernel: tuple[int, ...],
    attributes: Attributes,
) -> Geometry:
    """conv_transpose backward weights: src and diff_dst are given and must fit."""
    axes = _axes(operation, kernel, attributes)
    solved = []
    for axis in axes:
        size, count = sizes[axis.index], counts[axis.index]
        pads = axis.transposed_pads() if axis.output_padding else axis.convolution_pads(size)
        least = axis_from_size(count, axis.extent, axis.stride, sum(pads), axis.output_padding)
        # As native does, a tail shorter than the stride may stand without output_padding.
        most = least if axis.output_padding else least + axis.stride - 1
        if not least <= size <= most:
            expected = str(least) if least == most else f"{least} to {most}"
            raise axis.fail(
                f"src of size {count} gives diff_dst of size {expected}, got {size}"
                f" ({axis.describe(pads)}, output_padding {axis.output_padding})"
            )
        solved.append((size, count, pads))
    return _geometry(axes, solved)
