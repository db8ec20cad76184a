"""What is computed (Problem) and how (Choice): two frozen values, hashable as they are.

Tensors are described in one canonical axis order, whatever the caller's format was:
activations (N, C, *spatial), weights (G, O/G, I/G, *kernel), bias (O,), where I and O
are the channels of the operation's own src and dst.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

__all__ = ["Choice", "Direction", "Problem", "TensorLayout"]


class Direction(enum.Enum):
    """Which result is computed."""

    FORWARD = "forward"
    BACKWARD_DATA = "backward_data"
    BACKWARD_WEIGHTS = "backward_weights"


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """Shape and strides (in elements) of one tensor, in canonical axis order."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def extent(self) -> int:
        """Elements from the first to the last one in memory, both included; 0 if there is none."""
        if not self.size:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    def swapped(self, first: int, second: int) -> TensorLayout:
        """Return the layout with two axes exchanged."""
        axes = list(range(len(self.shape)))
        axes[first], axes[second] = second, first
        return TensorLayout(
            tuple(self.shape[axis] for axis in axes), tuple(self.strides[axis] for axis in axes)
        )

    @property
    def is_nested(self) -> bool:
        """Whether every axis steps over the whole of the next inner one, as oneDNN wants."""
        least = 1
        for stride, extent in sorted(zip(self.strides, self.shape, strict=True)):
            if extent > 1:
                if stride < least:
                    return False
                least = stride * extent
        return True

    def channels(self, place: str) -> TensorLayout:
        """Return a dense layout of activations: ``"ncx"`` or ``"nxc"``, channels last."""
        axes = list(range(len(self.shape)))
        if place == "nxc":
            axes.append(axes.pop(1))
        strides = [0] * len(axes)
        step = 1
        for axis in reversed(axes):
            strides[axis] = step
            step *= self.shape[axis]
        return TensorLayout(self.shape, tuple(strides))

    def dense(self) -> TensorLayout:
        """Return a layout without gaps whose axes lie in memory in the same order."""
        order = sorted(range(len(self.shape)), key=lambda axis: (self.strides[axis], -axis))
        strides = [0] * len(self.shape)
        step = 1
        for axis in order:
            strides[axis] = step
            step *= self.shape[axis]
        return TensorLayout(self.shape, tuple(strides))


def _joined(numbers: tuple[int, ...]) -> str:
    return "x".join(map(str, numbers))


@dataclass(frozen=True)
class Problem:
    """One convolution or transposed convolution: shapes, strides, attributes, data type.

    ``dilations`` is 1 for a dense kernel. The pads are those of the geometry: with
    S the spatial size on the side that strides step over (src of a convolution, dst of
    a transposed one) and X the other, ``S + begin + end == stride * (X - 1) + extent``
    holds exactly, so that ``pads_end`` may be negative where a tail of S is untouched.
    ``fpmath_mode`` is what float32 products may be rounded to inside a kernel.
    """

    transposed: bool
    direction: Direction
    dtype: str
    src: TensorLayout
    weights: TensorLayout
    dst: TensorLayout
    bias: TensorLayout | None
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    fpmath_mode: str = "strict"

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Plans are looked up by the whole value; hashing a dozen tuples once is enough.
        return hash(tuple(getattr(self, name) for name in self.__dataclass_fields__))

    @property
    def groups(self) -> int:
        return self.weights.shape[0]

    @property
    def kernel(self) -> tuple[int, ...]:
        return self.weights.shape[3:]

    @property
    def is_empty(self) -> bool:
        """Whether some tensor has no element, so that nothing is left to multiply."""
        return not (self.src.size and self.weights.size and self.dst.size)

    @property
    def flops(self) -> int:
        """Floating-point operations, those on padding included: two for every product."""
        windows = (self.src if self.transposed else self.dst).shape
        return 2 * windows[0] * prod(windows[2:]) * self.weights.size

    @property
    def operation(self) -> str:
        """Name of the operation as the functions spell it, for messages."""
        family = "conv_transpose" if self.transposed else "convolution"
        if self.direction is Direction.FORWARD:
            return family
        return f"{family}_{self.direction.value}"

    def as_convolution(self) -> Problem:
        """Return the same arithmetic in the roles of a convolution.

        A transposed convolution's src is a convolution's dst, its forward pass that
        one's backward data. The bias is left behind: it belongs to other elements.
        """
        if not self.transposed:
            return self
        direction = {
            Direction.FORWARD: Direction.BACKWARD_DATA,
            Direction.BACKWARD_DATA: Direction.FORWARD,
            Direction.BACKWARD_WEIGHTS: Direction.BACKWARD_WEIGHTS,
        }[self.direction]
        return replace(
            self,
            transposed=False,
            direction=direction,
            src=self.dst,
            dst=self.src,
            weights=self.weights.swapped(1, 2),
            bias=None,
        )

    @property
    def name(self) -> str:
        """All of the problem in one line, by which wisdom knows it."""
        tensors = " ".join(
            f"{role} {_joined(layout.shape)}/{_joined(layout.strides)}"
            for role in ("src", "weights", "dst", "bias")
            if (layout := getattr(self, role)) is not None
        )
        mode = "" if self.fpmath_mode == "strict" else f" fpmath {self.fpmath_mode}"
        return (
            f"{self.operation} {self.dtype}{mode} {tensors} strides {_joined(self.strides)}"
            f" dilations {_joined(self.dilations)} pads {_joined(self.pads_begin)}"
            f":{_joined(self.pads_end)}"
        )

    @property
    def result_name(self) -> str:
        """Which tensor is written: dst, src (as diff_src) or weights (as diff_weights)."""
        return {
            Direction.FORWARD: "dst",
            Direction.BACKWARD_DATA: "src",
            Direction.BACKWARD_WEIGHTS: "weights",
        }[self.direction]


@dataclass(frozen=True, slots=True)
class Choice:
    """How oneDNN computes a problem; what is empty is left to oneDNN's own order.

    Attributes
    ----------
    compute_dtype : str
        Data type of the primitive; the tensors are converted where it is not theirs.
    formulation : str
        Which equivalent problem the primitive computes, a key of
        `native.formulations.FORMULATIONS`.
    activations, weights : {"any", "given", "nxc", "ncx"}
        Memory layouts of the primitive: the implementation's own wish, the caller's
        strides, or dense with channels last or first.
    implementation : str
        oneDNN's name of it, or empty for the first that is no reference implementation.
    reference : bool
        Accept oneDNN's reference implementations, plain loop nests.
    threads : int
        1 for a problem that is over before a second thread has begun; 0 for the threads
        that the call has.
    pieces : int
        In how many the problem is computed, one after the other, so that what is reordered
        is still in the caches when the primitive reads it, or takes less memory. There may be
        fewer rows or channels than that.
    cut : str
        Into pieces of what, a key of `native.cutting.CUTS`.
    """

    compute_dtype: str
    formulation: str = "direct"
    activations: str = "any"
    weights: str = "any"
    implementation: str = ""
    reference: bool = False
    threads: int = 0
    pieces: int = 1
    cut: str = "images"

    def as_dict(self) -> dict[str, str | bool | int]:
        """Return the fields by name, as JSON can hold them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Choice | None:
        """Return the choice that `as_dict` gave, None if the fields are not a choice's."""
        defaults = asdict(cls(""))
        known = fields.keys() <= defaults.keys() and "compute_dtype" in fields
        if not known or any(type(fields[name]) is not type(defaults[name]) for name in fields):
            return None
        return cls(**fields) if fields.get("threads", 0) in (0, 1) else None
