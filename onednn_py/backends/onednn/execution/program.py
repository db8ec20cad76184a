"""Programs: bind addresses to a plan's memory objects and run its primitives in order."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy.typing as npt

from onednn_py.backends.onednn.binding.engine import Engine, Handle
from onednn_py.system.forks import forks_wait
from onednn_py.system.memory_pool import Block, aligned, pool
from onednn_py.system.signal_stack import signal_stack

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
    """Memory of one argument: an operand of the call, or a part of the workspace.

    Attributes
    ----------
    desc : Handle
        The memory descriptor.
    operand : int or None
        The operand's index, None for a part of the workspace.
    offset : int
        Bytes from the beginning of the operand, or of the workspace.
    constant : ndarray, optional
        Dense memory that is neither of them, and that all executions read.
    """

    desc: Handle
    operand: int | None = None
    offset: int = 0
    constant: Array | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A primitive and its arguments, as (argument number, index of the buffer).

    Attributes
    ----------
    name : str
    primitive : Handle
    arguments : tuple of (int, int)
    input_reorder : int or None
        Where the step is the reorder of an input: the operand's index.
    chunk : int
        Index of the chunk of the problem that the step works on.
    """

    name: str
    primitive: Handle
    arguments: tuple[tuple[int, int], ...]
    input_reorder: int | None = None
    chunk: int = 0


class ChunkHooks(Protocol):
    """Work before and after the steps of each chunk, by the chunk's index."""

    def before(self, index: int) -> None: ...

    def after(self, index: int) -> None: ...


