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
            StepResult(Settings("unet", "bf16"), failure="no"),
            StepResult(Settings("dcgan", "bf16"), seconds=seconds),
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
    assert heading.startswith("| network | f32, channels first, eager")
    assert rows == [
        "| U-Net | 1.50 |  |",
        "| DCGAN |  | 1.50 |",
        "| geometric mean | 1.50 | 1.50 |",
    ]
    assert ">U-Net<" in picture.read_text()
