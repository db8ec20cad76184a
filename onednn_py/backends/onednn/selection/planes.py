"""Planes: a depthwise problem along a line as a problem in a plane of height 1.

oneDNN's depthwise kernels take planes and volumes, but no lines (v3.2): along a line there remain
a matrix product for each channel and kernels over blocks of 16 channels. The elements are the
same, in the same places.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.problem.problem import Problem, TensorLayout

__all__ = ["in_plane", "view_in_plane"]


def in_plane(problem: Problem) -> Problem:
    """Return a depthwise problem along a line in a plane, any other problem as it is."""
    groups, outputs, inputs, *kernel = problem.weights.shape
    if len(kernel) != 1 or (outputs, inputs) != (1, 1) or groups == 1:
        return problem
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


def view_in_plane(array: npt.NDArray[Any], layout: TensorLayout) -> npt.NDArray[Any]:
    """Return a caller's tensor with as many axes as its layout, one more if that is in a plane."""
    return array if array.ndim == len(layout.shape) else np.expand_dims(array, -2)
