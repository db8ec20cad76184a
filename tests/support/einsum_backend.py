"""A backend of one page: every problem by einsum in float64, windows gathered whole."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from math import prod
from typing import Any

import numpy as np

from onednn_py import config
from onednn_py.backends import BACKENDS, register
from onednn_py.backends.base import PackedOperand, Plan, sequence
from onednn_py.problem.call_spec import SubProblem
from onednn_py.problem.problem import Direction, Problem
from onednn_py.system.casting import round_into

__all__ = ["EinsumBackend", "registered_einsum"]

MOST_PIXELS = 2**16


class EinsumPlan(Plan):
    backend = implementation = "einsum"

    def __init__(self, problem: Problem, *, only_bias: bool) -> None:
        self._problem, self._only_bias = problem, only_bias

    def __repr__(self) -> str:
        return f"{self._problem.operation}: einsum"

    def execute(
        self, tensors: Mapping[str, np.ndarray], packed: PackedOperand | None = None
    ) -> None:
        problem, inner = self._problem, self._problem.as_convolution()
        bias = tensors.get("bias")
        if problem.direction is Direction.BACKWARD_WEIGHTS and bias is not None:
            axes = (0, *range(2, tensors["dst"].ndim))
            round_into(bias, tensors["dst"].astype(np.float64).sum(axis=axes))
        if self._only_bias:
            return
        result = tensors[problem.result_role]
        # The result's memory holds anything, signalling NaNs among it.
        given = {**tensors, problem.result_role: np.zeros(result.shape)}
        computed = self._compute(inner, given)
        if bias is not None and problem.direction is Direction.FORWARD:
            computed = computed + bias.astype(np.float64).reshape(1, -1, *(1 for _ in inner.kernel))
        round_into(result, computed)

    def _compute(self, inner: Problem, tensors: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the result of the problem as a convolution, in the order of the problem."""
        exchanged = {"src": "dst", "dst": "src", "weights": "weights"}
        roles = exchanged if self._problem.transposed else {role: role for role in exchanged}
        groups, outputs, inputs, *kernel = inner.weights.shape
        images, _, *windows = inner.dst.shape
        pixels, positions = prod(windows), prod(kernel)
        given = {role: tensors[name].astype(np.float64) for role, name in roles.items()}
        if self._problem.transposed:
            given["weights"] = given["weights"].swapaxes(1, 2)
        weights = given["weights"].reshape(groups, outputs, inputs, positions)
        dst = given["dst"].reshape(images, groups, outputs, pixels)
        src, spans = self._padded(inner, given["src"])
        if inner.direction is Direction.BACKWARD_DATA:
            src[...] = 0
            patches = np.einsum("ngop,gock->ngcpk", dst, weights)
            for number, span in enumerate(spans):
                src[span] += patches[..., number].reshape(images, groups * inputs, *windows)
            return src[self._inside(inner)]
        shape = (images, groups, inputs, pixels)
        patches = np.stack([src[span].reshape(shape) for span in spans], axis=-1)
        if inner.direction is Direction.FORWARD:
            found = np.einsum("ngcpk,gock->ngop", patches, weights)
            return found.reshape(images, groups * outputs, *windows)
        found = np.einsum("ngcpk,ngop->gock", patches, dst)
        found = found.reshape(groups, outputs, inputs, *kernel)
        return found.swapaxes(1, 2) if self._problem.transposed else found

    @staticmethod
    def _inside(inner: Problem) -> tuple[Any, ...]:
        sizes = zip(inner.pads_begin, inner.src.shape[2:], strict=True)
        return (..., *(slice(begin, begin + size) for begin, size in sizes))

    @staticmethod
    def _padded(inner: Problem, src: np.ndarray) -> tuple[np.ndarray, list[Any]]:
        """Return src within zeros, and what each kernel position reads of it."""
        pads = zip(inner.pads_begin, (max(end, 0) for end in inner.pads_end), strict=True)
        padded = np.pad(src, [(0, 0), (0, 0), *pads])
        numbers = zip(inner.dst.shape[2:], inner.strides, inner.dilations, strict=True)
        axes = [
            [
                slice(k * dilation, k * dilation + (count - 1) * stride + 1, stride)
                for k in range(extent)
            ]
            for extent, (count, stride, dilation) in zip(inner.kernel, numbers, strict=True)
        ]
        return padded, [(..., *span) for span in product(*axes)]


class EinsumBackend:
    """Not for use: it shows what a backend has to have."""

    name = "einsum"

    def prepare(self) -> Hashable:
        return ()

    def supports(self, problem: Problem) -> str | None:
        if problem.is_empty:
            return "empty tensors"
        sizes = problem.as_convolution().src.shape[2:]
        pads = zip(sizes, problem.pads_begin, problem.pads_end, strict=True)
        if prod(size + begin + max(end, 0) for size, begin, end in pads) > MOST_PIXELS:
            return "windows that are gathered whole would take too much memory"
        return None

    def plan(self, sub_problems: tuple[SubProblem, ...], effort: str) -> Plan:
        plans = [EinsumPlan(one.problem, only_bias=one.only_bias) for one in sub_problems]
        return sequence(sub_problems, plans)


@contextmanager
def registered_einsum() -> Iterator[EinsumBackend]:
    """Let calls choose the backend inside the ``with`` block."""
    backend = EinsumBackend()
    register(backend)
    try:
        yield backend
    finally:
        config.BACKENDS.remove(backend.name)
        del BACKENDS[backend.name]
