"""Cutting: a problem as pieces that are computed one after the other.

By images, each piece has a part of the minibatch. By rows, it has a part of the result along the
first spatial axis, or of a weights gradient's sum over it, and the rows that its windows meet. By
channels, it has a part of the result's channels, of either side for a weights gradient, or some of
the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from onednn_py.problem.geometry import effective_kernel
from onednn_py.problem.problem import Direction, Problem, TensorLayout

__all__ = ["CUTS", "ROLES", "Piece", "cut_up"]

ROLES = ("src", "weights", "dst", "bias")

# Implementations have blocks of so many channels.
CHANNEL_BLOCK = 16

# For each role, from where to where along an axis.
_Ranges = dict[str, tuple[int, range]]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a problem, and where its tensors begin in those of the whole.

    Attributes
    ----------
    problem : Problem
        The same object for pieces that differ in their places alone.
    begins : dict
        For each role, the first element's place along each axis.
    """

    problem: Problem
    begins: dict[str, tuple[int, ...]]


def cut_up(problem: Problem, cut: str, number: int) -> tuple[Piece, ...] | None:
    """Return a problem in about so many pieces, None where it has no such pieces.

    Parameters
    ----------
    problem : Problem
    cut : str
        One of `CUTS`.
    number : int
        Images are cut into as many, into equal ones; rows and channels into that or fewer.
    """
    if number == 1:
        return (_whole(problem),)
    made = list(CUTS[cut](problem, number)) if number > 1 else []
    if len(made) < 2 or None in made:
        return None
    same: dict[Problem, Problem] = {}
    return tuple(
        Piece(same.setdefault(piece.problem, piece.problem), piece.begins)
        for piece in made
        if piece is not None
    )


def _whole(problem: Problem) -> Piece:
    present = {role: getattr(problem, role) for role in ROLES}
    begins = {role: (0,) * len(one.shape) for role, one in present.items() if one is not None}
    return Piece(problem, begins)


def _piece(problem: Problem, ranges: _Ranges, **changes: Any) -> Piece:
    begins = {}
    for role in ROLES:
        layout: TensorLayout | None = getattr(problem, role)
        if layout is None:
            continue
        shape, begin = list(layout.shape), [0] * len(layout.shape)
        if role in ranges:
            axis, where = ranges[role]
            shape[axis], begin[axis] = len(where), where.start
        changes[role] = _with_one_image_dense(TensorLayout(tuple(shape), layout.strides))
        begins[role] = tuple(begin)
    return Piece(replace(problem, **changes), begins)


def _with_one_image_dense(layout: TensorLayout) -> TensorLayout:
    """Return the same with no gap behind a single image: some kernels ask how far the next is."""
    if layout.shape[0] > 1:
        return layout
    rest = TensorLayout(layout.shape[1:], layout.strides[1:])
    return TensorLayout(layout.shape, (rest.extent, *rest.strides))


def _spans(size: int, each: int) -> Iterator[range]:
    for begin in range(0, size, each):
        yield range(begin, min(begin + each, size))


def _images(problem: Problem, number: int) -> Iterator[Piece | None]:
    images = problem.src.shape[0]
    if images % number:
        return
    for where in _spans(images, images // number):
        yield _piece(problem, {"src": (0, where), "dst": (0, where)})


def _rows(problem: Problem, number: int) -> Iterator[Piece | None]:
    """Yield pieces along the first spatial axis, None for one that no window meets."""
    stepped, other = ("dst", "src") if problem.transposed else ("src", "dst")
    size, windows = (getattr(problem, role).shape[2] for role in (stepped, other))
    if problem.result_name == stepped:
        each = _rounded(-(-size // number), problem.strides[0])
        for rows in _spans(size, each):
            yield _of_rows(problem, stepped, rows, _windows_on(problem, rows, windows))
    elif problem.result_name != "weights" or not problem.transposed or problem.bias is None:
        # The bias gradient of a transposed problem sums the rows that pieces share.
        for places in _spans(windows, -(-windows // number)):
            rows = _rows_under(problem, places, size)
            yield _of_rows(problem, stepped, rows, places)


def _windows_on(problem: Problem, rows: range, windows: int) -> range:
    """Return the windows that meet some rows of the side that strides step over."""
    stride, pad = problem.strides[0], problem.pads_begin[0]
    extent = effective_kernel(problem.kernel[0], problem.dilations[0])
    first = -(-(rows.start + pad - extent + 1) // stride)
    last = (rows.stop - 1 + pad) // stride
    return range(max(0, first), min(windows, last + 1))


def _rows_under(problem: Problem, places: range, size: int) -> range:
    """Return the rows, of so many, that some windows meet."""
    stride, pad = problem.strides[0], problem.pads_begin[0]
    extent = effective_kernel(problem.kernel[0], problem.dilations[0])
    end = (places.stop - 1) * stride - pad + extent
    return range(max(0, places.start * stride - pad), min(size, end))


def _of_rows(problem: Problem, stepped: str, rows: range, places: range) -> Piece | None:
    other = "src" if stepped == "dst" else "dst"
    stride = problem.strides[0]
    extent = effective_kernel(problem.kernel[0], problem.dilations[0])
    begin = problem.pads_begin[0] + rows.start - places.start * stride
    end = stride * (len(places) - 1) + extent - len(rows) - begin
    if not rows or not places or begin < 0 or end <= -stride:
        return None
    return _piece(
        problem,
        {stepped: (2, rows), other: (2, places)},
        pads_begin=(begin, *problem.pads_begin[1:]),
        pads_end=(end, *problem.pads_end[1:]),
    )


def _channels(problem: Problem, number: int) -> Iterator[Piece | None]:
    groups, outputs, inputs = problem.weights.shape[:3]
    if groups > 1:
        each = -(-groups // number)
        if inputs * outputs == 1:
            each = _rounded(each, CHANNEL_BLOCK)
        for where in _spans(groups, each):
            yield _piece(
                problem,
                {
                    "src": (1, _times(where, inputs)),
                    "weights": (0, where),
                    "dst": (1, _times(where, outputs)),
                    "bias": (0, _times(where, outputs)),
                },
            )
        return
    of_src = problem.direction is Direction.BACKWARD_DATA
    if problem.direction is Direction.BACKWARD_WEIGHTS and problem.bias is None:
        # The larger of both is better in pieces. The bias gradient is a sum of dst.
        of_src = problem.src.size > problem.dst.size
    size = inputs if of_src else outputs
    for where in _spans(size, _rounded(-(-size // number), CHANNEL_BLOCK)):
        if of_src:
            yield _piece(problem, {"src": (1, where), "weights": (2, where)})
        else:
            yield _piece(problem, {"dst": (1, where), "weights": (1, where), "bias": (0, where)})


def _times(where: range, factor: int) -> range:
    return range(where.start * factor, where.stop * factor)


def _rounded(number: int, block: int) -> int:
    return -(-number // block) * block


CUTS: dict[str, Callable[[Problem, int], Iterator[Piece | None]]] = {
    "images": _images,
    "rows": _rows,
    "channels": _channels,
}
