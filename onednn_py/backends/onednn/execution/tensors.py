"""What `Lowering` adds steps for: the tensors of sub-problems, and reorders between buffers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from onednn_py.backends.onednn.binding.engine import Handle
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.chunks import Addend, Chunk, ChunkTensor
from onednn_py.problem.problem import Problem

__all__ = ["Reorder", "Tensor"]


class Reorder(NamedTuple):
    """A reorder between two buffers, by their indices, or an addition to what the target holds.

    ``layout`` is the tensor's as the caller has it, where the primitive is worth sharing.
    """

    name: str
    source: int
    target: int
    adds: bool = False
    layout: Hashable = None


class Tensor(NamedTuple):
    """A tensor of a sub-problem.

    Attributes
    ----------
    candidate : Candidate
    chunk : Chunk
    part : ChunkTensor
    role, name : str
        In the problem that the primitive computes, and the operand's.
    user, wanted : Handle
        Memory descriptors of the tensor as the caller has it and as the primitive takes it.
    number : int
        The candidate's index.
    """

    candidate: Candidate
    chunk: Chunk
    part: ChunkTensor
    role: str
    name: str
    user: Handle
    wanted: Handle
    number: int

    @property
    def problem(self) -> Problem | None:
        """The problem by which memory descriptors of the tensor differ from chunk to chunk."""
        return self.chunk.problem if self.part.is_split else None

    @property
    def is_added(self) -> bool:
        """Whether the primitive adds the tensor to what the memory holds."""
        problem = self.chunk.problem
        return isinstance(problem, Addend) and problem.adds

    @property
    def shared_layout(self) -> Hashable:
        """Layout and type of weights, which stay the same where sizes of images change."""
        problem = self.chunk.problem
        if self.role != "weights" or self.candidate.formulation.dst_is_weights:
            return None
        return problem.weights, problem.dtype
