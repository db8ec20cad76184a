"""Execute: bind addresses to a plan's memory objects and run its primitives in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import DTYPES
from ..problem import TensorLayout
from ..rounding import round_into, widen_into
from .handles import Api, Handle
from .workspace import WorkspacePool

__all__ = ["Buffer", "Converted", "Program", "Step"]

Array = npt.NDArray[Any]

# Idle sets of memory objects that one plan keeps: as many as threads may commonly call
# it at once; more are made when needed and dropped afterwards.
IDLE_FRAMES = 8


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of one argument: a tensor of the call (by role), or a place in the workspace."""

    desc: Handle
    role: str | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One primitive and its arguments, as (argument number, index of the buffer)."""

    name: str
    primitive: Handle
    arguments: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Converted:
    """A tensor that is computed in another data type: a dense copy in the workspace."""

    layout: TensorLayout
    dtype: str
    offset: int

    def view(self, block: npt.NDArray[np.uint8]) -> Array:
        dtype = DTYPES[self.dtype]
        strides = tuple(stride * dtype.itemsize for stride in self.layout.strides)
        return np.ndarray(self.layout.shape, dtype, block, self.offset, strides)


class _Frame:
    """Memory objects and argument lists for one execution in flight."""

    def __init__(self, api: Api, buffers: list[Buffer], steps: list[Step]) -> None:
        self.stream = api.stream()
        self.memories = [api.memory(buffer.desc) for buffer in buffers]
        self.arguments = []
        for step in steps:
            arguments = api.ffi.new("dnnl_exec_arg_t[]", len(step.arguments))
            for slot, (number, index) in zip(arguments, step.arguments, strict=True):
                slot.arg = number
                slot.memory = self.memories[index]
            self.arguments.append(arguments)


class Program:
    """The steps of a plan, ready to run from any thread.

    Parameters
    ----------
    api : Api
    buffers : list of Buffer
    steps : list of Step
    converted : dict
        By role, tensors that pass through another data type.
    results : set of str
        Roles that are written.
    workspace_bytes : int
    pool : WorkspacePool
    """

    def __init__(
        self,
        api: Api,
        buffers: list[Buffer],
        steps: list[Step],
        converted: dict[str, Converted],
        results: set[str],
        workspace_bytes: int,
        pool: WorkspacePool,
    ) -> None:
        self.steps = steps
        self.workspace_bytes = workspace_bytes
        self._api = api
        self._buffers = buffers
        self._converted = converted
        self._results = results
        self._pool = pool
        self._frames: deque[_Frame] = deque(maxlen=IDLE_FRAMES)

    def run(self, tensors: Mapping[str, Array]) -> None:
        """Execute on canonical views by role; returns when the results are written."""
        block = self._pool.acquire(self.workspace_bytes)
        try:
            base = _address(block)
            addresses = {}
            for role, array in tensors.items():
                converted = self._converted.get(role)
                if converted is None:
                    addresses[role] = _address(array)
                    continue
                addresses[role] = base + converted.offset
                if role not in self._results:
                    widen_into(converted.view(block), array)
            self._run_steps(addresses, base)
            for role in self._results & self._converted.keys():
                round_into(tensors[role], self._converted[role].view(block))
        finally:
            self._pool.release(block)

    def _run_steps(self, addresses: dict[str, int], base: int) -> None:
        api, lib = self._api, self._api.lib
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(api, self._buffers, self.steps)
        for memory, buffer in zip(frame.memories, self._buffers, strict=True):
            address = base + buffer.offset if buffer.role is None else addresses[buffer.role]
            pointer = api.ffi.cast("void *", address)
            api.check(
                "dnnl_memory_set_data_handle", lib.dnnl_memory_set_data_handle(memory, pointer)
            )
        for step, arguments in zip(self.steps, frame.arguments, strict=True):
            status = lib.dnnl_primitive_execute(
                step.primitive, frame.stream, len(arguments), arguments
            )
            api.check("dnnl_primitive_execute", status, step.name)
        api.check("dnnl_stream_wait", lib.dnnl_stream_wait(frame.stream))
        self._frames.append(frame)


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
