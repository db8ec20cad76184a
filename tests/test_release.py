"""Tags, versions, the changelog and the conda recipe belong together."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.paths import ROOT

FOLDER = ROOT / ".ci"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="not in a checkout")

CHANGELOG = """# Changelog

## Unreleased

## 1.2.0 - 2026-11-22

### Added

- A thing.

## 1.1.0 - 2026-01-01

- An older thing.
"""


DEV = {
    "version": "1.2.0.dev1",
    "recipe": "1.2.0.dev1",
    "changelog": CHANGELOG.replace("1.2.0", "1.2.0.dev1"),
}


def script(name: str) -> ModuleType:
    """Import a script of ``.ci``."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def release() -> ModuleType:
    return script("release")


@pytest.fixture
def tree(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes what the script reads."""

    def write(version: str = "1.2.0", changelog: str = CHANGELOG, recipe: str = "1.2.0") -> Path:
        (tmp_path / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')
        (tmp_path / "CHANGELOG.md").write_text(changelog)
        (tmp_path / "recipe").mkdir()
        (tmp_path / "recipe" / "recipe.yaml").write_text(f'context:\n  version: "{recipe}"\n')
        return tmp_path

    return write


def test_what_belongs_together(release: ModuleType, tree: Callable[..., Path]) -> None:
    root = tree()
    assert release.troubles(root, "v1.2.0") == []
    assert release.notes(root, "1.2.0") == "### Added\n\n- A thing."
    assert release.notes(root, "1.1.0") == "- An older thing."
    assert release.notes(root, "1.3.0") == ""
    dist = root / "dist"
    dist.mkdir()
    for name in ("onednn_py-1.2.0.tar.gz", "onednn_py-1.2.0-py3-none-any.whl"):
        assert release.troubles(root, "v1.2.0", dist)
        (dist / name).write_bytes(b"")
    assert release.troubles(root, "v1.2.0", dist) == []


@pytest.mark.parametrize(
    ("tag", "written", "trouble"),
    [
        ("v1.2.1", {}, "the tag is v1.2.1, but .* 1.2.0: expected v1.2.0"),
        ("1.2.0", {}, "the tag is 1.2.0, but"),
        ("v1.2.0.dev1", DEV, "is no release"),
        ("v1.2.0", {"recipe": "1.1.0"}, "recipe.yaml: expected version 1.2.0"),
        ("v1.3.0", {"version": "1.3.0", "recipe": "1.3.0"}, "no section of 1.3.0"),
        ("v1.1.0", {"version": "1.1.0", "recipe": "1.1.0"}, "1.1.0 is not the newest section"),
        ("v1.2.0", {"changelog": CHANGELOG.replace("-22", "-31")}, "expected ## 1.2.0 - YYYY-MM"),
        ("v1.2.0", {"changelog": CHANGELOG.replace(" - 2026-11-22", "")}, "got ## 1.2.0"),
        (
            "v1.2.0",
            {"changelog": CHANGELOG.replace("### Added\n\n- A thing.\n\n", "")},
            "nothing is written under 1.2.0",
        ),
        (
            "v1.2.0",
            {"changelog": CHANGELOG.replace("Unreleased\n", "Unreleased\n\n- More.\n")},
            "what stands under Unreleased belongs to 1.2.0",
        ),
    ],
)
def test_what_does_not(
    release: ModuleType,
    tree: Callable[..., Path],
    tag: str,
    written: dict[str, str],
    trouble: str,
) -> None:
    (found,) = release.troubles(tree(**written), tag)
    assert re.search(trouble, found)


def test_this_checkout(release: ModuleType) -> None:
    """Only the changelog waits for the release."""
    version = release.project_version(ROOT)
    assert all(
        trouble.startswith("CHANGELOG.md") for trouble in release.troubles(ROOT, f"v{version}")
    )
    assert release.main(["check", "v0.0.0"]) == 1
    assert release.main(["notes", "v99.0.0"]) == 1
    assert release.main([]) == 2


class TestRecipe:
    """The conda recipe asks for what the project asks for; CI renders it with rattler-build."""

    PYPROJECT = """[build-system]
requires = ["hatchling>=1.24", "hatch-fancy-pypi-readme>=24.1"]

[project]
version = "1.2.0"
requires-python = ">=3.10"
dependencies = [
    "numpy>=1.26",
    # A comment.
    "onednn-cpu-gomp==2023.2.0; sys_platform == 'linux'",
]
"""

    @pytest.fixture
    def recipe(self) -> ModuleType:
        return script("recipe")

    @pytest.fixture
    def package(self) -> dict[str, Any]:
        return {
            "package": {"version": "1.2.0"},
            "build": {
                "noarch": "python",
                "script": ["sed -i.bak '/\"onednn-cpu-gomp==/d' pyproject.toml", "pip install ."],
            },
            "requirements": {
                "host": [
                    "python 3.10.*",
                    "pip",
                    "hatch-fancy-pypi-readme >=24.1",
                    "hatchling >=1.24",
                ],
                "run": ["python >=3.10", "onednn-cpu-omp >=3,<4", "numpy >=1.26"],
            },
            "about": {"homepage": "x", "license": "x", "license_file": ["x"], "summary": "x"},
        }

    def test_a_good_recipe(self, recipe: ModuleType, package: dict[str, Any]) -> None:
        assert recipe.troubles(package, self.PYPROJECT) == []

    @pytest.mark.parametrize(
        ("part", "field", "value", "trouble"),
        [
            ("requirements", "run", ["python >=3.10", "numpy >=1.26"], "run: expected .*cpu-omp"),
            ("requirements", "run", ["python >=3.9"], "run: expected python >=3.10"),
            ("requirements", "host", ["pip", "hatchling >=1.24"], "host: expected .*readme >=24.1"),
            ("build", "noarch", "generic", "noarch: python"),
            ("build", "script", ["pip install ."], "delete the line of onednn-cpu-gomp, got"),
            ("build", "script", ["sed -i.bak '/py/d' pyproject.toml"], "delete the line"),
            ("package", "version", "1.1.0", "not that of pyproject.toml"),
            ("about", "license", "", "about: license is missing"),
        ],
    )
    def test_a_bad_recipe(
        self,
        recipe: ModuleType,
        package: dict[str, Any],
        part: str,
        field: str,
        value: Any,
        trouble: str,
    ) -> None:
        package[part][field] = value
        (found,) = recipe.troubles(package, self.PYPROJECT)
        assert re.search(trouble, found)

    def test_this_project(self, recipe: ModuleType) -> None:
        """Every dependency of pyproject.toml is read, and stands in the recipe."""
        pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        text = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
        expected = recipe.requirements(pyproject)
        assert len(expected) >= 7
        for requirement in expected[1:]:
            assert f"- {requirement}\n" in text
