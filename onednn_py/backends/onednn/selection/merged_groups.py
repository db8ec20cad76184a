"""Groups of few channels, merged into larger groups whose weights are zero between the groups.

oneDNN's kernels of AVX2 want whole registers of channels in each group. Where groups have fewer,
there remains a matrix product for each group and image, which mostly takes longer than kernels that
multiply by some zeros as well. The weights, or their gradient, are the blocks on the diagonal of
those of the larger groups.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.problem.problem import Problem, TensorLayout

__all__ = ["blocks", "by_merged_group", "merged", "number_to_merge"]

Array = npt.NDArray[Any]

# Channels of a register of AVX2.
CHANNEL_BLOCK = 8

# With so many groups merged, one product in so many is of a group's own channels. The others are
# with zeros.
MOST_MERGED = 8


def number_to_merge(problem: Problem) -> int:
    """Return how many groups make one whose channels fill registers, or all of few groups.

    Returns
    -------
    int
        1 where groups are not worth merging: depthwise, or of channels that fill registers.
    """
    groups, outputs, inputs = problem.weights.shape[:3]
    if outputs * inputs == 1 or not (outputs % CHANNEL_BLOCK or inputs % CHANNEL_BLOCK):
        return 1
    for number in range(2, min(groups, MOST_MERGED) + 1):
        has_whole_blocks = not (number * outputs % CHANNEL_BLOCK or number * inputs % CHANNEL_BLOCK)
        if groups % number == 0 and (has_whole_blocks or number == groups):
            return number
    return 1


def merged(problem: Problem, number: int) -> Problem:
    """Return a problem with so many groups merged into one, on dense weights."""
    groups, outputs, inputs, *kernel = problem.weights.shape
    shape = (groups // number, number * outputs, number * inputs, *kernel)
    return replace(problem, weights=TensorLayout(shape, problem.weights.strides).dense())


def blocks(weights: Array, number: int) -> Array:
    """Return a view of the blocks on the diagonal of merged groups' weights.

    Parameters
    ----------
    weights : ndarray
        Of shape (G / number, number * O, number * I, *kernel).
    number : int

    Returns
    -------
    ndarray
        Of shape (G / number, number, O, I, *kernel).
    """
    groups, outputs, inputs, *kernel = weights.shape
    apart = (groups, number, outputs // number, number, inputs // number, *kernel)
    view: Array = np.einsum("gmomi...->gmoi...", weights.reshape(apart))
    return view


def by_merged_group(weights: Array, number: int) -> Array:
    """Return a view of weights of shape (G, O, I, *kernel) in the shape that `blocks` has."""
    return weights.reshape(-1, number, *weights.shape[1:])
