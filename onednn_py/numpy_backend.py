"""The NumPy backend: every operation as matrix products over strided views.

All six operations are three kernels in the roles of a convolution: correlate (src,
weights to dst), spread (dst, weights to src) and weigh (src, dst to weights). A
transposed convolution is the same with src and dst exchanged. Python loops run over
kernel taps and over blocks that bound the temporary memory, never over pixels,
channels or single images.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import accumulator
from .problem import Direction, Problem
from .rounding import round_into, sum_into_bias

__all__ = ["NumpyPlan"]

Array = npt.NDArray[Any]
Slices = tuple[slice, ...]

# Bytes of the gathered patches that one matrix product reads: small enough to stay near
# the caches' size, large enough that the product outweighs the Python around it.
BLOCK_BYTES = 16 * 2**20

# Output channels per group up to which a group with one input channel is computed by
# multiplying arrays: its matrix products would be too thin for BLAS.
THIN_GROUP = 4


@dataclass(frozen=True, slots=True)
class _Tap:
    """One kernel position: its index, and the windows and inputs that it joins."""

    index: tuple[int, ...]
    windows: Slices
    inputs: Slices


def _axis_taps(
    kernel: int, size: int, count: int, stride: int, dilation: int, pad_begin: int
) -> list[tuple[int, slice, slice]]:
    """For every kernel position of one axis that meets the input: windows and input elements.

    Computed with integers, so that pads and dilations of any size cost no memory.
    """
    taps = []
    for position in range(kernel):
        offset = position * dilation - pad_begin
        first = max(0, -(offset // stride))
        last = min(count - 1, (size - 1 - offset) // stride)
        if first <= last:
            start = first * stride + offset
            stop = last * stride + offset + 1
            taps.append((position, slice(first, last + 1), slice(start, stop, stride)))
    return taps


class NumpyPlan:
    """How NumPy computes one problem; holds shapes and slices, never arrays."""

    backend = "numpy"
    implementation = "numpy"

    def __init__(self, problem: Problem, reason: str = "") -> None:
        self.problem = problem
        self.reason = reason
        self._accumulator = accumulator(problem.dtype)
        if problem.transposed:
            self._inputs, self._outputs = problem.dst, problem.src
        else:
            self._inputs, self._outputs = problem.src, problem.dst
        self._taps = [] if problem.is_empty else self._all_taps()

    def _all_taps(self) -> list[_Tap]:
        problem = self.problem
        axes = [
            _axis_taps(*axis)
            for axis in zip(
                problem.kernel,
                self._inputs.shape[2:],
                self._outputs.shape[2:],
                problem.strides,
                problem.dilations,
                problem.pads_begin,
                strict=True,
            )
        ]
        return [
            _Tap(
                tuple(position for position, _, _ in combination),
                tuple(windows for _, windows, _ in combination),
                tuple(inputs for _, _, inputs in combination),
            )
            for combination in product(*axes)
        ]

    @property
    def nbytes(self) -> int:
        """Bytes that the plan itself keeps alive, roughly."""
        return 256 * len(self._taps)

    def __repr__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.problem.operation}: numpy{reason}, {len(self._taps)} kernel taps"

    @np.errstate(all="ignore")  # infinities are results here, as they are in oneDNN
    def execute(self, tensors: Mapping[str, Array]) -> None:
        """Compute the result from canonical views, in place of the result's elements.

        Parameters
        ----------
        tensors : mapping
            By role (src, weights, dst, bias), canonical views as in `Problem`; the
            result's elements, and the bias's of a weights gradient, are overwritten.
        """
        problem = self.problem
        if problem.transposed:
            inputs, outputs = tensors["dst"], tensors["src"]
            weights = tensors["weights"].swapaxes(1, 2)
        else:
            inputs, outputs = tensors["src"], tensors["dst"]
            weights = tensors["weights"]
        groups = problem.groups
        inputs, outputs = _grouped(inputs, groups), _grouped(outputs, groups)
        bias = tensors.get("bias")
        if problem.direction is Direction.BACKWARD_WEIGHTS:
            if bias is not None:
                sum_into_bias(bias, tensors["dst"])
            self._weigh(inputs, weights, outputs)
            return
        into_outputs = (problem.direction is Direction.FORWARD) != problem.transposed
        result = (
            self._correlate(inputs, weights, outputs.shape)
            if into_outputs
            else self._spread(inputs.shape, weights, outputs)
        )
        if bias is not None:
            spread = (1, groups, -1, *(1 for _ in problem.kernel))
            result += bias.astype(self._accumulator).reshape(spread)
        round_into(outputs if into_outputs else inputs, result)

    def _correlate(self, inputs: Array, weights: Array, shape: tuple[int, ...]) -> Array:
        """dst[n, g, o, x] = sum over taps and channels of weights * src."""
        inputs = self._work(inputs)
        result = np.zeros(shape, self._accumulator)
        if self._is_thin(weights):
            factors = self._work(weights)[:, :, 0]
            for tap in self._taps:
                factor = _spread_over(_tap_of(factors, tap), len(tap.index))
                result[_at(tap.windows)] += factor * inputs[_at(tap.inputs)]
            return result
        for images, taps in self._blocks(inputs, shape):
            matrix = self._matrix(weights, taps)
            patches = self._gather(inputs[images], taps, shape)
            block = matrix @ patches.reshape(*patches.shape[:2], matrix.shape[-1], -1)
            result[images] += block.reshape(-1, *shape[1:])
        return result

    def _spread(self, shape: tuple[int, ...], weights: Array, outputs: Array) -> Array:
        """src[n, g, c, s] = sum over taps and channels of weights * dst."""
        outputs = self._work(outputs)
        result = np.zeros(shape, self._accumulator)
        if self._is_thin(weights):
            factors = self._work(weights)[:, :, 0]
            for tap in self._taps:
                factor = _spread_over(_tap_of(factors, tap), len(tap.index))
                products = (factor * outputs[_at(tap.windows)]).sum(axis=2, keepdims=True)
                result[_at(tap.inputs)] += products
            return result
        for images, taps in self._blocks(result, outputs.shape):
            matrix = self._matrix(weights, taps).swapaxes(-1, -2)
            part = outputs[images]
            patches = matrix @ part.reshape(*part.shape[:3], -1)
            patches = patches.reshape(*part.shape[:2], len(taps), -1, *part.shape[3:])
            target = result[images]
            for number, tap in enumerate(taps):
                target[_at(tap.inputs)] += patches[:, :, number][_at(tap.windows)]
        return result

    def _weigh(self, inputs: Array, weights: Array, outputs: Array) -> None:
        """weights[g, o, c, k] = sum over images and windows of dst * src."""
        result = np.zeros(weights.shape, self._accumulator)
        inputs, outputs = self._work(inputs), self._work(outputs)
        if self._is_thin(weights):
            for tap in self._taps:
                left, right = outputs[_at(tap.windows)], inputs[_at(tap.inputs)][:, :, 0]
                shape = (*left.shape[:3], -1)
                sums = np.einsum(
                    "ngox,ngx->go", left.reshape(shape), right.reshape(*right.shape[:2], -1)
                )
                _tap_of(result, tap)[:, :, 0] = sums
        else:
            for images, taps in self._blocks(inputs, outputs.shape):
                part = outputs[images]
                # One product over all images: their windows stand side by side.
                left = part.transpose(1, 2, 0, *range(3, part.ndim))
                left = left.reshape(*left.shape[:2], -1)
                patches = self._gather(inputs[images], taps, outputs.shape, images_inside=True)
                right = patches.reshape(patches.shape[0], -1, left.shape[-1])
                sums = left @ right.swapaxes(-1, -2)
                sums = sums.reshape(*left.shape[:2], len(taps), -1)
                for number, tap in enumerate(taps):
                    target = _tap_of(result, tap)
                    target += sums[:, :, number]
        round_into(weights, result)

    def _is_thin(self, weights: Array) -> bool:
        groups, outputs, inputs = weights.shape[:3]
        return bool(inputs == 1 and outputs <= THIN_GROUP < groups)

    def _work(self, array: Array) -> Array:
        return array.astype(self._accumulator, copy=False)

    def _matrix(self, weights: Array, taps: list[_Tap]) -> Array:
        """Return the taps' weights as (G, O, taps * C), a copy in the accumulator's type."""
        stacked = np.stack([_tap_of(weights, tap) for tap in taps], axis=2)
        return self._work(stacked).reshape(*stacked.shape[:2], -1)

    def _blocks(
        self, inputs: Array, outputs: tuple[int, ...]
    ) -> Iterator[tuple[slice, list[_Tap]]]:
        """Split images and taps so that the patches of one block stay under BLOCK_BYTES."""
        minibatch, groups, channels = inputs.shape[:3]
        tap_bytes = groups * channels * prod(outputs[3:]) * self._accumulator.itemsize
        if not self._taps:
            return
        taps = max(1, min(len(self._taps), BLOCK_BYTES // tap_bytes))
        images = max(1, min(minibatch, BLOCK_BYTES // (tap_bytes * taps)))
        for first_image in range(0, minibatch, images):
            for first_tap in range(0, len(self._taps), taps):
                yield (
                    slice(first_image, first_image + images),
                    self._taps[first_tap : first_tap + taps],
                )

    def _gather(
        self,
        inputs: Array,
        taps: list[_Tap],
        outputs: tuple[int, ...],
        *,
        images_inside: bool = False,
    ) -> Array:
        """Copy what each tap reads into (N, G, taps, C, *X), or (G, taps, C, N, *X)."""
        minibatch, groups, channels = inputs.shape[:3]
        spatial = outputs[3:]
        if images_inside:
            patches = np.zeros((groups, len(taps), channels, minibatch, *spatial), inputs.dtype)
            by_image = patches.transpose(3, 0, 1, 2, *range(4, patches.ndim))
        else:
            patches = np.zeros((minibatch, groups, len(taps), channels, *spatial), inputs.dtype)
            by_image = patches
        for number, tap in enumerate(taps):
            by_image[:, :, number][_at(tap.windows)] = inputs[_at(tap.inputs)]
        return patches


def _grouped(array: Array, groups: int) -> Array:
    """(N, C, *spatial) to (N, G, C/G, *spatial), a view."""
    minibatch, channels, *spatial = array.shape
    return array.reshape(minibatch, groups, channels // groups, *spatial)


def _at(spatial: Slices) -> tuple[Any, ...]:
    return (..., *spatial)


def _tap_of(weights: Array, tap: _Tap) -> Array:
    where: tuple[Any, ...] = (..., *tap.index)
    found: Array = weights[where]
    return found


def _spread_over(factors: Array, axes: int) -> Array:
    """Append axes of one element, so that factors broadcast over the spatial axes."""
    return factors.reshape(*factors.shape, *(1,) * axes)
