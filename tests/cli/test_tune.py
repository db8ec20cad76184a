"""The command tune: what it measures, remembers, prints and saves, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import wisdom
from onednn_py.backends.onednn import OneDNNBackend, backend, machine_here
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.wisdom import files, store
from onednn_py.backends.onednn.wisdom.entry import Entry, Machine
from onednn_py.cli import main, tune
from onednn_py.errors import OneDNNError
from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import Case
from tests.support.candidate_runs import plan_problem
from tests.support.requirements import needs_onednn
from tests.support.wisdom_cases import clear_store, empty_store  # noqa: F401 - empty_store is a fixture

TINY = "mb1ic4ih6oc8kh3ph1"
OPTIONS = ("--budget=0.01", "--dir=BWD_D", "--format=NCX")
KEPT = Choice("f32", implementation="jit:avx2")

pytestmark = [needs_onednn, pytest.mark.usefixtures("empty_store")]


@pytest.fixture(autouse=True)
def default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The default file, which does not exist yet."""
    path = tmp_path / "home" / "wisdom.json"
    monkeypatch.setenv("ONEDNN_PY_WISDOM", str(path))
    yield path
    onednn_py.cache_clear()


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests run beside these."""
    monkeypatch.setattr(tune, "busy_cores", lambda: 0.0)


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """(heuristic, best) times or exceptions, one for each measurement; an interrupt follows."""
    measurements: list[Any] = []

    def measure(engine: Any, problem: Any, reference: Any, budget: float) -> Any:
        times = measurements.pop(0) if measurements else KeyboardInterrupt()
        if isinstance(times, BaseException):
            raise times
        heuristic, best = times
        return SimpleNamespace(
            plan=SimpleNamespace(choice=KEPT),
            microseconds=best,
            heuristic_microseconds=heuristic,
            timings=(("jit:avx2", best), ("brgconv", heuristic)),
        )

    monkeypatch.setattr(backend, "measure", measure)
    return measurements


def problems(count: int) -> tuple[str, ...]:
    return ("--conv", *(f"mb1ic4ih{6 + n}oc8kh3n{n}" for n in range(count)))


def test_a_measured_choice_is_saved_and_planned_with(
    default: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", "--budget=0.01", "--conv", TINY]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [str(machine_here()), f"saves to {default}"]
    lines = lines[1:]
    assert lines[1].split()[-1] == "choice"
    assert [line.split()[1:4] for line in lines[2:6]] == [
        [direction, "f32", data_format]
        for direction in ("BWD_D", "BWD_W")
        for data_format in ("NCX", "NXC")
    ]
    assert lines[6].startswith("4 problems measured: ")
    assert lines[7] == f"saved in {default}"
    entries = files.read(default).entries
    problem = Case(parse_descriptor(TINY), "BWD_D", "f32", "NCX").problem()
    assert len(entries) == 4
    entry = entries[machine_here(), problem.name]
    # A process that has only the file plans with the choice, without measuring.
    clear_store()
    plan = plan_problem(problem)
    assert plan.choice.as_dict() == entry.choice


def test_other_processes_are_told_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tune, "busy_cores", lambda: 1.5)
    assert main(["tune", *OPTIONS, "--conv", TINY]) == 0
    assert "other processes keep 1.5 cores busy" in capsys.readouterr().out.splitlines()[2]


def test_json_on_stdout_and_lines_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "mine.json"
    arguments = [*OPTIONS, "--json=-", f"--output={output}", "--threads=1", "--deconv", TINY]
    assert main(["tune", *arguments, "--conv", TINY, "mb0ic4ih6oc8kh3"]) == 0
    captured = capsys.readouterr()
    written = json.loads(captured.out)
    assert "saved in" in captured.err
    assert (written["measured"], written["numpy"], written["failed"]) == (2, 1, 0)
    assert written["machine"].endswith(", 1 thread")
    assert written["path"] == str(output)
    deconv, conv, empty = written["cases"]
    assert (deconv["operation"], conv["operation"]) == ("deconv", "conv")
    assert (conv["status"], conv["direction"], conv["dtype"]) == ("measured", "BWD_D", "f32")
    assert conv["gain"] == conv["heuristic_microseconds"] / conv["microseconds"] >= 1
    assert conv["detail"] in {timing["choice"] for timing in conv["timings"]}
    assert (empty["status"], empty["detail"], empty["gain"]) == ("numpy", "empty tensors", None)
    assert {machine.threads for machine, _ in files.read(output).entries} == {1}


def test_known_problems_are_left_alone_unless_asked(
    measurements: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    measurements += [(10.0, 5.0), (9.0, 8.0), (12.0, 4.0)]
    assert main(["tune", *OPTIONS, *problems(1)]) == 0
    assert main(["tune", *OPTIONS, *problems(2)]) == 0
    lines = capsys.readouterr().out.splitlines()
    known = next(line for line in lines if "(known already)" in line)
    assert known.split()[4:7] == ["10.0", "5.0", "2.00"]
    assert "1 problem known already" in lines
    assert main(["tune", *OPTIONS, "--again", "--json=-", *problems(1)]) == 0
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    assert (case["status"], case["gain"]) == ("measured", 3)
    assert not measurements


def test_known_from_the_output_file(
    measurements: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "mine.json"
    measurements.append((10.0, 5.0))
    assert main(["tune", *OPTIONS, f"--output={output}", *problems(1)]) == 0
    wisdom.forget()
    assert main(["tune", *OPTIONS, f"--output={output}", *problems(1)]) == 0
    assert "1 problem known already" in capsys.readouterr().out


def test_only_valid_wisdom_of_this_machine_is_known(measurements: list[Any], default: Path) -> None:
    """Wisdom of another machine, or with an invalid choice, does not prevent measuring."""
    problem = Case(parse_descriptor(TINY), "BWD_D", "f32", "NCX").problem()
    entry = Entry(KEPT.as_dict(), 5.0, 10.0)
    store.remember(Machine("3.99.0", "", "avx2", 1), problem.name, entry)
    store.remember(machine_here(), problem.name, Entry({"odd": 1}, 5.0, 10.0))
    measurements.append((10.0, 4.0))
    assert main(["tune", *OPTIONS, "--conv", TINY]) == 0
    assert not measurements
    assert sorted(entry.microseconds for entry in files.read(default).entries.values()) == [
        4.0,
        5.0,
    ]


def test_the_summary(measurements: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    measurements += [(8.0, 1.0), (3.0, 3.0), (4.0, 4.0)]
    assert main(["tune", *OPTIONS, *problems(3)]) == 0
    printed = capsys.readouterr().out
    assert "3 problems measured: 2.00 times as fast on the geometric mean, 2 kept" in printed


@pytest.mark.parametrize(("done", "saved"), [(0, 0), (2, 2), (7, 7)])
def test_an_interrupt_keeps_what_was_measured(
    measurements: list[Any],
    default: Path,
    capsys: pytest.CaptureFixture[str],
    done: int,
    saved: int,
) -> None:
    measurements += [(10.0, 5.0)] * done
    assert main(["tune", *OPTIONS, *problems(9)]) == 130
    assert f"interrupted, {9 - done} problems were left" in capsys.readouterr().out
    assert len(files.read(default).entries) == saved


def test_a_long_run_saves_on_the_way(measurements: list[Any], default: Path) -> None:
    """Whatever ends the process, at most the last few measurements are lost."""
    measurements += [(10.0, 5.0)] * 7 + [ZeroDivisionError()]
    with pytest.raises(ZeroDivisionError):
        main(["tune", *OPTIONS, *problems(9)])
    assert len(files.read(default).entries) == 5


def test_a_failure_is_a_line_and_no_success(
    measurements: list[Any], default: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measurements += [
        OneDNNError("dnnl_primitive_execute", "runtime_error"),
        MemoryError("no space"),
        (10.0, 5.0),
    ]
    assert main(["tune", *OPTIONS, *problems(3)]) == 1
    printed = capsys.readouterr().out
    assert "failed: dnnl_primitive_execute failed with status runtime_error" in printed
    assert "failed: not enough memory: no space" in printed
    assert "2 problems failed" in printed
    assert len(files.read(default).entries) == 1


def test_nothing_for_onednn_is_no_success(
    measurements: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    measurements.append(OneDNNError("dnnl_primitive_desc_create", "unimplemented"))
    assert main(["tune", *OPTIONS, "--conv", "mb0ic4ih6oc8kh3", TINY]) == 1
    printed = capsys.readouterr().out
    assert "runs on NumPy: empty tensors" in printed
    assert "runs on NumPy: oneDNN has no implementation" in printed
    assert "2 problems on NumPy" in printed


def test_suites_and_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def measure(self: OneDNNBackend, problem: Any, budget: float) -> None:
        calls.append((problem, budget))
        raise ZeroDivisionError

    monkeypatch.setattr(OneDNNBackend, "measure", measure)
    with pytest.raises(ZeroDivisionError):
        main(["tune", "--suite=dcgan", "--mb=2", "--budget=3", "--dt=bf16"])
    ((problem, budget),) = calls
    assert (problem.src.shape[0], problem.dtype, budget) == (2, "bf16", 3.0)


def test_without_a_file_to_save_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ONEDNN_PY_WISDOM", "off")
    assert main(["tune", "--conv", TINY]) == 1
    message = "onednn-py tune: no file to save to: ONEDNN_PY_WISDOM is off; name one with --output"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("missing/w.json", "missing/w.json: cannot be written: No such file or directory\n"),
        (".", ": cannot be read: is no regular file\n"),
        ("precious", "precious: is no JSON"),
    ],
)
def test_a_file_that_cannot_be_saved_to(
    tmp_path: Path, output: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    assert main(["tune", f"--output={tmp_path / output}", "--conv", TINY]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count(str(tmp_path)) == 1
    assert precious.read_text() == "precious"


def test_a_default_file_whose_folder_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "folder" / "wisdom.json"
    monkeypatch.setenv("ONEDNN_PY_WISDOM", str(path))
    assert main(["tune", "--conv", TINY]) == 1
    assert f"{path}: cannot be written: Not a directory\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--conv", "ic4oc4"), "no spatial axis"),
        (("--json=missing/folder/a.json",), "cannot be written"),
    ],
)
def test_errors_before_anything_runs(
    arguments: tuple[str, ...], message: str, default: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", *arguments]) == 1
    assert message in capsys.readouterr().err
    assert not default.exists()


@pytest.mark.parametrize(
    "option", ["--budget=0", "--threads=0", "--threads=2000", "--suite=vgg", "--dt=f64"]
)
def test_wrong_options(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["tune", option])
    assert caught.value.code == 2
    assert "expected" in capsys.readouterr().err


def test_with_a_library_that_cannot_be_used(tmp_path: Path) -> None:
    """Loading wisdom needs no library; measuring does, and says so."""
    store.remember(Machine("3.99.0", "", "avx2", 1), "conv", Entry({}, 1.0, 1.0))
    path = wisdom.save(tmp_path / "wisdom.json")
    code = f"""
from onednn_py import wisdom
from onednn_py.cli import main
assert wisdom.load({str(path)!r}) == 0
raise SystemExit(main(["tune", "--conv", {TINY!r}]))
"""
    environment = {**os.environ, "ONEDNN_PY_LIBRARY": str(tmp_path / "none.so")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "onednn-py tune: ONEDNN_PY_LIBRARY names a library that cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_measured_plan_is_right() -> None:
    """A public function is right after tuning, whichever choice was the fastest."""
    assert main(["tune", "--budget=0.2", "--dir=BWD_D", "--format=NXC", "--conv", TINY]) == 0
    weights = np.arange(3 * 3 * 4 * 8, dtype=np.float32).reshape(3, 3, 4, 8)
    diff_dst = np.arange(6 * 6 * 8, dtype=np.float32).reshape(1, 6, 6, 8)
    results = [
        onednn_py.convolution_backward_data(
            diff_dst, weights, pads_begin=1, pads_end=1, backend=backend
        )
        for backend in ("onednn", "numpy")
    ]
    np.testing.assert_array_equal(*results)
