"""Candidates keep to their tensors, beside which lie pages that nobody may touch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from tests.support.requirements import needs_onednn

pytestmark = [
    needs_onednn,
    pytest.mark.skipif(sys.platform == "win32", reason="pages are protected by mprotect"),
]

OPERATIONS = (
    "convolution",
    "convolution_backward_data",
    "convolution_backward_weights",
    "conv_transpose",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
)


@pytest.mark.parametrize(
    "dtype", ["f32", *(pytest.param(half, marks=pytest.mark.slow) for half in ("bf16", "f16"))]
)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_candidates_keep_to_their_tensors(operation: str, dtype: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.support.guard_pages", operation, dtype],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert lines[-1:] == ["done"], "\n".join([*lines[-1:], done.stderr[-3000:]])
    assert len(lines) > 100


def test_memory_beside_them_ends_the_process() -> None:
    program = (
        "import numpy as np\n"
        "from tests.support.guard_pages import at_the_edge\n"
        "array = at_the_edge(np.ones(100, np.float32), end={end})\n"
        "print(array.sum())\n"
        "np.lib.stride_tricks.as_strided(array[{index}:], (2,), ({step},)).sum()\n"
    )
    for end, index, step in ((True, 99, 4), (False, 0, -4)):
        done = subprocess.run(
            [sys.executable, "-c", program.format(end=end, index=index, step=step)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == "100.0\n"
        assert done.returncode < 0, done.stderr
