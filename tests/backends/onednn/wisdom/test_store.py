"""The store: wisdom in memory, saved, and in the default file."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from onednn_py import AttributeValueError, WisdomFileError
from onednn_py.backends.onednn.wisdom import Machine, files, store
from tests.support.forks import child_while_held, needs_fork
from tests.support.interruptions import every_interruption
from tests.support.wisdom_cases import ENTRY, HERE, SLOWER, clear_store, empty_store  # noqa: F401 - empty_store is a fixture

pytestmark = pytest.mark.usefixtures("empty_store")


class TestMemory:
    def test_remember_recall_forget(self) -> None:
        assert store.recall(HERE, "conv") is None
        store.remember(HERE, "conv", ENTRY)
        assert store.recall(HERE, "conv") == ENTRY
        assert store.recall(HERE, "another") is None
        store.forget()
        assert store.recall(HERE, "conv") is None

    def test_a_handler_recalls_and_forgets_between_any_two_steps(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Signal handlers run between lines, also between the lines that compare two keys."""
        monkeypatch.setattr(store, "MOST_ENTRIES", 3)

        def work() -> None:
            for name in "abacad":
                store.remember(HERE, name, ENTRY)
                assert store.recall(HERE, name) in (ENTRY, None)
                assert len(store._known) <= 3

        def interrupt() -> None:
            for name in "adefg":
                store.remember(HERE, name, ENTRY)
            store.forget()

        assert every_interruption(work, interrupt, (store.__file__, "<string>")) > 30

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
        store.remember(HERE, "conv", ENTRY)
        assert store.recall(other, "conv") is None
        assert HERE.difference(other)
        assert HERE.difference(HERE) == ""

    def test_the_revision_changes_when_plans_are_to_follow(self, tmp_path: Path) -> None:
        revisions = [store.revision()]

        def changed() -> bool:
            revisions.append(store.revision())
            return revisions[-1] != revisions[-2]

        store.remember(HERE, "conv", ENTRY)
        store.remember(HERE, "conv", SLOWER)
        assert not changed(), "a new measurement concerns one plan alone"
        store.recall(HERE, "conv")
        path = store.save(tmp_path / "wisdom.json")
        assert not changed()
        store.load(path, HERE)
        assert changed()
        store.forget()
        assert changed()

    def test_the_least_recently_used_entry_is_dropped_first(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(store, "MOST_ENTRIES", 3)
        for name in "abc":
            store.remember(HERE, name, ENTRY)
        store.recall(HERE, "a")
        store.remember(HERE, "d", ENTRY)
        assert [name for name in "abcd" if store.recall(HERE, name)] == ["a", "c", "d"]

    @pytest.mark.parametrize("problem", [None, 3, "a\nb", "a" * 1001])
    def test_problems_are_short_printable_texts(self, problem: Any) -> None:
        with pytest.raises(AttributeValueError, match="wisdom: problem: expected a printable text"):
            store.remember(HERE, problem, ENTRY)

    def test_many_threads(self, tmp_path: Path) -> None:
        path = tmp_path / "wisdom.json"

        def work(number: int) -> None:
            for step in range(20):
                name = f"{number} {step}"
                store.remember(HERE, name, ENTRY)
                assert store.recall(HERE, name) == ENTRY
            store.save(path)
            store.load(path, HERE)

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
            store.remember(HERE, name, SLOWER)
        store.save(path)
        clear_store()
        store.load(path, HERE)
        files.merge_into(path, {(HERE, "theirs"): ENTRY, (HERE, "mine"): SLOWER}, {})
        store.remember(HERE, "mine", ENTRY)
        store.save(path)
        entries = files.read(path).entries
        assert entries[HERE, "mine"] == ENTRY
        assert entries[HERE, "theirs"] == ENTRY
        assert entries[HERE, "untouched"] == SLOWER
        path.unlink()
        store.save(path)
        assert len(files.read(path).entries) == 3

    def test_what_another_file_holds_wins_over_what_was_loaded(self, tmp_path: Path) -> None:
        old, new = tmp_path / "old.json", tmp_path / "new.json"
        files.merge_into(old, {(HERE, "both"): SLOWER, (HERE, "old"): SLOWER}, {})
        files.merge_into(new, {(HERE, "both"): ENTRY}, {})
        store.load(old, HERE)
        store.save(new)
        assert files.read(new).entries == {(HERE, "both"): ENTRY, (HERE, "old"): SLOWER}

    def test_what_is_kept_aside_stays(self, tmp_path: Path) -> None:
        path = tmp_path / "wisdom.json"
        for content in ("first", "second", "third"):
            path.write_text(content)
            store.save(path)
        aside = [tmp_path / f"wisdom.json.bak{number}" for number in ("", 1, 2)]
        assert [file.read_text() for file in aside] == ["first", "second", "third"]

    def test_what_is_no_wisdom_is_kept_aside(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = tmp_path / "wisdom.json"
        path.write_bytes(b"precious")
        store.remember(HERE, "conv", ENTRY)
        store.save(path)
        assert (tmp_path / "wisdom.json.bak").read_bytes() == b"precious"
        assert files.read(path).entries == {(HERE, "conv"): ENTRY}
        assert "kept aside" in caplog.text

    def test_a_path_that_cannot_be_written_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            store.save(tmp_path / "none" / "wisdom.json")
        with pytest.raises(OSError, match="is no regular file"):
            store.save(tmp_path)
        assert tmp_path.is_dir()

    @pytest.mark.parametrize("function", ["fsync", "replace"])
    def test_a_failure_leaves_the_old_file_and_nothing_else(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
    ) -> None:
        path = tmp_path / "wisdom.json"
        store.remember(HERE, "conv", ENTRY)
        store.save(path)
        before = path.read_bytes()
        store.remember(HERE, "more", ENTRY)

        def fail(*arguments: Any) -> None:
            raise OSError("no space left")

        with monkeypatch.context() as broken:
            broken.setattr(os, function, fail)
            with pytest.raises(OSError, match="no space left"):
                store.save(path)
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.skipif(sys.platform == "win32", reason="links and modes are POSIX's")
    def test_a_link_and_a_mode_stay(self, tmp_path: Path) -> None:
        target = tmp_path / "target.json"
        store.save(target)
        target.chmod(0o640)
        link = tmp_path / "link.json"
        link.symlink_to(target)
        store.remember(HERE, "conv", ENTRY)
        store.save(link)
        assert link.is_symlink()
        assert len(files.read(target).entries) == 1
        assert target.stat().st_mode & 0o777 == 0o640

    def test_a_killed_writer_leaves_a_whole_file(self, tmp_path: Path) -> None:
        """The file is valid, at whatever moment the writer was killed."""
        path = tmp_path / "wisdom.json"
        code = f"""
from onednn_py.backends.onednn.wisdom import Entry, Machine, store
machine = Machine("3.2.0", "", "avx2", 1)
for number in range(10**9):
    store.remember(machine, f"conv {{number % 500}}", Entry({{"n": number}}, 1.0, 1.0))
    store.save({str(path)!r})
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
from onednn_py.backends.onednn.wisdom import Entry, Machine, store
machine = Machine("3.2.0", "", "avx2", 1)
for step in range(25):
    store.forget()
    store.remember(machine, f"{{sys.argv[1]}} {{step}}", Entry({{}}, 1.0, 1.0))
    store.save({str(path)!r})
"""
        writers = [subprocess.Popen([sys.executable, "-c", code, str(n)]) for n in range(3)]
        assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
        assert len(files.read(path).entries) == 75
        assert os.listdir(tmp_path) == ["wisdom.json"]

    @pytest.mark.skipif(not files._HAS_LOCKS, reason="no file locks on this system")
    def test_a_lock_that_is_never_released_does_not_block_forever(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(files, "LOCK_SECONDS", 0.1)
        store.remember(HERE, "conv", ENTRY)
        with files._locked(tmp_path):
            store.save(tmp_path / "wisdom.json")
        assert "held by others" in caplog.text
        assert files.read(tmp_path / "wisdom.json").entries


class TestDefaultFile:
    def test_the_environment_names_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("ONEDNN_PY_WISDOM")
        path = store.default_path()
        assert path is not None
        assert path.parts[-2:] == ("onednn_py", "wisdom.json")
        for off in ("", "off", "OFF"):
            monkeypatch.setenv("ONEDNN_PY_WISDOM", off)
            assert store.default_path() is None
        monkeypatch.setenv("ONEDNN_PY_WISDOM", os.path.join("~", "w.json"))
        assert store.default_path() == Path.home() / "w.json"

    def test_off(self) -> None:
        assert store.load(None, HERE) == 0
        with pytest.raises(AttributeValueError, match="ONEDNN_PY_WISDOM is off"):
            store.save()

    def test_read_once_at_the_first_recall_below_what_is_known(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "new folder" / "wisdom.json"
        monkeypatch.setenv("ONEDNN_PY_WISDOM", str(path))
        for name in ("filed", "mine"):
            store.remember(HERE, name, SLOWER)
        assert store.save() == path
        clear_store()
        store.remember(HERE, "mine", ENTRY)
        before = store.revision()
        assert store.recall(HERE, "filed") == SLOWER
        assert store.recall(HERE, "mine") == ENTRY
        assert store.revision() == before
        store.forget()
        assert store.recall(HERE, "filed") is None
        assert store.load(None, HERE) == 2
        assert store.recall(HERE, "filed") == SLOWER

    def test_another_thread_waits_while_it_is_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "wisdom.json"
        monkeypatch.setenv("ONEDNN_PY_WISDOM", str(path))
        store.remember(HERE, "conv", ENTRY)
        store.save()
        clear_store()
        is_reading, may_read = threading.Event(), threading.Event()

        def slowly(path: Path) -> Any:
            is_reading.set()
            may_read.wait(30)
            return files.read(path)

        monkeypatch.setattr(store, "read", slowly)
        found: list[Any] = []
        first, second = (
            threading.Thread(target=lambda: found.append(store.recall(HERE, "conv")))
            for _ in range(2)
        )
        first.start()
        is_reading.wait(30)
        assert not store.is_empty()
        second.start()
        may_read.set()
        for thread in (first, second):
            thread.join(30)
        assert found == [ENTRY, ENTRY]
        assert not store.is_empty()

    def test_the_home_folder_of_an_unknown_user(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("ONEDNN_PY_WISDOM", "~nobody_of_that_name/wisdom.json")
        assert store.recall(HERE, "conv") is None
        assert "ONEDNN_PY_WISDOM: '~nobody_of_that_name/wisdom.json'" in caplog.text
        for call in (lambda: store.load(None, HERE), store.save):
            with pytest.raises(AttributeValueError, match="ONEDNN_PY_WISDOM: '~nobody"):
                call()

    def test_a_missing_file_is_silent_a_broken_file_is_not(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = tmp_path / "wisdom.json"
        monkeypatch.setenv("ONEDNN_PY_WISDOM", str(path))
        assert store.recall(HERE, "conv") is None
        assert not caplog.text
        assert store.load(None, HERE) == 0
        path.write_bytes(b"broken")
        clear_store()
        assert store.recall(HERE, "conv") is None
        assert store.recall(HERE, "conv") is None
        assert caplog.text.count("is no JSON") == 1

    def test_forget_a_file(self, tmp_path: Path) -> None:
        store.remember(HERE, "conv", ENTRY)
        path = store.save(tmp_path / "wisdom.json")
        store.forget(path)
        assert not path.exists()
        path.write_bytes(b"precious")
        with pytest.raises(WisdomFileError, match="is no JSON"):
            store.forget(path)
        assert path.exists()

    @needs_fork
    def test_a_child_forked_while_another_thread_holds_the_lock(self) -> None:
        store.remember(HERE, "conv", ENTRY)
        assert child_while_held(store._lock, lambda: store.recall(HERE, "conv") == ENTRY) == 0
