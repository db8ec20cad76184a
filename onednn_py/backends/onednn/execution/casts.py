"""Casts: tensors that are computed in another data type, as dense copies in the workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import TensorLayout

__all__ = ["CastTensor", "Casts"]

Array = npt.NDArray[Any]


class CastTensor:
    """A tensor with a copy in another data type.

    Where chunks have parts of the tensor of their own, the copy is of one part, and all chunks
    use its place in the workspace.

    Parameters
    ----------
    candidate : Candidate
    role : str
        In the problem that the primitive computes.
    offset : int
        Of the copy in the workspace, in bytes.
    is_result : bool

    Attributes
    ----------
    name : str
        The operand's.
    bias : str
        Name of the bias that is added to the copy, empty if there is none.
    dtype : np.dtype
        Of the copy.
    """

    def __init__(self, candidate: Candidate, role: str, offset: int, is_result: bool) -> None:
        # A call of a small problem takes about as long as asking the candidate for all of it again.
        self._formulation = formulation = candidate.formulation
        self._chunks = formulation.chunks
        self.role, self.offset, self.is_result = role, offset, is_result
        self.name = candidate.operand(role)
        self.bias = candidate.name("bias") if is_result and formulation.adds_bias else ""
        self.dtype = DTYPES[formulation.problem.dtype]

    @property
    def nbytes(self) -> int:
        """Bytes of the largest chunk's copy."""
        problems = self._formulation.problems
        extent: int = max(getattr(problem, self.role).extent for problem in problems)
        return extent * self.dtype.itemsize

    def is_copied_in_before(self, index: int) -> bool:
        """Whether the copy is made before a chunk: an input's, once where all chunks share it."""
        return not self.is_result and (index == 0 or self._is_split(index))

    def is_copied_out_after(self, index: int) -> bool:
        """Whether the copy is complete after a chunk: a result's, a sum's after the last one."""
        return self.is_result and (self._chunks[index].is_last or self._is_split(index))

    def layout(self, index: int = 0) -> TensorLayout:
        """Return shape and strides of a chunk's copy."""
        layout: TensorLayout = getattr(self._chunks[index].problem, self.role)
        return layout

    def copy_in(self, target: Array, array: Array, index: int = 0) -> None:
        """Write what a chunk reads of the caller's tensor into its copy."""
        self._formulation.copy(self.role, self._chunks[index], target, array)

    def copy_out(
        self, array: Array, source: Array, index: int = 0, bias: Array | None = None
    ) -> None:
        """Round a chunk's copy, to which a bias is added, into the caller's tensor."""
        formulation, chunk = self._formulation, self._chunks[index]
        if bias is not None:
            added = formulation.bias_of(self.role, chunk, array, bias)
            with np.errstate(all="ignore"):  # as rounding is silent
                source += added
        formulation.round_back(self.role, chunk, array, source)

    def view(self, block: npt.NDArray[Any], offset: int | None = None, index: int = 0) -> Array:
        """Return a chunk's copy as an array, in a workspace or in another block of memory.

        Raises
        ------
        ValueError
            If the copy would end behind the block.
        """
        dtype, layout = self.dtype, self.layout(index)
        size = dtype.itemsize
        strides = tuple([stride * size for stride in layout.strides])
        offset = self.offset if offset is None else offset
        return np.ndarray(layout.shape, dtype, block, offset, strides)

    def _is_split(self, index: int) -> bool:
        return bool(self._chunks[index].tensors[self.role].is_split)


class Casts:
    """The converted copies of tensors during one execution.

    Parameters
    ----------
    tensors : sequence of CastTensor
    arrays : mapping
        The caller's, as canonical views by name.
    block : ndarray
        The workspace.
    """

    def __init__(
        self, tensors: Sequence[CastTensor], arrays: Mapping[str, Array], block: npt.NDArray[Any]
    ) -> None:
        self._tensors = tensors
        self._arrays = arrays
        self._block = block

    def before(self, index: int) -> None:
        """Widen what a chunk reads."""
        for tensor in self._tensors:
            if tensor.is_copied_in_before(index):
                tensor.copy_in(
                    tensor.view(self._block, index=index), self._arrays[tensor.name], index
                )

    def after(self, index: int) -> None:
        """Round what is complete after a chunk."""
        for tensor in self._tensors:
            if tensor.is_copied_out_after(index):
                copy = tensor.view(self._block, index=index)
                bias = self._arrays[tensor.bias] if tensor.bias else None
                tensor.copy_out(self._arrays[tensor.name], copy, index, bias)