class Layout:
    """Offsets of several buffers inside one block.

    Attributes
    ----------
    nbytes : int
    parts : list of (int, int)
        Offset and bytes of what was added, in this order.
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self.parts: list[tuple[int, int]] = []

    def add(self, nbytes: int) -> int:
        """Reserve ``nbytes`` and return their offset, aligned."""
        offset, room = self.nbytes, aligned(nbytes)
        self.parts.append((offset, room))
        self.nbytes += room
        return offset


def address_of(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _nowhere() -> None:
    return None


class _Frame:
    """Memory objects and argument lists for one execution in flight."""

    __slots__ = ("block", "calls", "last", "memories", "operands", "placed", "stream", "workspace")

    def __init__(self, engine: Engine, program: Program) -> None:
        self.stream = engine.stream()
        self.memories = memories = [engine.memory(buffer.desc) for buffer in program.buffers]
        self.operands: list[list[tuple[Handle, int]]] = [[] for _ in program.operands]
        self.workspace: list[tuple[Handle, int]] = []
        for memory, buffer in zip(memories, program.buffers, strict=True):
            if buffer.constant is not None:
                pointer = engine.address(address_of(buffer.constant))
                status = engine.set_data_handle(memory, pointer)
                engine.check("dnnl_memory_set_data_handle", status)
            elif buffer.operand is None:
                self.workspace.append((memory, buffer.offset))
            else:
                self.operands[buffer.operand].append((memory, buffer.offset))
        self.last: list[Any] | None = None
        self.block: Block | None = None
        # The block that the workspace's memory objects point into.
        self.placed: Callable[[], Block | None] = _nowhere
        # Executions, which return oneDNN's status.
        self.calls: list[Callable[[], int]] = []
        for step in program.steps:
            arguments = engine.execution_arguments(
                [(number, memories[index]) for number, index in step.arguments]
            )
            self.calls.append(
                partial(engine.execute, step.primitive, self.stream, len(arguments), arguments)
            )


class Program:
    """The steps of a plan, ready to run from any thread.

    Parameters
    ----------
    engine : Engine
    operands : tuple of str
        Names of the tensors of a call, in the order of their addresses.
    buffers : list of Buffer
    steps : list of Step
    workspace_bytes : int
    threads : (int, int), optional
        The number of OpenMP threads to run on, and the caller's, to be put back.
    title : str, optional
        What is computed, for messages.
    """

    def __init__(
        self,
        engine: Engine,
        operands: tuple[str, ...],
        buffers: Sequence[Buffer],
        steps: Sequence[Step],
        workspace_bytes: int,
        threads: tuple[int, int] | None = None,
        title: str = "",
    ) -> None:
        self.operands = operands
        self.title = title
        self.buffers = tuple(buffers)
        self.steps = tuple(steps)
        self.workspace_bytes = workspace_bytes
        self._threads = threads
        # Of each chunk, the index after its last step.
        self._ends = [
            number + 1
            for number, step in enumerate(self.steps)
            if number + 1 == len(self.steps) or self.steps[number + 1].chunk != step.chunk
        ]
        self.keeps_workspace = workspace_bytes <= SMALL_WORKSPACE
        self._engine = engine
        self._set = engine.set_data_handle
        # On the CPU execute returns when the work is done, unless a runtime defers it.
        self._waits = engine.library.runtime not in ("OpenMP", "sequential")
        self._moves_stack = engine.library.moves_stack
        self._enter: Callable[[], None] | None = None
        if threads is not None and engine.openmp is not None:
            own, callers = threads
            self._enter = partial(engine.openmp.set_now, own)
            self._leave = partial(engine.openmp.set_now, callers)
        self._frames: deque[_Frame] = deque(maxlen=IDLE_FRAMES)
        self._has_run = False

    def run(
        self, pointers: Sequence[Any], block: Block | None = None, hooks: ChunkHooks | None = None
    ) -> None:
        """Execute on the operands' addresses; returns when the results are written.

        Parameters
        ----------
        pointers : sequence of cffi pointer
            One an operand. Results overlap no other operand.
        block : ndarray, optional
            The workspace, where the caller puts something into it or reads something from it.
        hooks : ChunkHooks, optional
            What the caller does for each chunk.
        """
        if self._has_run:
            self._run_at(pointers, block, hooks)
            return
        # The first execution generates code that the primitive shares with others, and asks the
        # CPU and the environment, under locks of oneDNN's own.
        with forks_wait:
            self._run_at(pointers, block, hooks)
        self._has_run = True

    def _run_at(
        self, pointers: Sequence[Any], block: Block | None, hooks: ChunkHooks | None
    ) -> None:
        """Execute with an idle frame, or a new one."""
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(self._engine, self)
        if frame.last != pointers:
            self._bind(frame, pointers)
        if block is None and frame.block is not None:
            self._run(frame, hooks)
        else:
            self._run_placed(frame, block, hooks)
        self._frames.append(frame)

    def run_again(self, pointers: Sequence[Any]) -> bool:
        """Execute if an execution on the same addresses went before; False if none is known."""
        try:
            frame = self._frames.pop()
        except IndexError:
            return False
        if frame.last != pointers:
            self._frames.append(frame)
            return False
        if frame.block is not None:
            self._run(frame)
        else:
            self._run_placed(frame)
        self._frames.append(frame)
        return True

    def _run_placed(
        self, frame: _Frame, given: Block | None = None, hooks: ChunkHooks | None = None
    ) -> None:
        """Execute in a given workspace, or in one of the pool, where only large ones return."""
        borrowed = given is None and not self.keeps_workspace
        if given is not None:
            block = given
        else:
            take = pool.borrow if borrowed else pool.acquire
            block = take(self.workspace_bytes)
        try:
            # The pool often has the same block again.
            if frame.placed() is not block:
                self._place(frame, block)
            frame.block = block if given is None and self.keeps_workspace else None
            self._run(frame, hooks)
        finally:
            if borrowed:
                pool.give_back(block)

    def _bind(self, frame: _Frame, pointers: Sequence[Any]) -> None:
        last, frame.last = frame.last, None
        for index, pointer in enumerate(pointers):
            if last is None or last[index] != pointer:
                for memory, offset in frame.operands[index]:
                    status = self._set(memory, pointer + offset)
                    if status:
                        self._engine.check("dnnl_memory_set_data_handle", status)
        # The pointers themselves may keep what they point to alive.
        frame.last = [pointer + 0 for pointer in pointers]

    def _run(self, frame: _Frame, hooks: ChunkHooks | None = None) -> None:
        if self._moves_stack and not signal_stack.is_ensured:
            signal_stack.ensure()
        try:
            if self._enter is not None:
                self._enter()
            if hooks is None:
                for execute in frame.calls:
                    status = execute()
                    if status:
                        self._fail(frame, execute, status)
            else:
                self._run_chunks(frame, hooks)
            if self._waits:
                self._engine.check("dnnl_stream_wait", self._engine.wait(frame.stream))
        except BaseException:  # of a step, or an interrupt
            if self._waits:
                # Steps before it may be at work on memory that is given back.
                self._engine.wait(frame.stream)
            raise
        finally:
            if self._enter is not None:
                self._leave()

    def _run_chunks(self, frame: _Frame, hooks: ChunkHooks) -> None:
        first = 0
        for index, end in enumerate(self._ends):
            hooks.before(index)
            for execute in frame.calls[first:end]:
                status = execute()
                if status:
                    self._fail(frame, execute, status)
            if self._waits:
                self._engine.check("dnnl_stream_wait", self._engine.wait(frame.stream))
            hooks.after(index)
            first = end

    def _fail(self, frame: _Frame, execute: Callable[[], int], status: int) -> None:
        """Raise the error of an execution."""
        name = self.steps[frame.calls.index(execute)].name
        detail = f"{name} of {self.title}" if self.title else name
        self._engine.check("dnnl_primitive_execute", status, detail)

    def _place(self, frame: _Frame, block: Block) -> None:
        """Point the workspace's memory objects into ``block``."""
        frame.placed = _nowhere
        base = address_of(block)
        for memory, offset in frame.workspace:
            pointer = self._engine.address(base + offset)
            self._engine.check("dnnl_memory_set_data_handle", self._set(memory, pointer))
        frame.placed = weakref.ref(block)

    def input_reorder(self, operand: str) -> Step | None:
        """Return the step that reorders an input and does nothing else, if there is one."""
        index = self.operands.index(operand)
        return next((step for step in self.steps if step.input_reorder == index), None)

    def without(self, step: Step) -> Program:
        """Return a program without an input's reorder, whose operand is what that would write."""
        (_, source), (_, target) = step.arguments[:2]
        buffers = list(self.buffers)
        operand = buffers[source].operand
        buffers[source] = Buffer(buffers[source].desc, None, 0)
        buffers[target] = replace(buffers[target], operand=operand, offset=0)
        steps = [other for other in self.steps if other is not step]
        return Program(
            self._engine,
            self.operands,
            buffers,
            steps,
            self.workspace_bytes,
            self._threads,
            self.title,
        )
