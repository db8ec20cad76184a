"""CPUs with fewer instructions than this one: what oneDNN has for them, chosen by their rules."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from onednn_py.tools.benchdnn import suites
from tests.support.requirements import has_isa, skip_for_cpu

SUITES = Path(suites.__file__).parent

PROGRAM = """
import sys
import onednn_py
from onednn_py.cli import main

isa, *command = sys.argv[1:]
assert onednn_py.info()["cpu_isa"] == isa
sys.exit(main(command))
"""


@pytest.mark.parametrize("isa", ["sse41", "avx2", "avx512_core", "avx512_core_bf16"])
def test_results_are_exact(isa: str, onednn: str) -> None:
    if not has_isa(isa):
        skip_for_cpu(isa)
    command = ["verify", "--dt", "f32,bf16,f16", "--format", "NCX,NXC", "--mb", "2"]
    command += ["--dir", "FWD_B,BWD_D,BWD_WB", "--max-flops", "2e7", "--compare", "none"]
    command += ["--conv", "--batch", str(SUITES / "conv" / "mobilenet.txt")]
    command += ["--deconv", "--batch", str(SUITES / "deconv" / "dcgan.txt")]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, isa, *command],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": isa.upper()},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    passed = re.search(r"^tests:\d+ passed:(\d+) .* failed:0$", done.stdout, re.MULTILINE)
    assert passed is not None, done.stdout[-500:]
    assert int(passed[1]) > 150, done.stdout[-500:]
