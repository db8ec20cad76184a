"""Packed tensors: weights in a plan's own layout, which `Plan.pack` makes."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from onednn_py.backends.base import PackedOperand
from onednn_py.errors import AttributeValueError
from onednn_py.problem.formats import TensorView

from .types import Array

__all__ = ["PackedTensor", "operand_of", "plain_copy_of"]


class PackedTensor:
    """A tensor in a plan's own layout, made by `Plan.pack`; calls of that plan take it.

    Attributes
    ----------
    name : str
        The tensor's name in the plan's function.
    shape : tuple of int
    nbytes : int
    """

    def __init__(
        self, name: str, view: TensorView, array: Array, operand: PackedOperand | None
    ) -> None:
        self.name, self.shape = name, array.shape
        self.nbytes = array.nbytes if operand is None else operand.nbytes
        self._view, self._dtype = view, array.dtype
        self._copy = array if operand is None else None
        self._operand = operand

    def __repr__(self) -> str:
        return f"PackedTensor({self.name}, shape {self.shape}, {self.nbytes} bytes)"

    def __copy__(self) -> PackedTensor:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PackedTensor:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a PackedTensor has the layout of this process's plan: send the weights, and pack"
            " them there"
        )


def plain_copy_of(packed: PackedTensor) -> Array | None:
    """Return what the plan reads where it has no layout of its own, otherwise None."""
    return packed._copy


def operand_of(
    packed: PackedTensor, where: str, label: str, view: TensorView | None, dtype: np.dtype[Any]
) -> PackedOperand | None:
    """Return what a plan's execution takes as the tensor ``label``; None for a plain copy.

    Raises
    ------
    AttributeValueError
        If the tensor was packed under another name, in another axis order or type. A layout alone
        does not tell which axes the tensor has.
    """
    if (packed.name, packed._view, packed._dtype) != (label, view, dtype):
        raise AttributeValueError(f"{where}: {packed!r} was packed for another plan")
    return packed._operand
