"""Steps: the buffers and primitives of a program while it is put together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

from onednn_py.backends.onednn.binding.engine import Engine, Handle

from .overlay import overlaid
from .program import Buffer, Layout, Program, Step
from .shared_reorders import Made

__all__ = ["Steps", "primitive_made"]


class Steps:
    """Collects operands, buffers and steps, chunk by chunk.

    Attributes
    ----------
    engine : Engine
    operands : list of str
    workspace : Layout
    scratchpad_bytes : int
        What the largest scratchpad takes.
    chunk : int
        Index of the chunk whose steps are added.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.operands: list[str] = []
        self.workspace = Layout()
        self.scratchpad_bytes = 0
        self.chunk = 0
        self._buffers: list[Buffer] = []
        self._steps: list[Step] = []
        self._primitives: dict[Hashable, tuple[Handle, int | None]] = {}

    def operand(self, name: str) -> int:
        """Return the index of an operand, which is added if it is new."""
        if name not in self.operands:
            self.operands.append(name)
        return self.operands.index(name)

    def buffer(self, buffer: Buffer) -> int:
        """Add a buffer and return its index."""
        self._buffers.append(buffer)
        return len(self._buffers) - 1

    def buffer_at(self, index: int) -> Buffer:
        return self._buffers[index]

    def arguments(self, names: Sequence[str], buffers: Sequence[int]) -> list[tuple[int, int]]:
        """Return the arguments of an execution by oneDNN's names, such as ``"SRC"``."""
        numbers = map(self.engine.argument, names)
        return list(zip(numbers, buffers, strict=True))

    def add(
        self,
        key: Hashable,
        name: str,
        make: Callable[[], Made],
        arguments: list[tuple[int, int]],
        reordered_input: int | None = None,
    ) -> None:
        """Add a step; steps of the same key share a primitive and its scratchpad."""
        if key not in self._primitives:
            made = make()
            index = None
            if made.scratchpad is not None:
                nbytes = self.engine.nbytes(made.scratchpad)
                self.scratchpad_bytes = max(self.scratchpad_bytes, nbytes)
                index = self.buffer(Buffer(made.scratchpad))
            self._primitives[key] = (made.primitive, index)
        primitive, index = self._primitives[key]
        if index is not None:
            arguments = [*arguments, (self.engine.argument("SCRATCHPAD"), index)]
        self._steps.append(Step(name, primitive, tuple(arguments), reordered_input, self.chunk))

    def add_primitive(
        self, key: Hashable, name: str, descriptor: Handle, arguments: list[tuple[int, int]]
    ) -> None:
        """Add a step whose primitive is made of a descriptor."""
        self.add(key, name, partial(primitive_made, self.engine, descriptor), arguments)

    def program(
        self, threads: tuple[int, int] | None, title: str, *, overlays: bool = False
    ) -> Program:
        """Return the steps; scratchpads share one offset, since one step runs at a time.

        Parameters
        ----------
        threads : (int, int), optional
        title : str
        overlays : bool
            Whether other parts of the workspace may share memory, too, where they are in use at
            different steps.
        """
        offset = self.workspace.add(self.scratchpad_bytes)
        for _, index in self._primitives.values():
            if index is not None:
                self._buffers[index] = Buffer(self._buffers[index].desc, None, offset)
        buffers, nbytes = self._buffers, self.workspace.nbytes
        if overlays:
            buffers, nbytes = overlaid(self.workspace, buffers, self._steps)
        return Program(
            self.engine,
            tuple(self.operands),
            buffers,
            self._steps,
            nbytes,
            threads,
            title,
        )


def primitive_made(engine: Engine, descriptor: Handle) -> Made:
    """Return the primitive of a descriptor."""
    scratchpad = engine.desc_of(descriptor, "scratchpad")
    kept = engine.clone_desc(scratchpad) if engine.nbytes(scratchpad) else None
    return Made(engine.primitive(descriptor), kept)
