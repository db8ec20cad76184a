"""What a measurement of training keeps where one of its processes fails."""

from __future__ import annotations

from typing import Any

import pytest

from onednn_py.errors import LibraryNotFoundError
from onednn_py.tools.benchmark.training import measurement
from onednn_py.tools.benchmark.training.measurement import TrainingBenchmark
from onednn_py.tools.benchmark.training.settings import Settings
from onednn_py.tools.benchmark.worker_process import WorkerFailure

SETTINGS = Settings("resnet50")
TIMES = {"seconds": {"plain": [2.0], "enabled": [1.0]}, "calls": []}


def test_times_are_kept_where_memory_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(self: TrainingBenchmark, request: dict[str, Any]) -> dict[str, Any]:
        if "memory" in request:
            raise WorkerFailure("died", "no memory")
        return dict(TIMES)

    monkeypatch.setattr(TrainingBenchmark, "__init__", lambda self: setattr(self, "_memory", True))
    monkeypatch.setattr(TrainingBenchmark, "_budget", 1.0, raising=False)
    monkeypatch.setattr(TrainingBenchmark, "_asked", asked)
    result = TrainingBenchmark().measure(SETTINGS)  # type: ignore[call-arg]
    assert result.ratio == 2.0
    assert not result.failure
    assert "no memory" in result.memory_failure


def test_without_a_library_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement.onednn_py, "info", lambda: {"library": None})
    with pytest.raises(LibraryNotFoundError, match="no oneDNN library is loaded"):
        TrainingBenchmark(threads=1, budget=1.0, memory=False)
