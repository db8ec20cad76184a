"""Lowering: candidates to the buffers and steps of one program."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial

from onednn_py.backends.onednn.binding.engine import Engine, Handle
from onednn_py.backends.onednn.binding.reorders import parts_of_run
from onednn_py.backends.onednn.selection.bias_additions import MOST_ADDED_ONES, bias_addition
from onednn_py.backends.onednn.selection.bias_sums import (
    OnesProduct,
    chunk_layout,
    ones_products,
    partial_sums,
    summing_chunks,
    sums_at_once,
    sums_shape,
)
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.descriptors import (
    bias_desc,
    execution_arguments,
    ones_addition_desc,
    ones_product_desc,
    queries,
    user_desc,
)
from onednn_py.backends.onednn.selection.formulation import SUM_DTYPE
from onednn_py.backends.onednn.selection.matmul import Product
from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.problem import Problem

from .bias import BiasSums, ones
from .casts import CastTensor
from .program import Buffer, Layout, Program, Step
from .shared_reorders import Made, shared_reorder
from .tensors import Reorder, Tensor

__all__ = ["Lowering"]


class Lowering:
    """Collects buffers and steps: reorders in, primitives, reorders out, chunk by chunk.

    All chunks use the same workspace, and chunks of equal problems the same primitives.

    Attributes
    ----------
    operands : list of str
    casts : list of CastTensor
    sums : list of BiasSums
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
        self._title = " and ".join(one.formulation.asked.name for one in candidates)
        self._buffers: list[Buffer] = []
        self._steps: list[Step] = []
        self._layout = Layout()
        self._primitives: dict[Hashable, tuple[Handle, int | None]] = {}
        self._descs: dict[Hashable, Handle] = {}
        self._offsets: dict[Hashable, int] = {}
        self._inner: dict[Hashable, int] = {}
        self._inputs: dict[tuple[str, int], list[tuple[Tensor, int]]] = {}
        self.casts: list[CastTensor] = []
        self.sums: list[BiasSums] = []
        self.added: set[str] = set()
        self._ones_products: dict[Hashable, tuple[list[Handle], Handle | None]] = {}
        self.reordered: list[str] = []
        self.layouts: dict[str, Handle] = {}
        self.scratchpad_bytes = 0
        self.operands: list[str] = []
        for index in range(len(candidates[0].formulation.chunks)):
            self._index = index  # of the chunk whose steps are being added
            after: list[Reorder] = []
            for number, candidate in enumerate(candidates):
                after += self._add(number, candidate)
            for reorder in after:
                self._reorder(reorder)
        for number, candidate in enumerate(candidates):
            if candidate.formulation.adds_bias and not candidate.formulation.is_cast:
                self._add_bias(number, candidate)

    def program(self, threads: tuple[int, int] | None) -> Program:
        """Return the steps; scratchpads share one offset, since one step runs at a time."""
        offset = self._layout.add(self.scratchpad_bytes)
        for _, index in self._primitives.values():
            if index is not None:
                self._buffers[index] = Buffer(self._buffers[index].desc, None, offset)
        return Program(
            self._engine,
            tuple(self.operands),
            self._buffers,
            self._steps,
            self._layout.nbytes,
            threads,
            self._title,
        )

    def _add(self, number: int, candidate: Candidate) -> list[Reorder]:
        """Add the steps of a candidate's chunk; return those to follow the steps of all."""
        problem = candidate.formulation.chunks[self._index].problem
        arguments: list[tuple[int, int]] = []
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
            arguments.append((self._engine.argument(argument), index))
        # A bias gradient that NumPy sums is an operand, too.
        for role in ("src", "weights", "bias", "dst"):
            if role in candidate.formulation.asked.layouts:
                self._operand(candidate.name(role))
        descriptor = candidate.descriptors[problem]
        name = candidate.choice.implementation
        make = partial(_made, self._engine, descriptor)
        self._step(("candidate", number, problem), name, make, arguments)
        if candidate.formulation.bias_apart:
            self._sum_bias(number, candidate)
        return after

    def _sum_bias(self, number: int, candidate: Candidate) -> None:
        """Add the products that sum a chunk's part of diff_dst, if there are such."""
        engine, formulation = self._engine, candidate.formulation
        chunk, dtype = formulation.chunks[self._index], formulation.problem.dtype
        found = chunk_layout(formulation, chunk)
        if found is None:
            return
        role, layout = found
        shape, products = sums_shape(layout), ones_products(layout)
        if shape is None or None in [self._ones_product(one, dtype)[1] for one in products]:
            return
        name, of_chunk = candidate.name("bias"), partial_sums(layout)
        if self._index == 0:
            total = of_chunk * summing_chunks(formulation)
            offset = self._layout.add(4 * total)
            self.sums.append(BiasSums(name, offset, total, *shape))
        target = self.sums[-1].offset + 4 * of_chunk * self._index
        is_whole = role in formulation.copied or sums_at_once(formulation)
        begin = 0 if is_whole else formulation.offset(role, chunk)
        read = self._operand(candidate.operand(role))
        for index, one in enumerate(products):
            (first, second, sums), descriptor = self._ones_product(one, dtype)
            offset = begin + one.begin * DTYPES[dtype].itemsize
            factors = [Buffer(first, read, offset), Buffer(second, constant=ones(dtype))]
            if one.ones_first:
                factors = [Buffer(first, constant=ones(dtype)), Buffer(second, read, offset)]
            arguments = self._product_arguments(*factors, Buffer(sums, offset=target))
            key = "ones", number, chunk.problem, index
            self._step(key, f"sum of {name}", partial(_made, engine, descriptor), arguments)
            target += 4 * one.sums.size

    def _product_arguments(self, *buffers: Buffer) -> list[tuple[int, int]]:
        """Return the arguments of a product: both factors, and what it writes."""
        names = ("SRC", "WEIGHTS", "DST")
        return [
            (self._engine.argument(name), self._buffer(buffer))
            for name, buffer in zip(names, buffers, strict=True)
        ]

    def _add_bias(self, number: int, candidate: Candidate) -> None:
        """Add the products that add the bias to dst, if oneDNN has such."""
        asked = candidate.formulation.asked
        bias, addition = asked.bias, bias_addition(asked.dst)
        if bias is None or bias.dense() != bias or addition is None:
            return
        dtype, engine = candidate.formulation.problem.dtype, self._engine
        repeated, products = addition
        all_products = [*products] if repeated is None else [repeated, *products]
        made = []
        for one in all_products:
            descs = self._matrices(one, dtype, dtype, dtype)
            descriptor = ones_addition_desc(engine, descs, adds=one is not repeated)
            if descriptor is None:
                return
            made.append((one, descs, descriptor))
        name = candidate.name("bias")
        offset = 0
        if repeated is not None:
            offset = self._layout.add(DTYPES[dtype].itemsize * repeated.sums.size)
        of_bias, of_dst = self._operand(name), self._operand(candidate.name("dst"))
        for index, (one, (first, second, result), descriptor) in enumerate(made):
            of_ones = ones(dtype, MOST_ADDED_ONES)
            begin = one.begin * DTYPES[dtype].itemsize
            if one is repeated:
                of_result = Buffer(result, None, offset)
            else:
                of_result = Buffer(result, of_dst, begin)
            if one.ones_first:
                factors = Buffer(first, constant=of_ones), Buffer(second, of_bias)
            else:
                factors = Buffer(first, None, offset), Buffer(second, constant=of_ones)
            self._step(
                ("bias", number, index),
                f"addition of {name}",
                partial(_made, engine, descriptor),
                self._product_arguments(*factors, of_result),
            )
        self.added.add(name)

    def _matrices(self, one: OnesProduct, *dtypes: str) -> list[Handle]:
        """Return the memory descriptors of a product's factors and of what it writes."""
        return [
            self._engine.strided_desc(layout.shape, dtype, layout.strides)
            for layout, dtype in zip((one.first, one.second, one.sums), dtypes, strict=True)
        ]

    def _ones_product(self, one: OnesProduct, dtype: str) -> tuple[list[Handle], Handle | None]:
        """Return the memory descriptors of a product with ones, and that of its primitive."""
        key = one, dtype
        if key not in self._ones_products:
            descs = self._matrices(one, dtype, dtype, SUM_DTYPE)
            self._ones_products[key] = descs, ones_product_desc(self._engine, descs)
        return self._ones_products[key]

    def _tensor(self, number: int, candidate: Candidate, role: str) -> Tensor:
        chunk = candidate.formulation.chunks[self._index]
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
        index = self._index if tensor.part.is_split else 0
        present = self._inputs.setdefault((tensor.name, index), [])
        buffer = self._same_layout(tensor, present)
        if buffer is None:
            buffer = self._user_buffer(tensor)
            if self._is_reordered(tensor):
                self.reordered.append(tensor.name)
                inner = self._inner_buffer(tensor)
                reorder = Reorder(tensor.name, buffer, inner, layout=tensor.shared_layout)
                self._reorder(reorder, self._operand(tensor.name))
                buffer = inner
            present.append((tensor, buffer))
        return buffer

    def _result(self, tensor: Tensor) -> tuple[int, list[Reorder]]:
        """Return the buffer that the primitive writes, and the reorders from it."""
        user = self._user_buffer(tensor)
        is_reordered = self._is_reordered(tensor)
        if is_reordered:
            self.reordered.append(tensor.name)
        total = self._inner_buffer(tensor) if is_reordered else user
        layout = tensor.shared_layout
        out = [Reorder(tensor.name, total, user, layout=layout)] if is_reordered else []
        if not tensor.part.is_partial_sum:
            return total, out
        # Terms of parts that overlap are added where the caller has the sum.
        overlaps = tensor.part.is_split
        if not (overlaps or tensor.chunk.is_last):
            out = []
        problem = tensor.chunk.problem
        if tensor.chunk.is_first or (isinstance(problem, Product) and problem.adds):
            return total, out
        term = self._inner_buffer(tensor, "term")
        added = Reorder(tensor.name, term, user if overlaps else total, adds=True)
        return term, [added] if overlaps else [added, *out]

    def _is_reordered(self, tensor: Tensor) -> bool:
        return not self._engine.equal(tensor.user, tensor.wanted)

    def _user_buffer(self, tensor: Tensor) -> int:
        """Return the buffer of a tensor as the caller has it, or of its copy in another type."""
        formulation = tensor.candidate.formulation
        operand = self._operand(tensor.name)
        offset = formulation.offset(tensor.role, tensor.chunk)
        if tensor.role in formulation.copied:
            is_result = tensor.name in tensor.candidate.results
            cast = CastTensor(tensor.candidate, tensor.role, self._layout.nbytes, is_result)
            if all(other.name != cast.name for other in self.casts):
                self._layout.add(cast.nbytes)
                self.casts.append(cast)
            offset = 0
        return self._buffer(Buffer(tensor.user, operand, offset))

    def _operand(self, name: str) -> int:
        if name not in self.operands:
            self.operands.append(name)
        return self.operands.index(name)

    def _same_layout(self, tensor: Tensor, present: list[tuple[Tensor, int]]) -> int | None:
        """Return the buffer of an input that another primitive reads in the same layout."""
        equal = self._engine.equal
        for other, index in present:
            if equal(tensor.user, other.user) and equal(tensor.wanted, other.wanted):
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

    def _buffer(self, buffer: Buffer) -> int:
        self._buffers.append(buffer)
        return len(self._buffers) - 1

    def _inner_buffer(self, tensor: Tensor, use: str = "") -> int:
        """Return the buffer in the workspace of a tensor in a primitive's own layout.

        All chunks have the same offset, where the largest fits.
        """
        key = (tensor.number, tensor.role, use)
        if key not in self._offsets:
            descs = [
                self._wanted(tensor.number, tensor.candidate, tensor.role, problem)
                for problem in tensor.candidate.descriptors
            ]
            self._offsets[key] = self._layout.add(max(map(self._engine.nbytes, descs)))
        if (key, tensor.problem) not in self._inner:
            buffer = Buffer(tensor.wanted, offset=self._offsets[key])
            self._inner[key, tensor.problem] = self._buffer(buffer)
        return self._inner[key, tensor.problem]

    def _reorder(self, reorder: Reorder, input_operand: int | None = None) -> None:
        """Add a reorder; reorders of the same inner buffer share a primitive."""
        engine, is_input = self._engine, input_operand is not None
        source, target = (self._buffers[index] for index in (reorder.source, reorder.target))
        parts = () if is_input else parts_of_run(engine, source.desc, target.desc)
        for part in parts:
            read = replace(source, desc=part.source, offset=source.offset + part.source_offset)
            written = replace(target, desc=part.target, offset=target.offset + part.target_offset)
            self._reorder(reorder._replace(source=self._buffer(read), target=self._buffer(written)))
        if parts:
            return
        inner = reorder.target if is_input else reorder.source
        arguments = [
            (engine.argument("SRC"), reorder.source),
            (engine.argument("DST"), reorder.target),
        ]
        make = partial(_reorder_made, engine, source.desc, target.desc, adds=reorder.adds)
        if reorder.layout is not None:
            make = partial(shared_reorder, engine, reorder.layout, source.desc, target.desc, make)
        name = f"{'sum' if reorder.adds else 'reorder'} of {reorder.name}"
        self._step((inner, is_input, reorder.adds), name, make, arguments, input_operand)

    def _step(
        self,
        key: Hashable,
        name: str,
        make: Callable[[], Made],
        arguments: list[tuple[int, int]],
        reordered_input: int | None = None,
    ) -> None:
        """Add a step; steps of the same key share a primitive and its scratchpad."""
        engine = self._engine
        if key not in self._primitives:
            made = make()
            index = None
            if made.scratchpad is not None:
                self.scratchpad_bytes = max(self.scratchpad_bytes, engine.nbytes(made.scratchpad))
                index = self._buffer(Buffer(made.scratchpad))
            self._primitives[key] = (made.primitive, index)
        primitive, index = self._primitives[key]
        if index is not None:
            arguments = [*arguments, (engine.argument("SCRATCHPAD"), index)]
        self._steps.append(Step(name, primitive, tuple(arguments), reordered_input, self._index))


def _made(engine: Engine, descriptor: Handle) -> Made:
    """Return the primitive of a descriptor."""
    scratchpad = engine.desc_of(descriptor, "scratchpad")
    kept = engine.clone_desc(scratchpad) if engine.nbytes(scratchpad) else None
    return Made(engine.primitive(descriptor), kept)


def _reorder_made(engine: Engine, source: Handle, target: Handle, *, adds: bool) -> Made:
    return _made(engine, engine.reorder_desc(source, target, adds=adds))
