"""The script that draws the picture of docs/scipy.md."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.frameworks


def example() -> Any:
    spec = importlib.util.spec_from_file_location("deblur", ROOT / "examples" / "deblur_lsqr.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_restores_a_photograph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "deblur.jpg"
    assert example().main([str(picture)], size=96) == 0
    assert "grey levels before" in capsys.readouterr().out
    assert picture.stat().st_size > 5000


@pytest.mark.parametrize(
    ("argument", "status", "message"), [("--help", 0, "usage:"), ("x.foo", 2, "expected a name")]
)
def test_what_is_no_picture_is_said_before_the_work(
    argument: str, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        example().main([argument])
    assert ended.value.code == status
    captured = capsys.readouterr()
    assert message in captured.out + captured.err
