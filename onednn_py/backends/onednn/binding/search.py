"""Where a oneDNN library may be: files in the order in which they are tried."""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import platformdirs

__all__ = ["LIBRARY_NAMES", "LibraryFile", "built_prefix", "library_files"]

# Distributions on PyPI that carry libdnnl, CPU-only ones first. `onednn` is the SYCL
# build, which needs more than itself to open; its rejection says so.
DISTRIBUTIONS = (
    "onednn-cpu-gomp",
    "onednn-cpu-iomp",
    "onednn-cpu-tbb",
    "onednn-cpu-vcomp",
    "onednn",
)

# What programs are linked with, and developers. Files of version 3 may have more numbers: Debian 13
# has libdnnl.so.3.7 and libdnnl.so.3.6 alone.
if sys.platform == "win32":
    LIBRARY_NAMES: tuple[str, ...] = ("dnnl.dll",)
    _NUMBERED = re.compile(r"dnnl()\.dll")
elif sys.platform == "darwin":
    LIBRARY_NAMES = ("libdnnl.3.dylib", "libdnnl.dylib")
    _NUMBERED = re.compile(r"libdnnl\.3((?:\.\d+)*)\.dylib")
else:
    LIBRARY_NAMES = ("libdnnl.so.3", "libdnnl.so")
    _NUMBERED = re.compile(r"libdnnl\.so\.3((?:\.\d+)*)")

# Where system folders are.
ROOT = Path("/")


class LibraryFile(NamedTuple):
    """A path to try, and where the idea to try it came from."""

    path: str
    source: str


def built_prefix() -> Path:
    """Return the folder that ``build_onednn.sh`` installs into by default."""
    return platformdirs.user_data_path("onednn_py", appauthor=False) / "onednn"


def library_files() -> list[LibraryFile]:
    """Return every library file found, each once (links resolved), in order of preference."""
    found: dict[str, LibraryFile] = {}
    for file in (*_built(), *_pip(), *_conda(), *_system()):
        found.setdefault(os.path.realpath(file.path), file)
    return list(found.values())


def _in_folders(folders: Iterable[Path], source: str) -> Iterator[LibraryFile]:
    for folder in folders:
        with suppress(OSError):
            for path in _libraries(folder.iterdir()):
                yield LibraryFile(str(path), source)


def _libraries(paths: Iterable[Path]) -> list[Path]:
    """Return the files among the paths whose names are those of libraries, newest version first."""
    named = (path for path in paths if path.name in LIBRARY_NAMES or _NUMBERED.fullmatch(path.name))
    return sorted((path for path in named if path.is_file()), key=_newness, reverse=True)


def _newness(path: Path) -> tuple[bool, tuple[int, ...], bool, str]:
    """Return what the newest version has most of; a link has the version of its target.

    Among names of one version, the name that programs are linked with comes first, and before all
    others where its file tells no minor version.
    """
    is_linked_with = path.name == LIBRARY_NAMES[0]
    numbered = _NUMBERED.fullmatch(os.path.basename(os.path.realpath(path)))
    minor = tuple(map(int, numbered[1].split(".")[1:])) if numbered else ()
    return is_linked_with and not minor, minor, is_linked_with, path.name


def _library_folders(prefix: Path) -> list[Path]:
    return [prefix / "lib", prefix / "lib64", prefix / "bin"]


def _built() -> Iterator[LibraryFile]:
    yield from _in_folders(_library_folders(built_prefix()), "built by build_onednn.sh")


def _pip() -> Iterator[LibraryFile]:
    for name in DISTRIBUTIONS:
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        files = [Path(str(distribution.locate_file(file))) for file in distribution.files or ()]
        for path in _libraries(files):
            yield LibraryFile(str(path.parent.resolve() / path.name), f"pip package {name}")
    prefix = Path(sys.prefix)
    yield from _in_folders([*_library_folders(prefix), prefix / "Library" / "bin"], "sys.prefix")


def _conda() -> Iterator[LibraryFile]:
    prefix = os.environ.get("CONDA_PREFIX")
    if prefix:
        folders = [*_library_folders(Path(prefix)), Path(prefix) / "Library" / "bin"]
        yield from _in_folders(folders, "conda environment")


def _system() -> Iterator[LibraryFile]:
    machine = os.uname().machine if hasattr(os, "uname") else ""
    folders = (
        "usr/local/lib",
        "usr/local/lib64",
        f"usr/lib/{machine}-linux-gnu",
        "usr/lib64",
        "usr/lib",
        "opt/homebrew/lib",
        "opt/intel/oneapi/dnnl/latest/lib",
        "opt/intel/oneapi/redist/bin",
    )
    found = [
        *_in_folders(map(Path, _loader_folders()), "LD_LIBRARY_PATH"),
        *_in_folders((ROOT / folder for folder in folders), "system"),
    ]
    yield from found
    # Only a name: the loader finds it by paths of its own (ldconfig). A file of that name in the
    # folders above is the same file.
    named = ctypes.util.find_library("dnnl")
    if named and named not in {os.path.basename(file.path) for file in found}:
        yield LibraryFile(named, "system loader")


def _loader_folders() -> list[str]:
    if sys.platform == "win32":
        return []
    return [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
