"""Building: decided problems to the buffers and steps of one program."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import NamedTuple

from .conversions import Converted
from .descriptors import EXECUTION_ARGUMENTS, QUERIES, user_desc
from .execute import Buffer, Layout, Program, Step
from .handles import Api, Handle
from .parts import Part

__all__ = ["Builder"]


class _Reorder(NamedTuple):
    """A reorder of a result, or its addition to what is there, to follow the primitives."""

    name: str
    source: int
    target: int
    adds: bool = False


class Builder:
    """Collects buffers and steps: reorders in, the primitives, reorders out, piece by piece.

    All pieces use the same primitives, and the same workspace.
    """

    def __init__(self, api: Api, parts: Sequence[Part]) -> None:
        self._api = api
        self._buffers: list[Buffer] = []
        self._steps: list[Step] = []
        self._layout = Layout()
        self._primitives: dict[Hashable, tuple[Handle, int | None]] = {}
        self._inner: dict[Hashable, int] = {}
        self._brought: list[tuple[str, int, Handle, Handle, int]] = []
        self.converted: list[Converted] = []
        self.reordered: list[str] = []
        self.layouts: dict[str, str] = {}
        self.scratchpad_bytes = 0
        self.operands: list[str] = []
        self._piece = 0  # whose steps are being added
        for self._piece in range(parts[0].choice.pieces):
            after: list[_Reorder] = []
            for place, part in enumerate(parts):
                after += self._add(place, part)
            for reorder in after:
                self._reorder(reorder)

    def program(self, threads: tuple[int, int] | None) -> Program:
        """Return the steps; scratchpads share one place, since one step runs at a time."""
        offset = self._layout.add(self.scratchpad_bytes)
        for _, index in self._primitives.values():
            if index is not None:
                self._buffers[index] = Buffer(self._buffers[index].desc, None, offset)
        return Program(
            self._api,
            tuple(self.operands),
            self._buffers,
            self._steps,
            self._layout.nbytes,
            threads,
        )

    def _add(self, place: int, part: Part) -> list[_Reorder]:
        """Add the steps of one piece of a part; return what is to follow those of all parts."""
        api, formulation, number = self._api, part.formulation, self._piece
        problem, asked = formulation.piece, formulation.asked
        results = part.results
        arguments: list[tuple[int, int]] = []
        after: list[_Reorder] = []
        last: list[_Reorder] = []
        for role, argument in EXECUTION_ARGUMENTS[problem.direction].items():
            if getattr(problem, role) is None:
                continue
            name = part.name(formulation.roles[role])
            is_result = name in results
            is_cut = formulation.is_cut(role)
            user = user_desc(api, problem, role)
            wanted = self._wanted(part, role)
            self.layouts[name] = api.layout_name(wanted)
            operand = self._operand(name)
            which = number if is_cut else 0
            index = None if is_result else self._found(name, which, user, wanted)
            if index is None:
                offset = formulation.offset(role, number)
                if problem.dtype != asked.dtype:
                    self._convert(part, role, is_result)
                    offset = 0
                index = self._buffer(Buffer(user, operand, offset))
                is_sum = is_result and not is_cut and formulation.pieces > 1
                is_other = not api.equal(user, wanted)
                if is_other:
                    self.reordered.append(name)
                if is_sum:
                    total = self._inner_buffer((place, role), wanted) if is_other else index
                    if is_other and number == formulation.pieces - 1:
                        last.append(_Reorder(name, total, index))
                    index = total
                    if number:
                        index = self._inner_buffer((place, role, "piece"), wanted)
                        after.append(_Reorder(name, index, total, adds=True))
                elif is_other:
                    inner = self._inner_buffer((place, role), wanted)
                    if is_result:
                        after.append(_Reorder(name, inner, index))
                    else:
                        self._reorder(_Reorder(name, index, inner), operand)
                    index = inner
                if not is_result:
                    self._brought.append((name, which, user, wanted, index))
            arguments.append((getattr(api.lib, f"DNNL_ARG_{argument}"), index))
        # The bias gradient may be NumPy's business alone.
        for role in ("src", "weights", "bias", "dst"):
            if getattr(asked, role) is not None:
                self._operand(part.name(role))
        key = ("part", place)
        self._step(key, part.choice.implementation, lambda: part.descriptor, arguments)
        return after + last

    def _operand(self, name: str) -> int:
        if name not in self.operands:
            self.operands.append(name)
        return self.operands.index(name)

    def _found(self, name: str, which: int, user: Handle, wanted: Handle) -> int | None:
        """Return the buffer of an input that is there in the same layout.

        From an earlier part, or for a tensor that is not cut from an earlier piece.
        """
        for other, other_which, other_user, other_wanted, index in self._brought:
            if (
                (other, other_which) == (name, which)
                and self._api.equal(user, other_user)
                and self._api.equal(wanted, other_wanted)
            ):
                return index
        return None

    def _convert(self, part: Part, role: str, is_result: bool) -> None:
        one = Converted(part, role, self._layout.nbytes, is_result)
        if all(other.name != one.name for other in self.converted):
            self._layout.add(one.nbytes)
            self.converted.append(one)

    def _wanted(self, part: Part, role: str) -> Handle:
        api, problem = self._api, part.formulation.piece
        if problem.bias is not None and role == "bias":
            return api.strided_desc(problem.bias.shape, part.formulation.dtype(role), (1,))
        query = QUERIES[problem.direction][role]
        return api.clone_desc(api.desc_of(part.descriptor, query))

    def _buffer(self, buffer: Buffer) -> int:
        self._buffers.append(buffer)
        return len(self._buffers) - 1

    def _inner_buffer(self, key: Hashable, wanted: Handle) -> int:
        """Return the place in the workspace of a tensor in a primitive's own layout."""
        if key not in self._inner:
            offset = self._layout.add(self._api.nbytes(wanted))
            self._inner[key] = self._buffer(Buffer(wanted, offset=offset))
        return self._inner[key]

    def _reorder(self, one: _Reorder, brings: int | None = None) -> None:
        """Add a reorder; those with the inner buffers in common share a primitive."""
        api, buffers = self._api, self._buffers
        source, target = (buffers[index] for index in (one.source, one.target))
        inner = one.target if brings is not None else one.source
        arguments = [(api.lib.DNNL_ARG_SRC, one.source), (api.lib.DNNL_ARG_DST, one.target)]
        make = partial(api.reorder_desc, source.desc, target.desc, adds=one.adds)
        name = f"{'sum' if one.adds else 'reorder'} of {one.name}"
        self._step((inner, brings is None, one.adds), name, make, arguments, brings)

    def _step(
        self,
        key: Hashable,
        name: str,
        make: Callable[[], Handle],
        arguments: list[tuple[int, int]],
        brings: int | None = None,
    ) -> None:
        """Add a step, whose primitive and scratchpad are those of the same key before."""
        api = self._api
        if key not in self._primitives:
            descriptor = make()
            scratchpad = api.desc_of(descriptor, "scratchpad")
            nbytes = api.nbytes(scratchpad)
            self.scratchpad_bytes = max(self.scratchpad_bytes, nbytes)
            index = self._buffer(Buffer(api.clone_desc(scratchpad))) if nbytes else None
            self._primitives[key] = (api.primitive(descriptor), index)
        primitive, index = self._primitives[key]
        if index is not None:
            arguments = [*arguments, (api.lib.DNNL_ARG_SCRATCHPAD, index)]
        self._steps.append(Step(name, primitive, tuple(arguments), brings, self._piece))
