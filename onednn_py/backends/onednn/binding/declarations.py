"""Reads the C declarations of ``cdefs/`` into the package's FFI."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import cffi

__all__ = ["AREAS", "declarations_folder", "ffi", "text_of"]

# In the order of their dependence: an area uses the declarations of earlier areas.
AREAS = (
    "common",
    "engine",
    "memory",
    "attributes",
    "primitive",
    "convolution",
    "deconvolution",
    "reorder",
    "openmp",
)


def declarations_folder() -> Path:
    """Return the folder of the C declarations: inside the wheel, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[3]
    inside = package / "cdefs"
    return inside if inside.is_dir() else package.parent / "cdefs"


def text_of(pointer: Any) -> str:
    """Return a C string as text, empty for a null pointer."""
    if not pointer:
        return ""
    content = ffi().string(pointer)
    return content if isinstance(content, str) else content.decode()


@functools.cache
def ffi() -> cffi.FFI:
    """Return the FFI with all areas declared; parsing happens at the first call."""
    declared = cffi.FFI()
    folder = declarations_folder()
    for area in AREAS:
        declared.cdef((folder / f"{area}.h").read_text(encoding="utf-8"))
    return declared
