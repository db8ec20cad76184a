"""The command that installs oneDNN: that of the environment or of the system."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from onednn_py.backends.onednn.binding.remedy import (
    BUILD,
    CONDA,
    PIP,
    headers_command,
    install_command,
    remedy,
)


@pytest.fixture(autouse=True)
def linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Linux on x86-64, no conda environment."""
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    release(monkeypatch, ID="other")


def release(monkeypatch: pytest.MonkeyPatch, **fields: str) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: fields)


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        ("apt install libdnnl3.6", {"ID": "debian", "VERSION_ID": "13"}),
        ("apt install libdnnl3.6", {"ID": "debian", "VERSION_CODENAME": "forky"}),
        (BUILD, {"ID": "debian", "VERSION_ID": "12"}),
        ("apt install libdnnl3.6", {"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_ID": "25.04"}),
        ("apt install libdnnl3.6", {"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_ID": "25.10"}),
        ("apt install libdnnl3", {"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_ID": "24.04"}),
        (BUILD, {"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_ID": "22.04"}),
        (
            "apt install libdnnl3",
            {"ID": "linuxmint", "ID_LIKE": "ubuntu debian", "VERSION_ID": "22",
             "UBUNTU_CODENAME": "noble"},
        ),
        ("apt install libdnnl3.6", {"ID": "raspbian", "VERSION_CODENAME": "trixie"}),
        ("dnf install onednn", {"ID": "fedora", "VERSION_ID": "43"}),
        (BUILD, {"ID": "rocky", "ID_LIKE": "rhel centos fedora", "VERSION_ID": "9.4"}),
        ("pacman -S onednn", {"ID": "arch"}),
        ("pacman -S onednn", {"ID": "manjaro", "ID_LIKE": "arch"}),
        (BUILD, {"ID": "alpine", "VERSION_ID": "3.22.1"}),
        (BUILD, {}),
    ],
)  # fmt: skip
def test_distributions(
    monkeypatch: pytest.MonkeyPatch, command: str, fields: dict[str, str]
) -> None:
    release(monkeypatch, **fields)
    assert install_command() == command
    assert f"`{command}`" in remedy()


def test_without_an_os_release(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise OSError

    monkeypatch.setattr(platform, "freedesktop_os_release", missing)
    assert install_command() == BUILD


def test_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert install_command() == "brew install onednn"
    assert PIP not in remedy()


def test_conda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variable of an active environment, or by the folder of conda's own Python."""
    release(monkeypatch, ID="debian", VERSION_ID="13")
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path))
    assert install_command() == CONDA == "conda install -c conda-forge onednn-cpu-omp"
    assert PIP not in remedy()
    monkeypatch.delenv("CONDA_PREFIX")
    assert install_command() != CONDA
    (tmp_path / "conda-meta").mkdir()
    assert install_command() == CONDA


def test_pip_has_a_library_for_one_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PIP in remedy()
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert PIP not in remedy()
    assert BUILD in remedy()


def test_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip has those of one version, for one platform; systems have those of their own."""
    expected = "pip install onednn-devel-cpu-gomp==2023.2.0"
    assert headers_command((3, 2, 0)) == expected
    assert headers_command((3, 7, 2)) is None
    release(monkeypatch, ID="debian", VERSION_ID="13")
    assert headers_command((3, 2, 0)) == expected
    assert headers_command((3, 7, 2)) == "apt install libdnnl-dev"
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert headers_command((3, 2, 0)) == "apt install libdnnl-dev"
