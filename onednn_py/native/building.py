"""Building: decided problems to the buffers and steps of one program."""

from __future__ import annotations

from collections.abc import Sequence

from ..arrays import DTYPES
from ..problem import Problem, TensorLayout
from .descriptors import EXECUTION_ARGUMENTS, QUERIES, user_desc
from .execute import Buffer, Layout, Program, Step
from .handles import Api, Handle
from .parts import Converted, Part

__all__ = ["Builder"]


class Builder:
    """Collects buffers and steps: reorders in, the primitives, reorders out."""

    def __init__(self, api: Api, parts: Sequence[Part]) -> None:
        self._api = api
        self._buffers: list[Buffer] = []
        self._steps: list[Step] = []
        self._layout = Layout()
        self._scratchpads: list[int] = []
        self._brought: list[tuple[str, Handle, Handle, int]] = []
        self.converted: list[Converted] = []
        self.reordered: list[str] = []
        self.layouts: dict[str, str] = {}
        self.scratchpad_bytes = 0
        self.operands: list[str] = []
        after: list[tuple[str, Handle, int, Handle, int]] = []
        for part in parts:
            after.extend(self._add(part))
        for name, source, source_index, target, target_index in after:
            self._reorder(name, source, source_index, target, target_index)

    def program(self, threads: tuple[int, int] | None) -> Program:
        """Return the steps; scratchpads share one place, since one step runs at a time."""
        offset = self._layout.add(self.scratchpad_bytes)
        for index in self._scratchpads:
            self._buffers[index] = Buffer(self._buffers[index].desc, None, offset)
        return Program(
            self._api,
            tuple(self.operands),
            self._buffers,
            self._steps,
            self._layout.nbytes,
            threads,
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
        self.converted.append(Converted(part, role, offset, is_result))

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
