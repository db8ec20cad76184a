"""Steps for a bias: products with ones that sum its gradient, or that add it to dst."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain
from typing import NamedTuple

from onednn_py.backends.onednn.binding.engine import Handle
from onednn_py.backends.onednn.selection.bias_additions import MOST_ADDED_ONES, bias_addition
from onednn_py.backends.onednn.selection.bias_sums import (
    MOST_ONES,
    OnesProduct,
    chunk_layout,
    gradient_products,
    have_few_pixels,
    ones_products,
    partial_sums,
    products_write_gradient,
    row_levels,
    summing_chunks,
    sums_at_once,
    sums_shape,
)
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.descriptors import ones_addition_desc, ones_product_desc
from onednn_py.backends.onednn.selection.formulation import SUM_DTYPE
from onednn_py.problem.dtypes import DTYPES

from .bias import BiasSums, ones
from .program import Buffer
from .steps import Steps

__all__ = ["BiasSteps"]


class _Place(NamedTuple):
    """Where a tensor begins: an operand's index, None for the workspace, and an offset in bytes."""

    operand: int | None
    offset: int


class BiasSteps:
    """Adds the steps of biases to those of the primitives.

    Attributes
    ----------
    sums : list of BiasSums
        What is left to NumPy.
    summed : set of str
        Names of the bias gradients that steps sum, with NumPy or without.
    added : set of str
        Names of the biases that steps add to dst.
    """

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._engine = steps.engine
        self._ones_products: dict[Hashable, tuple[list[Handle], Handle | None]] = {}
        self._offsets: dict[Hashable, int] = {}
        self.sums: list[BiasSums] = []
        self.summed: set[str] = set()
        self.added: set[str] = set()

    def sum_gradient(self, number: int, candidate: Candidate) -> None:
        """Add the products that sum a chunk's part of diff_dst, if there are such."""
        steps, formulation = self._steps, candidate.formulation
        chunk, dtype = formulation.chunks[steps.chunk], formulation.problem.dtype
        found = chunk_layout(formulation, chunk)
        if found is None:
            return
        role, layout = found
        is_whole = role in formulation.copied or sums_at_once(formulation)
        begin = 0 if is_whole else formulation.offset(role, chunk.tensors[role].begin)
        read = _Place(steps.operand(candidate.operand(role)), begin)
        name, chunks = candidate.name("bias"), summing_chunks(formulation)
        levels: Sequence[Sequence[OnesProduct]] = ()
        if products_write_gradient(formulation.asked):
            levels = gradient_products(layout)
        over_chunks = row_levels(chunks, layout.shape[1]) if chunks > 1 else []
        if levels and self._have_products([*chain(*levels, *over_chunks)], dtype):
            key = "sum", number, chunk.problem
            self._write_gradient(key, name, levels, read, chunks)
            return
        shape, products = sums_shape(layout), ones_products(layout)
        if shape is None or have_few_pixels(layout) or not self._have_products(products, dtype):
            return
        of_chunk = partial_sums(layout)
        if steps.chunk == 0:
            total = of_chunk * chunks
            self.sums.append(BiasSums(name, steps.workspace.add(4 * total), total, *shape))
        self.summed.add(name)
        target = _Place(None, self.sums[-1].offset + 4 * of_chunk * steps.chunk)
        self._add_level(("sum", number, chunk.problem), name, products, dtype, read, target)

    def _write_gradient(
        self,
        key: tuple[Hashable, ...],
        name: str,
        levels: Sequence[Sequence[OnesProduct]],
        read: _Place,
        chunks: int,
    ) -> None:
        """Add the products that sum a chunk, and with the last one those that add the chunks up."""
        steps, channels = self._steps, levels[-1][0].sums.size
        gradient = _Place(steps.operand(name), 0)
        self.summed.add(name)
        if chunks == 1:
            self._add_levels(key, name, levels, read, gradient)
            return
        of_chunks = self._numbers((name, "chunks"), chunks * channels)
        target = _Place(None, of_chunks.offset + 4 * channels * steps.chunk)
        self._add_levels(key, name, levels, read, target)
        if steps.chunk == chunks - 1:
            over_chunks = row_levels(chunks, channels)
            self._add_levels((*key, "chunks"), name, over_chunks, of_chunks, gradient)

    def _add_levels(
        self,
        key: tuple[Hashable, ...],
        name: str,
        levels: Sequence[Sequence[OnesProduct]],
        read: _Place,
        target: _Place,
    ) -> None:
        """Add products level by level, of which the last writes the target."""
        for index, products in enumerate(levels):
            written = target
            if products is not levels[-1]:
                sums = sum(one.sums.size for one in products)
                written = self._numbers((name, len(levels), index, sums), sums)
            self._add_level((*key, index), name, products, SUM_DTYPE, read, written)
            read = written

    def _numbers(self, key: Hashable, number: int) -> _Place:
        """Return the place of numbers in the workspace, the same for all chunks."""
        if key not in self._offsets:
            self._offsets[key] = self._steps.workspace.add(4 * number)
        return _Place(None, self._offsets[key])

    def _have_products(self, products: Sequence[OnesProduct], dtype: str) -> bool:
        return all(
            one.terms <= MOST_ONES and self._ones_product(one, dtype)[1] is not None
            for one in products
        )

    def _add_level(
        self,
        key: tuple[Hashable, ...],
        name: str,
        products: Sequence[OnesProduct],
        dtype: str,
        read: _Place,
        target: _Place,
    ) -> None:
        """Add products that write one behind another."""
        written = target.offset
        for index, one in enumerate(products):
            (first, second, sums), descriptor = self._ones_product(one, dtype)
            offset = read.offset + one.begin * DTYPES[dtype].itemsize
            factors = [Buffer(first, read.operand, offset), Buffer(second, constant=ones(dtype))]
            if one.ones_first:
                factors = [
                    Buffer(first, constant=ones(dtype)),
                    Buffer(second, read.operand, offset),
                ]
            arguments = self._arguments(*factors, Buffer(sums, target.operand, written))
            self._steps.add_primitive((*key, index), f"sum of {name}", descriptor, arguments)
            written += 4 * one.sums.size

    def add_to_dst(self, number: int, candidate: Candidate) -> None:
        """Add the products that add the bias to dst, if oneDNN has such."""
        asked, steps = candidate.formulation.asked, self._steps
        bias, addition = asked.bias, bias_addition(asked.dst)
        if bias is None or not asked.has_dense_bias or addition is None:
            return
        dtype = candidate.formulation.problem.dtype
        repeated, products = addition
        all_products = [*products] if repeated is None else [repeated, *products]
        made = []
        for one in all_products:
            descs = self._matrices(one, dtype, dtype, dtype)
            descriptor = ones_addition_desc(self._engine, descs, adds=one is not repeated)
            if descriptor is None:
                return
            made.append((one, descs, descriptor))
        name = candidate.name("bias")
        offset = 0
        if repeated is not None:
            offset = steps.workspace.add(DTYPES[dtype].itemsize * repeated.sums.size)
        of_bias, of_dst = steps.operand(name), steps.operand(candidate.name("dst"))
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
            arguments = self._arguments(*factors, of_result)
            key = "bias", number, index
            steps.add_primitive(key, f"addition of {name}", descriptor, arguments)
        self.added.add(name)

    def _arguments(self, *buffers: Buffer) -> list[tuple[int, int]]:
        """Return the arguments of a product: both factors, and what it writes."""
        indices = [self._steps.buffer(buffer) for buffer in buffers]
        return self._steps.arguments(("SRC", "WEIGHTS", "DST"), indices)

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
