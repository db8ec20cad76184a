"""The processor's name, and how busy the machine is."""

from __future__ import annotations

from pathlib import Path

import pytest

from onednn_py.system import cpu
from onednn_py.tools.benchmark import machine


def test_cpu_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    processors = tmp_path / "cpuinfo"
    monkeypatch.setattr(cpu, "PROCESSORS", processors)
    monkeypatch.setattr(machine.platform, "processor", lambda: "")
    assert machine.cpu_name() is None
    processors.write_text("model name\t: Fast 1\ncpu family\t: 25\nmodel\t\t: 17\n\nmodel\t: 3\n")
    assert machine.cpu_name() == "Fast 1, family 25 model 17"
    processors.write_text("model name\t: Fast 1\n")
    assert machine.cpu_name() == "Fast 1"
    processors.write_text("Features\t: fp\n")
    monkeypatch.setattr(machine.platform, "processor", lambda: "arm")
    assert machine.cpu_name() == "arm"


def test_busy_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert (machine.busy_cores(0.01) or 0) >= 0
    monkeypatch.setattr(machine, "STATISTICS", tmp_path / "missing")
    assert machine.busy_cores(0.0) is None
