"""Building: decided problems to the buffers and steps of one program."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import NamedTuple

from onednn_py.backends.onednn.binding.engine import Api, Handle
from onednn_py.backends.onednn.selection.candidate import Part
from onednn_py.backends.onednn.selection.descriptors import EXECUTION_ARGUMENTS, QUERIES, user_desc

from .casts import Converted
from .program import Buffer, Layout, Program, Step

__all__ = ["Builder"]


class _Reorder(NamedTuple):
    """A reorder between two buffers, by their indices, or an addition to what is there."""

    name: str
    source: int
    target: int
    adds: bool = False


class _Tensor(NamedTuple):
    """A tensor of a piece.

    ``user`` and ``wanted`` describe it as the caller has it and as the primitive takes it;
    ``kind`` is the piece's where the tensor is cut, otherwise 0.
    """

    part: Part
    role: str
    name: str
    user: Handle
    wanted: Handle
    place: tuple[int, str]
    kind: int

    def is_reordered(self, api: Api) -> bool:
        return not api.equal(self.user, self.wanted)


class Builder:
    """Collects buffers and steps: reorders in, the primitives, reorders out, piece by piece.

    All pieces use the same workspace, and pieces of the same kind the same primitives.
    """

    def __init__(self, api: Api, parts: Sequence[Part]) -> None:
        self._api = api
        self._buffers: list[Buffer] = []
        self._steps: list[Step] = []
        self._layout = Layout()
        self._primitives: dict[Hashable, tuple[Handle, int | None]] = {}
        self._places: dict[Hashable, int] = {}
        self._inner: dict[Hashable, int] = {}
        self._brought: dict[tuple[str, int], list[tuple[_Tensor, int]]] = {}
        self.converted: list[Converted] = []
        self.reordered: list[str] = []
        self.layouts: dict[str, str] = {}
        self.scratchpad_bytes = 0
        self.operands: list[str] = []
        self._piece = 0  # whose steps are being added
        for self._piece in range(len(parts[0].formulation.pieces)):
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
        formulation = part.formulation
        problem = formulation.pieces[self._piece].problem
        kind = formulation.kinds.index(problem)
        arguments: list[tuple[int, int]] = []
        after: list[_Reorder] = []
        for role, argument in EXECUTION_ARGUMENTS[problem.direction].items():
            if getattr(problem, role) is None:
                continue
            one = self._tensor(place, part, role, kind)
            self.layouts[one.name] = self._api.layout_name(one.wanted)
            if one.name in part.results:
                index, reorders = self._result(one)
                after += reorders
            else:
                index = self._input(one)
            arguments.append((getattr(self._api.lib, f"DNNL_ARG_{argument}"), index))
        # The bias gradient may be NumPy's business alone.
        for role in ("src", "weights", "bias", "dst"):
            if getattr(formulation.asked, role) is not None:
                self._operand(part.name(role))
        descriptor = part.descriptors[kind]
        key = ("part", place, kind)
        self._step(key, part.choice.implementation, lambda: descriptor, arguments)
        return after

    def _tensor(self, place: int, part: Part, role: str, kind: int) -> _Tensor:
        formulation = part.formulation
        return _Tensor(
            part,
            role,
            part.name(formulation.roles[role]),
            user_desc(self._api, formulation.pieces[self._piece].problem, role),
            self._wanted(part, role, kind),
            (place, role),
            kind if role in formulation.cut_roles else 0,
        )

    def _input(self, one: _Tensor) -> int:
        """Return the buffer that the primitive reads, having added what brings it there."""
        which = self._piece if one.role in one.part.formulation.cut_roles else 0
        there = self._brought.setdefault((one.name, which), [])
        index = self._found(one, there)
        if index is None:
            index = self._users_own(one)
            if one.is_reordered(self._api):
                self.reordered.append(one.name)
                inner = self._inner_buffer(one)
                self._reorder(_Reorder(one.name, index, inner), self._operand(one.name))
                index = inner
            there.append((one, index))
        return index

    def _result(self, one: _Tensor) -> tuple[int, list[_Reorder]]:
        """Return the buffer that the primitive writes, and what takes it from there."""
        index = self._users_own(one)
        is_reordered = one.is_reordered(self._api)
        if is_reordered:
            self.reordered.append(one.name)
        total = self._inner_buffer(one) if is_reordered else index
        out = [_Reorder(one.name, total, index)] if is_reordered else []
        formulation = one.part.formulation
        if not formulation.is_sum(one.role):
            return total, out
        if self._piece < len(formulation.pieces) - 1:
            out = []
        if not self._piece:
            return total, out
        more = self._inner_buffer(one, "to add")
        return more, [_Reorder(one.name, more, total, adds=True), *out]

    def _users_own(self, one: _Tensor) -> int:
        """Return the buffer of a tensor as the caller has it, or its copy in another type."""
        formulation = one.part.formulation
        operand, offset = self._operand(one.name), formulation.offset(one.role, self._piece)
        if formulation.problem.dtype != formulation.asked.dtype:
            converted = Converted(
                one.part, one.role, self._layout.nbytes, one.name in one.part.results
            )
            if all(other.name != one.name for other in self.converted):
                self._layout.add(converted.nbytes)
                self.converted.append(converted)
            offset = 0
        return self._buffer(Buffer(one.user, operand, offset))

    def _operand(self, name: str) -> int:
        if name not in self.operands:
            self.operands.append(name)
        return self.operands.index(name)

    def _found(self, one: _Tensor, there: list[tuple[_Tensor, int]]) -> int | None:
        """Return the buffer of an input that is there in the same layout.

        From an earlier part, or for a tensor that is not cut from an earlier piece.
        """
        api = self._api
        for other, index in there:
            if api.equal(one.user, other.user) and api.equal(one.wanted, other.wanted):
                return index
        return None

    def _wanted(self, part: Part, role: str, kind: int) -> Handle:
        api, problem = self._api, part.formulation.kinds[kind]
        if problem.bias is not None and role == "bias":
            return api.strided_desc(problem.bias.shape, part.formulation.dtype(role), (1,))
        query = QUERIES[problem.direction][role]
        return api.clone_desc(api.desc_of(part.descriptors[kind], query))

    def _buffer(self, buffer: Buffer) -> int:
        self._buffers.append(buffer)
        return len(self._buffers) - 1

    def _inner_buffer(self, one: _Tensor, use: str = "") -> int:
        """Return the place in the workspace of a tensor in a primitive's own layout.

        One place for all kinds of pieces, where the largest has room.
        """
        key = (one.place, use)
        if key not in self._places:
            kinds = range(len(one.part.formulation.kinds))
            descs = [self._wanted(one.part, one.role, kind) for kind in kinds]
            self._places[key] = self._layout.add(max(map(self._api.nbytes, descs)))
        if (key, one.kind) not in self._inner:
            buffer = Buffer(one.wanted, offset=self._places[key])
            self._inner[key, one.kind] = self._buffer(buffer)
        return self._inner[key, one.kind]

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
