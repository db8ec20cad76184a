"""Which part of the input a part of the result needs, for data that lie in parts.

Arithmetic alone, for programs that split a volume among processes (MPI, say) and exchange what
neighbours need. `onednn_py.dask` is built on it.

The functions deal with spatial axes alone. The minibatch needs no overlap, and a part of the
result's channels needs all channels of its groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .errors import AttributeValueError, ShapeError, brief
from .problem.arrays import TensorSpec
from .problem.attributes import parse_shape
from .problem.call_spec import call_spec
from .problem.geometry import effective_kernel
from .problem.operations import OPERATIONS, Operation
from .problem.problem import Direction
from .problem.progressions import first_and_last, least_natural
from .problem.recipe import Recipe

__all__ = ["InputPart", "SpatialAxis", "needed_part", "reached_part"]

Interval = tuple[int, int]


class InputPart(NamedTuple):
    """What a part of a result is computed from, one entry a spatial axis.

    Attributes
    ----------
    input : tuple of slice
        The part of the input that is needed, in elements of the whole input; empty along an axis
        where the part of the result lies in padding alone.
    result : tuple of slice
        The part of the result that the function gives, called on this part of the input with these
        pads, in elements of the whole result. The rest of what was asked for is zero, or the bias.
    pads_begin, pads_end : tuple of int
        For the call on the part, in place of the whole call's.
    """

    input: tuple[slice, ...]
    result: tuple[slice, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SpatialAxis:
    """A spatial axis of a convolution: windows that step over elements.

    Window x meets the elements ``x * stride + k * dilation - pad_begin`` for k from 0 to
    ``kernel - 1``. The elements are those of src of a convolution and of dst of a transposed one,
    the windows those of the other tensor.

    Attributes
    ----------
    size, count : int
        Numbers of elements and of windows.
    kernel, stride, dilation, pad_begin : int
    """

    size: int
    count: int
    kernel: int
    stride: int
    dilation: int
    pad_begin: int

    @property
    def extent(self) -> int:
        """Elements from a window's first to its last, both included."""
        return effective_kernel(self.kernel, self.dilation)

    def elements_of(self, windows: Interval) -> Interval:
        """Return the elements from the first to the last that some of the windows meet.

        Parameters
        ----------
        windows : (int, int)
            The first window, and the first that no longer belongs.

        Returns
        -------
        (int, int)
            Likewise; (0, 0) if the windows meet padding alone.
        """
        return self.meeting((0, self.size), windows)[0]

    def windows_of(self, elements: Interval) -> Interval:
        """Return the windows from the first to the last that meet some of the elements.

        Parameters and result are as those of `elements_of`.
        """
        return self.meeting(elements, (0, self.count))[1]

    def meeting(self, elements: Interval, windows: Interval) -> tuple[Interval, Interval]:
        """Return which of the elements and which of the windows meet, both (0, 0) if none do."""
        kernel, stride, dilation = int(self.kernel), int(self.stride), int(self.dilation)
        begin, size = int(elements[0]), int(elements[1]) - int(elements[0])
        earliest, count = int(windows[0]), int(windows[1]) - int(windows[0])
        # What the first window's first kernel position meets, as seen from the first element.
        start = earliest * stride - int(self.pad_begin) - begin
        met = first_and_last(start, stride, count, dilation, kernel, size)
        if met is None:
            return (0, 0), (0, 0)
        low = least_natural(start, dilation, kernel, stride, count)
        # Seen backwards from the last element, the highest is the lowest.
        end = size - 1 - start - (count - 1) * stride - (kernel - 1) * dilation
        high = size - 1 - least_natural(end, dilation, kernel, stride, count)
        return (begin + low, begin + high + 1), (earliest + met[0], earliest + met[1] + 1)

    def pads(self, elements: Interval, windows: Interval) -> tuple[int, int]:
        """Return the pads with which a convolution of these elements has these windows.

        Never negative for what `meeting` returns.
        """
        begin = elements[0] - (windows[0] * self.stride - self.pad_begin)
        end = (windows[1] - 1) * self.stride - self.pad_begin + self.extent - elements[1]
        return begin, end


def spatial_axes(recipe: Recipe) -> tuple[SpatialAxis, ...]:
    """Return the spatial axes of a checked call of one operation."""
    geometry, attributes = recipe.geometry, recipe.attributes
    kernel = recipe.views["weights"].canonical_shape[3:]
    numbers = zip(
        geometry.sizes, geometry.counts, kernel, attributes.strides, attributes.dilations,
        geometry.pads_begin, strict=True,
    )  # fmt: skip
    return tuple(SpatialAxis(*numbers_of_axis) for numbers_of_axis in numbers)


def needed_part(
    function: str,
    part: Sequence[slice],
    *shapes: Sequence[int],
    **attributes: Any,
) -> InputPart:
    """Return which part of the input a part of the result needs, and the pads of the call on it.

    Parameters
    ----------
    function : str
        Name of a forward function or of a gradient, such as ``"convolution_backward_data"``.
    part : sequence of slice
        Of the result, one a spatial axis, without steps. A weights gradient is a sum over windows:
        there the part is of diff_dst (of src for the transposed one), and the input part is of src
        (of diff_dst for the transposed one).
    *shapes : sequence of int
        The whole arrays' shapes in place of the function's positional arguments:
        ``src_shape, weights_shape`` of ``convolution``.
    **attributes
        Of the function.

    Returns
    -------
    InputPart

    Raises
    ------
    ShapeError, AttributeValueError
        As the function does, and for a part that is not a slice without a step for each spatial
        axis.

    Examples
    --------
    >>> from onednn_py.overlap import needed_part
    >>> src, weights = (1, 8, 3), (3, 3, 5)
    >>> part = needed_part("convolution", [slice(0, 4)], src, weights, pads_begin=1, pads_end=1)
    >>> part.input, part.pads_begin, part.pads_end
    ((slice(0, 5, None),), (1,), (0,))
    """
    recipe = _recipe(function, shapes, attributes)
    gathers, result_sizes, _ = _sides(recipe)
    axes = spatial_axes(recipe)
    found = []
    for axis, interval in zip(axes, _intervals(function, part, result_sizes), strict=True):
        found.append(needed_of_axis(axis, interval, gathers=gathers))
    return InputPart(
        tuple(slice(*input_part) for input_part, _, _ in found),
        tuple(slice(*result) for _, result, _ in found),
        tuple(pads[0] for _, _, pads in found),
        tuple(pads[1] for _, _, pads in found),
    )


