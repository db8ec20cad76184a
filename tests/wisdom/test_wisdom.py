"""Wisdom in memory, saved, and in its default file."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from onednn_py import AttributeValueError, WisdomFileError, wisdom
from onednn_py.wisdom import Entry, Machine, files
from tests.support.forks import child_while_held, needs_fork
from tests.support.wisdom_cases import ENTRY, HERE, SLOWER, document, fresh, start_afresh  # noqa: F401 - fresh is a fixture


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

    @needs_fork
    def test_a_child_forked_while_another_thread_holds_the_lock(self) -> None:
        wisdom.remember(HERE, "conv", ENTRY)
        assert child_while_held(wisdom._lock, lambda: wisdom.recall(HERE, "conv") == ENTRY) == 0
