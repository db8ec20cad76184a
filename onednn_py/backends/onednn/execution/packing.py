"""Packing: an input in a plan's own layout, made once and used by many executions."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.backends.onednn.binding.engine import Engine, Handle
from onednn_py.problem.problem import TensorLayout
from onednn_py.system.memory_pool import pool

from .program import Buffer, Layout, Program, Step

__all__ = ["PackedInput"]

Array = npt.NDArray[Any]


class PackedInput:
    """An input as the primitives of a program take it.

    Parameters
    ----------
    engine : Engine
    program : Program
    name : str
        The operand's name.
    layout : TensorLayout
        In which the program reads the operand, before its reorder.
    source : ndarray
        The input in that layout.
    order : hashable
        What of the order of its elements no layout says: flipped weights have the layout of others.

    Raises
    ------
    OneDNNError
        If the reorder fails.
    """

    def __init__(
        self,
        engine: Engine,
        program: Program,
        name: str,
        layout: TensorLayout,
        source: Array,
        order: Hashable = None,
    ) -> None:
        self.name = name
        self._order = order
        self._engine = engine
        step = program.input_reorder(name)
        self._desc = _taken(program, name, step)
        self.nbytes = engine.nbytes(self._desc)
        self.block = pool.empty((max(self.nbytes, 1),), np.dtype(np.uint8))
        if step is None:
            strides = tuple(stride * source.itemsize for stride in layout.strides)
            np.copyto(np.ndarray(layout.shape, source.dtype, self.block, 0, strides), source)
        else:
            self._reorder(program, step, source)

    @property
    def pointer(self) -> Any:
        return self._engine.pointer(self.block)

    def is_read_by(self, engine: Engine, program: Program, order: Hashable = None) -> bool:
        """Whether a program's primitives take the operand in the same layout and order."""
        # A forked child has another engine; memory descriptors belong to none.
        if engine.library is not self._engine.library or order != self._order:
            return False
        taken = _taken(program, self.name, program.input_reorder(self.name))
        return engine.equal(taken, self._desc)

    def _reorder(self, program: Program, step: Step, source: Array) -> None:
        """Run the input's reorder alone."""
        engine = self._engine
        (reads, source_index), (writes, _), *scratchpads = step.arguments
        buffers = [
            Buffer(program.buffers[source_index].desc, operand=0),
            Buffer(self._desc, operand=1),
        ]
        workspace = Layout()
        arguments = [(reads, 0), (writes, 1)]
        for argument, index in scratchpads:
            desc = program.buffers[index].desc
            buffers.append(Buffer(desc, offset=workspace.add(engine.nbytes(desc))))
            arguments.append((argument, len(buffers) - 1))
        alone = Step(step.name, step.primitive, tuple(arguments))
        operands = (self.name, "packed")
        title = f"the weights of {program.title}"
        reorder = Program(engine, operands, buffers, [alone], workspace.nbytes, title=title)
        reorder.run([engine.pointer(source), self.pointer])


def _taken(program: Program, name: str, step: Step | None) -> Handle:
    """Return the memory descriptor in which the primitives take an operand."""
    if step is not None:
        return program.buffers[step.arguments[1][1]].desc
    index = program.operands.index(name)
    return next(buffer.desc for buffer in program.buffers if buffer.operand == index)
