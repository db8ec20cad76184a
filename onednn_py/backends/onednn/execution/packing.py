"""Packing: an input in a plan's own layout, made once and used by many executions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.backends.onednn.binding.engine import Handle
from onednn_py.system.memory_pool import pool

from .plan import NativePlan
from .program import Buffer, Layout, Program, Step

__all__ = ["NativePacked", "execute_packed", "pack"]

Array = npt.NDArray[Any]


class NativePacked:
    """An input as the primitives of a plan take it.

    Attributes
    ----------
    name : str
        The operand's name.
    nbytes : int
    """

    def __init__(self, plan: NativePlan, name: str, desc: Handle, nbytes: int) -> None:
        self.name, self.nbytes = name, nbytes
        self.block = pool.empty((max(nbytes, 1),), np.dtype(np.uint8))
        self._api, self._desc = plan.api, desc

    @property
    def pointer(self) -> Any:
        return self._api.pointer(self.block)

    def fits(self, plan: NativePlan) -> bool:
        """Whether a plan's primitives take the same layout: a plan may have been made anew."""
        taken = _taken(_uncut(plan, self.name), self.name)
        return plan.api is self._api and self._api.equal(taken, self._desc)


def _uncut(plan: NativePlan, name: str) -> NativePlan:
    """Return a plan that takes an input in one piece: what is packed has no copies."""
    return plan.whole if plan.is_cut(name) else plan


def _step(plan: NativePlan, name: str) -> Step | None:
    return plan.program.bringing(name)


def _taken(plan: NativePlan, name: str) -> Handle:
    """Return the memory descriptor in which the primitives take an operand."""
    step = _step(plan, name)
    if step is not None:
        return plan.program.buffers[step.arguments[1][1]].desc
    number = plan.program.operands.index(name)
    return next(buffer.desc for buffer in plan.program.buffers if buffer.operand == number)


def pack(plan: NativePlan, name: str, array: Array) -> NativePacked:
    """Return an input, given by its canonical view, in the layout that a plan takes.

    Raises
    ------
    OneDNNError
        If the reorder fails.
    """
    plan = _uncut(plan, name)
    api, step = plan.api, _step(plan, name)
    taken = _taken(plan, name)
    packed = NativePacked(plan, name, taken, api.nbytes(taken))
    read, source = plan.operand(name, array)
    if step is None:
        strides = tuple(stride * source.itemsize for stride in read.strides)
        np.copyto(np.ndarray(read.shape, source.dtype, packed.block, 0, strides), source)
        return packed
    (reads, source_index), (writes, _), *scratch = step.arguments
    buffers = [
        Buffer(plan.program.buffers[source_index].desc, operand=0),
        Buffer(taken, operand=1),
    ]
    layout = Layout()
    arguments = [(reads, 0), (writes, 1)]
    for argument, index in scratch:
        desc = plan.program.buffers[index].desc
        buffers.append(Buffer(desc, offset=layout.add(api.nbytes(desc))))
        arguments.append((argument, len(buffers) - 1))
    alone = Step(step.name, step.primitive, tuple(arguments))
    program = Program(api, (name, "packed"), buffers, [alone], layout.nbytes)
    program.run([api.pointer(source), packed.pointer])
    return packed


def execute_packed(plan: NativePlan, packed: NativePacked, tensors: Mapping[str, Array]) -> None:
    """Run a plan on canonical views by name, and on one operand that is packed."""
    plan = _uncut(plan, packed.name)
    step = _step(plan, packed.name)
    program = plan.program if step is None else plan.program_without(step)
    plan.execute(tensors, program, {packed.name: packed.pointer})
