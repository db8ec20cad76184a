"""What `Lowering` adds steps for: the tensors of candidates and their parts, and reorders."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from onednn_py.backends.onednn.binding.engine import Handle
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.chunks import Addend, Block, Chunk, ChunkTensor
from onednn_py.backends.onednn.selection.descriptors import bias_desc, queries, user_desc
from onednn_py.problem.problem import Problem

from .program import Buffer
from .steps import Steps

__all__ = ["CandidateTensor", "Part", "Reorder"]


class Reorder(NamedTuple):
    """A reorder between two buffers, by their indices, or an addition to what the target holds.

    ``layout`` is the tensor's as the caller has it, where the primitive is worth sharing.
    """

    name: str
    source: int
    target: int
    adds: bool = False
    layout: Hashable = None


class CandidateTensor:
    """A tensor of a candidate: how its primitives take it, and where the workspace has it.

    All chunks use the same place, where the largest of them, or a block, fits.

    Parameters
    ----------
    steps : Steps
    candidate : Candidate
    role : str
        In the problem that the primitives compute.

    Attributes
    ----------
    name : str
        The operand's.
    is_result : bool
    loaded : Block or None
        The block that the workspace holds.
    """

    def __init__(self, steps: Steps, candidate: Candidate, role: str) -> None:
        self._steps = steps
        self._engine = steps.engine
        self.candidate, self.role = candidate, role
        self.name = candidate.operand(role)
        self.is_result = self.name in candidate.results
        self.loaded: Block | None = None
        self._wanted: dict[Problem, Handle] = {}
        self._are_reordered: dict[Problem, bool] = {}
        self._offsets: dict[str, int] = {}
        self._buffers: dict[Hashable, int] = {}

    def user(self, problem: Problem) -> Handle:
        """Return the memory descriptor of the tensor of a problem as the caller has it."""
        return user_desc(self._engine, problem, self.role)

    def wanted(self, problem: Problem) -> Handle:
        """Return the memory descriptor of the tensor of a problem as the primitive takes it."""
        if problem not in self._wanted:
            if self.role == "bias":
                dtype = self.candidate.formulation.dtype(self.role)
                self._wanted[problem] = bias_desc(self._engine, problem, dtype)
            else:
                query = queries(problem)[self.role]
                found = self._engine.desc_of(self.candidate.descriptors[problem], query)
                self._wanted[problem] = self._engine.clone_desc(found)
        return self._wanted[problem]

    def is_reordered(self, problem: Problem) -> bool:
        """Whether the primitive takes another layout than the caller's."""
        if problem not in self._are_reordered:
            is_equal = self._engine.equal(self.user(problem), self.wanted(problem))
            self._are_reordered[problem] = not is_equal
        return self._are_reordered[problem]

    def workspace_buffer(self, part: Part, use: str = "") -> int:
        """Return the buffer in the workspace of a part in the primitive's own layout."""
        key = use, part.chunk.problem if part.place.is_split else None
        if key not in self._buffers:
            self._buffers[key] = self._steps.buffer(Buffer(part.wanted, offset=self._offset(use)))
        return self._buffers[key]

    def block_buffers(self, block: Block) -> tuple[int, int]:
        """Return the buffers of a block in the workspace, and as the caller has it."""
        key = block.problem
        if key not in self._buffers:
            whole = Buffer(self.wanted(block.problem), offset=self._offset())
            self._buffers[key] = self._steps.buffer(whole)
        operand = self._steps.operand(self.name)
        offset = self.candidate.formulation.offset(self.role, block.begin)
        user = Buffer(self.user(block.problem), operand, offset)
        return self._buffers[key], self._steps.buffer(user)

    def images_of_block(self, part: Part, block: Block) -> int:
        """Return the buffer of the images of a block that a chunk reads or writes."""
        key = part.chunk.problem, part.place.image
        if key not in self._buffers:
            whole = self.wanted(block.problem)
            images: int = getattr(block.problem, self.role).shape[0]
            begin = self._engine.nbytes(whole) // images * part.place.image
            buffer = Buffer(part.wanted, offset=self._offset() + begin)
            self._buffers[key] = self._steps.buffer(buffer)
        return self._buffers[key]

    def _offset(self, use: str = "") -> int:
        """Return where the tensor lies in the workspace."""
        if use not in self._offsets:
            descs = [self.wanted(problem) for problem in self.candidate.descriptors]
            nbytes = max(map(self._engine.nbytes, descs))
            self._offsets[use] = self._steps.workspace.add(nbytes)
        return self._offsets[use]


class Part(NamedTuple):
    """The part of a tensor that a chunk reads or writes.

    Attributes
    ----------
    tensor : CandidateTensor
    chunk : Chunk
    place : ChunkTensor
    user, wanted : Handle
        Memory descriptors of the part as the caller has it and as the primitive takes it.
    """

    tensor: CandidateTensor
    chunk: Chunk
    place: ChunkTensor
    user: Handle
    wanted: Handle

    @property
    def name(self) -> str:
        """The operand's name."""
        return self.tensor.name

    @property
    def is_reordered(self) -> bool:
        """Whether the primitive takes another layout than the caller's.

        Of a block this is asked as a whole: one of its planes may have a layout that more have not.
        """
        block = self.place.block
        return self.tensor.is_reordered(self.chunk.problem if block is None else block.problem)

    @property
    def writes_sum(self) -> bool:
        """Whether the primitive writes the sum itself: it begins the sum, or adds to it."""
        problem = self.chunk.problem
        return self.chunk.is_first or (isinstance(problem, Addend) and problem.adds)

    @property
    def shared_layout(self) -> Hashable:
        """Layout and type of weights, which stay the same where sizes of images change."""
        problem, tensor = self.chunk.problem, self.tensor
        if tensor.role != "weights" or tensor.candidate.formulation.dst_is_weights:
            return None
        return problem.weights, problem.dtype
