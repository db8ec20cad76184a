"""Lowering: candidates to the buffers and steps of one program."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial

from onednn_py.backends.onednn.binding.channel_tails import parts_around_tail
from onednn_py.backends.onednn.binding.engine import Engine, Handle
from onednn_py.backends.onednn.binding.reorders import ReorderPart, parts_of_run
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.chunks import Block
from onednn_py.backends.onednn.selection.descriptors import (
    bias_desc,
    execution_arguments,
    queries,
    user_desc,
)
from onednn_py.problem.problem import Problem

from .bias import BiasSums
from .bias_steps import BiasSteps
from .casts import CastTensor
from .program import Buffer, Program
from .shared_reorders import Made, shared_reorder
from .steps import Steps, primitive_made
from .tensors import Reorder, Tensor

__all__ = ["Lowering"]


class Lowering:
    """Makes the steps of candidates: reorders in, primitives, reorders out, chunk by chunk.

    All chunks use the same workspace, and chunks of equal problems the same primitives.

    Attributes
    ----------
    casts : list of CastTensor
    sums : list of BiasSums
        What is left to NumPy.
    summed : set of str
        Names of the bias gradients that the steps sum, with NumPy or without.
    added : set of str
        Names of the biases that the steps add to dst behind a primitive.
    reordered : list of str
        Names of the operands whose layout the primitives do not take as it is.
    layouts : dict
        Memory descriptors of the operands as the primitives take them.
    scratchpad_bytes : int
    """

    def __init__(self, engine: Engine, candidates: Sequence[Candidate]) -> None:
        self._engine = engine
        self._are_several = len(candidates) > 1
        self._title = " and ".join(one.formulation.asked.name for one in candidates)
        self._steps = Steps(engine)
        self._biases = BiasSteps(self._steps)
        self._descs: dict[Hashable, Handle] = {}
        self._offsets: dict[Hashable, int] = {}
        self._inner: dict[Hashable, int] = {}
        self._inputs: dict[tuple[str, int], list[tuple[Tensor, int]]] = {}
        # The block that the workspace holds, by candidate and role, and which blocks are reordered.
        self._present: dict[tuple[int, str], Block] = {}
        self._reorders: dict[Hashable, bool] = {}
        self.casts: list[CastTensor] = []
        self.reordered: list[str] = []
        self.layouts: dict[str, Handle] = {}
        for index in range(len(candidates[0].formulation.chunks)):
            self._steps.chunk = index
            for number, candidate in enumerate(candidates):
                for reorder in self._add(number, candidate):
                    self._reorder(reorder)
        for number, candidate in enumerate(candidates):
            if candidate.formulation.adds_bias and not candidate.formulation.is_cast:
                self._biases.add_to_dst(number, candidate)

    @property
    def sums(self) -> list[BiasSums]:
        return self._biases.sums

    @property
    def summed(self) -> set[str]:
        return self._biases.summed

    @property
    def added(self) -> set[str]:
        return self._biases.added

    @property
    def scratchpad_bytes(self) -> int:
        return self._steps.scratchpad_bytes

    def program(self, threads: tuple[int, int] | None) -> Program:
        # A candidate's own copies are of no use behind its steps. Casts and sums, which NumPy reads
        # and writes, have their offsets by now.
        overlays = self._are_several and not self.casts and not self.sums
        return self._steps.program(threads, self._title, overlays=overlays)

    def _add(self, number: int, candidate: Candidate) -> list[Reorder]:
        """Add the steps of a candidate's chunk; return the reorders that follow them."""
        steps = self._steps
        problem = candidate.formulation.chunks[steps.chunk].problem
        names, buffers = [], []
        after: list[Reorder] = []
        for role, argument in execution_arguments(problem).items():
            if role not in problem.layouts:
                continue
            tensor = self._tensor(number, candidate, role)
            self.layouts[tensor.name] = tensor.wanted
            if tensor.name in candidate.results:
                index, reorders = self._result(tensor)
                after += reorders
            else:
                index = self._input(tensor)
            names.append(argument)
            buffers.append(index)
        # A bias gradient that is summed apart is an operand, too.
        for role in ("src", "weights", "bias", "dst"):
            if role in candidate.formulation.asked.layouts:
                steps.operand(candidate.name(role))
        steps.add_primitive(
            ("candidate", number, problem),
            candidate.choice.implementation,
            candidate.descriptors[problem],
            steps.arguments(names, buffers),
        )
        if candidate.formulation.bias_apart:
            self._biases.sum_gradient(number, candidate)
        return after

    def _tensor(self, number: int, candidate: Candidate, role: str) -> Tensor:
        chunk = candidate.formulation.chunks[self._steps.chunk]
        return Tensor(
            candidate,
            chunk,
            chunk.tensors[role],
            role,
            candidate.operand(role),
            user_desc(self._engine, chunk.problem, role),
            self._wanted(number, candidate, role, chunk.problem),
            number,
        )

    def _input(self, tensor: Tensor) -> int:
        """Return the buffer that the primitive reads, having added the reorder into it."""
        block = tensor.part.block
        if block is not None and self._is_reordered(tensor):
            self._load(tensor, block)
            return self._part_of_block(tensor, block)
        index = self._steps.chunk if tensor.part.is_split else 0
        present = self._inputs.setdefault((tensor.name, index), [])
        buffer = self._same_layout(tensor, present)
        if buffer is None:
            buffer = self._user_buffer(tensor)
            if self._is_reordered(tensor):
                self.reordered.append(tensor.name)
                inner = self._inner_buffer(tensor)
                reorder = Reorder(tensor.name, buffer, inner, layout=tensor.shared_layout)
                self._reorder(reorder, self._steps.operand(tensor.name))
                buffer = inner
            present.append((tensor, buffer))
        return buffer

    def _result(self, tensor: Tensor) -> tuple[int, list[Reorder]]:
        """Return the buffer that the primitive writes, and the reorders from it."""
        block = tensor.part.block
        if block is not None and self._is_reordered(tensor):
            return self._result_in_block(tensor, block)
        total = user = self._user_buffer(tensor)
        handed_over = []
        if self._is_reordered(tensor):
            self.reordered.append(tensor.name)
            total = self._inner_buffer(tensor)
            handed_over = [Reorder(tensor.name, total, user, layout=tensor.shared_layout)]
        if not tensor.part.is_partial_sum:
            return total, handed_over
        if not tensor.part.is_split:
            return self._sum_over_chunks(tensor, total, handed_over)
        # Chunks of parts that overlap: terms are added where the caller has the sum.
        if tensor.chunk.is_first or tensor.is_added:
            return total, handed_over
        term = self._inner_buffer(tensor, "term")
        return term, [Reorder(tensor.name, term, user, adds=True)]

    def _result_in_block(self, tensor: Tensor, block: Block) -> tuple[int, list[Reorder]]:
        """Return what `_result` does for a part of a block, which its last chunk completes."""
        self.reordered.append(tensor.name)
        if tensor.chunk.is_first:
            self._present[tensor.number, tensor.role] = block
        else:  # The block holds earlier terms, or else begins with the zeros of the caller's.
            self._load(tensor, block)
        handed_over = []
        if tensor.chunk.is_last:
            whole, user = self._block_buffers(tensor, block)
            handed_over = [Reorder(tensor.name, whole, user)]
        return self._sum_over_chunks(tensor, self._part_of_block(tensor, block), handed_over)

    def _sum_over_chunks(
        self, tensor: Tensor, total: int, handed_over: list[Reorder]
    ) -> tuple[int, list[Reorder]]:
        """Return the total for a chunk that begins it or adds to it, a term for other chunks.

        The term is added to the total, which the last chunk hands over to the caller.
        """
        after = handed_over if tensor.chunk.is_last else []
        if tensor.chunk.is_first or tensor.is_added:
            return total, after
        term = self._inner_buffer(tensor, "term")
        return term, [Reorder(tensor.name, term, total, adds=True), *after]

    def _load(self, tensor: Tensor, block: Block) -> None:
        """Add the reorder of a block of the caller's tensor, unless the block is there."""
        self.reordered.append(tensor.name)
        if self._present.get((tensor.number, tensor.role)) is not block:
            whole, user = self._block_buffers(tensor, block)
            self._reorder(Reorder(tensor.name, user, whole), self._steps.operand(tensor.name))
            self._present[tensor.number, tensor.role] = block

    def _block_buffers(self, tensor: Tensor, block: Block) -> tuple[int, int]:
        """Return the buffers of a block in the workspace, and as the caller has it."""
        number, candidate, role = tensor.number, tensor.candidate, tensor.role
        key = number, role, block.problem
        if key not in self._inner:
            wanted = self._wanted(number, candidate, role, block.problem)
            self._inner[key] = self._steps.buffer(Buffer(wanted, offset=self._offset(tensor)))
        operand = self._steps.operand(tensor.name)
        offset = candidate.formulation.offset(role, block.begin)
        user = Buffer(user_desc(self._engine, block.problem, role), operand, offset)
        return self._inner[key], self._steps.buffer(user)

    def _part_of_block(self, tensor: Tensor, block: Block) -> int:
        """Return the buffer of the images of a block that a chunk reads or writes."""
        key = tensor.number, tensor.role, tensor.chunk.problem, tensor.part.image
        if key not in self._inner:
            whole = self._wanted(tensor.number, tensor.candidate, tensor.role, block.problem)
            images: int = getattr(block.problem, tensor.role).shape[0]
            begin = self._engine.nbytes(whole) // images * tensor.part.image
            buffer = Buffer(tensor.wanted, offset=self._offset(tensor) + begin)
            self._inner[key] = self._steps.buffer(buffer)
        return self._inner[key]

    def _is_reordered(self, tensor: Tensor) -> bool:
        """Whether the primitive takes another layout than the caller's.

        Of a block this is asked as a whole: one of its planes may have a layout that more have not.
        """
        block = tensor.part.block
        if block is None:
            return not self._engine.equal(tensor.user, tensor.wanted)
        key = tensor.number, tensor.role, block.problem
        if key not in self._reorders:
            user = user_desc(self._engine, block.problem, tensor.role)
            wanted = self._wanted(tensor.number, tensor.candidate, tensor.role, block.problem)
            self._reorders[key] = not self._engine.equal(user, wanted)
        return self._reorders[key]

    def _user_buffer(self, tensor: Tensor) -> int:
        """Return the buffer of a tensor as the caller has it, or of its copy in another type."""
        formulation = tensor.candidate.formulation
        operand = self._steps.operand(tensor.name)
        offset = formulation.offset(tensor.role, tensor.part.begin)
        if tensor.role in formulation.copied:
            is_result = tensor.name in tensor.candidate.results
            cast = CastTensor(
                tensor.candidate, tensor.role, self._steps.workspace.nbytes, is_result
            )
            if all(other.name != cast.name for other in self.casts):
                self._steps.workspace.add(cast.nbytes)
                self.casts.append(cast)
            offset = 0
        return self._steps.buffer(Buffer(tensor.user, operand, offset))

    def _same_layout(self, tensor: Tensor, present: list[tuple[Tensor, int]]) -> int | None:
        """Return the buffer of an input that another primitive reads in the same layout."""
        equal = self._engine.equal
        for other, index in present:
            begins = tensor.part.begin == other.part.begin
            if begins and equal(tensor.user, other.user) and equal(tensor.wanted, other.wanted):
                return index
        return None

    def _wanted(self, number: int, candidate: Candidate, role: str, problem: Problem) -> Handle:
        """Return the memory descriptor of a tensor as the primitive takes it; made once."""
        key = number, role, problem
        if key not in self._descs:
            self._descs[key] = self._wanted_desc(candidate, role, problem)
        return self._descs[key]

    def _wanted_desc(self, candidate: Candidate, role: str, problem: Problem) -> Handle:
        engine = self._engine
        if role == "bias":
            return bias_desc(engine, problem, candidate.formulation.dtype(role))
        query = queries(problem)[role]
        return engine.clone_desc(engine.desc_of(candidate.descriptors[problem], query))

    def _inner_buffer(self, tensor: Tensor, use: str = "") -> int:
        """Return the buffer in the workspace of a tensor in a primitive's own layout."""
        key = tensor.number, tensor.role, use, tensor.problem
        if key not in self._inner:
            buffer = Buffer(tensor.wanted, offset=self._offset(tensor, use))
            self._inner[key] = self._steps.buffer(buffer)
        return self._inner[key]

    def _offset(self, tensor: Tensor, use: str = "") -> int:
        """Return where a tensor lies in the workspace.

        It is the same place for all chunks, where the largest of them, or a block, fits.
        """
        key = tensor.number, tensor.role, use
        if key not in self._offsets:
            descs = [
                self._wanted(tensor.number, tensor.candidate, tensor.role, problem)
                for problem in tensor.candidate.descriptors
            ]
            nbytes = max(map(self._engine.nbytes, descs))
            self._offsets[key] = self._steps.workspace.add(nbytes)
        return self._offsets[key]

    def _reorder(self, reorder: Reorder, input_operand: int | None = None) -> None:
        """Add a reorder; reorders of the same inner buffer share a primitive."""
        engine, steps, is_input = self._engine, self._steps, input_operand is not None
        source, target = steps.buffer_at(reorder.source), steps.buffer_at(reorder.target)
        name = f"{'sum' if reorder.adds else 'reorder'} of {reorder.name}"
        key = reorder.target if is_input else reorder.source, is_input, reorder.adds
        parts = self._parts(reorder, is_input=is_input)
        for part in parts:
            read = _moved(source, part.source, part.source_offset)
            if part.constant is not None:
                read = Buffer(part.source, constant=part.constant)
            written = _moved(target, part.target, part.target_offset)
            make = partial(_reorder_made, engine, part.source, part.target, adds=reorder.adds)
            ends = steps.buffer(read), steps.buffer(written)
            steps.add((*key, part.name), name, make, steps.arguments(("SRC", "DST"), ends))
        if parts:
            return
        make = partial(_reorder_made, engine, source.desc, target.desc, adds=reorder.adds)
        if reorder.layout is not None:
            make = partial(shared_reorder, engine, reorder.layout, source.desc, target.desc, make)
        arguments = steps.arguments(("SRC", "DST"), (reorder.source, reorder.target))
        steps.add(key, name, make, arguments, input_operand)

    def _parts(self, reorder: Reorder, *, is_input: bool) -> tuple[ReorderPart, ...]:
        """Return the parts of a reorder that is not run as a whole."""
        engine = self._engine
        source, target = (
            self._steps.buffer_at(end).desc for end in (reorder.source, reorder.target)
        )
        # Weights are small, and many plans share one reorder of weights.
        parts: tuple[ReorderPart, ...] = ()
        if reorder.layout is None and not reorder.adds:
            parts = parts_around_tail(engine, source, target, engine.number_of_threads())
        if not parts and not is_input:
            parts = parts_of_run(engine, source, target)
        return parts


def _moved(buffer: Buffer, desc: Handle, offset: int) -> Buffer:
    """Return a part of a buffer."""
    return replace(buffer, desc=desc, offset=buffer.offset + offset)


def _reorder_made(engine: Engine, source: Handle, target: Handle, *, adds: bool) -> Made:
    return primitive_made(engine, engine.reorder_desc(source, target, adds=adds))
