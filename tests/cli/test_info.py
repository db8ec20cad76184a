"""The command info, and what all commands share: version, help, settings of the environment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import onednn_py
from onednn_py import AttributeValueError, cli
from onednn_py.backends.onednn import Library
from tests.support.paths import ROOT
from tests.support.requirements import HAS_ONEDNN

VARIABLES = ("ONEDNN_PY_BACKEND", "ONEDNN_PY_EFFORT", "ONEDNN_PY_IDLE_THREADS")
Capture = pytest.CaptureFixture[str]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "onednn_py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_info() -> None:
    done = run("info", "--json")
    assert done.returncode == 0
    facts = json.loads(done.stdout)
    assert facts["version"] == onednn_py.info()["version"]
    plain = run("info")
    assert plain.returncode == 0
    assert str(onednn_py.info()["library"] or "none") in plain.stdout


def test_the_version(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as exit_:
        cli.main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"onednn-py {onednn_py.__version__}\n"
    assert onednn_py.__version__ == onednn_py.info()["onednn_py"]
    assert "__version__" in dir(onednn_py)
    project = ROOT / "pyproject.toml"
    if "unknown" not in onednn_py.__version__:
        assert f'\nversion = "{onednn_py.__version__}"\n' in project.read_text(encoding="utf-8")


def test_without_a_command_the_help_is_printed(capsys: Capture) -> None:
    assert cli.main([]) == 0
    alone = capsys.readouterr()
    with pytest.raises(SystemExit) as exit_:
        cli.main(["--help"])
    assert exit_.value.code == 0
    assert alone.out == capsys.readouterr().out
    assert "usage: onednn-py" in alone.out
    assert not alone.err


@pytest.mark.parametrize("command", ["info", "demo", "run", "verify", "bench", "tune", "wisdom"])
def test_help_everywhere(command: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as exit_:
        cli.main([command, "--help"])
    assert exit_.value.code == 0
    assert f"usage: onednn-py {command}" in capsys.readouterr().out


def test_an_unknown_command_fails() -> None:
    done = run("nothing")
    assert done.returncode == 2
    assert "invalid choice: 'nothing'" in done.stderr


def test_a_reader_that_has_enough_sees_no_traceback() -> None:
    command = [sys.executable, "-m", "onednn_py", "info"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 1
    process.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_error_without_a_traceback() -> None:
    command = [sys.executable, "-m", "onednn_py", "info"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("onednn-py info: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_closed_output_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main(["info"]) == 1
    assert capsys.readouterr().err == "onednn-py: the standard output is closed\n"


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize(
    "command", [("info",), ("info", "--json"), ("wisdom", "show"), ("verify",)]
)
def test_a_wrong_environment_is_an_error(
    variable: str, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv(variable, "cuda")
    assert cli.main(list(command)) == 1
    captured = capsys.readouterr()
    assert not captured.out
    for part in (variable, "expected one of", "got 'cuda'"):
        assert part in captured.err
    with pytest.raises(AttributeValueError, match=variable):
        onednn_py.info()


def test_a_variable_with_a_wrong_name_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert cli.main(["info"]) == 0
    assert not capsys.readouterr().err
    monkeypatch.setenv("ONEDNN_PY_BACKED", "numpy")
    assert cli.main(["info", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)
    assert "ONEDNN_PY_BACKED is no variable" in captured.err
    assert "ONEDNN_PY_BACKEND" in captured.err


def test_the_backend_is_the_one_that_calls_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONEDNN_PY_BACKEND", raising=False)
    assert onednn_py.info()["backend"] == ("onednn" if HAS_ONEDNN else "numpy")
    monkeypatch.setenv("ONEDNN_PY_BACKEND", "NumPy")
    assert onednn_py.info()["backend"] == "numpy"
    with onednn_py.use_backend("onednn"):
        assert onednn_py.info()["backend"] == ("onednn" if HAS_ONEDNN else None)


@pytest.mark.parametrize("backend", ["auto", "onednn", "numpy"])
def test_a_library_that_cannot_be_used(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an error wherever calls would ask for it; what is known is printed all the same."""
    monkeypatch.setenv("ONEDNN_PY_LIBRARY", str(tmp_path / "none.so"))
    monkeypatch.setenv("ONEDNN_PY_BACKEND", backend)
    done = run("info", "--json")
    facts = json.loads(done.stdout)
    assert "no such file" in facts["error"]
    assert facts["backend"] == ("numpy" if backend == "numpy" else None)
    assert done.returncode == (0 if backend == "numpy" else 1)
    assert run("info").returncode == done.returncode


@pytest.mark.skipif(not HAS_ONEDNN, reason="no oneDNN library here")
def test_threads_that_users_do_not_set(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    assert onednn_py.info()["threads_note"] is None
    note: Any = property(lambda library: "one thread, because of this")
    monkeypatch.setattr(Library, "thread_note", note)
    assert cli.main(["info"]) == 0
    assert "threads of OpenMP: one thread, because of this\n" in capsys.readouterr().out
    assert cli.main(["info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["threads_note"] == "one thread, because of this"


def test_a_failing_file_leaves_the_output_open(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("onednn_py.cli.info.run", full)
    assert cli.main(["info"]) == 1
    print("still here")
    captured = capsys.readouterr()
    assert "No space left" in captured.err
    assert "still here" in captured.out
