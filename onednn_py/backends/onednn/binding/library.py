"""Locate, open and judge oneDNN: the only place where a library is opened."""

from __future__ import annotations

import ctypes
import logging
import os
import re
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

from onednn_py.config import explicit_library
from onednn_py.errors import LibraryNotFoundError
from onednn_py.system.forks import forks_wait, in_forked_child
from onednn_py.system.idle_threads import short_openmp_spin

from .declarations import c_type, ffi, text_of
from .remedy import remedy
from .search import LibraryFile, library_files

__all__ = ["Library", "Rejection", "isa_name", "library", "rejections"]

_log = logging.getLogger("onednn_py")

# Characters of a message, which callers put words before. Reasons are shortened to it; `info` has
# them whole.
LONGEST_MESSAGE = 560
LONGEST_PATH = 200
SHORTEST_REASON = 40
ROOM_FOR_MORE = 60

# The first version whose kernels leave the stack pointer on the stack.
KEEPS_STACK = (3, 11, 2)

SEQUENTIAL, OPENMP, TBB, THREAD_POOL, SYCL = 1, 2, 4, 8, 512
_RUNTIMES = {
    SEQUENTIAL: "sequential",
    OPENMP: "OpenMP",
    TBB: "TBB",
    THREAD_POOL: "thread pool",
    SYCL: "SYCL",
}

# Where the number of threads is not the one that users set: why, and what helps.
_THREAD_NOTES = {
    SEQUENTIAL: "one thread, because the library was built without threads",
    TBB: "as many threads as TBB decides; set_num_threads does not reach them",
    THREAD_POOL: "one thread, because this build waits for a pool that the calling program brings;"
    " a build with OpenMP uses more",
}


class Rejection(NamedTuple):
    """A library file that was not used, and why."""

    path: str
    source: str
    reason: str


class Library:
    """An opened oneDNN of version 3 with a CPU engine.

    Attributes
    ----------
    lib
        The cffi library: C functions as attributes.
    path, source : str
        File, and where the search found it.
    version : tuple of int
        (major, minor, patch).
    """

    def __init__(self, lib: Any, path: str, source: str) -> None:
        version = lib.dnnl_version()
        self.lib = lib
        self.path = path
        self.source = source
        self.version = (version.major, version.minor, version.patch)
        self.hash = text_of(version.hash)
        self._runtime = int(version.cpu_runtime)
        self._cpu_isa = ""

    @property
    def runtime(self) -> str:
        return _RUNTIMES.get(self._runtime, f"unknown ({self._runtime})")

    @property
    def uses_openmp(self) -> bool:
        return self._runtime == OPENMP

    @property
    def has_one_thread(self) -> bool:
        """Whether the library computes on the calling thread alone."""
        return self._runtime in (SEQUENTIAL, THREAD_POOL)

    @property
    def moves_stack(self) -> bool:
        """Whether kernels of the library move the stack, so that signal handlers need their own.

        See `onednn_py.system.signal_stack`.
        """
        return self.version < KEEPS_STACK

    @property
    def thread_note(self) -> str | None:
        """What users should know about the number of threads; None if they set it."""
        return _THREAD_NOTES.get(self._runtime)

    @property
    def cpu_isa(self) -> str:
        """Name of the instruction set that oneDNN dispatches to on this CPU, see `isa_name`.

        It is the same for the rest of the process from the first time that it is asked.
        """
        if not self._cpu_isa:
            with forks_wait:  # the first call asks the CPU, while others wait for it
                self._cpu_isa = isa_name(self.lib.dnnl_get_effective_cpu_isa())
        return self._cpu_isa

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))

    def exports(self, function: str) -> bool:
        """Whether the library has a function, declared in ``cdefs/`` or not."""
        return hasattr(ctypes.CDLL(self.path), function)


def isa_name(value: int) -> str:
    """Return the name of an instruction set.

    A set that ``cdefs/`` has no name for, that of a CPU or a oneDNN newer than these, has the name
    of the largest set within it: ``avx512_core_amx_fp16 and more (0x21fef)``.

    Parameters
    ----------
    value : int
        Of ``dnnl_cpu_isa_t``, in which each bit is a feature.
    """
    names: dict[int, str] = c_type("dnnl_cpu_isa_t").elements
    known = max(number for number in names if value & number == number)
    name = names[known].removeprefix("dnnl_cpu_isa_")
    return name if known == value else f"{name} and more ({value:#x})"


_lock = threading.RLock()
_found: Library | None = None
_rejected: list[Rejection] = []
# The value of ONEDNN_PY_LIBRARY with which a search last failed, and its message.
_failure: tuple[str | None, str] | None = None


def rejections() -> list[Rejection]:
    """Return the files that the last search rejected."""
    return list(_rejected)


def library() -> Library:
    """Return the library in use, opening it at the first call.

    Raises
    ------
    LibraryNotFoundError
        Listing every path tried and why it was rejected.
    """
    global _found, _failure
    if _found is not None:
        return _found
    with forks_wait, _lock:
        if _found is not None:
            return _found
        explicit = explicit_library()
        if _failure is None or _failure[0] != explicit:
            _found = _search(explicit)
            if _found is not None:
                _log.info("oneDNN %s from %s", _found.version_text, _found.path)
                return _found
            _failure = (explicit, _failure_message(explicit))
        raise LibraryNotFoundError(_failure[1])


