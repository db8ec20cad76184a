"""Plan: one problem, or two that share tensors, ready to be executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.backends.onednn.binding.engine import Api
from onednn_py.backends.onednn.selection.candidate import Part
from onednn_py.problem.problem import Choice, TensorLayout
from onednn_py.system.casting import widen_into
from onednn_py.system.memory_pool import pool

from .casts import Conversions
from .lowering import Builder
from .program import Program, Step

__all__ = ["NativePlan"]

Array = npt.NDArray[Any]

# What a primitive keeps besides its workspace: generated code and descriptors.
BYTES_PER_PRIMITIVE = 64 * 2**10


class NativePlan:
    """Primitives for one problem or two, with the reorders and the workspace that they need.

    Attributes
    ----------
    problem : Problem
        That of the first part.
    operands : tuple of str
        Names of the tensors, in the order in which `run` takes their addresses.
    implementation : str
        oneDNN's name of the implementation, as its verbose mode prints it.
    reorders : tuple of str
        Names of the operands whose layout the implementation does not take as it is.
    run, pointers : callable
        `Program.run` on what ``pointers`` returns for arrays in the order of ``operands``.
    needs_arrays : bool
        Whether a part of the work is NumPy's, so that addresses alone do not do.
    workspace_bytes : int
        Memory that one execution borrows: reordered and converted tensors, scratchpad. Converting
        float16 takes some megabytes a thread besides.
    """

    backend = "onednn"

    def __init__(self, api: Api, *parts: Part, timings: Sequence[tuple[str, float]] = ()) -> None:
        self.parts = parts
        self.problem = parts[0].formulation.asked
        self.implementation = " and ".join(
            dict.fromkeys(part.choice.implementation for part in parts)
        )
        self.timings = tuple(timings)
        threads = None
        own = min(part.choice.threads for part in parts) if api.openmp is not None else 0
        if own and api.openmp is not None:
            threads = (own, api.openmp.number())
        with api.on_threads(own):
            builder = Builder(api, parts)
            self.program = builder.program(threads)
        self.operands = tuple(builder.operands)
        self.reorders = tuple(dict.fromkeys(builder.reordered))
        self.layouts = builder.layouts
        self.scratchpad_bytes = builder.scratchpad_bytes
        self.api = api
        self._without: dict[str, Program] = {}
        self._converted = builder.converted
        self._prepared = [part for part in parts if part.formulation.needs_preparation]
        self.needs_arrays = bool(self._converted or self._prepared)
        self.run = self.program.run
        self.pointers = api.pointers

    @property
    def choice(self) -> Choice:
        return self.parts[0].choice

    @cached_property
    def whole(self) -> NativePlan:
        """The same not in pieces."""
        return NativePlan(self.api, *(part.whole or part for part in self.parts))

    def is_cut(self, operand: str) -> bool:
        """Whether pieces have parts of an operand of their own."""
        return any(
            part.name(part.formulation.roles[role]) == operand
            for part in self.parts
            for role in part.formulation.cut_roles
        )

    @property
    def workspace_bytes(self) -> int:
        return self.program.workspace_bytes

    @property
    def nbytes(self) -> int:
        """Bytes that the plan itself keeps alive, roughly; large workspaces are the pool's."""
        # Conversions need the workspace before an execution has one, and borrow it.
        keeps = self.program.keeps_workspace and not self._converted
        kept = self.workspace_bytes if keeps else 0
        primitives = {id(step.primitive) for step in self.program.steps}
        return BYTES_PER_PRIMITIVE * len(primitives) + kept

    def __repr__(self) -> str:
        lines = []
        for part in self.parts:
            lines.append(f"{part.formulation.asked.operation}: oneDNN {part.choice.implementation}")
            lines.extend(f"  {note}" for note in _notes(part))
        layouts = ", ".join(f"{name} {layout}" for name, layout in self.layouts.items())
        lines.append(f"  layouts: {layouts}")
        lines.append(f"  reorders: {', '.join(self.reorders) or 'none'}")
        lines.append(
            f"  scratchpad {self.scratchpad_bytes} bytes, workspace {self.workspace_bytes} bytes"
        )
        if self.timings:
            lines.append("  measured:")
            lines.extend(f"    {time:10.1f} us  {name}" for name, time in self.timings)
        return "\n".join(lines)

    def execute(
        self,
        tensors: Mapping[str, Array],
        program: Program | None = None,
        packed: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Compute the result from canonical views by name, in place of the result's elements.

        Parameters
        ----------
        tensors : mapping
        program : Program, optional
            In place of the plan's own: without the reorders of operands that are packed.
        packed : mapping
            Addresses of these operands.
        """
        for part in self._prepared:
            part.formulation.prepare(
                {
                    role: tensors[part.name(role)]
                    for role in part.formulation.present
                    if part.name(role) in tensors
                }
            )
        run = self.run if program is None else program.run
        pointers = {
            name: packed[name] if name in packed else self.api.pointer(tensors[name])
            for name in self.operands
        }
        converted = [one for one in self._converted if one.name not in packed]
        if not converted:
            run(list(pointers.values()))
            return
        block = pool.acquire(self.workspace_bytes)
        try:
            base = self.api.pointer(block)
            for one in converted:
                pointers[one.name] = base + one.offset
            conversions = Conversions(converted, tensors, block)
            run(list(pointers.values()), block, conversions)
        finally:
            pool.release(block)

    def program_without(self, step: Step) -> Program:
        """Return the program that takes what ``step`` brings; made once."""
        made = self._without.get(step.name)
        if made is None:
            made = self._without.setdefault(step.name, self.program.without(step))
        return made

    def operand(self, name: str, array: Array) -> tuple[TensorLayout, Array]:
        """Return an input, given by its canonical view, as the program reads it, and its layout."""
        for one in self._converted:
            if one.name == name:
                target = one.view(np.empty(one.nbytes, np.uint8), 0)
                widen_into(target, one.seen(array))
                return one.layout(), target
        for part in self.parts:
            formulation = part.formulation
            for role, asked_role in formulation.roles.items():
                if part.name(asked_role) == name:
                    return getattr(formulation.problem, role), formulation.seen(role, array)
        raise KeyError(name)


def _notes(part: Part) -> list[str]:
    choice, asked = part.choice, part.formulation.asked
    notes = []
    if choice.compute_dtype != asked.dtype:
        notes.append(f"{asked.dtype} through {choice.compute_dtype}")
    if asked.fpmath_mode != "strict":
        notes.append(f"fpmath_mode {asked.fpmath_mode}: products may be rounded to it")
    if choice.threads:
        notes.append("on one thread")
    if choice.formulation != "direct":
        notes.append(f"formulation: {choice.formulation}")
    if choice.pieces > 1:
        of = "minibatch" if choice.cut == "images" else choice.cut
        number = len(part.formulation.pieces)
        notes.append(f"{of} in {number} pieces, one after the other")
    return notes
