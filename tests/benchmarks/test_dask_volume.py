"""benchmarks/dask_volume.py: what it times is the same result; its table and picture are made."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.paths import ROOT

SCRIPT = ROOT / "benchmarks" / "dask_volume.py"

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.skipif(not SCRIPT.is_file(), reason="an installed package has no benchmarks/"),
]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(SCRIPT.parent), *sys.path])
    return importlib.import_module("dask_volume")


def test_both_libraries_compute_the_same(script: Any) -> None:
    volume = script._volume(20, 8)
    weights = np.random.default_rng(0).standard_normal((3, 3, 3, 1, 1), np.float32)
    for operation, makers in script._operations(1).items():
        ours, scipys = (
            np.squeeze(make(volume, weights).compute(scheduler="synchronous"))
            for make in makers.values()
        )
        # Sums of 20^3 products of magnitude one, in float32.
        np.testing.assert_allclose(ours, scipys, rtol=1e-5, atol=1e-2, err_msg=operation)


def test_the_table_has_medians_and_ratios(script: Any) -> None:
    times = {
        ("forward", "onednn_py"): [(2.0, 2**30), (4.0, 2**29), (3.0, 2**29)],
        ("forward", "scipy.ndimage"): [(6.0, 2**30)],
        ("backward data", "onednn_py"): [(1.0, 2**20)],
    }
    lines = script.table(times).splitlines()
    assert lines[2] == "| forward | 3.0 | 1024 | 6.0 (`scipy.ndimage`) | 1024 | 2.0 |"
    assert lines[3] == "| backward data | 1.0 | 1 |  |  |  |"


def test_the_picture_is_drawn(script: Any, tmp_path: Path) -> None:
    stream = [
        {
            "worker": f"tcp://{number % 2}",
            "key": f"task{number}-{0:032x}",
            "startstops": [{"action": "compute", "start": number, "stop": number + 1.0}],
        }
        for number in range(12)
    ]
    script._draw({"forward": stream, "backward data": stream[:1]}, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000
