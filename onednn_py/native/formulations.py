"""Formulations: other problems with the same result, for what oneDNN cannot run as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from ..problem import Direction, Problem, TensorLayout
from ..rounding import sum_into_bias

__all__ = ["Formulation", "formulate"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Formulation:
    """The problem that the primitive computes, and how it relates to the one that was asked.

    Attributes
    ----------
    asked, problem : Problem
    roles : dict
        For each role of ``problem``, the role of the tensor in ``asked``.
    tail : tuple of int
        For each spatial axis, elements at the end of the side that strides step over
        which no window touches and which oneDNN would not accept.
    bias_apart : bool
        Whether the bias gradient is summed outside the primitive.
    """

    asked: Problem
    problem: Problem
    roles: dict[str, str]
    tail: tuple[int, ...]
    bias_apart: bool

    def prepare(self, tensors: Mapping[str, Array]) -> None:
        """Do the part of the work that the primitive does not."""
        asked = self.asked
        if self.bias_apart:
            sum_into_bias(tensors["bias"], tensors["dst"])
        if any(self.tail) and asked.result_name == _stepped(asked):
            result, bias = tensors[asked.result_name], tensors.get("bias")
            fill: Any = 0
            if bias is not None:
                fill = bias.reshape(1, -1, *(1 for _ in asked.kernel))
            for axis, tail in enumerate(self.tail):
                if tail:
                    where = (slice(None),) * (axis + 2) + (slice(-tail, None),)
                    result[where] = fill

    def operands(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Return the views of ``problem``, given those of ``asked``; both by role."""
        operands = {}
        for role, asked_role in self.roles.items():
            layout = getattr(self.problem, role)
            if layout is None:
                continue
            array = tensors[asked_role]
            if role == "weights" and self.problem.transposed != self.asked.transposed:
                array = array.swapaxes(1, 2)
            if array.shape != layout.shape:
                array = array[tuple(slice(extent) for extent in layout.shape)]
            operands[role] = array
        return operands


def _stepped(problem: Problem) -> str:
    """Role of the tensor that strides step over."""
    return "dst" if problem.transposed else "src"


def formulate(asked: Problem, compute_dtype: str, *, as_convolution: bool) -> Formulation:
    """Return ``asked`` in a form that oneDNN's primitives take.

    A tail of a whole stride or more (output_padding >= stride, which dilation allows) is
    cut off: oneDNN wants ``pads_end > -stride``. Tensors of another data type become
    dense ones of ``compute_dtype``.
    """
    problem = asked
    tail = tuple(
        -end if end <= -stride else 0
        for end, stride in zip(asked.pads_end, asked.strides, strict=True)
    )
    bias_apart = False
    if any(tail):
        stepped = _stepped(asked)
        layout: TensorLayout = getattr(asked, stepped)
        minibatch, channels, *spatial = layout.shape
        shape = (minibatch, channels, *(s - t for s, t in zip(spatial, tail, strict=True)))
        ends = tuple(0 if t else end for t, end in zip(tail, asked.pads_end, strict=True))
        cut: dict[str, Any] = {stepped: TensorLayout(shape, layout.strides), "pads_end": ends}
        problem = replace(problem, **cut)
        # A transposed weights gradient's bias sums all of dst, the tail too.
        bias_apart = asked.direction is Direction.BACKWARD_WEIGHTS and asked.transposed
    roles = {"src": "src", "weights": "weights", "dst": "dst", "bias": "bias"}
    if as_convolution and asked.transposed:
        problem = problem.as_convolution()
        roles = {"src": "dst", "weights": "weights", "dst": "src"}
        bias_apart = True
    bias_apart = bias_apart and asked.bias is not None
    if bias_apart:
        problem = replace(problem, bias=None)
    if compute_dtype != asked.dtype:
        dense = {
            role: layout.dense()
            for role in ("src", "weights", "dst", "bias")
            if (layout := getattr(problem, role)) is not None
        }
        problem = replace(problem, dtype=compute_dtype, **dense)
    return Formulation(asked, problem, roles, tail, bias_apart)
