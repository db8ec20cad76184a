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

# Of src with one channel and so large a kernel, oneDNN has only plain loops for AVX2 in its own
# layouts.
ONE_CHANNEL = """
import numpy as np
import onednn_py

assert onednn_py.info()["cpu_isa"] == "avx2"
src = (np.arange(216 * 281) % 5 - 2).astype(np.float32).reshape(1, 1, 216, 281)
weights = (np.arange(3 * 11 * 11) % 3 - 1).astype(np.float32).reshape(3, 1, 11, 11)
fields = dict(pads_begin=5, pads_end=5, data_format="NCX", weights_format="OIX")
plan = onednn_py.plan("convolution", src, weights, **fields)
print(plan.implementation)
dst = plan(src, weights)
with onednn_py.use_backend("numpy"):
    np.testing.assert_array_equal(dst, onednn_py.convolution(src, weights, **fields))
"""

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
    output = output_of(PROGRAM, isa, isa, *command)
    passed = re.search(r"^tests:\d+ passed:(\d+) .* failed:0$", output, re.MULTILINE)
    assert passed is not None, output[-500:]
    assert int(passed[1]) > 150, output[-500:]


def test_no_plain_loops_where_a_copy_has_a_kernel(onednn: str) -> None:
    if not has_isa("avx2"):
        skip_for_cpu("avx2")
    assert "ref" not in output_of(ONE_CHANNEL, "avx2")


def output_of(program: str, isa: str, *arguments: str) -> str:
    """Return what a program prints whose oneDNN is kept to an instruction set."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": isa.upper()},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout
