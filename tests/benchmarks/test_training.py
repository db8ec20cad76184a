"""The script that makes a table and a picture of the files of bench --training."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from onednn_py.tools.benchmark.training.results import StepResult, to_json
from onednn_py.tools.benchmark.training.settings import Settings
from tests.support.paths import ROOT

SCRIPT = ROOT / "benchmarks" / "training.py"

pytestmark = pytest.mark.skipif(
    not SCRIPT.is_file(), reason="an installed package has no benchmarks/"
)


def test_a_table_and_a_picture(tmp_path: Path) -> None:
    seconds = {"plain": [3.0], "enabled": [2.0]}
    runs = {
        "f32": [StepResult(Settings("unet"), seconds=seconds)],
        "bf16": [
            StepResult(Settings("unet", "bf16", channels_last=True), failure="no"),
            StepResult(Settings("dcgan", "bf16", channels_last=True), seconds=seconds),
        ],
    }
    files = [tmp_path / f"{name}.json" for name in runs]
    for path, results in zip(files, runs.values(), strict=True):
        path.write_text(json.dumps(to_json(results)))
    picture = tmp_path / "training.svg"
    done = subprocess.run(
        [sys.executable, SCRIPT, *files, "--plot", picture],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    heading, _, *rows = done.stdout.splitlines()
    assert heading == "| network | f32 | bf16, channels last |"
    assert rows == [
        "| U-Net | 1.50 |  |",
        "| DCGAN |  | 1.50 |",
        "| geometric mean | 1.50 | 1.50 |",
    ]
    assert ">U-Net<" in picture.read_text()


def test_a_page_gets_facts_table_and_picture(tmp_path: Path) -> None:
    results = [StepResult(Settings("unet"), seconds={"plain": [3.0], "enabled": [2.0]})]
    facts = {
        "cpu": "a CPU",
        "cpu_isa": "avx512_core",
        "threads": 2,
        "torch": "PyTorch 2.13.0",
        "version": "3.2.0",
    }
    file, page = tmp_path / "f32.json", tmp_path / "pytorch.md"
    file.write_text(json.dumps({**facts, **to_json(results)}))
    page.write_text("before\n<!-- training -->\nold\n<!-- end -->\nafter\n")
    command = [sys.executable, SCRIPT, file, "--document", page]
    for _ in range(2):  # the second time, over what the first wrote
        subprocess.run(command, capture_output=True, check=True, timeout=60)
    text = page.read_text()
    assert text.startswith("before\n<!-- training -->\n\nPyTorch 2.13.0, oneDNN 3.2.0, a CPU, ")
    assert "Unless a column says otherwise: channels first, eager, effort heuristic.\n" in text
    assert "| U-Net | 1.50 |" in text
    assert text.endswith("(pytorch/training.svg)\n\n<!-- end -->\nafter\n")
    assert "old" not in text
    assert (tmp_path / "pytorch" / "training.svg").stat().st_size > 1000
    page.write_text("no markers")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "expected the markers" in done.stderr


def test_the_page_has_the_markers() -> None:
    text = (ROOT / "docs" / "pytorch.md").read_text(encoding="utf-8")
    assert text.count("<!-- training -->") == text.count("<!-- end -->") == 1
