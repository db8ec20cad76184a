"""A machine, entries and documents of wisdom that several test files use."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Any

import pytest

from onednn_py import wisdom
from onednn_py.wisdom import Entry, Machine

HERE = Machine("3.2.0", "8a6a3f1d5f6c", "avx512_core", 2)
ENTRY = Entry({"activations": "nxc", "implementation": "brgconv:avx512_core"}, 81.5, 120.25)
SLOWER = Entry({"activations": "plain"}, 100.0, 120.25)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """An empty memory, as at the start of a process, on a machine that does not exist."""
    monkeypatch.setattr(wisdom, "_known", OrderedDict())
    monkeypatch.setattr(wisdom, "_default_was_read", False)
    monkeypatch.setattr(wisdom, "_machine_here", lambda: HERE)
    caplog.set_level(logging.DEBUG, "onednn_py")


def start_afresh() -> None:
    wisdom._known.clear()
    wisdom._default_was_read = False


def document(**problems: dict[str, Any]) -> dict[str, Any]:
    value = {"choice": {"activations": "nxc"}, "microseconds": 8, "heuristic_microseconds": 9.5}
    machine = {"version": "3.2.0", "hash": "8a6a3f1d5f6c", "cpu_isa": "avx512_core", "threads": 2}
    return {"schema": 1, "machines": [{**machine, "problems": problems or {"conv": value}}]}
