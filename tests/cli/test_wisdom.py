"""The command ``wisdom``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onednn_py import cli
from onednn_py.backends.onednn import machine_here
from onednn_py.backends.onednn.wisdom import files
from onednn_py.backends.onednn.wisdom.entry import Entry, Machine

OTHER = Machine("2.7.0", "0123456789", "sse41", 64)
HERE = machine_here() or Machine("3.0.0", "unused", "avx2", 1)
ENTRY = Entry({"activations": "nxc", "reorders": ["src"]}, 80.0, 120.0)
SLOWER = Entry({"activations": "plain"}, 90.0, 120.0)

needs_machine = pytest.mark.skipif(machine_here() is None, reason="no oneDNN library here")


@pytest.fixture
def default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home" / "wisdom.json"
    monkeypatch.setenv("ONEDNN_PY_WISDOM", str(path))
    return path


@pytest.fixture
def learned(default: Path) -> Path:
    default.parent.mkdir()
    entries = {(HERE, "conv b"): SLOWER, (HERE, "conv a"): ENTRY, (OTHER, "conv a"): SLOWER}
    files.merge_into(default, entries, {})
    return default


@needs_machine
def test_show(learned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["wisdom", "show"]) == 0
    path, here, heading, *rows, others = capsys.readouterr().out.splitlines()
    assert path == str(learned)
    assert here == f"{HERE}: 2 problems"
    assert heading.split() == ["microseconds", "heuristic", "gain", "problem", "choice"]
    assert [" ".join(row.split()) for row in rows] == [
        '80.0 120.0 1.50 conv a activations=nxc reorders=["src"]',
        "90.0 120.0 1.33 conv b activations=plain",
    ]
    assert others == "for oneDNN 2.7.0 (0123456) on sse41, 64 threads: 1 problem"


@needs_machine
def test_show_as_json(learned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["wisdom", "show", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["machine"]["cpu_isa"] == HERE.cpu_isa
    assert facts["entries"][0] == {
        "problem": "conv a",
        "choice": ENTRY.choice,
        "microseconds": 80.0,
        "heuristic_microseconds": 120.0,
        "gain": 1.5,
    }
    assert [other["entries"] for other in facts["others"]] == [1]


def test_show_nothing(default: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["wisdom", "show"]) == 0
    assert "0 problems" in capsys.readouterr().out
    assert cli.main(["wisdom", "show", str(default)]) == 1
    assert "No such file" in capsys.readouterr().err


def test_export_and_import(
    learned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported = tmp_path / "exported.json"
    assert cli.main(["wisdom", "export", str(exported)]) == 0
    assert "3 problems added" in capsys.readouterr().out
    learned.unlink()
    learned.parent.rmdir()
    assert cli.main(["wisdom", "import", str(exported), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["path"], facts["added"], facts["entries"]) == (str(learned), 3, 3)
    assert files.read(learned) == files.read(exported)


def test_import_adds_to_the_default_file(learned: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.json"
    files.merge_into(more, {(HERE, "conv b"): ENTRY, (HERE, "conv c"): ENTRY}, {})
    assert cli.main(["wisdom", "import", str(more)]) == 0
    entries = files.read(learned).entries
    assert len(entries) == 4
    assert entries[HERE, "conv b"] == ENTRY


def test_forget(learned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["wisdom", "forget", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["forgotten"] == 3
    assert not learned.exists()
    assert cli.main(["wisdom", "forget"]) == 0
    assert "0 problems forgotten" in capsys.readouterr().out


@pytest.mark.parametrize("action", ["show", "export", "import", "forget"])
def test_a_file_without_wisdom_is_left_as_it_is(
    default: Path, tmp_path: Path, action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    default.parent.mkdir()
    default.write_text("precious")
    other = tmp_path / "other.json"
    other.write_text("precious" if action == "import" else "")
    arguments = [str(other)] if action in ("export", "import") else []
    assert cli.main(["wisdom", action, *arguments]) == 1
    assert "is no JSON" in capsys.readouterr().err
    assert default.read_text() == "precious"


@pytest.mark.parametrize("action", ["export", "import"])
def test_nothing_is_written_over_a_file_without_wisdom(
    learned: Path, default: Path, tmp_path: Path, action: str
) -> None:
    source, target = tmp_path / "source.json", tmp_path / "precious.txt"
    source.write_bytes(learned.read_bytes())
    if action == "import":
        target = default
    target.write_text("precious")
    if action == "export":
        assert cli.main(["wisdom", action, str(target)]) == 1
    else:
        assert cli.main(["wisdom", action, str(source)]) == 1
    assert target.read_text() == "precious"
    assert not list(tmp_path.rglob("*.bak*"))


def test_bad_entries_are_named_and_left_out(
    learned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(learned.read_text())
    content["machines"][0]["problems"]["conv a"]["microseconds"] = -1
    learned.write_text(json.dumps(content))
    exported = tmp_path / "exported.json"
    assert cli.main(["wisdom", "export", str(exported)]) == 0
    assert "ignored 'conv a'" in capsys.readouterr().err
    assert len(files.read(exported).entries) == 2


def test_nothing_to_export_or_import(
    default: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.json"
    files.merge_into(empty, {}, {})
    assert cli.main(["wisdom", "import", str(empty)]) == 1
    assert "holds no wisdom" in capsys.readouterr().err
    assert cli.main(["wisdom", "export", str(tmp_path / "out.json")]) == 1
    assert cli.main(["wisdom", "import", str(tmp_path / "none.json")]) == 1
    assert not (tmp_path / "out.json").exists()


def test_an_import_that_fails_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONEDNN_PY_WISDOM", str(tmp_path / "new" / "wisdom.json"))
    assert cli.main(["wisdom", "import", str(tmp_path / "none.json")]) == 1
    assert not (tmp_path / "new").exists()


def test_off(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["show"], ["forget"], ["export", "x"], ["import", "x"]):
        assert cli.main(["wisdom", *arguments]) == 1
        assert "ONEDNN_PY_WISDOM is off" in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["show"], ["export"], ["import"], ["forget"]):
        with pytest.raises(SystemExit) as exit_:
            cli.main(["wisdom", *arguments, "--help"])
        assert exit_.value.code == 0
        assert "usage: " in capsys.readouterr().out
    with pytest.raises(SystemExit) as exit_:
        cli.main(["wisdom"])
    assert exit_.value.code == 2
