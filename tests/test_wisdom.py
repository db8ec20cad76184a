"""Wisdom in memory and in files: what is sound is kept, all else ignored with a reason."""

from __future__ import annotations

import copy
import json
import logging
import math
import os
import subprocess
import sys
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onednn_py import AttributeValueError, WisdomFileError, wisdom
from onednn_py.wisdom import Entry, Machine, files

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


class TestMemory:
    def test_remember_recall_forget(self) -> None:
        assert wisdom.recall(HERE, "conv") is None
        wisdom.remember(HERE, "conv", ENTRY)
        assert wisdom.recall(HERE, "conv") == ENTRY
        assert wisdom.recall(HERE, "another") is None
        wisdom.forget()
        assert wisdom.recall(HERE, "conv") is None

    @pytest.mark.parametrize(
        "other",
        [
            Machine("3.3.0", HERE.hash, HERE.cpu_isa, 2),
            Machine("3.2.0", "0000000", HERE.cpu_isa, 2),
            Machine("3.2.0", HERE.hash, "avx2", 2),
            Machine("3.2.0", HERE.hash, HERE.cpu_isa, 1),
        ],
    )
    def test_other_machines_recall_nothing(self, other: Machine) -> None:
        wisdom.remember(HERE, "conv", ENTRY)
        assert wisdom.recall(other, "conv") is None
        assert HERE.difference(other)
        assert HERE.difference(HERE) == ""

    def test_the_revision_changes_when_plans_are_to_follow(self, tmp_path: Path) -> None:
        seen = [wisdom.revision()]

        def changed() -> bool:
            seen.append(wisdom.revision())
            return seen[-1] != seen[-2]

        wisdom.remember(HERE, "conv", ENTRY)
        wisdom.remember(HERE, "conv", SLOWER)
        assert not changed(), "a new measurement concerns one plan alone"
        wisdom.recall(HERE, "conv")
        path = wisdom.save(tmp_path / "wisdom.json")
        assert not changed()
        wisdom.load(path)
        assert changed()
        wisdom.forget()
        assert changed()

    def test_bounded_least_recently_used_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(wisdom, "MOST_ENTRIES", 3)
        for name in "abc":
            wisdom.remember(HERE, name, ENTRY)
        wisdom.recall(HERE, "a")
        wisdom.remember(HERE, "d", ENTRY)
        assert [name for name in "abcd" if wisdom.recall(HERE, name)] == ["a", "c", "d"]

    def test_an_entry_keeps_no_hold_of_the_callers_choice(self) -> None:
        choice: dict[str, Any] = {"reorders": ["src"]}
        entry = Entry(choice, 1, 2)
        choice["reorders"].append("dst")
        assert entry == Entry({"reorders": ["src"]}, 1.0, 2.0)
        assert entry.gain == 2.0

    @pytest.mark.parametrize(
        "microseconds", [math.nan, math.inf, 0, -1.0, True, "1", None, 10**400]
    )
    def test_times_are_positive_and_finite(self, microseconds: Any) -> None:
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
    def test_choices_are_small_json(self, choice: Any) -> None:
        with pytest.raises(AttributeValueError, match="wisdom: choice"):
            Entry(choice, 1.0, 1.0)

    @pytest.mark.parametrize("problem", [None, 3, "a\nb", "a" * 1001])
    def test_problems_are_short_printable_texts(self, problem: Any) -> None:
        with pytest.raises(AttributeValueError, match="wisdom: problem: expected a printable text"):
            wisdom.remember(HERE, problem, ENTRY)

    @pytest.mark.parametrize("threads", [0, -1, True, 2.0, "2", None])
    def test_machines_have_threads(self, threads: Any) -> None:
        with pytest.raises(AttributeValueError, match="threads: expected a positive integer"):
            Machine("3.2.0", "", "avx2", threads)

    def test_many_threads(self, tmp_path: Path) -> None:
        path = tmp_path / "wisdom.json"

        def work(number: int) -> None:
            for step in range(20):
                name = f"{number} {step}"
                wisdom.remember(HERE, name, ENTRY)
                assert wisdom.recall(HERE, name) == ENTRY
            wisdom.save(path)
            wisdom.load(path)

        with ThreadPoolExecutor(8) as pool:
            for future in [pool.submit(work, number) for number in range(8)]:
                future.result()
        assert len(files.read(path).entries) == 160


