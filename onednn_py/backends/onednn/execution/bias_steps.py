"""Steps for a bias: products with ones that sum its gradient, or that add it to dst."""

from __future__ import annotations

from collections.abc import Hashable

from onednn_py.backends.onednn.binding.engine import Handle
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
from onednn_py.backends.onednn.selection.descriptors import ones_addition_desc, ones_product_desc
from onednn_py.backends.onednn.selection.formulation import SUM_DTYPE
from onednn_py.problem.dtypes import DTYPES

from .bias import BiasSums, ones
from .program import Buffer
from .steps import Steps

__all__ = ["BiasSteps"]


class BiasSteps:
    """Adds the steps of biases to those of the primitives.

    Attributes
    ----------
    sums : list of BiasSums
    added : set of str
        Names of the biases that steps add to dst.
    """

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._engine = steps.engine
        self._ones_products: dict[Hashable, tuple[list[Handle], Handle | None]] = {}
        self.sums: list[BiasSums] = []
        self.added: set[str] = set()

    def sum_gradient(self, number: int, candidate: Candidate) -> None:
        """Add the products that sum a chunk's part of diff_dst, if there are such."""
        steps, formulation = self._steps, candidate.formulation
        chunk, dtype = formulation.chunks[steps.chunk], formulation.problem.dtype
        found = chunk_layout(formulation, chunk)
        if found is None:
            return
        role, layout = found
        shape, products = sums_shape(layout), ones_products(layout)
        if shape is None or None in [self._ones_product(one, dtype)[1] for one in products]:
            return
        name, of_chunk = candidate.name("bias"), partial_sums(layout)
        if steps.chunk == 0:
            total = of_chunk * summing_chunks(formulation)
            self.sums.append(BiasSums(name, steps.workspace.add(4 * total), total, *shape))
        target = self.sums[-1].offset + 4 * of_chunk * steps.chunk
        is_whole = role in formulation.copied or sums_at_once(formulation)
        begin = 0 if is_whole else formulation.offset(role, chunk.tensors[role].begin)
        read = steps.operand(candidate.operand(role))
        for index, one in enumerate(products):
            (first, second, sums), descriptor = self._ones_product(one, dtype)
            offset = begin + one.begin * DTYPES[dtype].itemsize
            factors = [Buffer(first, read, offset), Buffer(second, constant=ones(dtype))]
            if one.ones_first:
                factors = [Buffer(first, constant=ones(dtype)), Buffer(second, read, offset)]
            arguments = self._arguments(*factors, Buffer(sums, offset=target))
            key = "ones", number, chunk.problem, index
            steps.add_primitive(key, f"sum of {name}", descriptor, arguments)
            target += 4 * one.sums.size

    def add_to_dst(self, number: int, candidate: Candidate) -> None:
        """Add the products that add the bias to dst, if oneDNN has such."""
        asked, steps = candidate.formulation.asked, self._steps
        bias, addition = asked.bias, bias_addition(asked.dst)
        if bias is None or bias.dense() != bias or addition is None:
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
