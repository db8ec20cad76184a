"""The search for a library: folders, names and versions, each file once."""

from __future__ import annotations

import ctypes.util
import os
import sys
from pathlib import Path

import pytest

from onednn_py.backends.onednn.binding import search
from onednn_py.backends.onednn.binding.search import LIBRARY_NAMES
from tests.support.requirements import HAS_ONEDNN

elf_names = pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of ELF libraries")


@pytest.fixture(autouse=True)
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found but in the tree that a test makes."""
    monkeypatch.setattr(search, "built_prefix", lambda: tmp_path / "built")
    monkeypatch.setattr(search, "DISTRIBUTIONS", ())
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setattr(search, "ROOT", tmp_path / "root")
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)


def put(folder: Path, *names: str) -> None:
    """Make files, and links where a name is written ``link->target``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        link, _, target = name.partition("->")
        if target:
            (folder / link).symlink_to(target)
        else:
            (folder / name).write_bytes(b"")


def found() -> list[str]:
    return [os.path.basename(file.path) for file in search.library_files()]


def test_the_search_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built, pip's, conda's, the loader's path, the system's; each file once."""
    for folder in ("built", "venv", "conda", "root/usr"):
        put(tmp_path / folder / "lib", LIBRARY_NAMES[0])
    put(tmp_path / "modules", LIBRARY_NAMES[0])
    if len(LIBRARY_NAMES) > 1:
        put(tmp_path / "conda" / "lib", f"{LIBRARY_NAMES[1]}->{LIBRARY_NAMES[0]}")
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path / 'modules'}:")
    sources = [file.source for file in search.library_files()]
    expected = ["built by build_onednn.sh", "sys.prefix", "conda environment", "LD_LIBRARY_PATH"]
    if sys.platform == "win32":
        expected.remove("LD_LIBRARY_PATH")
    assert sources == [*expected, "system"]


@elf_names
@pytest.mark.parametrize(
    ("files", "expected"),
    [
        # Debian 13.
        (["libdnnl.so.3.7", "libdnnl.so.3.6->libdnnl.so.3.7"], ["libdnnl.so.3.7"]),
        # Ubuntu 24.04, and what cmake installs.
        (
            ["libdnnl.so.3.1", "libdnnl.so.3->libdnnl.so.3.1", "libdnnl.so->libdnnl.so.3"],
            ["libdnnl.so.3"],
        ),
        # Versions are numbers.
        (
            ["libdnnl.so.3.9", "libdnnl.so.3.10", "libdnnl.so.3.10.2", "libdnnl.so.3.1"],
            ["libdnnl.so.3.10.2", "libdnnl.so.3.10", "libdnnl.so.3.9", "libdnnl.so.3.1"],
        ),
        # A link is as new as its target.
        (
            ["libdnnl.so.3.1", "libdnnl.so.3.7", "libdnnl.so.3->libdnnl.so.3.1"],
            ["libdnnl.so.3.7", "libdnnl.so.3"],
        ),
        # pip's wheels have copies.
        (
            ["libdnnl.so.3.2", "libdnnl.so.3", "libdnnl.so"],
            ["libdnnl.so.3", "libdnnl.so.3.2", "libdnnl.so"],
        ),
        # Other files, and links to nowhere.
        (["libdnnl.so.30", "libdnnl.so.3.7.debug", "xlibdnnl.so.3", "libdnnl.so.2.7"], []),
        (["libdnnl.so.3->libdnnl.so.3.7"], []),
        # Of version 2: opened, and rejected with its version.
        (["libdnnl.so.2.7", "libdnnl.so->libdnnl.so.2.7", "libdnnl.so.3.1"],
         ["libdnnl.so.3.1", "libdnnl.so"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("folder", ["root/usr/lib", "root/usr/lib64", "venv/lib", "built/lib"])
def test_names_and_versions(
    tmp_path: Path, folder: str, files: list[str], expected: list[str]
) -> None:
    put(tmp_path / folder, *files)
    assert found() == expected


@elf_names
def test_folders_of_several_architectures(tmp_path: Path) -> None:
    put(tmp_path / "root/usr/lib" / f"{os.uname().machine}-linux-gnu", "libdnnl.so.3.7")
    put(tmp_path / "root/usr/lib/other-linux-gnu", "libdnnl.so.3.8")
    assert found() == ["libdnnl.so.3.7"]


@elf_names
def test_what_the_loader_finds_is_not_opened_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: f"lib{name}.so.3.7")
    assert found() == ["libdnnl.so.3.7"]
    assert search.library_files()[0].source == "system loader"
    put(tmp_path / "root/usr/lib", "libdnnl.so.3.7", "libdnnl.so.3.6->libdnnl.so.3.7")
    assert [file.source for file in search.library_files()] == ["system"]


@elf_names
def test_a_folder_that_cannot_be_listed(tmp_path: Path) -> None:
    put(tmp_path / "root/usr", "lib")
    put(tmp_path / "root/usr/lib64", "libdnnl.so.3.7")
    assert found() == ["libdnnl.so.3.7"]


@pytest.mark.skipif(not HAS_ONEDNN, reason="no oneDNN library here")
def test_pip_goes_before_conda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "DISTRIBUTIONS", ("onednn-cpu-gomp",))
    put(tmp_path / "conda/lib", LIBRARY_NAMES[0])
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    sources = [file.source for file in search.library_files()]
    assert sources[-1] == "conda environment"
    assert set(sources[:-1]) <= {"pip package onednn-cpu-gomp"}
