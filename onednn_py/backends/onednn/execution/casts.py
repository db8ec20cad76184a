"""Conversions: tensors that are computed in another data type, as dense copies in the workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.backends.onednn.selection.candidate import Part
from onednn_py.problem.arrays import DTYPES
from onednn_py.problem.problem import TensorLayout
from onednn_py.system.casting import round_into, widen_into

__all__ = ["Conversions", "Converted"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Converted:
    """A tensor with a copy in another data type.

    Where pieces have parts of the tensor, the copy is of one part, and all pieces use its place.
    """

    part: Part
    role: str
    offset: int
    is_result: bool

    @property
    def name(self) -> str:
        return self.part.name(self.part.formulation.roles[self.role])

    @property
    def is_cut(self) -> bool:
        return self.role in self.part.formulation.cut_roles

    def layout(self, piece: int = 0) -> TensorLayout:
        """Shape and strides of the copy."""
        layout: TensorLayout = getattr(self.part.formulation.pieces[piece].problem, self.role)
        return layout

    @property
    def nbytes(self) -> int:
        """Bytes of the largest copy."""
        extents: list[int] = [
            getattr(kind, self.role).extent for kind in self.part.formulation.kinds
        ]
        return max(extents) * self.dtype.itemsize

    @property
    def dtype(self) -> np.dtype[Any]:
        return DTYPES[self.part.formulation.problem.dtype]

    def seen(self, array: Array, piece: int = 0) -> Array:
        """Return the caller's elements that are copied for a piece, in the order of `view`."""
        seen = self.part.formulation.seen(self.role, array)
        begin = self.part.formulation.pieces[piece].begins[self.role]
        shape = self.layout(piece).shape
        return seen[tuple(slice(b, b + n) for b, n in zip(begin, shape, strict=True))]

    def view(self, block: npt.NDArray[Any], offset: int | None = None, piece: int = 0) -> Array:
        """Return the copy as an array, in a workspace or elsewhere.

        Raises
        ------
        ValueError
            If the copy would end behind the block.
        """
        dtype, layout = self.dtype, self.layout(piece)
        strides = tuple(stride * dtype.itemsize for stride in layout.strides)
        place = self.offset if offset is None else offset
        return np.ndarray(layout.shape, dtype, block, place, strides)


class Conversions:
    """What is converted during one execution.

    Parameters
    ----------
    converted : sequence of Converted
    tensors : mapping
        The caller's, as canonical views by name.
    block : ndarray
        The workspace.
    """

    def __init__(
        self,
        converted: Sequence[Converted],
        tensors: Mapping[str, Array],
        block: npt.NDArray[Any],
    ) -> None:
        self._converted = converted
        self._tensors = tensors
        self._block = block

    def before(self, piece: int) -> None:
        """Widen what a piece reads; what all pieces read, for the first one."""
        for one in self._converted:
            if not one.is_result and (one.is_cut or piece == 0):
                source = one.seen(self._tensors[one.name], piece)
                widen_into(one.view(self._block, piece=piece), source)

    def after(self, piece: int, *, is_last: bool) -> None:
        """Round what a piece has written; a sum over all pieces, after the last one."""
        for one in self._converted:
            if one.is_result and (one.is_cut or is_last):
                target = one.seen(self._tensors[one.name], piece)
                round_into(target, one.view(self._block, piece=piece))
