"""Where a oneDNN library may be: candidates in the order in which they are tried."""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import platformdirs

__all__ = ["LIBRARY_NAMES", "Candidate", "built_prefix", "candidates"]

# Distributions on PyPI that carry libdnnl, CPU-only ones first. `onednn` is the SYCL
# build, which needs more than itself to open; its rejection says so.
DISTRIBUTIONS = (
    "onednn-cpu-gomp",
    "onednn-cpu-iomp",
    "onednn-cpu-tbb",
    "onednn-cpu-vcomp",
    "onednn",
)

if sys.platform == "win32":
    LIBRARY_NAMES: tuple[str, ...] = ("dnnl.dll",)
elif sys.platform == "darwin":
    LIBRARY_NAMES = ("libdnnl.3.dylib", "libdnnl.dylib")
else:
    LIBRARY_NAMES = ("libdnnl.so.3", "libdnnl.so")


class Candidate(NamedTuple):
    """A path to try, and where the idea to try it came from."""

    path: str
    source: str


def built_prefix() -> Path:
    """Return the folder that ``build_onednn.sh`` installs into by default."""
    return platformdirs.user_data_path("onednn_py", appauthor=False) / "onednn"


def candidates() -> list[Candidate]:
    """Return every library file found, each once (links resolved), in order of preference."""
    found: dict[str, Candidate] = {}
    for candidate in (*_built(), *_pip(), *_conda(), *_system()):
        found.setdefault(os.path.realpath(candidate.path), candidate)
    return list(found.values())


def _in_folders(folders: list[Path], source: str) -> Iterator[Candidate]:
    for folder in folders:
        for name in LIBRARY_NAMES:
            path = folder / name
            if path.is_file():
                yield Candidate(str(path), source)


def _library_folders(prefix: Path) -> list[Path]:
    return [prefix / "lib", prefix / "lib64", prefix / "bin"]


def _built() -> Iterator[Candidate]:
    yield from _in_folders(_library_folders(built_prefix()), "built by build_onednn.sh")


def _pip() -> Iterator[Candidate]:
    for name in DISTRIBUTIONS:
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        files = {file.name: file for file in distribution.files or ()}
        for library_name in LIBRARY_NAMES:
            if library_name in files:
                path = Path(str(distribution.locate_file(files[library_name]))).resolve()
                if path.is_file():
                    yield Candidate(str(path), f"pip package {name}")
    prefix = Path(sys.prefix)
    yield from _in_folders([*_library_folders(prefix), prefix / "Library" / "bin"], "sys.prefix")


def _conda() -> Iterator[Candidate]:
    prefix = os.environ.get("CONDA_PREFIX")
    if prefix:
        folders = [*_library_folders(Path(prefix)), Path(prefix) / "Library" / "bin"]
        yield from _in_folders(folders, "conda environment")


def _system() -> Iterator[Candidate]:
    machine = os.uname().machine if hasattr(os, "uname") else ""
    folders = [
        Path("/usr/local/lib"),
        Path("/usr/local/lib64"),
        Path(f"/usr/lib/{machine}-linux-gnu"),
        Path("/usr/lib64"),
        Path("/usr/lib"),
        Path("/opt/homebrew/lib"),
        Path("/opt/intel/oneapi/dnnl/latest/lib"),
        Path("/opt/intel/oneapi/redist/bin"),
    ]
    yield from _in_folders(folders, "system")
    # Only a name: the loader finds it by its own paths (ldconfig, LD_LIBRARY_PATH).
    named = ctypes.util.find_library("dnnl")
    if named:
        yield Candidate(named, "system loader")
