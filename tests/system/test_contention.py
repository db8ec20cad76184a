"""Whether threads of this process wait for one another's cores, from what the system tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from onednn_py.system import contention
from onednn_py.system.contention import Contention


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contention, "available_cpus", lambda: 2)


@pytest.mark.parametrize(
    ("busy", "waited", "high"),
    [
        (2.0, 0.9, True),
        (2.0, 0.1, False),  # both cores are in use, and no thread waits
        (1.2, 0.9, False),  # other processes have the cores
    ],
)
def test_threads_that_wait_for_threads(
    busy: float, waited: float, high: bool, two_cores: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([(5.0, 3.0, 1.0), (6.0, 3.0 + busy, 1.0 + waited)])
    monkeypatch.setattr(contention, "_now", lambda: next(times))
    assert Contention().is_high() == high


def test_where_the_system_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contention, "_TASKS", tmp_path / "none")
    assert not Contention().is_high()


def test_what_linux_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for task, text in {"1": "5 2000000000 7\n", "2": "6 500000000 8\n"}.items():
        (tmp_path / task).mkdir()
        (tmp_path / task / "schedstat").write_text(text)
    (tmp_path / "3").mkdir()  # has ended meanwhile
    monkeypatch.setattr(contention, "_TASKS", tmp_path)
    now = contention._now()
    assert now is not None
    assert now[2] == pytest.approx(2.5)
