"""Reorders that oneDNN's generated kernel leaves unwritten, and what writes them.

Where all axes are one run of elements, dense in the source and every fourth, eighth, ... element
in the target, the kernel writes the first element alone: it moves its only loop behind the last.
It does so for runs that are longer than three quarters of the first cache and no whole number of
blocks of 16 elements; in v3.2.0 and still in v3.13.1. No other implementation can be asked for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt

from onednn_py.problem.dtypes import DTYPES

from .engine import Engine, Handle
from .layouts import blocks_of, dtype_of, shape_of, strides_of

__all__ = ["ReorderPart", "parts_of_run"]

# A run of fewer elements fits the first cache of any CPU.
LEAST_ELEMENTS = 2048
BLOCK = 16
STEP = 4


class ReorderPart(NamedTuple):
    """A reorder of a part of a tensor.

    Attributes
    ----------
    name : str
        Parts of one name have equal memory descriptors.
    source, target : Handle
        Memory descriptors.
    source_offset, target_offset : int
        Bytes from the tensor's first element.
    constant : ndarray, optional
        What is read in place of the source.
    """

    name: str
    source: Handle
    target: Handle
    source_offset: int
    target_offset: int
    constant: npt.NDArray[Any] | None = None


def parts_of_run(engine: Engine, source: Handle, target: Handle) -> tuple[ReorderPart, ...]:
    """Return the whole blocks of a run, and its rest; nothing where one reorder writes all.

    Parameters
    ----------
    engine : Engine
    source, target : Handle
        Memory descriptors of the reorder.
    """
    elements, step = _run(engine, source, target)
    rest = elements % BLOCK
    if elements < LEAST_ELEMENTS or not rest:
        return ()
    read, written = dtype_of(engine.library, source), dtype_of(engine.library, target)
    parts = (("blocks", 0, elements - rest), ("rest", elements - rest, rest))
    return tuple(
        ReorderPart(
            name,
            engine.strided_desc((length,), read, (1,)),
            engine.strided_desc((length,), written, (step,)),
            begin * DTYPES[read].itemsize,
            begin * step * DTYPES[written].itemsize,
        )
        for name, begin, length in parts
    )


def _run(engine: Engine, source: Handle, target: Handle) -> tuple[int, int]:
    """Return the number of elements and the target's step of a run, (0, 0) if it is none."""
    written = strides_of(engine.library, target)
    if written is None:
        return 0, 0
    shape = shape_of(engine.library, target)
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if not axes or any(written[axis] % STEP for axis in axes):
        return 0, 0
    read = strides_of(engine.library, source)
    if read is None or blocks_of(engine.library, source) or blocks_of(engine.library, target):
        return 0, 0
    axes.sort(key=lambda axis: written[axis])
    elements, step = 1, written[axes[0]]
    for axis in axes:
        if (written[axis], read[axis]) != (step * elements, elements):
            return 0, 0
        elements *= shape[axis]
    return elements, step
