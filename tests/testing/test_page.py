"""docs/testing.md: its test files pass as written, and its wrong kernel prints what it shows."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from onednn_py.testing import ComparisonUnavailableError
from onednn_py.tools.native_programs import native_program
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
FILES = {
    re.match(r"# (\S+)\n", block)[1]: block
    for block in re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
}
FRAMEWORKS = {"test_pytorch.py": "torch", "test_jax.py": "jax", "test_scipy.py": "scipy"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The page's files, where native oneDNN can be compiled for."""
    try:
        native_program("primitives")
    except ComparisonUnavailableError as error:
        pytest.skip(str(error))
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_tests(folder: Path, name: str) -> None:
    # As the page's workflow does.
    (command,) = re.findall(r"- run: (pytest .*) tests\n", PAGE)
    printed = run(folder, "-m", *command.split(), name)
    passed = re.search(r"^tests:(\d+) passed:(\d+) .* failed:0$", printed, re.MULTILINE)
    assert passed, printed
    assert passed[1] == passed[2] != "0", printed


def test_the_page_has_all_examples() -> None:
    assert set(FILES) == {"test_numpy_loop.py", "wrong.py", *FRAMEWORKS}


def test_the_loop(folder: Path) -> None:
    run_tests(folder, "test_numpy_loop.py")


def test_the_wrong_kernel_prints_the_report(folder: Path) -> None:
    shown = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert shown == [run(folder, "wrong.py")]


@pytest.mark.frameworks
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_other_libraries_convolutions(folder: Path, name: str) -> None:
    importlib.import_module(FRAMEWORKS[name])
    run_tests(folder, name)
