"""glibc keeps freed memory while it is asked to, and the allocator is left alone elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from onednn_py.system import allocator

GLIBC = "kept" if allocator._reason_against() is None else "no"

# Page faults of a program that frees and takes 200 blocks of 1 MiB, several times.
FAULTS = """
import ctypes, resource
from onednn_py.system.allocator import keep_freed_memory, return_freed_memory
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        blocks = [libc.malloc(2**20) for _ in range(200)]
        for block in blocks:
            ctypes.memset(block, 1, 2**20)
        for block in blocks:
            libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory()
faults()
kept = faults()
return_freed_memory()
faults()
print(kept, faults())
"""


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    return done.stdout.strip()


@pytest.mark.skipif(GLIBC == "no", reason="malloc is not glibc's, or has settings")
def test_kept_memory_is_not_taken_from_the_system_again() -> None:
    kept, returned = map(int, run(FAULTS).split())
    # 200 MiB are 51,200 pages; the kernel may give several at a time.
    assert kept < 100 < 1000 < returned


STATE = """
from onednn_py.system.allocator import *
keep_freed_memory()
print(freed_memory_state())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ONEDNN_PY_FREED_MEMORY", "return"),
        ("MALLOC_TRIM_THRESHOLD_", "1000000"),
        ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=1000000"),
    ],
)
def test_settings_of_the_user_are_left_alone(name: str, value: str) -> None:
    assert run(STATE, **{name: value}) == f"the allocator's default: {name} is " + (
        "return" if value == "return" else "set"
    )


def test_another_malloc_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator, "_reason_against_malloc", lambda: "malloc of libjemalloc.so.2")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(allocator, "_mallopt", lambda *numbers: pytest.fail("mallopt is called"))
    for name in ("MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    allocator.keep_freed_memory()
    assert allocator.freed_memory_state() == "the allocator's default: malloc of libjemalloc.so.2"