def needed_of_axis(
    axis: SpatialAxis, part: Interval, *, gathers: bool
) -> tuple[Interval, Interval, tuple[int, int]]:
    """Return `needed_part` along one axis: parts of the input and of the result, and the pads.

    Parameters
    ----------
    axis : SpatialAxis
    part : (int, int)
        Of the windows if the function gathers, otherwise of the elements.
    gathers : bool
        Whether windows are computed from elements, as by ``convolution``, or elements from windows,
        as by `conv_transpose`.
    """
    if gathers:
        elements, _ = axis.meeting((0, axis.size), part)
        if elements[0] == elements[1]:
            return (0, 0), (part[0], part[0]), (0, 0)
        return elements, part, axis.pads(elements, part)
    elements, windows = axis.meeting(part, (0, axis.count))
    if windows[0] == windows[1]:
        return (0, 0), (part[0], part[0]), (0, 0)
    return windows, elements, axis.pads(elements, windows)


def reached_part(
    function: str,
    part: Sequence[slice],
    *shapes: Sequence[int],
    **attributes: Any,
) -> tuple[slice, ...]:
    """Return the part of the result to which a part of the input contributes.

    Parameters
    ----------
    function, *shapes, **attributes
        As those of `needed_part`.
    part : sequence of slice
        Of the input, one a spatial axis, without steps; of a weights gradient, of src (of diff_dst
        for the transposed one).

    Returns
    -------
    tuple of slice
        One a spatial axis, empty where the part reaches nothing.

    Raises
    ------
    ShapeError, AttributeValueError
        As `needed_part` does.

    Examples
    --------
    >>> from onednn_py.overlap import reached_part
    >>> reached_part("conv_transpose", [slice(2, 4)], (1, 8, 3), (3, 5, 3), strides=2)
    (slice(4, 9, None),)
    """
    recipe = _recipe(function, shapes, attributes)
    gathers, _, input_sizes = _sides(recipe)
    parts = _intervals(function, part, input_sizes)
    return tuple(
        slice(*(axis.windows_of(interval) if gathers else axis.elements_of(interval)))
        for axis, interval in zip(spatial_axes(recipe), parts, strict=True)
    )


def _recipe(function: str, shapes: Sequence[Any], attributes: dict[str, Any]) -> Recipe:
    operation = OPERATIONS.get(function) if isinstance(function, str) else None
    if not isinstance(operation, Operation):
        names = [name for name, one in OPERATIONS.items() if isinstance(one, Operation)]
        raise AttributeValueError(
            f"function: expected one of {', '.join(names)}; got {brief(function)}"
        )
    # The bias has no spatial axis.
    tensors = [tensor for tensor in operation.tensors if tensor != "bias"]
    most = len(tensors) + (operation.shape_argument is not None)
    if not len(tensors) <= len(shapes) <= most:
        expected = ", ".join([*tensors, *filter(None, [operation.shape_argument])])
        raise ShapeError(f"{function}: expected the shapes of {expected}; got {len(shapes)}")
    arguments = dict(attributes)
    for tensor, shape in zip(tensors, shapes, strict=False):
        parsed = parse_shape(function, f"{tensor}_shape", shape)
        arguments[tensor] = TensorSpec(parsed, np.float32)
    if len(shapes) == most and operation.shape_argument:
        arguments[operation.shape_argument] = shapes[-1]
    return call_spec(function, arguments).recipes[0].recipe


def _sides(recipe: Recipe) -> tuple[bool, tuple[int, ...], tuple[int, ...]]:
    """Return whether windows are computed from elements, and the sizes of result and input."""
    geometry, operation = recipe.geometry, recipe.operation
    backward = operation.direction is Direction.BACKWARD_DATA
    if operation.direction is Direction.BACKWARD_WEIGHTS or operation.transposed == backward:
        return True, geometry.counts, geometry.sizes
    return False, geometry.sizes, geometry.counts


def _intervals(function: str, part: Sequence[slice], sizes: tuple[int, ...]) -> list[Interval]:
    is_list = isinstance(part, (tuple, list)) and len(part) == len(sizes)
    if not is_list or not all(isinstance(one, slice) for one in part):
        raise AttributeValueError(
            f"{function}: part: expected {len(sizes)} slices, one per spatial axis;"
            f" got {brief(part)}"
        )
    found = []
    for axis, (one, size) in enumerate(zip(part, sizes, strict=True)):
        try:
            start, stop, step = one.indices(size)
        except TypeError:
            step = 0
        if step != 1:
            raise AttributeValueError(
                f"{function}: part[{axis}]: expected a slice of integers without a step,"
                f" got {brief(one)}"
            )
        found.append((start, max(start, stop)))
    return found
