"""Plan: the primitives, reorders and workspace of one problem, or of two that share tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import DTYPES
from ..memory import pool
from ..problem import Choice, Problem, TensorLayout
from ..rounding import round_into, widen_into
from .descriptors import EXECUTION_ARGUMENTS, QUERIES, user_desc
from .execute import Buffer, Layout, Program, Step
from .formulations import Formulation
from .handles import Api, Handle

__all__ = ["NativePlan", "Packed", "Part"]

Array = npt.NDArray[Any]

# What a primitive keeps besides its workspace: generated code and descriptors.
BYTES_PER_PRIMITIVE = 64 * 2**10


@dataclass(frozen=True, slots=True)
class Part:
    """One problem of a plan, decided.

    Attributes
    ----------
    formulation : Formulation
    choice : Choice
        With the implementation's name.
    descriptor : Handle
        Primitive descriptor at that implementation.
    names : dict
        For each role of the problem that was asked, the operand's name in the plan.
    """

    formulation: Formulation
    choice: Choice
    descriptor: Handle
    names: dict[str, str] = field(default_factory=dict)

    def name(self, role: str) -> str:
        return self.names.get(role, role)

    @property
    def results(self) -> set[str]:
        """Names of the operands that are written."""
        asked = self.formulation.asked
        roles = {asked.result_name}
        if asked.result_name == "weights":
            roles.add("bias")
        return {self.name(role) for role in roles if getattr(asked, role) is not None}


@dataclass(frozen=True, slots=True)
class _Converted:
    """A tensor that is computed in another data type: a dense copy in the workspace."""

    part: Part
    role: str
    offset: int
    is_result: bool

    @property
    def name(self) -> str:
        return self.part.name(self.part.formulation.roles[self.role])

    def seen(self, tensors: Mapping[str, Array]) -> Array:
        """Return the caller's elements, in the order of `view`."""
        return self.part.formulation.seen(self.role, tensors[self.name])

    def view(self, block: npt.NDArray[Any]) -> Array:
        problem = self.part.formulation.problem
        layout: TensorLayout = getattr(problem, self.role)
        dtype = DTYPES[problem.dtype]
        strides = tuple(stride * dtype.itemsize for stride in layout.strides)
        return np.ndarray(layout.shape, dtype, block, self.offset, strides)


class Packed:
    """A tensor in a plan's own layout; it fits plans of that layout only."""

    def __init__(self, plan: NativePlan, block: npt.NDArray[Any], nbytes: int) -> None:
        self.plan = plan
        self.block = block
        self.nbytes = nbytes


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
    needs_arrays : bool
        Whether a part of the work is NumPy's, so that addresses alone do not do.
    workspace_bytes : int
        Memory that one execution borrows: reordered and converted tensors, scratchpad.
    """

    backend = "onednn"

    def __init__(self, api: Api, *parts: Part, timings: Sequence[tuple[str, float]] = ()) -> None:
        self.parts = parts
        self.problem = parts[0].formulation.asked
        self.implementation = " and ".join(
            dict.fromkeys(part.choice.implementation for part in parts)
        )
        self.timings = tuple(timings)
        builder = _Builder(api, parts)
        self.operands = tuple(builder.operands)
        self.reorders = tuple(dict.fromkeys(builder.reordered))
        self.layouts = builder.layouts
        self.scratchpad_bytes = builder.scratchpad_bytes
        self._api = api
        self._converted = builder.converted
        self._prepared = [part for part in parts if part.formulation.needs_preparation]
        self.needs_arrays = bool(self._converted or self._prepared)
        self._program = builder.program()
        self.run = self._program.run

    @property
    def choice(self) -> Choice:
        return self.parts[0].choice

    @property
    def workspace_bytes(self) -> int:
        return self._program.workspace_bytes

    @property
    def nbytes(self) -> int:
        """Bytes that the plan itself keeps alive, roughly; large workspaces are the pool's."""
        kept = self.workspace_bytes if self._program.keeps_workspace else 0
        return BYTES_PER_PRIMITIVE * len(self._program.steps) + kept

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

    def pointers(self, arrays: Sequence[Array]) -> list[Any]:
        """Return what `run` takes, given arrays in the order of ``operands``."""
        return list(map(self._api.pointer, arrays))

    def execute(self, tensors: Mapping[str, Array]) -> None:
        """Compute the result from canonical views by name, in place of the result's elements."""
        for part in self._prepared:
            asked = part.formulation.asked
            part.formulation.prepare(
                {
                    role: tensors[part.name(role)]
                    for role in ("src", "weights", "dst", "bias")
                    if getattr(asked, role) is not None
                }
            )
        pointers = self.pointers([tensors[name] for name in self.operands])
        if not self._converted:
            self.run(pointers)
            return
        block = pool.acquire(self.workspace_bytes)
        try:
            base = self._api.pointer(block)
            moved = dict(zip(self.operands, pointers, strict=True))
            for converted in self._converted:
                moved[converted.name] = base + converted.offset
                if not converted.is_result:
                    widen_into(converted.view(block), converted.seen(tensors))
            self.run(list(moved.values()), block)
            for converted in self._converted:
                if converted.is_result:
                    round_into(converted.seen(tensors), converted.view(block))
        finally:
            pool.release(block)


def _notes(part: Part) -> list[str]:
    choice, asked = part.choice, part.formulation.asked
    notes = []
    if choice.compute_dtype != asked.dtype:
        notes.append(f"{asked.dtype} through {choice.compute_dtype}")
    if asked.fpmath_mode != "strict":
        notes.append(f"fpmath_mode {asked.fpmath_mode}: products may be rounded to it")
    if choice.formulation != "direct":
        notes.append(f"formulation: {choice.formulation}")
    return notes


