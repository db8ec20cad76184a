"""What the C allocator does with freed memory: keep it for the next step, or return it.

glibc returns the free end of its heap to the system where that is more than twice the largest block
that was ever freed, 64 MiB at the most. A training step frees hundreds of MiB and takes them again,
page by page, which costs a step of ResNet-50 a tenth of its time.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import Any

from onednn_py.config import freed_memory_setting

from .forks import in_forked_child

__all__ = [
    "LARGEST_KEPT",
    "freed_memory_is_kept",
    "freed_memory_state",
    "keep_freed_memory",
    "return_freed_memory",
]

# Numbers of mallopt (malloc.h of glibc).
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3

# The largest value of M_MMAP_THRESHOLD, which glibc reaches by itself when such a block is freed.
# Blocks of so many bytes are mapped anew each time.
LARGEST_KEPT = 2**25

# glibc's own rule for the largest block.
_USUAL_TRIM_THRESHOLD = 2 * LARGEST_KEPT

# mallopt takes an int.
_MOST_KEPT = 2**31 - 1

_lock = threading.RLock()
_kept = 0


class _DlInfo(ctypes.Structure):
    """What dladdr tells of an address."""

    _fields_ = (
        ("path", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def keep_freed_memory() -> None:
    """Have glibc keep freed memory in the process, up to a quarter of the machine's memory.

    Nothing is done where `freed_memory_state` says why not.
    """
    global _kept
    with _lock:
        if _kept or _reason_against() is not None:
            return
        kept = min(_MOST_KEPT, _memory_bytes() // 4)
        # Either call stops glibc from adapting both numbers, so that both are set.
        if _mallopt(_M_TRIM_THRESHOLD, kept) and _mallopt(_M_MMAP_THRESHOLD, LARGEST_KEPT):
            _kept = kept


def return_freed_memory() -> None:
    """Have glibc return freed memory to the system again, at the next large block that is freed.

    glibc then keeps 64 MiB: its own adapting cannot be switched on again.
    """
    global _kept
    with _lock:
        if _kept:
            _kept = 0
            _mallopt(_M_TRIM_THRESHOLD, _USUAL_TRIM_THRESHOLD)


def freed_memory_is_kept() -> bool:
    """Whether glibc keeps freed memory because `keep_freed_memory` asked it to."""
    return _kept > 0


def freed_memory_state() -> str:
    """Return in words what the allocator does with freed memory, and why."""
    if _kept:
        return f"kept, up to {_kept} bytes"
    return f"the allocator's default: {_reason_against() or 'onednn_py.torch is not enabled'}"


def _reason_against() -> str | None:
    """Return why the allocator is left alone, None where it is not."""
    if freed_memory_setting.current() == "return":
        return "ONEDNN_PY_FREED_MEMORY is return"
    chosen = [name for name in os.environ if name.startswith("MALLOC_") and name.endswith("_")]
    if chosen:
        return f"{chosen[0]} is set"
    if "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", ""):
        return "GLIBC_TUNABLES is set"
    if not sys.platform.startswith("linux"):
        return "not glibc"
    return _reason_against_malloc()


def _reason_against_malloc() -> str | None:
    """Return why the process's malloc is not glibc's, None where it is."""
    process: Any = ctypes.CDLL(None)
    if not hasattr(process, "gnu_get_libc_version") or not hasattr(process, "mallopt"):
        return "not glibc"
    own, libc = _DlInfo(), _DlInfo()
    for name, found in (("malloc", own), ("gnu_get_libc_version", libc)):
        address = ctypes.cast(getattr(process, name), ctypes.c_void_p)
        if not process.dladdr(address, ctypes.byref(found)):
            return "malloc of an unknown library"
    if own.base != libc.base:
        return f"malloc of {os.path.basename(os.fsdecode(own.path or b''))}"
    return None


def _mallopt(number: int, value: int) -> bool:
    return bool(ctypes.CDLL(None).mallopt(ctypes.c_int(number), ctypes.c_int(value)))


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@in_forked_child
def _reset() -> None:
    # A worker that loads data need not keep what it frees.
    global _lock, _kept
    _lock = threading.RLock()
    if _kept:
        _kept = 0
        _mallopt(_M_TRIM_THRESHOLD, _USUAL_TRIM_THRESHOLD)
