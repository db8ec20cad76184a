"""The script that trains on new lengths at every step."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

SCRIPT = ROOT / "benchmarks" / "new_sizes.py"

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.skipif(not SCRIPT.is_file(), reason="an installed package has no benchmarks/"),
]


def test_ratios_of_new_lengths_and_of_the_same_again() -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, SCRIPT, "--steps", "2"],
        capture_output=True,
        check=True,
        text=True,
        timeout=300,
    )
    ratio = r"\d+\.\d\d"
    assert re.fullmatch(f"new lengths: {ratio}\nthe same again: {ratio}\n", done.stdout)