class _Builder:
    """Collects buffers and steps: reorders in, the primitives, reorders out."""

    def __init__(self, api: Api, parts: Sequence[Part]) -> None:
        self._api = api
        self._buffers: list[Buffer] = []
        self._steps: list[Step] = []
        self._layout = Layout()
        self._scratchpads: list[int] = []
        self._brought: list[tuple[str, Handle, Handle, int]] = []
        self.converted: list[_Converted] = []
        self.reordered: list[str] = []
        self.layouts: dict[str, str] = {}
        self.scratchpad_bytes = 0
        self.operands: list[str] = []
        after: list[tuple[str, Handle, int, Handle, int]] = []
        for part in parts:
            after.extend(self._add(part))
        for name, source, source_index, target, target_index in after:
            self._reorder(name, source, source_index, target, target_index)

    def program(self) -> Program:
        """Return the steps; scratchpads share one place, since one step runs at a time."""
        offset = self._layout.add(self.scratchpad_bytes)
        for index in self._scratchpads:
            self._buffers[index] = Buffer(self._buffers[index].desc, None, offset)
        return Program(
            self._api, tuple(self.operands), self._buffers, self._steps, self._layout.nbytes
        )

    def _add(self, part: Part) -> list[tuple[str, Handle, int, Handle, int]]:
        api, problem = self._api, part.formulation.problem
        asked = part.formulation.asked
        results = part.results
        arguments: list[tuple[int, int]] = []
        after: list[tuple[str, Handle, int, Handle, int]] = []
        for role, argument in EXECUTION_ARGUMENTS[problem.direction].items():
            layout = getattr(problem, role)
            if layout is None:
                continue
            name = part.name(part.formulation.roles[role])
            is_result = name in results
            user = user_desc(api, problem, role)
            wanted = self._wanted(part.descriptor, problem, role)
            self.layouts[name] = api.layout_name(wanted)
            number = self._operand(name)
            index = self._found(name, user, wanted) if not is_result else None
            if index is None:
                if problem.dtype != asked.dtype:
                    self._convert(part, role, is_result)
                index = self._buffer(Buffer(user, operand=number))
                if not api.equal(user, wanted):
                    self.reordered.append(name)
                    place = self._layout.add(api.nbytes(wanted))
                    inner = self._buffer(Buffer(wanted, offset=place))
                    if is_result:
                        after.append((name, wanted, inner, user, index))
                    else:
                        self._reorder(name, user, index, wanted, inner, brings=number)
                    index = inner
                if not is_result:
                    self._brought.append((name, user, wanted, index))
            arguments.append((getattr(api.lib, f"DNNL_ARG_{argument}"), index))
        # The bias gradient may be NumPy's business alone.
        for role in ("src", "weights", "bias", "dst"):
            if getattr(asked, role) is not None:
                self._operand(part.name(role))
        self._step(part.choice.implementation, part.descriptor, arguments)
        return after

    def _operand(self, name: str) -> int:
        if name not in self.operands:
            self.operands.append(name)
        return self.operands.index(name)

    def _found(self, name: str, user: Handle, wanted: Handle) -> int | None:
        """Return the buffer of an input that an earlier part brought in the same layout."""
        for other, other_user, other_wanted, index in self._brought:
            if (
                other == name
                and self._api.equal(user, other_user)
                and self._api.equal(wanted, other_wanted)
            ):
                return index
        return None

    def _convert(self, part: Part, role: str, is_result: bool) -> None:
        problem, name = part.formulation.problem, part.name(part.formulation.roles[role])
        if any(other.name == name for other in self.converted):
            return
        layout: TensorLayout = getattr(problem, role)
        offset = self._layout.add(layout.size * DTYPES[problem.dtype].itemsize)
        self.converted.append(_Converted(part, role, offset, is_result))

    def _wanted(self, descriptor: Handle, problem: Problem, role: str) -> Handle:
        api = self._api
        if problem.bias is not None and role == "bias":
            return api.strided_desc(problem.bias.shape, problem.dtype, (1,))
        query = QUERIES[problem.direction][role]
        return api.clone_desc(api.desc_of(descriptor, query))

    def _buffer(self, buffer: Buffer) -> int:
        self._buffers.append(buffer)
        return len(self._buffers) - 1

    def _reorder(
        self,
        name: str,
        source: Handle,
        source_index: int,
        target: Handle,
        target_index: int,
        brings: int | None = None,
    ) -> None:
        api = self._api
        arguments = [
            (api.lib.DNNL_ARG_SRC, source_index),
            (api.lib.DNNL_ARG_DST, target_index),
        ]
        descriptor = api.reorder_desc(source, target)
        self._step(f"reorder of {name}", descriptor, arguments, brings)

    def _step(
        self,
        name: str,
        descriptor: Handle,
        arguments: list[tuple[int, int]],
        brings: int | None = None,
    ) -> None:
        api = self._api
        scratchpad = api.desc_of(descriptor, "scratchpad")
        nbytes = api.nbytes(scratchpad)
        self.scratchpad_bytes = max(self.scratchpad_bytes, nbytes)
        if nbytes:
            index = self._buffer(Buffer(api.clone_desc(scratchpad)))
            self._scratchpads.append(index)
            arguments = [*arguments, (api.lib.DNNL_ARG_SCRATCHPAD, index)]
        self._steps.append(Step(name, api.primitive(descriptor), tuple(arguments), brings))
