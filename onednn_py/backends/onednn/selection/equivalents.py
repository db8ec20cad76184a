"""Equivalents: problems of the same arithmetic on the same memory, for which kernels are better.

oneDNN's depthwise kernels take planes, but no lines (v3.2): along a line there remain a matrix
product for each channel and kernels over blocks of 16 channels. A depthwise problem along a line is
reshaped to one in a plane of height 1.

A kernel as large as src, as in the last layer of a classifier, has one window for each image. Each
element of src meets each output once, as channels of a 1x1 kernel do: inputs and kernel positions
are reshaped to the inputs of such a kernel, where src and weights have them in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.problem.problem import Problem, TensorLayout

from .matmul import Axis, merged

__all__ = ["equivalent", "view_of"]

# Kernels count channels in 32 bits.
LARGEST_EXTENT = 2**31


def equivalent(problem: Problem, cpu_isa: str) -> Problem:
    """Return the problem that is planned in place of another, mostly the problem itself.

    Parameters
    ----------
    problem : Problem
    cpu_isa : str
        oneDNN's name of the CPU's instruction set. Only with AVX2 and no AVX-512 were kernels as
        large as src measured as 1x1 kernels; elsewhere they stay.

    Returns
    -------
    Problem
        Of a depthwise line of length L: one in planes of shape (1, L). Of a kernel as large as src
        of shape (N, I, *S): one with src (N, I * prod(S), 1), weights (1, O, I * prod(S), 1) and
        dst (N, O, 1); transposed with the roles of src and dst changed, inputs and outputs, too.
    """
    groups, outputs, inputs, *kernel = problem.weights.shape
    if groups == 1:
        return _of_whole_windows(problem) if "avx2" in cpu_isa else problem
    return _in_plane(problem) if len(kernel) == 1 and outputs == inputs == 1 else problem


def view_of(array: npt.NDArray[Any], layout: TensorLayout) -> npt.NDArray[Any]:
    """Return a view of a caller's tensor with the axes that it has in an equivalent problem."""
    if array.shape == layout.shape:
        return array
    strides = tuple(stride * array.itemsize for stride in layout.strides)
    return np.lib.stride_tricks.as_strided(array, layout.shape, strides)


def _in_plane(problem: Problem) -> Problem:
    return replace(
        problem,
        src=_raised(problem.src),
        weights=_raised(problem.weights),
        dst=_raised(problem.dst),
        strides=(1, *problem.strides),
        dilations=(1, *problem.dilations),
        pads_begin=(0, *problem.pads_begin),
        pads_end=(0, *problem.pads_end),
    )


def _raised(layout: TensorLayout) -> TensorLayout:
    """Return a layout with an axis of extent 1 before the last, which steps over a line."""
    (*outer, size), (*strides, step) = layout.shape, layout.strides
    return TensorLayout((*outer, 1, size), (*strides, size * step, step))


def _of_whole_windows(problem: Problem) -> Problem:
    """Return a problem whose kernel covers src as one of a 1x1 kernel, any other as it is."""
    kernel, covered = problem.kernel, problem.layouts[problem.stepped_role]
    if (
        covered.shape[2:] != kernel
        or max(kernel) == 1
        or any(problem.pads_begin)
        or any(problem.pads_end)
        or any(d > 1 and extent > 1 for d, extent in zip(problem.dilations, kernel, strict=True))
        # Each element of a transposed convolution's dst would have its channel's bias.
        or (problem.transposed and problem.bias is not None)
    ):
        return problem
    weights, channel = problem.weights, 1 if problem.transposed else 2
    order = sorted((1, *range(2, len(covered.shape))), key=lambda axis: -covered.strides[axis])
    inputs = merged(_axes(covered, order))
    columns = merged(_axes(weights, [channel if axis == 1 else axis + 1 for axis in order]))
    if inputs is None or columns is None or inputs[0] >= LARGEST_EXTENT:
        return problem
    other = problem.dst if covered is problem.src else problem.src
    axes = list(zip(weights.shape[:3], weights.strides[:3], strict=True))
    axes[channel] = columns
    changes: dict[str, Any] = {
        problem.stepped_role: _pixel(covered, inputs),
        "src" if problem.transposed else "dst": _pixel(other, (other.shape[1], other.strides[1])),
        "weights": _layout([*axes, (1, 1)]),
    }
    return replace(problem, strides=(1,), dilations=(1,), pads_begin=(0,), pads_end=(0,), **changes)


def _axes(layout: TensorLayout, order: Sequence[int]) -> list[Axis]:
    return [(layout.shape[axis], layout.strides[axis]) for axis in order]


def _pixel(layout: TensorLayout, channels: Axis) -> TensorLayout:
    """Return the layout of activations whose images are one pixel of these channels."""
    return _layout([(layout.shape[0], layout.strides[0]), channels, (1, 1)])


def _layout(axes: Sequence[Axis]) -> TensorLayout:
    return TensorLayout(tuple(n for n, _ in axes), tuple(stride for _, stride in axes))
