"""Small blocks that stay do not lie beside large ones."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from onednn_py.system import allocator
from onednn_py.system.small_holes import CUTTINGS, EACH, small_holes_filled

GLIBC = "kept" if allocator._reason_against() is None else "no"

# Large blocks, one after another, in places between others that stay.
PLACES = 50

# How many of the small blocks, taken after a large aligned one, lie beside it.
BESIDE = """
import ctypes, sys
from onednn_py.system.allocator import keep_freed_memory
from onednn_py.system.small_holes import small_holes_filled
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.posix_memalign.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_size_t]
if "keep" in sys.argv:
    keep_freed_memory()
large, size, beside = ctypes.c_void_p(), 2**16, 0
places = [[libc.malloc(size + 128), libc.malloc(1024)][0] for _ in range(int(sys.argv[1]))]
for place in places:
    libc.free(place)
for _ in places:
    assert libc.posix_memalign(ctypes.byref(large), 64, size) == 0
    if "filled" in sys.argv:
        with small_holes_filled():
            blocks = [libc.malloc(small) for small in range(24, 112, 16)]
    else:
        blocks = [libc.malloc(small) for small in range(24, 112, 16)]
    for block in blocks:
        beside += -256 < block - large.value < 0 or size <= block - large.value < size + 256
print(beside)
"""


def beside(*arguments: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", BESIDE, str(PLACES), *arguments],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    return int(done.stdout)


@pytest.mark.skipif(GLIBC == "no", reason="malloc is not glibc's, or has settings")
def test_small_blocks_lie_apart_from_large_ones() -> None:
    # The rest of a wider free block, behind the large one, may serve small requests, too.
    few = PLACES // 5
    assert beside("keep", "filled") < few
    if os.confstr("CS_GNU_LIBC_VERSION") == "glibc 2.36":
        # What the blocks are kept from: other versions may place them elsewhere by themselves.
        assert beside("keep") > 2 * few
        assert beside("filled") > 2 * few  # the heap is left alone unless it keeps freed memory


def test_blocks_are_freed_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    freed: list[int] = []

    def malloc(size: int) -> int:
        taken.append(size)
        return len(taken)

    monkeypatch.setattr("onednn_py.system.small_holes._allocator", lambda: (malloc, freed.append))
    monkeypatch.setattr(allocator, "_kept", 1)
    with small_holes_filled():
        assert not freed
        assert len(taken) == len(CUTTINGS) * EACH
    with pytest.raises(KeyError), small_holes_filled():
        raise KeyError
    assert len(taken) == 2 * len(CUTTINGS) * EACH
    assert sorted(freed) == list(range(1, len(taken) + 1))
