"""Machines and entries of wisdom check themselves."""

from __future__ import annotations

import math
from typing import Any

import pytest

from onednn_py import AttributeValueError
from onednn_py.backends.onednn.wisdom import Entry, Machine


def test_an_entry_keeps_no_hold_of_the_callers_choice() -> None:
    choice: dict[str, Any] = {"reorders": ["src"]}
    entry = Entry(choice, 1, 2)
    choice["reorders"].append("dst")
    assert entry == Entry({"reorders": ["src"]}, 1.0, 2.0)
    assert entry.gain == 2.0


@pytest.mark.parametrize("microseconds", [math.nan, math.inf, 0, -1.0, True, "1", None, 10**400])
def test_times_are_positive_and_finite(microseconds: Any) -> None:
    with pytest.raises(AttributeValueError, match="microseconds: expected a positive"):
        Entry({}, microseconds, 1.0)
    with pytest.raises(AttributeValueError, match="microseconds: expected a positive"):
        Entry({}, 1.0, microseconds)


@pytest.mark.parametrize(
    "choice",
    [
        *(None, [], "nxc", {"a": math.nan}, {"a": object()}, {1: "a"}, {"\x1b[2J": 1}),
        *({"a": "\ud800"}, {"a": [[[[[]]]]]}, {"a": list(range(1000))}, {"a": b"b"}),
    ],
)
def test_choices_are_small_json(choice: Any) -> None:
    with pytest.raises(AttributeValueError, match="wisdom: choice"):
        Entry(choice, 1.0, 1.0)


@pytest.mark.parametrize("threads", [0, -1, True, 2.0, "2", None])
def test_machines_have_threads(threads: Any) -> None:
    with pytest.raises(AttributeValueError, match="threads: expected a positive integer"):
        Machine("3.2.0", "", "avx2", threads)