class TestFiles:
    def test_round_trip(self, tmp_path: Path) -> None:
        entry = Entry({"a": [None, True, 1, 1.5, "ä"], "b": {"c": {}}}, 1e-3, 1e6)
        wisdom.remember(HERE, "conv ä", entry)
        wisdom.remember(HERE, "other", ENTRY)
        path = wisdom.save(tmp_path / "wisdom.json")
        start_afresh()
        assert wisdom.load(str(path)) == 2
        assert wisdom.recall(HERE, "conv ä") == entry
        assert [each.name for each in tmp_path.iterdir()] == ["wisdom.json"]

    def test_the_file_is_what_the_documents_show(self, tmp_path: Path) -> None:
        wisdom.remember(HERE, "conv", Entry({"activations": "nxc"}, 8, 9.5))
        path = wisdom.save(tmp_path / "wisdom.json")
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
    def test_what_is_of_another_machine_is_kept_but_counts_nothing(
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
        assert wisdom.load(path) == 0
        assert f"ignored 1 entries for {reason}" in caplog.text
        assert wisdom.recall(HERE, "conv") is None
        wisdom.remember(HERE, "conv", ENTRY)
        copied = wisdom.save(tmp_path / "copy.json")
        assert len(files.read(copied).entries) == 2

    def test_without_a_library_nothing_counts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(wisdom, "_machine_here", lambda: None)
        path = tmp_path / "wisdom.json"
        path.write_text(json.dumps(document()), encoding="utf-8")
        assert wisdom.load(path) == 0
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
        wisdom.remember(HERE, "conv", ENTRY)
        assert wisdom.load(path) == 0
        assert reason in caplog.text
        assert str(path) in caplog.text
        assert wisdom.recall(HERE, "conv") == ENTRY
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
        assert wisdom.load(path) == 1
        assert wisdom.recall(HERE, "good") is not None
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
            assert wisdom.load(path) == 1

    def test_no_file_a_folder_a_pipe(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert wisdom.load(tmp_path / "none.json") == 0
        assert "none.json" in caplog.text
        assert wisdom.load(tmp_path) == 0
        assert "no regular file" in caplog.text
        assert wisdom.load("a\0b") == 0
        if hasattr(os, "mkfifo"):
            os.mkfifo(tmp_path / "pipe")
            assert wisdom.load(tmp_path / "pipe") == 0

    def test_a_huge_file(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        path = tmp_path / "wisdom.json"
        with open(path, "wb") as file:
            file.truncate(2**40)
        assert wisdom.load(path) == 0
        assert "larger than" in caplog.text

    def test_many_entries(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(files, "MOST_ENTRIES", 5)
        value = document()["machines"][0]["problems"]["conv"]
        path = tmp_path / "wisdom.json"
        path.write_text(json.dumps(document(**{f"c{n}": value for n in range(9)})), "utf-8")
        assert wisdom.load(path) == 5
        assert "what follows the first 5 entries" in caplog.text
        wisdom.remember(HERE, "mine", ENTRY)
        wisdom.save(path)
        assert [problem for _, problem in files.read(path).entries][-2:] == ["c4", "mine"]

    @settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(content=st.binary(max_size=200))
    def test_random_bytes(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "wisdom.json"
        path.write_bytes(content)
        assert wisdom.load(path) == 0

    @settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_random_changes_of_a_sound_file(self, tmp_path: Path, data: st.DataObject) -> None:
        """Some part of the JSON is replaced by any other JSON; nothing raises, all is sound."""
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
        start_afresh()
        assert wisdom.load(path) in (0, 1)
        for entry in (known.entry for known in wisdom._known.values()):
            assert 0 < entry.microseconds < math.inf
        again = wisdom.save(tmp_path / "again.json")
        assert files.read(again).entries.keys() == wisdom._known.keys()
        again.unlink()


class TestSaving:
    def test_what_was_measured_here_wins_over_the_file_over_what_was_loaded_from_it(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "wisdom.json"
        for name in ("mine", "theirs", "untouched"):
            wisdom.remember(HERE, name, SLOWER)
        wisdom.save(path)
        start_afresh()
        wisdom.load(path)
        files.merge_into(path, {(HERE, "theirs"): ENTRY, (HERE, "mine"): SLOWER}, {})
        wisdom.remember(HERE, "mine", ENTRY)
        wisdom.save(path)
        entries = files.read(path).entries
        assert entries[HERE, "mine"] == ENTRY
        assert entries[HERE, "theirs"] == ENTRY
        assert entries[HERE, "untouched"] == SLOWER
        path.unlink()
        wisdom.save(path)
        assert len(files.read(path).entries) == 3

    def test_what_is_no_wisdom_is_kept_aside(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = tmp_path / "wisdom.json"
        path.write_bytes(b"precious")
        wisdom.remember(HERE, "conv", ENTRY)
        wisdom.save(path)
        assert (tmp_path / "wisdom.json.bak").read_bytes() == b"precious"
        assert files.read(path).entries == {(HERE, "conv"): ENTRY}
        assert "kept aside" in caplog.text

    def test_where_nothing_can_be_written(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            wisdom.save(tmp_path / "none" / "wisdom.json")
        with pytest.raises(OSError, match="is a folder"):
            wisdom.save(tmp_path)
        assert tmp_path.is_dir()

    @pytest.mark.parametrize("function", ["fsync", "replace"])
    def test_a_failure_leaves_the_old_file_and_nothing_else(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
    ) -> None:
        path = tmp_path / "wisdom.json"
        wisdom.remember(HERE, "conv", ENTRY)
        wisdom.save(path)
        before = path.read_bytes()
        wisdom.remember(HERE, "more", ENTRY)

        def fail(*arguments: Any) -> None:
            raise OSError("no space left")

        with monkeypatch.context() as broken:
            broken.setattr(os, function, fail)
            with pytest.raises(OSError, match="no space left"):
                wisdom.save(path)
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.skipif(sys.platform == "win32", reason="links and modes are POSIX's")
    def test_a_link_and_a_mode_stay(self, tmp_path: Path) -> None:
        target = tmp_path / "target.json"
        wisdom.save(target)
        target.chmod(0o640)
        link = tmp_path / "link.json"
        link.symlink_to(target)
        wisdom.remember(HERE, "conv", ENTRY)
        wisdom.save(link)
        assert link.is_symlink()
        assert len(files.read(target).entries) == 1
        assert target.stat().st_mode & 0o777 == 0o640

    def test_a_killed_writer_leaves_a_whole_file(self, tmp_path: Path) -> None:
        """Killed anywhere in endless saving, the file is a sound one."""
        path = tmp_path / "wisdom.json"
        code = f"""
from onednn_py import wisdom
from onednn_py.wisdom import Entry, Machine
machine = Machine("3.2.0", "", "avx2", 1)
for number in range(10**9):
    wisdom.remember(machine, f"conv {{number % 500}}", Entry({{"n": number}}, 1.0, 1.0))
    wisdom.save({str(path)!r})
    if number == 200:
        print("started", flush=True)
"""
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.kill()
        contents = files.read(path)
        assert len(contents.entries) > 200
        assert not contents.ignored

    @pytest.mark.skipif(not files._HAS_LOCKS, reason="no file locks on this system")
    def test_processes_that_save_at_once_lose_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "wisdom.json"
        code = f"""
import sys
from onednn_py import wisdom
from onednn_py.wisdom import Entry, Machine
machine = Machine("3.2.0", "", "avx2", 1)
for step in range(25):
    wisdom.forget()
    wisdom.remember(machine, f"{{sys.argv[1]}} {{step}}", Entry({{}}, 1.0, 1.0))
    wisdom.save({str(path)!r})
"""
        writers = [subprocess.Popen([sys.executable, "-c", code, str(n)]) for n in range(3)]
        assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
        assert len(files.read(path).entries) == 75
        assert os.listdir(tmp_path) == ["wisdom.json"]

    @pytest.mark.skipif(not files._HAS_LOCKS, reason="no file locks on this system")
    def test_a_lock_that_nobody_gives_back_is_not_waited_for_forever(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(files, "LOCK_SECONDS", 0.1)
        wisdom.remember(HERE, "conv", ENTRY)
        with files._locked(tmp_path):
            wisdom.save(tmp_path / "wisdom.json")
        assert "held by others" in caplog.text
        assert files.read(tmp_path / "wisdom.json").entries


class TestDefaultFile:
    def test_where_it_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("ONEDNN_PY_WISDOM")
        path = wisdom.default_path()
        assert path is not None
        assert path.parts[-2:] == ("onednn_py", "wisdom.json")
        for off in ("", "off", "OFF"):
            monkeypatch.setenv("ONEDNN_PY_WISDOM", off)
            assert wisdom.default_path() is None
        monkeypatch.setenv("ONEDNN_PY_WISDOM", os.path.join("~", "w.json"))
        assert wisdom.default_path() == Path.home() / "w.json"

    def test_off(self) -> None:
        assert wisdom.load() == 0
        with pytest.raises(AttributeValueError, match="ONEDNN_PY_WISDOM is off"):
            wisdom.save()

    def test_read_once_at_the_first_recall_below_what_is_known(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "new folder" / "wisdom.json"
        monkeypatch.setenv("ONEDNN_PY_WISDOM", str(path))
        for name in ("filed", "mine"):
            wisdom.remember(HERE, name, SLOWER)
        assert wisdom.save() == path
        start_afresh()
        wisdom.remember(HERE, "mine", ENTRY)
        before = wisdom.revision()
        assert wisdom.recall(HERE, "filed") == SLOWER
        assert wisdom.recall(HERE, "mine") == ENTRY
        assert wisdom.revision() == before
        wisdom.forget()
        assert wisdom.recall(HERE, "filed") is None
        assert wisdom.load() == 2
        assert wisdom.recall(HERE, "filed") == SLOWER

    def test_a_missing_one_is_silent_a_broken_one_is_not(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = tmp_path / "wisdom.json"
        monkeypatch.setenv("ONEDNN_PY_WISDOM", str(path))
        assert wisdom.recall(HERE, "conv") is None
        assert not caplog.text
        path.write_bytes(b"broken")
        start_afresh()
        assert wisdom.recall(HERE, "conv") is None
        assert wisdom.recall(HERE, "conv") is None
        assert caplog.text.count("is no JSON") == 1

    def test_forget_a_file(self, tmp_path: Path) -> None:
        wisdom.remember(HERE, "conv", ENTRY)
        path = wisdom.save(tmp_path / "wisdom.json")
        wisdom.forget(path)
        assert not path.exists()
        path.write_bytes(b"precious")
        with pytest.raises(WisdomFileError, match="is no JSON"):
            wisdom.forget(path)
        assert path.exists()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_a_child_forked_while_another_thread_holds_the_lock(self) -> None:
        wisdom.remember(HERE, "conv", ENTRY)
        held, done = threading.Event(), threading.Event()

        def hold() -> None:
            with wisdom._lock:
                held.set()
                done.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        pid = os.fork()
        if pid == 0:
            os._exit(0 if wisdom.recall(HERE, "conv") == ENTRY else 1)
        done.set()
        thread.join()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
