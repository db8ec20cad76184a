"""Reads the C declarations of ``cdefs/`` into the package's FFI."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _cffi_backend
import cffi

from onednn_py.system.forks import forks_wait, in_forked_child

__all__ = [
    *("AREAS", "OBJECTS", "c_type", "declarations_folder", "ffi", "from_buffer", "new_object"),
    *("text_of", "with_destructor"),
]

# In the order of their dependence: an area uses the declarations of earlier areas.
AREAS = (
    "common",
    "engine",
    "memory",
    "attributes",
    "primitive",
    "convolution",
    "deconvolution",
    "matmul",
    "reorder",
    "openmp",
)

# Kinds of objects that are created and destroyed.
OBJECTS = (
    *("engine", "stream", "memory_desc", "memory"),
    *("primitive_desc", "primitive", "primitive_attr", "post_ops"),
)

# The types that are named at run time. cffi parses a name under a lock, which a forked child could
# find held for ever, so all are parsed with the declarations.
_NAMED_TYPES = (
    *(f"dnnl_{kind}_t *" for kind in OBJECTS),
    "dnnl_status_t",
    "dnnl_cpu_isa_t",
    "dnnl_dims_t",
    "const dnnl_dims_t **",
    "dnnl_exec_arg_t[]",
    "const char **",
    "char *",
    "int *",
    "uintptr_t",
    "int (*)(void)",
    "void (*)(int)",
)


# Those of cffi.FFI are Python functions around these.
_compiled = _cffi_backend.FFI()
from_buffer: Callable[[Any], Any] = _compiled.from_buffer
new_object: Callable[..., Any] = _compiled.new
with_destructor: Callable[[Any, Callable[[Any], None]], Any] = _compiled.gc


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


def ffi() -> cffi.FFI:
    """Return the FFI with all areas declared; parsing happens at the first call."""
    return _declared()[0]


def c_type(name: str) -> Any:
    """Return a C type, one of those that are parsed with the declarations."""
    return _declared()[1][name]


@functools.cache
def _declared() -> tuple[cffi.FFI, dict[str, Any]]:
    with forks_wait:
        declared = cffi.FFI()
        folder = declarations_folder()
        for area in AREAS:
            declared.cdef((folder / f"{area}.h").read_text(encoding="utf-8"))
        return declared, {name: declared.typeof(name) for name in _NAMED_TYPES}


@in_forked_child
def _reset() -> None:
    if _declared.cache_info().currsize:
        declared: Any = ffi()
        if hasattr(declared, "_lock"):  # no public name of cffi's
            declared._lock = threading.Lock()
