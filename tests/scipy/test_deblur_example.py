"""The script that draws the picture of docs/scipy.md."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.frameworks


def test_the_example_restores_a_photograph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("deblur", ROOT / "examples" / "deblur_lsqr.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    picture = tmp_path / "deblur.jpg"
    assert module.main([str(picture)], size=96) == 0
    assert "grey levels before" in capsys.readouterr().out
    assert picture.stat().st_size > 5000
