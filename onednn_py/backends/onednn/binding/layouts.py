"""Memory layouts in words."""

from __future__ import annotations

from typing import Any

from .declarations import c_type, new_object
from .engine import Handle
from .library import Library

__all__ = ["layout_name"]


def layout_name(library: Library, desc: Handle) -> str:
    """Return the layout of a memory descriptor in the manner of oneDNN's tags.

    Axes from the outermost in, then blocks. Axis a is the first; a capital stands for an axis that
    is blocked as well.
    """
    lib = library.lib

    def asked(query: str, kind: str) -> Any:
        """Return what a query writes, None if it does not apply to this kind of layout."""
        result = new_object(c_type(kind))
        what = getattr(lib, f"dnnl_query_{query}")
        return None if lib.dnnl_memory_desc_query(desc, what, result) else result[0]

    rank, blocks = asked("ndims_s32", "int *"), asked("inner_nblks_s32", "int *")
    strides, sizes, axes = (
        asked(query, "const dnnl_dims_t **") for query in ("strides", "inner_blks", "inner_idxs")
    )
    if None in (rank, blocks, strides, sizes, axes):
        return "opaque"
    inner = [(int(sizes[0][i]), int(axes[0][i])) for i in range(blocks)]
    blocked = {axis for _, axis in inner}
    order = sorted(range(rank), key=lambda axis: (-int(strides[0][axis]), axis))
    letters = [chr(ord("A" if axis in blocked else "a") + axis) for axis in order]
    return "".join(letters) + "".join(f"{size}{chr(ord('a') + axis)}" for size, axis in inner)
