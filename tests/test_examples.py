"""The notebooks of examples/: whole, run in order, and free of what belongs to one machine."""

from __future__ import annotations

import ast
import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

FOLDER = ROOT / "examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

LARGEST = 300_000
METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
# Folders of a machine, addresses of objects, and dates.
LOCAL = re.compile(
    r"/(home|root|tmp|usr|opt|var|work|Users|private)/|[A-Z]:\\\\|0x[0-9a-f]{6,}|20\d\d-\d\d-\d\d"
)


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def without_magics(source: str) -> str:
    return re.sub(r"^%.*$", "", source, flags=re.MULTILINE)


def texts(notebook: Any) -> str:
    """Everything in a notebook that a person reads; pictures are not text."""
    parts = ["".join(cell["source"]) for cell in notebook["cells"]]
    for cell in code_cells(notebook):
        for output in cell["outputs"]:
            parts += output.get("text", [])
            parts += output.get("data", {}).get("text/plain", [])
    return "\n".join(parts)


def faults(notebook: Any) -> list[str]:
    """Return what should not be committed like that."""
    found = []
    if (notebook["nbformat"], notebook["nbformat_minor"]) != (4, 5):
        found.append("another nbformat than 4.5")
    if notebook["metadata"] != METADATA or any(cell["metadata"] for cell in notebook["cells"]):
        found.append("metadata")
    if not "".join(notebook["cells"][0]["source"]).startswith("# "):
        found.append("no title")
    cells = code_cells(notebook)
    if [cell["execution_count"] for cell in cells] != list(range(1, len(cells) + 1)):
        found.append("not run once from the beginning to the end")
    outputs = [output for cell in cells for output in cell["outputs"]]
    if any(o["output_type"] == "error" or o.get("name") == "stderr" for o in outputs):
        found.append("an error or a warning")
    if not any(kind.startswith("image/") for o in outputs for kind in o.get("data", {})):
        found.append("no picture")
    source = "\n".join(without_magics("".join(cell["source"])) for cell in cells)
    if not any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(source))):
        found.append("no assertion")
    found += [f"belongs to one machine: {m.group()}" for m in LOCAL.finditer(texts(notebook))]
    return found


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_clean(path: Path) -> None:
    assert faults(read(path)) == []
    assert path.stat().st_size <= LARGEST


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_index_names_every_notebook(path: Path) -> None:
    assert f"({path.name})" in (FOLDER / "README.md").read_text(encoding="utf-8")


def spoiled(notebook: Any, fault: str) -> Any:
    notebook = copy.deepcopy(notebook)
    cell = code_cells(notebook)[0]
    if fault == "another nbformat than 4.5":
        notebook["nbformat_minor"] = 4
    elif fault == "metadata":
        cell["metadata"] = {"execution": {}}
    elif fault == "no title":
        notebook["cells"][0]["source"] = ["text"]
    elif fault.startswith("not run"):
        cell["execution_count"] = 7
    elif fault == "an error or a warning":
        cell["outputs"] = [{"output_type": "stream", "name": "stderr", "text": ["careful"]}]
    elif fault == "no picture":
        for each in code_cells(notebook):
            each["outputs"] = []
    elif fault == "no assertion":
        for each in code_cells(notebook):
            each["source"] = [line for line in each["source"] if "assert" not in line]
    else:
        path = fault.removeprefix("belongs to one machine: ") + "somebody"
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": [path]}]
    return notebook


@pytest.mark.parametrize(
    "fault",
    [
        "another nbformat than 4.5",
        "metadata",
        "no title",
        "not run once from the beginning to the end",
        "an error or a warning",
        "no picture",
        "no assertion",
        "belongs to one machine: /home/",
    ],
)
def test_the_check_finds_faults(fault: str) -> None:
    assert fault in faults(spoiled(read(NOTEBOOKS[0]), fault))
