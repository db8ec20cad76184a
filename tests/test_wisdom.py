"""The public module of wisdom: what counts on this machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import onednn_py
from onednn_py import wisdom
from onednn_py.backends.onednn import machine_here
from onednn_py.backends.onednn.wisdom import store
from onednn_py.backends.onednn.wisdom.entry import Machine
from tests.support.requirements import needs_onednn
from tests.support.wisdom_cases import ENTRY, HERE, document, empty_store  # noqa: F401 - empty_store is a fixture

pytestmark = pytest.mark.usefixtures("empty_store")


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> list[Machine | None]:
    """The machine that `load` finds itself on, the last of the list."""
    machines: list[Machine | None] = [HERE]
    monkeypatch.setattr(wisdom, "machine_here", lambda: machines[-1])
    return machines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of two entries for `HERE`, and one for another machine."""
    value = document()["machines"][0]["problems"]["conv"]
    content: dict[str, Any] = document(conv=value, other=value)
    foreign = {**document()["machines"][0], "threads": 7}
    content["machines"].append(foreign)
    path = tmp_path / "wisdom.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_load_counts_the_entries_of_this_machine(
    path: Path, machines: list[Machine | None], caplog: pytest.LogCaptureFixture
) -> None:
    assert wisdom.load(path) == 2
    assert "ignored 1 entries for 7 threads instead of 2" in caplog.text
    machines.append(replace(HERE, threads=7))
    assert wisdom.load(str(path)) == 1
    machines.append(replace(HERE, version="3.3.0"))
    assert wisdom.load(path) == 0
    assert f"nothing in {path} counts here" in caplog.text


def test_without_a_library_nothing_counts(
    path: Path, machines: list[Machine | None], caplog: pytest.LogCaptureFixture
) -> None:
    machines.append(None)
    assert wisdom.load(path) == 0
    assert "no oneDNN library" in caplog.text


@pytest.mark.usefixtures("machines")
def test_the_default_file_is_loaded_unless_a_path_is_given(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wisdom.load() == 0, "the default file is off"
    monkeypatch.setenv(wisdom.VARIABLE, str(path))
    assert wisdom.default_path() == path
    assert wisdom.load() == 2
    wisdom.forget(path)
    assert not path.exists()
    assert wisdom.load() == 0


@needs_onednn
def test_wisdom_of_this_machine_is_bound_to_the_number_of_threads(tmp_path: Path) -> None:
    here = machine_here()
    assert here is not None
    store.remember(here, "conv", ENTRY)
    path = wisdom.save(tmp_path / "wisdom.json")
    wisdom.forget()
    assert wisdom.load(path) == 1
    if here.threads > 1:
        with onednn_py.num_threads(here.threads - 1):
            assert wisdom.load(path) == 0
    assert wisdom.load(path) == 1
