"""Bias gradients whose short sums NumPy adds up behind a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.backends.onednn.binding.engine import Engine
from onednn_py.backends.onednn.selection.bias_sums import MOST_ONES
from onednn_py.problem.dtypes import DTYPES
from onednn_py.system.casting import round_into
from onednn_py.system.memory_pool import Block, pool

from .program import Program

__all__ = ["BiasSums", "SummingProgram", "ones"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class BiasSums:
    """Where the partial sums of a bias gradient lie in the workspace.

    Attributes
    ----------
    name : str
        The operand's name.
    offset : int
        In bytes.
    number : int
    channels, parts : int
        How many channels there are, and how many consecutive sums each of them has.
    """

    name: str
    offset: int
    number: int
    channels: int
    parts: int

    def write(self, bias: Array, block: Block) -> None:
        """Add the partial sums up in float64, and round them into the bias gradient."""
        shape = self.number // (self.channels * self.parts), self.channels * self.parts
        sums: Array = np.ndarray(shape, np.float32, block, self.offset)
        with np.errstate(all="ignore"):
            totals = np.add.reduce(sums, axis=0, dtype=np.float64)
            if self.parts > 1:
                totals = np.add.reduce(totals.reshape(self.channels, self.parts), axis=1)
            round_into(bias, totals)


class SummingProgram:
    """A program with the sums that NumPy adds up behind it, on addresses alone.

    Parameters
    ----------
    engine : Engine
    program : Program
    sums : sequence of BiasSums
        Of bias gradients that are dense.
    dtype : str
        The type of the bias gradients.
    """

    def __init__(
        self, engine: Engine, program: Program, sums: Sequence[BiasSums], dtype: str
    ) -> None:
        self._copy = engine.copy
        self._program = program
        self._sums = [(program.operands.index(one.name), one) for one in sums]
        self._dtype = DTYPES[dtype]

    def run(self, pointers: Sequence[Any]) -> None:
        """Execute on the operands' addresses, as `Program.run` does."""
        block = pool.borrow(self._program.workspace_bytes)
        try:
            self._program.run(pointers, block)
            for index, one in self._sums:
                # The result is known by its address alone.
                bias = np.empty(one.channels, self._dtype)
                one.write(bias, block)
                self._copy(pointers[index], bias)
        finally:
            pool.give_back(block)

    def run_again(self, pointers: Sequence[Any]) -> bool:
        """Return False: callers ask it of calls with one result alone, and these have several."""
        return False


@cache
def ones(dtype: str, number: int = MOST_ONES) -> Array:
    """Return the ones that products read."""
    return np.ones(number, DTYPES[dtype])
