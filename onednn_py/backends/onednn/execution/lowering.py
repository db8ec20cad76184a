"""Lowering: candidates to the buffers and steps of one program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from onednn_py.backends.onednn.binding.channel_tails import parts_around_tail
from onednn_py.backends.onednn.binding.engine import Engine, Handle
from onednn_py.backends.onednn.binding.reorders import ReorderPart, parts_of_run
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.chunks import Block
from onednn_py.backends.onednn.selection.descriptors import execution_arguments

from .bias import BiasSums
from .bias_steps import BiasSteps
from .casts import CastTensor
from .program import Buffer, Program
from .shared_reorders import Made, shared_reorder
from .steps import Steps, primitive_made
from .tensors import CandidateTensor, Part, Reorder

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
        self._tensors: dict[tuple[int, str], CandidateTensor] = {}
        # By name and chunk, the inputs that primitives read, and their buffers.
        self._inputs: dict[tuple[str, int], list[tuple[Part, int]]] = {}
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
            part = self._part(number, candidate, role)
            self.layouts[part.name] = part.wanted
            if part.tensor.is_result:
                index, reorders = self._result(part)
                after += reorders
            else:
                index = self._input(part)
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

    def _part(self, number: int, candidate: Candidate, role: str) -> Part:
        """Return the part of a candidate's tensor for the chunk whose steps are added."""
        key = number, role
        if key not in self._tensors:
            self._tensors[key] = CandidateTensor(self._steps, candidate, role)
        tensor = self._tensors[key]
        chunk = candidate.formulation.chunks[self._steps.chunk]
        problem = chunk.problem
        user, wanted = tensor.user(problem), tensor.wanted(problem)
        return Part(tensor, chunk, chunk.tensors[role], user, wanted)

    def _input(self, part: Part) -> int:
        """Return the buffer that the primitive reads, having added the reorder into it."""
        block = part.place.block
        if block is not None and part.is_reordered:
            self._load(part, block)
            return part.tensor.images_of_block(part, block)
        index = self._steps.chunk if part.place.is_split else 0
        present = self._inputs.setdefault((part.name, index), [])
        buffer = self._same_layout(part, present)
        if buffer is None:
            buffer = self._user_buffer(part)
            if part.is_reordered:
                self.reordered.append(part.name)
                copy = part.tensor.workspace_buffer(part)
                reorder = Reorder(part.name, buffer, copy, layout=part.shared_layout)
                self._reorder(reorder, self._steps.operand(part.name))
                buffer = copy
            present.append((part, buffer))
        return buffer

    def _result(self, part: Part) -> tuple[int, list[Reorder]]:
        """Return the buffer that the primitive writes, and the reorders from it."""
        block = part.place.block
        if block is not None and part.is_reordered:
            return self._result_in_block(part, block)
        total = user = self._user_buffer(part)
        to_caller = []
        if part.is_reordered:
            self.reordered.append(part.name)
            total = part.tensor.workspace_buffer(part)
            to_caller = [Reorder(part.name, total, user, layout=part.shared_layout)]
        if not part.place.is_partial_sum:
            return total, to_caller
        if not part.place.is_split:
            return self._sum_over_chunks(part, total, to_caller)
        # Chunks of parts that overlap: terms are added where the caller has the sum.
        if part.writes_sum:
            return total, to_caller
        term = part.tensor.workspace_buffer(part, "term")
        return term, [Reorder(part.name, term, user, adds=True)]

    def _result_in_block(self, part: Part, block: Block) -> tuple[int, list[Reorder]]:
        """Return what `_result` does for a part of a block, which its last chunk completes."""
        self.reordered.append(part.name)
        if part.chunk.is_first:
            part.tensor.loaded = block
        else:  # The block holds earlier terms, or else begins with the zeros of the caller's.
            self._load(part, block)
        to_caller = []
        if part.chunk.is_last:
            whole, user = part.tensor.block_buffers(block)
            to_caller = [Reorder(part.name, whole, user)]
        return self._sum_over_chunks(part, part.tensor.images_of_block(part, block), to_caller)

    def _sum_over_chunks(
        self, part: Part, total: int, to_caller: list[Reorder]
    ) -> tuple[int, list[Reorder]]:
        """Return the total for a chunk that begins it or adds to it, a term for other chunks.

        The term is added to the total, which the last chunk hands over to the caller.
        """
        after = to_caller if part.chunk.is_last else []
        if part.writes_sum:
            return total, after
        term = part.tensor.workspace_buffer(part, "term")
        return term, [Reorder(part.name, term, total, adds=True), *after]

    def _load(self, part: Part, block: Block) -> None:
        """Add the reorder of a block of the caller's tensor, unless the block is there."""
        self.reordered.append(part.name)
        if part.tensor.loaded is not block:
            whole, user = part.tensor.block_buffers(block)
            self._reorder(Reorder(part.name, user, whole), self._steps.operand(part.name))
            part.tensor.loaded = block

    def _user_buffer(self, part: Part) -> int:
        """Return the buffer of a part as the caller has it, or of its copy in another type."""
        tensor = part.tensor
        formulation = tensor.candidate.formulation
        operand = self._steps.operand(part.name)
        offset = formulation.offset(tensor.role, part.place.begin)
        if tensor.role in formulation.copied:
            if all(other.name != part.name for other in self.casts):
                begin = self._steps.workspace.nbytes
                cast = CastTensor(tensor.candidate, tensor.role, begin, tensor.is_result)
                self._steps.workspace.add(cast.nbytes)
                self.casts.append(cast)
            offset = 0
        return self._steps.buffer(Buffer(part.user, operand, offset))

    def _same_layout(self, part: Part, present: list[tuple[Part, int]]) -> int | None:
        """Return the buffer of an input that another primitive reads in the same layout."""
        equal = self._engine.equal
        for other, index in present:
            begins = part.place.begin == other.place.begin
            if begins and equal(part.user, other.user) and equal(part.wanted, other.wanted):
                return index
        return None

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
