"""The documents: their examples run, their links and test names exist."""

from __future__ import annotations

import doctest
import fnmatch
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import onednn_py
from onednn_py import overlap, testing

ROOT = Path(__file__).parents[1]
PACKAGE = Path(onednn_py.__file__).parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

# Rooms that import a framework, which not every environment has.
FRAMEWORKS = ("torch", "jax", "scipy", "dask")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_examples_of_documents(path: Path) -> None:
    run_examples(path, "python")


@pytest.mark.frameworks
@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_examples_of_documents_that_need_a_framework(path: Path) -> None:
    torch = importlib.import_module("onednn_py.torch")
    torch.reset_statistics()  # of other tests' calls
    try:
        run_examples(path, "py")
    finally:
        torch.disable()  # which an example may leave out


def run_examples(path: Path, language: str) -> None:
    """Run a document's blocks of a language: ``py`` are those that import a framework."""
    fenced = re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    globals_: dict[str, object] = {}
    # Whole files, named in their first line, are run by tests/testing/test_page.py.
    fenced = [block for block in fenced if not re.match(r"# \w+\.py\n", block)]
    for number, block in enumerate(fenced):
        test = doctest.DocTestParser().get_doctest(block, globals_, name(path), name(path), number)
        assert test.examples, f"block {number} has no prompt, so that nothing is run"
        assert doctest.DocTestRunner().run(test, clear_globs=False).failed == 0
        globals_ = test.globs


def test_the_readme_has_examples() -> None:
    assert ">>> " in (ROOT / "README.md").read_text(encoding="utf-8")


def _modules() -> list[Any]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        needs = parts[1] in FRAMEWORKS or parts[1:4] == ("tools", "benchmark", "training")
        name = ".".join(parts).removesuffix(".__init__")
        if path.stem != "__main__":
            found.append(pytest.param(name, marks=[pytest.mark.frameworks] if needs else []))
    return found


@pytest.mark.parametrize("module", _modules())
def test_examples_of_docstrings(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    prose = re.sub(r"`[^`\n]+`", "", prose)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", prose):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), f"{name(path)} links to {target}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_tests_that_are_named_exist(path: Path) -> None:
    sources = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "tests").rglob("*.py"))
    text = path.read_text(encoding="utf-8")
    for test in re.findall(r"`(test_\w+|Test\w+)`", text):
        assert re.search(rf"(def|class) {test}\b", sources), f"{name(path)} names {test}"
    for file in re.findall(r"`((?:tests|onednn_py)/[\w/]+\.\w+)`", text):
        base = Path(onednn_py.__file__).parents[1] if file.startswith("onednn_py") else ROOT
        assert (base / file).exists(), f"{name(path)} names {file}"


def test_the_readme_lists_every_function() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    functions = [n for n in onednn_py.__all__ if n.startswith("conv") or n == "run_op"]
    for function in functions:
        assert f"`{function}(" in text


def test_the_reference_lists_every_public_name() -> None:
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    listed = re.findall(r"^   ((?!torch|scipy)[\w.]+)$", text, re.MULTILINE)
    names = [name for name in onednn_py.__all__ if name != "wisdom"]
    names += [f"wisdom.{name}" for name in onednn_py.wisdom.__all__]
    names += [f"overlap.{name}" for name in overlap.__all__]
    names += [f"testing.{name}" for name in testing.__all__]
    names += [f"testing.strategies.{name}" for name in testing.strategies.__all__]
    assert sorted(listed) == sorted(names)


@pytest.mark.frameworks
@pytest.mark.parametrize("room", ["torch", "scipy"])
def test_the_reference_lists_the_functions_of_a_framework(room: str) -> None:
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    names = importlib.import_module(f"onednn_py.{room}").__all__
    listed = re.findall(rf"^   {room}\.(\w+)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(name for name in names if name[0].islower())


def test_every_page_is_in_a_table_of_contents() -> None:
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
    trees = re.findall(r"```\{toctree\}\n(.*?)```", "".join(pages.values()), re.DOTALL)
    listed = "".join(trees).split()
    for page in pages.keys() - {"index"}:
        assert any(fnmatch.fnmatch(page, entry) for entry in listed), page


def test_the_module_map_lists_every_module_of_the_core() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    package = PACKAGE
    rooms = ("dispatch", "problem", "backends/onednn/selection")
    paths = [path for room in rooms for path in (package / room).glob("*.py")]
    paths += [
        path for path in package.rglob("*") if path.is_dir() and (path / "__init__.py").exists()
    ]
    for path in paths:
        parts = path.relative_to(package).parts
        if path.stem != "__init__" and (parts[0] != "tools" or len(parts) < 2):
            assert re.search(rf"\b{path.stem}\b", text), (
                f"architecture.md does not name {path.stem}"
            )
