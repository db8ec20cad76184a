"""Which command brings a oneDNN library to this machine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["headers_command", "install_command", "remedy"]

BUILD = "./build_onednn.sh"
CONDA = "conda install -c conda-forge onednn-cpu-omp"
PIP = "pip install onednn-cpu-gomp==2023.2.0"
PIP_HEADERS = "pip install onednn-devel-cpu-gomp==2023.2.0"
PIP_VERSION = (3, 2)

# oneDNN v3 came to Debian with 13 and to Ubuntu with 24.04, whose package has another name.
_NEW_DEBIAN = "apt install libdnnl3.6"
_UBUNTU_24 = "apt install libdnnl3"

# Where a package of its own has the headers, by the command that installs the library. Elsewhere
# they come with the library.
_HEADERS = {
    _NEW_DEBIAN: "apt install libdnnl-dev",
    _UBUNTU_24: "apt install libdnnl-dev",
    "dnf install onednn": "dnf install onednn-devel",
}


def remedy() -> str:
    """Return what helps where no library was found, as a part of a sentence."""
    command = install_command()
    commands = [] if command == BUILD else [command]
    # pip's wheel is for this platform alone, and belongs to pip's environments.
    if _has_pip_wheels() and command != CONDA:
        commands.append(PIP)
    listed = ", ".join(f"`{command}`" for command in (*commands, BUILD))
    return (
        f"{listed} (in this package's sources), or set ONEDNN_PY_LIBRARY to the path of a libdnnl"
        " of version 3"
    )


def install_command() -> str:
    """Return the command of this environment or system that installs oneDNN v3.

    It is that of conda in a conda environment, then that of the system's packages, and
    ``./build_onednn.sh`` on systems that have no package of version 3.
    """
    if os.environ.get("CONDA_PREFIX") or Path(sys.prefix, "conda-meta").is_dir():
        return CONDA
    if sys.platform == "darwin":
        return "brew install onednn"
    try:
        release = platform.freedesktop_os_release()
    except (OSError, AttributeError):  # no Linux
        return BUILD
    return _of_distribution(release)


def headers_command(version: tuple[int, ...]) -> str | None:
    """Return the command that installs the headers of a version of oneDNN, None if it is not known.

    Parameters
    ----------
    version : tuple of int
        Of the library in use.
    """
    if version[:2] == PIP_VERSION and _has_pip_wheels():
        return PIP_HEADERS
    return _HEADERS.get(install_command())


def _has_pip_wheels() -> bool:
    return sys.platform == "linux" and platform.machine() == "x86_64"


def _of_distribution(release: Mapping[str, str]) -> str:
    name, version = release.get("ID", ""), _version(release.get("VERSION_ID", ""))
    if name == "debian":
        # Testing and unstable have no number.
        return _NEW_DEBIAN if version >= (13,) or not version else BUILD
    if name == "ubuntu":
        if version >= (25, 4):
            return _NEW_DEBIAN
        return _UBUNTU_24 if version >= (24, 4) else BUILD
    if name == "fedora":
        return "dnf install onednn"
    # Derivatives have numbers of their own.
    if "arch" in (name, *release.get("ID_LIKE", "").split()):
        return "pacman -S onednn"
    if release.get("UBUNTU_CODENAME") == "noble":
        return _UBUNTU_24
    if release.get("VERSION_CODENAME") == "trixie":
        return _NEW_DEBIAN
    return BUILD


def _version(text: str) -> tuple[int, ...]:
    parts = text.split(".")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else ()
