"""Weights gradients with zeros beside the channels of diff_dst, for loads of whole registers.

oneDNN's kernels of AVX2 read diff_dst with channels last 4 or 8 channels at a time. They must not
read fewer (see `weights_defects.stale_lanes`), and what remains is a matrix product for each image,
which takes 2 to 6 times as long. A copy of diff_dst with zeros beside its channels gives these
kernels whole loads. The gradient of the added channels is left behind.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy.typing as npt

from onednn_py.backends.onednn.binding.engine import Engine
from onednn_py.problem.problem import Direction, Problem, TensorLayout
from onednn_py.system.casting import widen_into

from .defects import forbidden
from .weights_defects import AVX2_CLEARING

__all__ = ["copy_beside_zeros", "is_worth_padding", "padded"]

Array = npt.NDArray[Any]

# Channels of the shorter of both loads that clear the rest of a register.
LOADED_CHANNELS = max(AVX2_CLEARING)

# Up to so many channels are copied one by one: NumPy's loops go along the pixels then.
COPIED_ONE_BY_ONE = 8


def padded(problem: Problem) -> Problem | None:
    """Return a weights gradient with channels added to dst, None where none are missing.

    Parameters
    ----------
    problem : Problem
        In the roles of a convolution, in one group.

    Returns
    -------
    Problem or None
        On a dense dst with channels last and dense weights, and a dense bias if there is one.
    """
    if problem.direction is not Direction.BACKWARD_WEIGHTS or problem.groups > 1:
        return None
    outputs = problem.dst.shape[1]
    added = -outputs % LOADED_CHANNELS
    if not added:
        return None
    changes: dict[str, Any] = {
        "dst": _with_channels(problem.dst, outputs + added).with_channels("nxc"),
        "weights": _with_channels(problem.weights, outputs + added).dense(),
    }
    if problem.bias is not None:
        changes["bias"] = TensorLayout((outputs + added,), (1,))
    return replace(problem, **changes)


def is_worth_padding(engine: Engine, problem: Problem) -> bool:
    """Whether the kernels of AVX2 are this CPU's best, and must not read these channels."""
    library = engine.library
    inner = problem.as_convolution()
    last = replace(inner, dst=inner.dst.with_channels("nxc"))
    return "avx512" not in library.cpu_isa and bool(forbidden("jit:avx2", last, library.version))


def copy_beside_zeros(target: Array, values: Array) -> None:
    """Write ``values`` into a copy that has more channels, which become zero.

    Parameters
    ----------
    target, values : ndarray
        Of shapes (N, C, *spatial).
    """
    channels = values.shape[1]
    for channel in range(channels, target.shape[1]):
        target[:, channel] = 0
    if channels <= COPIED_ONE_BY_ONE:
        for channel in range(channels):
            widen_into(target[:, channel], values[:, channel])
    else:
        widen_into(target[:, :channels], values)


def _with_channels(layout: TensorLayout, channels: int) -> TensorLayout:
    """Return a layout of another number of channels, whose strides are not valid any more."""
    return TensorLayout((layout.shape[0], channels, *layout.shape[2:]), layout.strides)
