"""The plan of the NumPy backend: which method computes a problem, and with which steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.backends.base import PackedOperand, Plan
from onednn_py.problem.dtypes import DATA_TYPES
from onednn_py.problem.problem import Direction, Problem
from onednn_py.system import blas_threads
from onednn_py.system.parallel import current_threads, each
from onednn_py.system.sums import sum_into_bias

from . import col2im
from .channelwise import Channelwise, channelwise_gradient, is_thin
from .correlation import Correlation, correlations
from .gradient import products_gradient
from .meetings import meetings
from .products import CorrelationMethod, Im2col, Kn2row
from .workspace import Workspace, borrowed_workspace

__all__ = ["NumPyPlan"]

Array = npt.NDArray[Any]


class NumPyPlan(Plan):
    """How NumPy computes one problem; holds shapes and steps, never arrays."""

    backend = "numpy"
    implementation = "numpy"

    def __init__(self, problem: Problem, reason: str = "") -> None:
        self.problem = problem
        self._reason = reason
        # A transposed convolution is a convolution with src and dst exchanged.
        self._convolution = problem.as_convolution()
        self._correlations: list[Correlation] = []
        self._meetings = meetings(self._convolution)
        self._takes_col2im = not problem.is_empty and col2im.pays(self._convolution, self._meetings)
        if not problem.is_empty and not self._takes_col2im:
            self._correlations = correlations(self._convolution)

    @property
    def nbytes(self) -> int:
        """Bytes that the plan itself keeps alive, roughly."""
        return 1024 * (1 + len(self._correlations))

    def __repr__(self) -> str:
        reason = f" ({self._reason})" if self._reason else ""
        positions = sum(prod(correlation.kernel_shape) for correlation in self._correlations)
        if self._takes_col2im:
            positions = prod(len(axis.kernel) for axis in self._meetings)
        return f"{self.problem.operation}: numpy{reason}, {positions} kernel positions"

    def execute(self, tensors: Mapping[str, Array], packed: PackedOperand | None = None) -> None:
        """Compute the result from canonical views, and write it into its own view.

        Parameters
        ----------
        tensors : mapping
            By role (src, weights, dst, bias), canonical views as in `Problem`; the
            result's elements, and the bias's of a weights gradient, are overwritten.
        """
        src, dst, weights = tensors["src"], tensors["dst"], tensors["weights"]
        if self.problem.transposed:
            src, dst, weights = dst, src, weights.swapaxes(1, 2)
        groups, bias = self.problem.groups, tensors.get("bias")
        src, dst = _grouped(src, groups), _grouped(dst, groups)
        dtype = DATA_TYPES[self.problem.dtype].accumulator
        with (
            # Infinities are results here, as they are in oneDNN.
            np.errstate(all="ignore"),
            borrowed_workspace(dtype, current_threads()) as workspace,
            blas_threads.limited(1),
        ):
            direction = self._convolution.direction
            if direction is Direction.BACKWARD_WEIGHTS:
                if bias is not None:
                    sum_into_bias(bias, tensors["dst"])
                self._weights_gradient(src, dst, weights, workspace)
                return
            if bias is not None:
                bias = bias.astype(dtype).reshape(groups, -1)
            if direction is Direction.FORWARD:
                self._correlate(src, weights, dst, bias, workspace)
                return
            weights = weights.swapaxes(1, 2)
            if self._takes_col2im:
                method = col2im.Col2im(self._meetings, dst, weights, src, bias, workspace)
                each(lambda call: call(), method.calls(), workspace.threads)
            else:
                self._correlate(dst, weights, src, bias, workspace)

    def _correlate(
        self, source: Array, weights: Array, target: Array, bias: Array | None, workspace: Workspace
    ) -> None:
        covered = sum(prod(correlation.target_shape) for correlation in self._correlations)
        if covered < prod(target.shape[3:]):
            fill = 0 if bias is None else bias.reshape(*bias.shape, *(1,) * (target.ndim - 3))
            target[...] = fill
        calls: list[Callable[[], None]] = []
        for correlation in self._correlations:
            method = _method(correlation, source, weights, target)
            calls += method(correlation, source, weights, target, bias, workspace).calls()
        each(lambda call: call(), calls, workspace.threads)

    def _weights_gradient(
        self, src: Array, dst: Array, weights: Array, workspace: Workspace
    ) -> None:
        covered = sum(prod(correlation.kernel_shape) for correlation in self._correlations)
        if covered < prod(weights.shape[3:]):
            weights[...] = 0
        gradient = channelwise_gradient if is_thin(weights) else products_gradient
        for correlation in self._correlations:
            gradient(correlation, src, dst, weights, workspace)


def _method(
    correlation: Correlation, source: Array, weights: Array, target: Array
) -> type[CorrelationMethod]:
    if is_thin(weights):
        return Channelwise
    return Kn2row if Kn2row.pays(correlation, source, target) else Im2col


def _grouped(array: Array, groups: int) -> Array:
    """Return a view (N, G, C/G, *spatial) of (N, C, *spatial)."""
    minibatch, channels, *spatial = array.shape
    return array.reshape(minibatch, groups, channels // groups, *spatial)
