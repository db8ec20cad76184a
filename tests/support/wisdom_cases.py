"""A machine, entries and documents of wisdom, and the store as a process begins with it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from onednn_py.backends.onednn.wisdom import store
from onednn_py.backends.onednn.wisdom.entry import Entry, Machine

__all__ = ["ENTRY", "HERE", "SLOWER", "clear_store", "document", "empty_store"]

HERE = Machine("3.2.0", "8a6a3f1d5f6c", "avx512_core", 2)
ENTRY = Entry({"activations": "nxc", "implementation": "brgconv:avx512_core"}, 81.5, 120.25)
SLOWER = Entry({"activations": "plain"}, 100.0, 120.25)


@pytest.fixture
def empty_store(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The store of a process that has just started; caplog has all messages of the package."""
    monkeypatch.setattr(store, "_known", {})
    monkeypatch.setattr(store, "_reading_began", False)
    monkeypatch.setattr(store, "_default_was_read", False)
    caplog.set_level(logging.DEBUG, "onednn_py")


def clear_store() -> None:
    """Leave the store as a new process has it: empty, the default file not read."""
    store._known.clear()
    store._reading_began = store._default_was_read = False


def document(**problems: dict[str, Any]) -> dict[str, Any]:
    """Return a file's content for `HERE`: the problems by name, or one that is called conv."""
    value = {"choice": {"activations": "nxc"}, "microseconds": 8, "heuristic_microseconds": 9.5}
    machine = {"version": "3.2.0", "hash": "8a6a3f1d5f6c", "cpu_isa": "avx512_core", "threads": 2}
    return {"schema": 1, "machines": [{**machine, "problems": problems or {"conv": value}}]}
