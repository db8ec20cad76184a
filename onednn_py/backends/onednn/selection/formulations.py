"""Formulations: other problems with the same result, for speed and for what oneDNN refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from onednn_py.problem.arrays import DTYPES
from onednn_py.problem.problem import Direction, Problem, TensorLayout
from onednn_py.system.casting import sum_into_bias

from .chunks import ROLES, Piece, cut_up

__all__ = ["FORMULATIONS", "Formulation", "formulate"]

Array = npt.NDArray[Any]

# direct: the family's own primitive. exchanged: a transposed problem on the convolution
# primitives, src and dst exchanged. sliced: a 1x1 kernel with strides, transposed or not,
# as a convolution without them on every stride-th element.
FORMULATIONS = ("direct", "exchanged", "sliced")


@dataclass(frozen=True, slots=True)
class Formulation:
    """The problem that the primitive computes, and how it relates to the one that was asked.

    Attributes
    ----------
    asked, problem : Problem
    pieces : tuple of Piece
        What the executions of the primitives compute: ``problem``, or all parts of it.
    kinds : tuple of Problem
        The different problems among the pieces, each of which has a primitive.
    cut_roles : frozenset of str
        Roles of ``problem`` whose tensors each piece has its own part of.
    roles : dict
        For each role of ``problem``, the role of the tensor in ``asked``.
    window : tuple of slice
        For each spatial axis, what the primitive sees of the side that strides step over.
        It begins at the first element, so that addresses stay what they are.
    bias_apart : bool
        Whether the bias gradient is summed outside the primitive.
    """

    asked: Problem
    problem: Problem
    pieces: tuple[Piece, ...]
    kinds: tuple[Problem, ...]
    cut_roles: frozenset[str]
    roles: dict[str, str]
    window: tuple[slice, ...]
    bias_apart: bool

    @property
    def present(self) -> list[str]:
        """Roles that the problem asked for has."""
        roles = ("src", "weights", "dst", "bias")
        return [role for role in roles if getattr(self.asked, role) is not None]

    @property
    def is_partial(self) -> bool:
        """Whether the primitive leaves elements of the result unwritten."""
        stepped = _stepped(self.asked)
        if self.asked.result_name != stepped:
            return False
        layout: TensorLayout = getattr(self.asked, stepped)
        sizes = layout.shape[2:]
        return any(s.indices(n) != (0, n, 1) for s, n in zip(self.window, sizes, strict=True))

    @property
    def needs_preparation(self) -> bool:
        return self.bias_apart or self.is_partial

    def dtype(self, role: str) -> str:
        """Data type of what the primitive reads or writes.

        Sums that pieces add up are stored between them, which bfloat16 would round.
        """
        return "f32" if self.is_sum(role) else self.problem.dtype

    def is_sum(self, role: str) -> bool:
        """Whether pieces add up what they write."""
        is_result = role == self.problem.result_name or (
            role == "bias" and self.problem.direction is Direction.BACKWARD_WEIGHTS
        )
        return is_result and len(self.pieces) > 1 and role not in self.cut_roles

    def offset(self, role: str, number: int) -> int:
        """Bytes from the first element of a tensor of ``problem`` to that of a piece."""
        layout: TensorLayout = getattr(self.problem, role)
        begin = self.pieces[number].begins[role]
        elements = sum(b * stride for b, stride in zip(begin, layout.strides, strict=True))
        return elements * DTYPES[self.problem.dtype].itemsize

    def prepare(self, tensors: Mapping[str, Array]) -> None:
        """Do the part of the work that the primitive does not."""
        asked = self.asked
        if self.bias_apart:
            sum_into_bias(tensors["bias"], tensors["dst"])
        if not self.is_partial:
            return
        result, bias = tensors[asked.result_name], tensors.get("bias")
        fill: Any = 0
        if bias is not None:
            fill = bias.reshape(1, -1, *(1 for _ in asked.kernel))
        if any(step.step not in (None, 1) for step in self.window):
            result[...] = fill
            return
        for axis, step in enumerate(self.window):
            where = (slice(None),) * (axis + 2) + (slice(step.stop, None),)
            result[where] = fill

    def seen(self, role: str, array: Array) -> Array:
        """Return what the primitive sees of a tensor of ``asked``, by the role in ``problem``."""
        if role == "weights" and self.problem.transposed != self.asked.transposed:
            return array.swapaxes(1, 2)
        if self.roles[role] == _stepped(self.asked):
            return array[(slice(None), slice(None), *self.window)]
        return array


def _stepped(problem: Problem) -> str:
    """Role of the tensor that strides step over."""
    return "dst" if problem.transposed else "src"


def _window(asked: Problem, formulation: str) -> tuple[slice, ...] | None:
    """Return what the primitive sees of the stepped side, None if the formulation does not apply.

    A tail of a whole stride or more (output_padding >= stride, which dilation allows) is
    cut off: oneDNN wants ``pads_end > -stride``.
    """
    layout: TensorLayout = getattr(asked, _stepped(asked))
    sizes = layout.shape[2:]
    if formulation != "sliced":
        return tuple(
            slice(0, size + end if end <= -stride else size)
            for size, end, stride in zip(sizes, asked.pads_end, asked.strides, strict=True)
        )
    sliceable = (
        all(extent == 1 for extent in asked.kernel)
        and any(stride > 1 for stride in asked.strides)
        and not any(asked.pads_begin)
        and all(end <= 0 for end in asked.pads_end)
    )
    if not sliceable:
        return None
    return tuple(
        slice(0, size + end, stride)
        for size, end, stride in zip(sizes, asked.pads_end, asked.strides, strict=True)
    )


def _seen(layout: TensorLayout, window: tuple[slice, ...]) -> TensorLayout:
    steps = [step.indices(size) for step, size in zip(window, layout.shape[2:], strict=True)]
    counts = [len(range(*step)) for step in steps]
    strides = [s * step for s, (_, _, step) in zip(layout.strides[2:], steps, strict=True)]
    return TensorLayout((*layout.shape[:2], *counts), (*layout.strides[:2], *strides))


def _dense(problem: Problem, dtype: str) -> Problem:
    """Return a problem of another data type on copies without gaps."""
    layouts = {
        role: layout.dense() for role in ROLES if (layout := getattr(problem, role)) is not None
    }
    return replace(problem, dtype=dtype, **layouts)


def formulate(
    asked: Problem,
    compute_dtype: str,
    formulation: str = "direct",
    pieces: int = 1,
    cut: str = "images",
) -> Formulation | None:
    """Return ``asked`` in a form that oneDNN's primitives take, None if there is no such form.

    Parameters
    ----------
    asked : Problem
    compute_dtype : str
        Tensors of another data type become dense ones of this type.
    formulation : str
        One of `FORMULATIONS`.
    pieces, cut
        As in `Choice`.
    """
    window = _window(asked, formulation)
    if window is None:
        return None
    exchange = asked.transposed and formulation != "direct"
    if exchange and asked.result_name == "dst" and asked.bias is not None:
        return None  # the bias belongs to what would be a convolution's src
    if formulation == "exchanged" and not exchange:
        return None
    stepped = _stepped(asked)
    layout: TensorLayout = getattr(asked, stepped)
    seen = _seen(layout, window)
    if compute_dtype == asked.dtype and not seen.is_nested:
        return None  # every second element of an odd number of them, for one
    changes: dict[str, Any] = {stepped: seen}
    if formulation == "sliced":
        ones, none = (1,) * len(window), (0,) * len(window)
        changes |= {"strides": ones, "dilations": ones, "pads_begin": none, "pads_end": none}
    else:
        sizes = layout.shape[2:]
        changes["pads_end"] = tuple(
            end + size - step.stop
            for end, size, step in zip(asked.pads_end, sizes, window, strict=True)
        )
    is_shortened = changes[stepped].shape != layout.shape
    problem = replace(asked, **changes)
    roles = {"src": "src", "weights": "weights", "dst": "dst", "bias": "bias"}
    # A transposed weights gradient's bias sums all of dst, the tail too, and every row once; no
    # weights gradient's has src's channels.
    is_sum = asked.direction is Direction.BACKWARD_WEIGHTS
    has_shared_rows = asked.transposed and cut == "rows"
    has_others_channels = (
        cut == "channels" and asked.groups == 1 and asked.src.size > asked.dst.size
    )
    bias_apart = is_sum and pieces > 1 and (has_shared_rows or has_others_channels)
    bias_apart |= is_sum and asked.transposed and is_shortened
    if exchange:
        problem = problem.as_convolution()
        roles = {"src": "dst", "weights": "weights", "dst": "src"}
        bias_apart = True
    bias_apart = bias_apart and asked.bias is not None
    if bias_apart:
        problem = replace(problem, bias=None)
    made = cut_up(problem, cut, pieces)
    if made is None:
        return None
    if compute_dtype != asked.dtype:
        # Copies of a piece alone, which the others are not to leave gaps in.
        made = tuple(replace(one, problem=_dense(one.problem, compute_dtype)) for one in made)
        problem = _dense(problem, compute_dtype)
    kinds = tuple(dict.fromkeys(piece.problem for piece in made))
    cut_roles = frozenset(
        role
        for role in ROLES
        if (whole := getattr(problem, role)) is not None
        and any(getattr(kind, role).shape != whole.shape for kind in kinds)
    )
    return Formulation(asked, problem, made, kinds, cut_roles, roles, window, bias_apart)
