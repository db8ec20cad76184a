"""What is computed: a Problem, a frozen value that is compared and hashed whole.

Tensors are described in one canonical axis order, whatever the caller's format was:
activations (N, C, *spatial), weights (G, O/G, I/G, *kernel), bias (O,), where I and O
are the channels of the operation's own src and dst.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from math import prod

from .formats import are_nested

__all__ = ["ROLES", "Direction", "Problem", "TensorLayout"]

# The tensors of a problem, in the order in which they are named.
ROLES = ("src", "weights", "dst", "bias")


class Direction(enum.Enum):
    """Which result is computed."""

    FORWARD = "forward"
    BACKWARD_DATA = "backward_data"
    BACKWARD_WEIGHTS = "backward_weights"

    @property
    def result_role(self) -> str:
        """Which tensor is written: dst, src (as diff_src) or weights (as diff_weights)."""
        return _RESULT_ROLES[self]


_RESULT_ROLES = {
    Direction.FORWARD: "dst",
    Direction.BACKWARD_DATA: "src",
    Direction.BACKWARD_WEIGHTS: "weights",
}


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
        """Elements of memory from the first to the last, both included; 0 if it is empty."""
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
        """Whether every axis steps over the whole next inner axis, as oneDNN requires."""
        return are_nested(self.shape, self.strides)

    def with_channels(self, order: str) -> TensorLayout:
        """Return a dense layout of activations, channels first (``"ncx"``) or last (``"nxc"``)."""
        axes = list(range(len(self.shape)))
        if order == "nxc":
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
        # Plans are looked up by the whole value; hashing a dozen tuples once is enough. A
        # functools.cached_property of Python 3.11 and older would take a lock.
        kept: int | None = self.__dict__.get("_hash")
        if kept is None:
            kept = hash(tuple(getattr(self, name) for name in self.__dataclass_fields__))
            self.__dict__["_hash"] = kept
        return kept

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
        """Floating-point operations, two for every product, padding included."""
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
        """The problem in one line of text, the key of wisdom."""
        tensors = " ".join(
            f"{role} {_joined(layout.shape)}/{_joined(layout.strides)}"
            for role, layout in self.layouts.items()
        )
        mode = "" if self.fpmath_mode == "strict" else f" fpmath {self.fpmath_mode}"
        return (
            f"{self.operation} {self.dtype}{mode} {tensors} strides {_joined(self.strides)}"
            f" dilations {_joined(self.dilations)} pads {_joined(self.pads_begin)}"
            f":{_joined(self.pads_end)}"
        )

    @property
    def result_role(self) -> str:
        """Which tensor is written, see `Direction`."""
        return self.direction.result_role

    @property
    def has_bias_gradient(self) -> bool:
        """Whether the bias is written, with the weights gradient."""
        return self.direction is Direction.BACKWARD_WEIGHTS and self.bias is not None

    @property
    def has_dense_bias(self) -> bool:
        """Whether there is a bias, or its gradient, and it has no gaps."""
        return self.bias is not None and self.bias.dense() == self.bias

    @property
    def layouts(self) -> dict[str, TensorLayout]:
        """The tensors that the problem has, by role; not to be changed."""
        kept: dict[str, TensorLayout] | None = self.__dict__.get("_layouts")
        if kept is None:
            found = {role: getattr(self, role) for role in ROLES}
            kept = {role: layout for role, layout in found.items() if layout is not None}
            self.__dict__["_layouts"] = kept
        return kept

    @property
    def stepped_role(self) -> str:
        """The tensor that strides step over: src, or dst of a transposed convolution."""
        return "dst" if self.transposed else "src"
