"""What tests of the survey share: its script as it runs, and lines of its files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onednn_py.backends.onednn.selection.choice import Choice
from tests.support.paths import ROOT

__all__ = ["BENCHMARKS", "lines", "needs_benchmarks", "row", "survey"]

BENCHMARKS = ROOT / "benchmarks"
MODULES = (
    "checkout",
    "survey",
    "survey_broad",
    "survey_deep",
    "survey_depthwise",
    "survey_draw",
    "survey_measure",
    "survey_pairs",
    "survey_powers",
    "survey_report",
    "survey_search",
    "survey_timed",
)

needs_benchmarks = pytest.mark.skipif(
    not BENCHMARKS.is_dir(), reason="an installed package has no benchmarks/"
)


@pytest.fixture
def survey(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import benchmarks/survey.py as it runs: with its folder on the path, on an idle machine."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import survey

    monkeypatch.setattr(survey, "busy_cores", lambda: 0.0)
    yield survey
    for name in MODULES:
        sys.modules.pop(name, None)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def row(seed: int, heuristic: float, **more: Any) -> dict[str, Any]:
    """Return a line of a file; the measured choice takes 100 microseconds."""
    return {
        **{"seed": seed, "family": "thin", "direction": "BWD_D", "dtype": "f32", "format": "NCX"},
        **{"operation": "conv", "descriptor": f"mb{seed}ic4ih6oc8kh3ph1"},
        **{"heuristic": [Choice("f32", "as_convolution").as_dict()], "microseconds": 100.0},
        **{"measured": [{"implementation": "numpy"}], "heuristic_microseconds": heuristic},
        **more,
    }
