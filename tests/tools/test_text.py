"""Aligned columns and counted things."""

from __future__ import annotations

from onednn_py.tools.text import aligned, counted


def test_columns_are_as_wide_as_their_longest_cell() -> None:
    rows = [("name", "ms", ""), ("a", "10.5", "x"), ("longer", "2", "")]
    assert aligned(rows, "<>") == ["name      ms", "a       10.5  x", "longer     2"]
    assert aligned(rows)[2] == "longer  2"


def test_plurals() -> None:
    assert [counted(n, "thread") for n in (0, 1, 2)] == ["0 threads", "1 thread", "2 threads"]
