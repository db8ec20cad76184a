"""Wisdom files: valid entries are kept, all others ignored with a reason."""

from __future__ import annotations

import copy
import errno
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onednn_py import WisdomFileError, WisdomFileUnreadableError
from onednn_py.backends.onednn.wisdom import Entry, files, store
from tests.support.wisdom_cases import ENTRY, HERE, SLOWER, clear_store, document, empty_store  # noqa: F401 - empty_store is a fixture

pytestmark = pytest.mark.usefixtures("empty_store")


class TestFiles:
    def test_round_trip(self, tmp_path: Path) -> None:
        entry = Entry({"a": [None, True, 1, 1.5, "ä"], "b": {"c": {}}}, 1e-3, 1e6)
        store.remember(HERE, "conv ä", entry)
        store.remember(HERE, "other", ENTRY)
        path = store.save(tmp_path / "wisdom.json")
        clear_store()
        assert store.load(str(path), HERE) == 2
        assert store.recall(HERE, "conv ä") == entry
        assert [file.name for file in tmp_path.iterdir()] == ["wisdom.json"]

    def test_the_file_is_what_the_documents_show(self, tmp_path: Path) -> None:
        store.remember(HERE, "conv", Entry({"activations": "nxc"}, 8, 9.5))
        path = store.save(tmp_path / "wisdom.json")
        assert json.loads(path.read_text(encoding="utf-8")) == document()

    @pytest.mark.parametrize(
        ("field", "value", "reason"),
        [
            ("version", "3.13.1", "oneDNN 3.13.1 instead of 3.2.0"),
            ("hash", "ffff", "another build of oneDNN, ffff"),
            ("cpu_isa", "avx2", "CPU ISA avx2 instead of avx512_core"),
            ("threads", 7, "7 threads instead of 2"),
        ],
    )
    def test_wisdom_of_another_machine_is_kept_but_does_not_count(
        self,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        field: str,
        value: Any,
        reason: str,
    ) -> None:
        foreign = document()
        foreign["machines"][0][field] = value
        path = tmp_path / "wisdom.json"
        path.write_text(json.dumps(foreign), encoding="utf-8")
        assert store.load(path, HERE) == 0
        assert f"ignored 1 entries for {reason}" in caplog.text
        assert store.recall(HERE, "conv") is None
        store.remember(HERE, "conv", ENTRY)
        copied = store.save(tmp_path / "copy.json")
        assert len(files.read(copied).entries) == 2

    def test_without_a_library_nothing_counts(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = tmp_path / "wisdom.json"
        path.write_text(json.dumps(document()), encoding="utf-8")
        assert store.load(path, None) == 0
        assert "no oneDNN library" in caplog.text

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "is no JSON"),
            (b"{", "is no JSON"),
            (b"\xff\xfe", "is no JSON"),
            (b"\x00" * 100, "is no JSON"),
            (b"\xef\xbb\xbf{}", "is no JSON"),
            (b"[" * 100_000, "nested too deeply"),
            (b'{"a":' * 100_000, "nested too deeply"),
            (b"9" * 10_000, "is no"),
            (b"null", "no schema number"),
            (b"[1]", "no schema number"),
            (b"{}", "no schema number"),
            (b'{"schema": 2, "machines": []}', "expected schema 1, got 2"),
            (b'{"schema": "1", "machines": []}', "expected schema 1, got '1'"),
            (b'{"schema": true, "machines": []}', "expected schema 1, got True"),
            (b'{"schema": 1}', "machines: expected a list"),
            (b'{"schema": 1, "machines": {}}', "machines: expected a list"),
            (b'{"schema": 1, "schema": 1, "machines": []}', "the name 'schema' twice"),
            (json.dumps(document()).encode()[:-20], "is no JSON"),
        ],
    )
    def test_what_is_no_wisdom_is_ignored_whole(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes, reason: str
    ) -> None:
        path = tmp_path / "wisdom.json"
        path.write_bytes(content)
        store.remember(HERE, "conv", ENTRY)
        assert store.load(path, HERE) == 0
        assert reason in caplog.text
        assert str(path) in caplog.text
        assert store.recall(HERE, "conv") == ENTRY
        assert path.read_bytes() == content

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            (None, "expected an object"),
            ([], "expected an object"),
            ({}, "choice is missing"),
            ({"choice": {}, "microseconds": 1}, "heuristic_microseconds is missing"),
            ({"choice": [], "microseconds": 1, "heuristic_microseconds": 1}, "choice: expected"),
            ({"choice": {}, "microseconds": "1", "heuristic_microseconds": 1}, "a positive"),
            ({"choice": {}, "microseconds": math.nan, "heuristic_microseconds": 1}, "a positive"),
            ({"choice": {}, "microseconds": 1, "heuristic_microseconds": -math.inf}, "a positive"),
            ({"choice": {"a": math.nan}, "microseconds": 1, "heuristic_microseconds": 1}, "finite"),
        ],
    )
    def test_one_bad_entry_leaves_the_others(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, value: Any, reason: str
    ) -> None:
        good = document()["machines"][0]["problems"]["conv"]
        path = tmp_path / "wisdom.json"
        path.write_text(json.dumps(document(bad=value, good=good)), encoding="utf-8")
        assert store.load(path, HERE) == 1
        assert store.recall(HERE, "good") is not None
        assert reason in caplog.text
        assert "'bad'" in caplog.text

    @pytest.mark.parametrize("field", ["version", "hash", "cpu_isa", "threads", "problems"])
    def test_one_bad_machine_leaves_the_others(self, tmp_path: Path, field: str) -> None:
        for wrong in (None, [], {"a": 1}, 1.5):
            whole = document()
            bad = copy.deepcopy(whole["machines"][0])
            bad[field] = wrong
            lacking = {name: part for name, part in bad.items() if name != field}
            whole["machines"] = [bad, lacking, wrong, *whole["machines"]]
            path = tmp_path / "wisdom.json"
            path.write_text(json.dumps(whole), encoding="utf-8")
            assert store.load(path, HERE) == 1

    def test_no_file_a_folder_a_pipe(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"none\.json: No such file") as caught:
            store.load(tmp_path / "none.json", HERE)
        assert isinstance(caught.value, WisdomFileError)
        wrong: list[Any] = [tmp_path, "a\0b", ""]
        if hasattr(os, "mkfifo"):
            os.mkfifo(tmp_path / "pipe")
            wrong.append(tmp_path / "pipe")
        for path in wrong:
            with pytest.raises(WisdomFileUnreadableError, match="cannot be read") as unreadable:
                store.load(path, HERE)
            assert isinstance(unreadable.value, OSError)
            assert not isinstance(unreadable.value, FileNotFoundError)

    def test_a_file_that_the_user_may_not_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(*arguments: Any, **options: Any) -> Any:
            raise PermissionError(errno.EACCES, "Permission denied")

        path = tmp_path / "wisdom.json"
        path.write_text(json.dumps(document()), encoding="utf-8")
        monkeypatch.setattr(files, "open", refused, raising=False)
        with pytest.raises(WisdomFileUnreadableError, match="cannot be read: Permission denied"):
            store.load(path, HERE)
        store.remember(HERE, "conv", ENTRY)
        with pytest.raises(WisdomFileUnreadableError, match="Permission denied"):
            store.save(path)
        assert list(tmp_path.iterdir()) == [path], "it was moved aside"

    def test_a_huge_file(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        path = tmp_path / "wisdom.json"
        with open(path, "wb") as file:
            file.truncate(2**40)
        assert store.load(path, HERE) == 0
        assert "larger than" in caplog.text

    def test_many_entries(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(files, "MOST_ENTRIES", 5)
        value = document()["machines"][0]["problems"]["conv"]
        path = tmp_path / "wisdom.json"
        path.write_text(json.dumps(document(**{f"c{n}": value for n in range(9)})), "utf-8")
        assert store.load(path, HERE) == 5
        assert "what follows the first 5 entries" in caplog.text
        store.remember(HERE, "mine", ENTRY)
        store.save(path)
        assert [problem for _, problem in files.read(path).entries][-2:] == ["c4", "mine"]

    @settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(content=st.binary(max_size=200))
    def test_random_bytes(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "wisdom.json"
        path.write_bytes(content)
        assert store.load(path, HERE) == 0

    @settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_random_changes_of_a_valid_file(self, tmp_path: Path, data: st.DataObject) -> None:
        """Any other JSON takes the place of a part; nothing raises, and all entries are valid."""
        whole: Any = document()
        scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
        values = st.recursive(scalars, lambda parts: st.lists(parts) | st.dictionaries(
            st.text(max_size=5), parts, max_size=3
        ), max_leaves=5)  # fmt: skip
        part = whole
        while True:
            name = data.draw(st.sampled_from(list(part) if isinstance(part, dict) else [0]))
            inner = part[name]
            if not isinstance(inner, (dict, list)) or not inner or data.draw(st.booleans()):
                part[name] = data.draw(values)
                break
            part = inner
        path = tmp_path / "wisdom.json"
        path.write_text(json.dumps(whole), encoding="utf-8")
        clear_store()
        assert store.load(path, HERE) in (0, 1)
        for entry in (known.entry for known in store._known.values()):
            assert 0 < entry.microseconds < math.inf
        again = store.save(tmp_path / "again.json")
        assert files.read(again).entries.keys() == store._known.keys()
        again.unlink()
