"""The command that installs an extra, by the way in which this package was installed."""

from __future__ import annotations

import json
from importlib.metadata import Distribution, PackageNotFoundError, PathDistribution
from pathlib import Path
from typing import Any

import pytest

from onednn_py.tools import extras
from onednn_py.tools.extras import MissingExtraError, install_command, require

REQUIRES = (
    "numpy>=1.26",
    "matplotlib>=3.8; extra == 'demo'",
    'rich>=13 ; extra == "demo"',
    "devel==1; (sys_platform == 'linux') and extra == 'demo'",
    "pytest; extra == 'test'",
)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes the metadata of an installation."""

    def install(installer: str = "pip", **direct: Any) -> None:
        folder = tmp_path / "onednn_py-1.0.dist-info"
        folder.mkdir(exist_ok=True)
        lines = ["Metadata-Version: 2.4", "Name: onednn_py", "Version: 1.0"]
        lines += [f"Requires-Dist: {requirement}" for requirement in REQUIRES]
        (folder / "METADATA").write_text("\n".join(lines) + "\n")
        (folder / "INSTALLER").write_text(f"{installer}\n")
        if direct:
            (folder / "direct_url.json").write_text(json.dumps(direct))
        found: Distribution = PathDistribution(folder)
        monkeypatch.setattr(extras, "distribution", lambda name: found)

    return install


def test_from_an_index(installed: Any) -> None:
    installed()
    assert install_command("demo") == 'pip install "onednn_py[demo]"'


def test_editable(installed: Any, tmp_path: Path) -> None:
    checkout = tmp_path / "a checkout"
    checkout.mkdir()
    installed(url=checkout.as_uri(), dir_info={"editable": True})
    assert install_command("demo") == f'pip install -e "{checkout}[demo]"'


def test_a_folder_by_uv(installed: Any, tmp_path: Path) -> None:
    installed("uv", url=tmp_path.as_uri(), dir_info={})
    assert install_command("demo") == f'uv pip install "{tmp_path}[demo]"'


def test_a_wheel_file(installed: Any, tmp_path: Path) -> None:
    wheel = tmp_path / "onednn_py-1.0-py3-none-any.whl"
    wheel.write_bytes(b"")
    installed(url=wheel.as_uri(), archive_info={})
    assert install_command("demo") == f'pip install "onednn_py[demo] @ {wheel.as_uri()}"'


def test_a_file_that_is_gone(installed: Any, tmp_path: Path) -> None:
    installed(url=(tmp_path / "gone.whl").as_uri(), archive_info={})
    assert install_command("demo") == 'pip install "matplotlib>=3.8" "rich>=13"'


def test_a_repository(installed: Any) -> None:
    url, commit = "https://example.org/onednn_py", "0123abcd"
    installed(url=url, vcs_info={"vcs": "git", "commit_id": commit})
    assert install_command("demo") == f'pip install "onednn_py[demo] @ git+{url}@{commit}"'


def test_an_archive_from_elsewhere(installed: Any) -> None:
    installed(url="https://example.org/onednn_py.tar.gz", archive_info={})
    expected = 'pip install "onednn_py[demo] @ https://example.org/onednn_py.tar.gz"'
    assert install_command("demo") == expected


def test_conda(installed: Any) -> None:
    installed("conda")
    expected = 'conda install -c conda-forge "matplotlib>=3.8" "rich>=13"'
    assert install_command("demo") == expected


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "distribution", missing)
    assert install_command("demo", "matplotlib") == "pip install matplotlib"


def test_a_missing_package_is_named_with_the_command(installed: Any) -> None:
    installed()
    with pytest.raises(MissingExtraError, match=r'^nothing is needed here: pip .*py\[demo\]"$'):
        require("onednn_py.nothing", "nothing", "demo")
    assert require("json", "json", "demo") is json


def test_a_package_that_fails_is_not_called_missing(
    installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed()
    (tmp_path / "broken_package.py").write_text("raise ImportError('its binary is another one')")
    monkeypatch.syspath_prepend(tmp_path)
    expected = "^broken is installed, but fails: its binary is another one$"
    with pytest.raises(MissingExtraError, match=expected):
        require("broken_package", "broken", "demo")


def test_this_installation_knows_its_extras() -> None:
    """Every extra that the commands name is one of the package."""
    try:
        found = extras.distribution(extras.PACKAGE)
    except PackageNotFoundError:
        pytest.skip("not installed")
    for extra in ("demo", "bench"):
        assert "matplotlib" in str(extras._packages(found, extra))