@in_forked_child
def _reset() -> None:
    global _lock
    _lock = threading.RLock()


def _search(explicit: str | None) -> Library | None:
    _rejected.clear()
    tried = [LibraryFile(explicit, "ONEDNN_PY_LIBRARY")] if explicit else library_files()
    for file in tried:
        opened = _open(file)
        if isinstance(opened, Library):
            return opened
        _rejected.append(Rejection(file.path, file.source, opened))
        _log.debug("rejected %s (%s): %s", file.path, file.source, opened)
    return None


def _failure_message(explicit: str | None) -> str:
    if explicit:
        return _listed("ONEDNN_PY_LIBRARY names a library that cannot be used:")
    if not _rejected:
        return f"no usable oneDNN library; found no file to try\nRemedy: {remedy()}"
    return _listed("no usable oneDNN library; tried:", f"\nRemedy: {remedy()}")


def _listed(title: str, end: str = "") -> str:
    """Return a line for every rejected library; reasons share the room that the paths leave."""
    heads = [f"\n  {_shortened(r.path, LONGEST_PATH)} ({r.source}): " for r in _rejected]
    room = LONGEST_MESSAGE - len(title) - len(end)
    share = max(SHORTEST_REASON, (room - sum(map(len, heads))) // len(heads))
    lines = [
        head + (r.reason if len(r.reason) <= share else f"{r.reason[: share - 3]}...")
        for head, r in zip(heads, _rejected, strict=True)
    ]
    kept = list(lines)
    if sum(map(len, lines)) > room:
        while len(kept) > 1 and sum(map(len, kept)) > room - ROOM_FOR_MORE:
            kept.pop()
    if left := len(lines) - len(kept):
        kept.append(f"\n  and {left} more, see python -m onednn_py info")
    return "".join((title, *kept, end))


def _shortened(path: str, longest: int) -> str:
    return path if len(path) <= longest else f"...{path[3 - longest :]}"


def _open(file: LibraryFile) -> Library | str:
    """Return the opened library, or the reason why this file cannot be used."""
    path = file.path
    if os.path.isdir(path):
        return "is a folder; expected the path of the library file"
    if file.source == "ONEDNN_PY_LIBRARY" and not os.path.exists(path):
        return "no such file"
    try:
        lib = _dlopen(path)
    except OSError as error:
        return _unopened(path, str(error))
    try:
        opened = Library(lib, path, file.source)
    except AttributeError:
        return "has no function dnnl_version: not a oneDNN library"
    if opened.version[0] != 3:
        return f"is version {opened.version_text}, another API; expected version 3"
    try:
        trouble = _engine_trouble(opened)
    except AttributeError as error:
        return f"has not all functions of version 3: {error}"
    if trouble is not None:
        return trouble
    # cffi looks a function up once, under its lock. Not every build has those of OpenMP.
    missing = [name for name in dir(lib) if not hasattr(lib, name) and name.startswith("dnnl_")]
    return f"has not all functions of version 3: no {missing[0]}" if missing else opened


def _dlopen(path: str) -> Any:
    if sys.platform == "win32" and os.path.dirname(path):
        with os.add_dll_directory(os.path.dirname(os.path.abspath(path))):
            return ffi().dlopen(path)
    with short_openmp_spin():
        return ffi().dlopen(path)


def _unopened(path: str, message: str) -> str:
    # cffi wraps the loader's words, which name the file that is missing, in its own.
    words = message.removeprefix(f"cannot load library '{path}': ").split(".  Additionally,")[0]
    reason = f"cannot be opened: {words}"
    named = re.search(r"libdnnl\.(?:so\.)?(\d+)", os.path.basename(os.path.realpath(path)))
    if named and named[1] != "3":
        return f"{reason} (and by its name it is version {named[1]}, another API than version 3)"
    if "sycl" in message.lower() or "opencl" in message.lower():
        reason += (
            f" (a build for SYCL or GPUs: put its folder {Path(path).parent} and those of its"
            " dependencies on the loader's path, LD_LIBRARY_PATH, or install the CPU build"
            " onednn-cpu-gomp)"
        )
    return reason


def _engine_trouble(opened: Library) -> str | None:
    """Return why the library has no usable CPU engine, None if it has one."""
    lib = opened.lib
    reason = None
    if not lib.dnnl_engine_get_count(lib.dnnl_cpu):
        reason = "has no CPU engine"
    else:
        engine = ffi().new(c_type("dnnl_engine_t *"))
        status = lib.dnnl_engine_create(engine, lib.dnnl_cpu, 0)
        if status != lib.dnnl_success:
            reason = f"cannot create a CPU engine (status {status})"
        else:
            lib.dnnl_engine_destroy(engine[0])
            # oneDNN's own cache confuses layouts that differ in an axis of one element, and returns
            # the wrong primitive (docs/native.md). The plan cache does its work.
            status = lib.dnnl_set_primitive_cache_capacity(0)
            if status != lib.dnnl_success:
                reason = f"cannot switch its cache of primitives off (status {status})"
    if reason and opened.runtime == "SYCL":
        reason += (
            " (a SYCL build finds the CPU only with an OpenCL driver for it: set"
            " OCL_ICD_FILENAMES to the driver's libintelocl.so, or install the CPU build"
            " onednn-cpu-gomp)"
        )
    return reason
