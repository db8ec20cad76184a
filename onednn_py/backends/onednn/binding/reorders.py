"""Reorders that oneDNN's generated kernel leaves unwritten, and what writes them.

Where all axes are one run of elements, dense in the source and every fourth, eighth, ... element
in the target, the kernel writes the first element alone: it moves its only loop behind the last.
It does so for runs that are longer than three quarters of the first cache and no whole number of
blocks of 16 elements; in v3.2.0 and still in v3.13.1. No other implementation can be asked for.
"""

from __future__ import annotations

from typing import NamedTuple

from onednn_py.problem.dtypes import DTYPES

from .declarations import c_type, new_object
from .engine import Engine, Handle

__all__ = ["RunPart", "parts_of_run"]

# A run of fewer elements fits the first cache of any CPU.
LEAST_ELEMENTS = 2048
BLOCK = 16
STEP = 4


class RunPart(NamedTuple):
    """A part of a run: memory descriptors of one axis, and bytes from the run's first element."""

    source: Handle
    target: Handle
    source_offset: int
    target_offset: int


def parts_of_run(engine: Engine, source: Handle, target: Handle) -> tuple[RunPart, ...]:
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
    read, written = _dtype(engine, source), _dtype(engine, target)
    return tuple(
        RunPart(
            engine.strided_desc((length,), read, (1,)),
            engine.strided_desc((length,), written, (step,)),
            begin * DTYPES[read].itemsize,
            begin * step * DTYPES[written].itemsize,
        )
        for begin, length in ((0, elements - rest), (elements - rest, rest))
    )


def _run(engine: Engine, source: Handle, target: Handle) -> tuple[int, int]:
    """Return the number of elements and the target's step of a run, (0, 0) if it is none."""
    lib = engine.library.lib
    query = lib.dnnl_memory_desc_query
    number, numbers = new_object(c_type("int *")), new_object(c_type("const dnnl_dims_t **"))
    if query(target, lib.dnnl_query_strides, numbers):  # a layout without strides
        return 0, 0
    strides = numbers[0][0]
    query(target, lib.dnnl_query_dims, numbers)
    shape = numbers[0][0]
    query(target, lib.dnnl_query_ndims_s32, number)
    axes = [axis for axis in range(number[0]) if shape[axis] > 1]
    if not axes or any(strides[axis] % STEP for axis in axes):
        return 0, 0
    for desc in (source, target):
        if query(desc, lib.dnnl_query_inner_nblks_s32, number) or number[0]:
            return 0, 0
    query(source, lib.dnnl_query_strides, numbers)
    read = numbers[0][0]
    axes.sort(key=lambda axis: int(strides[axis]))
    elements, step = 1, int(strides[axes[0]])
    for axis in axes:
        if (strides[axis], read[axis]) != (step * elements, elements):
            return 0, 0
        elements *= shape[axis]
    return elements, step


def _dtype(engine: Engine, desc: Handle) -> str:
    lib, value = engine.library.lib, new_object(c_type("int *"))
    lib.dnnl_memory_desc_query(desc, lib.dnnl_query_data_type, value)
    return next(name for name in DTYPES if getattr(lib, f"dnnl_{name}", None) == value[0])
