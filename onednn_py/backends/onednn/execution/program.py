"""Execute: bind addresses to a plan's memory objects and run its primitives in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy.typing as npt

from onednn_py.backends.onednn.binding.engine import Api, Handle
from onednn_py.system.memory_pool import Block, aligned, pool

__all__ = ["Buffer", "Layout", "Program", "Step", "address_of"]

Array = npt.NDArray[Any]

# Idle sets of memory objects that one plan keeps: as many as threads may commonly call
# it at once; more are made when needed and dropped afterwards.
IDLE_FRAMES = 8

# A workspace up to this size stays with its frame: taking one from the pool at every call
# would cost as much as a tiny problem itself.
SMALL_WORKSPACE = 2**18


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of one argument: an operand of the call, or a place in the workspace.

    ``operand`` is None for a workspace's own buffers, otherwise the operand's number;
    ``offset`` counts bytes from the workspace's beginning, or from the operand's.
    """

    desc: Handle
    operand: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One primitive and its arguments, as (argument number, index of the buffer).

    ``brings`` is the operand's number where the step is a reorder of an input alone; ``piece``
    is the number of the piece of the problem that the step works on.
    """

    name: str
    primitive: Handle
    arguments: tuple[tuple[int, int], ...]
    brings: int | None = None
    piece: int = 0


class Around(Protocol):
    """Work before and after the steps of each piece."""

    def before(self, piece: int) -> None: ...

    def after(self, piece: int, *, is_last: bool) -> None: ...


class Layout:
    """Offsets of several buffers inside one block."""

    def __init__(self) -> None:
        self.nbytes = 0

    def add(self, nbytes: int) -> int:
        """Reserve ``nbytes`` and return their offset, aligned."""
        offset = self.nbytes
        self.nbytes += aligned(nbytes)
        return offset


def address_of(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


class _Frame:
    """Memory objects and argument lists for one execution in flight."""

    __slots__ = ("block", "calls", "last", "memories", "operands", "stream", "workspace")

    def __init__(self, api: Api, program: Program) -> None:
        self.stream = api.stream()
        self.memories = memories = [api.memory(buffer.desc) for buffer in program.buffers]
        self.operands: list[list[tuple[Handle, int]]] = [[] for _ in program.operands]
        self.workspace: list[tuple[Handle, int]] = []
        for memory, buffer in zip(memories, program.buffers, strict=True):
            if buffer.operand is None:
                self.workspace.append((memory, buffer.offset))
            else:
                self.operands[buffer.operand].append((memory, buffer.offset))
        self.last: Sequence[Any] | None = None
        self.block: Block | None = None
        self.calls: list[tuple[Handle, int, Any]] = []
        for step in program.steps:
            arguments = api.ffi.new("dnnl_exec_arg_t[]", len(step.arguments))
            for slot, (number, index) in zip(arguments, step.arguments, strict=True):
                slot.arg = number
                slot.memory = memories[index]
            self.calls.append((step.primitive, len(arguments), arguments))


class Program:
    """The steps of a plan, ready to run from any thread.

    Parameters
    ----------
    api : Api
    operands : tuple of str
        Names of the tensors that a call brings, in the order of their addresses.
    buffers : list of Buffer
    steps : list of Step
    workspace_bytes : int
    threads : (int, int), optional
        The number of OpenMP threads to run on, and the caller's, to be put back.
    """

    def __init__(
        self,
        api: Api,
        operands: tuple[str, ...],
        buffers: Sequence[Buffer],
        steps: Sequence[Step],
        workspace_bytes: int,
        threads: tuple[int, int] | None = None,
    ) -> None:
        self.operands = operands
        self.buffers = tuple(buffers)
        self.steps = tuple(steps)
        self.workspace_bytes = workspace_bytes
        self._threads = threads
        # The numbers of the steps after the last one of each piece.
        self._ends = [
            number + 1
            for number, step in enumerate(self.steps)
            if number + 1 == len(self.steps) or self.steps[number + 1].piece != step.piece
        ]
        self.keeps_workspace = workspace_bytes <= SMALL_WORKSPACE
        self._api = api
        self._execute = api.lib.dnnl_primitive_execute
        self._set = api.lib.dnnl_memory_set_data_handle
        # On the CPU execute returns when the work is done, unless a runtime defers it.
        self._waits = api.library.runtime not in ("OpenMP", "sequential")
        if api.openmp is not None:
            self._set_threads = api.openmp.set_now
        self._frames: deque[_Frame] = deque(maxlen=IDLE_FRAMES)

    def run(
        self, pointers: list[Any], block: Block | None = None, around: Around | None = None
    ) -> None:
        """Execute on the operands' addresses; returns when the results are written.

        Parameters
        ----------
        pointers : list of cffi pointer
            One an operand, not owning what it points to. The list is kept.
        block : ndarray, optional
            The workspace, where the caller puts something into it.
        around : Around, optional
            What the caller does for each piece.
        """
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(self._api, self)
        borrowed = None
        try:
            if block is not None:
                self._place(frame, block)
                frame.block = None
            elif frame.block is None:
                block = pool.acquire(self.workspace_bytes)
                self._place(frame, block)
                if self.keeps_workspace:
                    frame.block = block
                else:
                    borrowed = block
            if frame.last != pointers:
                self._bind(frame, pointers)
            if self._threads is None:
                self._run_all(frame, around)
            else:
                own, callers = self._threads
                self._set_threads(own)
                try:
                    self._run_all(frame, around)
                finally:
                    self._set_threads(callers)
        finally:
            if borrowed is not None:
                pool.release(borrowed)
        self._frames.append(frame)

    def _bind(self, frame: _Frame, pointers: Sequence[Any]) -> None:
        frame.last = None
        for memories, pointer in zip(frame.operands, pointers, strict=True):
            for memory, offset in memories:
                status = self._set(memory, pointer + offset if offset else pointer)
                if status:
                    self._api.check("dnnl_memory_set_data_handle", status)
        frame.last = pointers

    def _run_all(self, frame: _Frame, around: Around | None) -> None:
        if around is None:
            self._run_steps(frame, frame.calls)
            return
        first = 0
        for piece, end in enumerate(self._ends):
            around.before(piece)
            self._run_steps(frame, frame.calls[first:end], first)
            around.after(piece, is_last=end == len(self.steps))
            first = end

    def _run_steps(
        self, frame: _Frame, calls: Sequence[tuple[Handle, int, Any]], first: int = 0
    ) -> None:
        execute, stream = self._execute, frame.stream
        for number, (primitive, count, arguments) in enumerate(calls, first):
            status = execute(primitive, stream, count, arguments)
            if status:
                # Steps before it may be at work on memory that is given back.
                self._wait(frame)
                self._api.check("dnnl_primitive_execute", status, self.steps[number].name)
        status = self._wait(frame)
        if status:
            self._api.check("dnnl_stream_wait", status)

    def _wait(self, frame: _Frame) -> int:
        status: int = self._api.lib.dnnl_stream_wait(frame.stream) if self._waits else 0
        return status

    def _place(self, frame: _Frame, block: Block) -> None:
        """Point the workspace's memory objects into ``block``."""
        ffi = self._api.ffi
        base = address_of(block)
        for memory, offset in frame.workspace:
            pointer = ffi.cast("char *", base + offset)
            self._api.check("dnnl_memory_set_data_handle", self._set(memory, pointer))

    def bringing(self, operand: str) -> Step | None:
        """Return the step that reorders an input and does nothing else, if there is one."""
        number = self.operands.index(operand)
        return next((step for step in self.steps if step.brings == number), None)

    def without(self, step: Step) -> Program:
        """Return a program that takes what ``step`` would bring as its operand."""
        (_, source), (_, target) = step.arguments[:2]
        buffers = list(self.buffers)
        number = buffers[source].operand
        buffers[source] = Buffer(buffers[source].desc, None, 0)
        buffers[target] = replace(buffers[target], operand=number, offset=0)
        steps = [other for other in self.steps if other is not step]
        return Program(
            self._api, self.operands, buffers, steps, self.workspace_bytes, self._threads
        )
