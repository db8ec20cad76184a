"""What memory descriptors say of layouts: in numbers, and in words."""

from __future__ import annotations

from typing import Any

from onednn_py.problem.dtypes import DTYPES

from .declarations import c_type, new_object
from .engine import Handle
from .library import Library

__all__ = ["blocks_of", "dtype_of", "layout_name", "shape_of", "strides_of"]


def shape_of(library: Library, desc: Handle) -> tuple[int, ...]:
    """Return the number of elements along each axis."""
    found = _numbers(library, desc, "dims", _number(library, desc, "ndims_s32"))
    return () if found is None else found


def strides_of(library: Library, desc: Handle) -> tuple[int, ...] | None:
    """Return the steps along the axes in elements, None of an opaque layout.

    Where an axis is blocked, it is the step from one block to the next.
    """
    return _numbers(library, desc, "strides", _number(library, desc, "ndims_s32"))


def blocks_of(library: Library, desc: Handle) -> tuple[tuple[int, int], ...] | None:
    """Return size and axis of each block, outermost first; None of an opaque layout."""
    number = _number(library, desc, "inner_nblks_s32")
    if not number:
        return None if number is None else ()
    sizes = _numbers(library, desc, "inner_blks", number)
    axes = _numbers(library, desc, "inner_idxs", number)
    return None if sizes is None or axes is None else tuple(zip(sizes, axes, strict=True))


def dtype_of(library: Library, desc: Handle) -> str:
    """Return the data type by its name in `DTYPES`."""
    value = _number(library, desc, "data_type")
    return next(name for name in DTYPES if getattr(library.lib, f"dnnl_{name}", None) == value)


def layout_name(library: Library, desc: Handle) -> str:
    """Return the layout of a memory descriptor in the manner of oneDNN's tags.

    Axes from the outermost in, then blocks. Axis a is the first; a capital stands for an axis that
    is blocked as well.
    """
    strides, blocks = strides_of(library, desc), blocks_of(library, desc)
    if strides is None or blocks is None:
        return "opaque"
    blocked = {axis for _, axis in blocks}
    order = sorted(range(len(strides)), key=lambda axis: (-strides[axis], axis))
    letters = [chr(ord("A" if axis in blocked else "a") + axis) for axis in order]
    return "".join(letters) + "".join(f"{size}{chr(ord('a') + axis)}" for size, axis in blocks)


def _asked(library: Library, desc: Handle, query: str, kind: str) -> Any:
    """Return what a query writes, None if it does not apply to this kind of layout."""
    result = new_object(c_type(kind))
    what = getattr(library.lib, f"dnnl_query_{query}")
    return None if library.lib.dnnl_memory_desc_query(desc, what, result) else result[0]


def _number(library: Library, desc: Handle, query: str) -> int | None:
    found = _asked(library, desc, query, "int *")
    return None if found is None else int(found)


def _numbers(
    library: Library, desc: Handle, query: str, count: int | None
) -> tuple[int, ...] | None:
    found = _asked(library, desc, query, "const dnnl_dims_t **")
    return None if found is None or count is None else tuple(found[0][0:count])
