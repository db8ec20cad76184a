"""The command bench: its options, what it prints and writes, and its exit status."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from onednn_py import AttributeValueError
from onednn_py.cli import bench, main
from onednn_py.cli.outputs import check_writable
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchmark.measurement import Benchmark, schedule
from onednn_py.tools.benchmark.results import Result, Timing
from onednn_py.tools.native_programs import (
    ComparisonUnavailableError,
    NativeProgramError,
    native_program,
)
from tests.support.bench_cases import case, timed
from tests.support.requirements import HAS_ONEDNN

SMALL = ("--conv", 'mb1ic4ih6oc8kh3ph1n"small"')


def test_a_small_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    others = ["native", "numpy"]
    try:
        native_program("timing")
    except NativeProgramError:
        raise
    except ComparisonUnavailableError:
        others = ["numpy"]
    json_path, picture = tmp_path / "times.json", tmp_path / "ratios.svg"
    options = [f"--compare={','.join(others)}", f"--json={json_path}", f"--plot={picture}"]
    options += ["--budget=0.01", "--format=NXC", "--threads=1", *SMALL]
    assert main(["bench", *options, "--deconv", "mb1ic4ih6oc8kh4sh2ph1"]) == 0
    printed = capsys.readouterr().out
    assert "small" in printed
    written = json.loads(json_path.read_text())
    assert written["threads"] == 1
    assert list(written["competitors"]) == ["ours", *others]
    assert [fields["direction"] for fields in written["cases"]] == ["BWD_D", "BWD_W"] * 2
    for fields in written["cases"]:
        assert {timing["status"] for timing in fields["timings"].values()} == {"ok"}
        assert all(ratio > 0 for ratio in fields["ratios"].values())
    if "native" in others:
        assert written["peak"]["f32"] > 0
        assert min(written["bandwidth"].values()) > 0
        assert all(fields["bound_share"] > 0 for fields in written["cases"])
        assert written["bounds"][-1]["cases"] == 4
        assert "most is lost in:" in printed
        assert not written["bound_gaps"]
        assert bench.NO_PEAK not in printed
    drawn = picture.read_text()
    # Each problem is found by its name and its shapes.
    assert ">small: minibatch 1, 4→8 6x6 3x3<" in drawn
    assert ">minibatch 1, 4→8 6x6 4x4/2 transposed<" in drawn


@pytest.fixture
def fake_results(monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    """Results that `Benchmark.measure` returns one after the other; an interrupt follows."""
    results: list[Result] = []

    def measure(benchmark: Benchmark, case: Case) -> Result:
        if not results:
            raise KeyboardInterrupt
        return results.pop(0)

    monkeypatch.setattr(Benchmark, "measure", measure)
    return results


def test_a_competitor_that_died_is_no_success(
    fake_results: list[Result], capsys: pytest.CaptureFixture[str]
) -> None:
    timings = {"ours": timed(1.0), "numpy": Timing("died", "by SIGSEGV")}
    fake_results.append(Result(case(), timings))
    assert main(["bench", "--compare=numpy", "--dir=BWD_D", "--format=NCX", *SMALL]) == 1
    assert "numpy died: by SIGSEGV" in capsys.readouterr().out


def test_without_native_the_bound_is_missing_for_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "times.json"
    options = ["--compare=none", "--dir=BWD_D", "--format=NCX", "--budget=0.01", f"--json={path}"]
    assert main(["bench", *options, *SMALL]) == 0
    printed = capsys.readouterr().out
    assert bench.NO_PEAK in printed
    assert printed.index(bench.NO_PEAK) < printed.index("peak  bound")
    assert "no bound without the peak of f32: native, which measures it, takes no part" in printed
    written = json.loads(path.read_text())
    assert written["cases"][0]["bound_share"] is None
    assert "the bandwidth" in written["bound_gaps"]


def test_an_interrupt_keeps_the_results(
    fake_results: list[Result], capsys: pytest.CaptureFixture[str]
) -> None:
    fake_results.append(Result(case(), {"ours": timed(1.0), "numpy": timed(sqrt(2))}))
    assert main(["bench", "--compare=numpy", "--dir=BWD_D", "--json=-", *SMALL]) == 130
    captured = capsys.readouterr()
    assert json.loads(captured.out)["groups"][0]["geometric_mean"] == pytest.approx(sqrt(2))
    assert "interrupted, 1 problems were left" in captured.err


def test_tiny_alone(fake_results: list[Result], capsys: pytest.CaptureFixture[str]) -> None:
    timings = {"ours": timed(2e-5), "plan": timed(1e-5)}
    fake_results.append(Result(bench.TINY, timings))
    assert main(["bench", "--tiny", "--compare=none", "--json=-"]) == 0
    captured = capsys.readouterr()
    written = json.loads(captured.out)
    assert written["cases"] == []
    assert written["tiny"]["timings"]["plan"]["median"] == 1e-5
    assert "plain call" in captured.err


@pytest.mark.parametrize("command", ["bench", "tune"])
def test_suites_say_how_large_they_are(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for option, expected in (
        ("--help", "resnet50 (23 problems, about 4 minutes)"),
        ("--list-suites", "resnet50 23 about 4 minutes"),
    ):
        with pytest.raises(SystemExit) as exit_:
            main([command, option])
        assert exit_.value.code == 0
        assert expected in " ".join(capsys.readouterr().out.split())


def test_a_suite_with_another_minibatch() -> None:
    cases: list[Case] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Benchmark, "measure", lambda benchmark, case: cases.append(case) or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            main(["bench", "--suite=dcgan", "--mb=2", "--compare=none"])
    assert cases[0].descriptor.minibatch == 2
    assert cases[0].descriptor.name == "dcgan:discriminator1"


def test_a_missing_competitor_of_compare_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('not here')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    assert main(["bench", "--compare=torch", *SMALL]) == 1
    error = capsys.readouterr().err
    assert "torch: not here: pip install torch" in error


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "--compare=native,keras",
            "expected some of native, torch, numpy, or none by itself; got 'keras'",
        ),
        ("--suite=vgg", "expected some of resnet50, mobilenet"),
        ("--threads=0", "expected an integer from 1 to 1024, got '0'"),
        ("--threads=5000", "expected an integer from 1 to 1024, got '5000'"),
        ("--budget=-1", "expected a positive number"),
        ("--plot=a.jpg", "expected a name ending in .png or .svg"),
        ("--effort=more", "invalid choice"),
    ],
)
def test_wrong_options(option: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["bench", option])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--conv", "ic4oc4"), "no spatial axis"),
        (("--deconv",), "--deconv: no descriptor, and no --batch behind it"),
        (("--conv", "mb0ic4ih6oc8kh3"), "no problem to time"),
        (("--json=missing/folder/a.json",), "cannot be written"),
        (("--tiny", "--dt=bf16", "--conv"), "which --conv, --dt has no meaning"),
    ],
    ids=["descriptor", "nothing", "empty", "file", "tiny"],
)
def test_errors_before_anything_runs(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_files_are_tried_without_a_trace(tmp_path: Path) -> None:
    new, old = tmp_path / "new.json", tmp_path / "old.json"
    old.write_text("kept")
    check_writable([new, old, "-", None])
    assert list(tmp_path.iterdir()) == [old]
    assert old.read_text() == "kept"
    link = tmp_path / "link.json"
    link.symlink_to(new)
    check_writable([link])
    assert link.is_symlink()
    assert not new.exists()
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    with pytest.raises(AttributeValueError, match="cannot be written"):
        check_writable([loop])


@pytest.mark.skipif(sys.platform != "linux", reason="names of open files are Linux's")
def test_pipes_are_writable() -> None:
    reader, writer = os.pipe()
    try:
        check_writable([f"/dev/fd/{writer}"])
    finally:
        os.close(reader)
        os.close(writer)


def test_any_budget_is_a_schedule() -> None:
    assert sum(schedule(1e-6, float("inf")).counts) == sum(schedule(1e-6, 1e9).counts)


@pytest.mark.parametrize("arguments", [("bench", "--list-suites"), ("--help",), ("wisdom", "-h")])
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_lists_and_help_that_cannot_be_written(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "onednn_py", *arguments]
    # Without buffers argparse meets the error itself, and says nothing.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    options: dict[str, Any] = {"stderr": subprocess.PIPE, "text": True, "env": buffered}
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, check=False, timeout=60, **options)
    assert done.returncode == 1
    assert done.stderr == "onednn-py: [Errno 28] No space left on device\n"
    with subprocess.Popen(command, stdout=subprocess.PIPE, **options) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_a_closed_standard_error() -> None:
    command = [sys.executable, "-m", "onednn_py", "verify", "--dir=BWD_D", "--conv", "ic4ih5oc6kh3"]
    shell = f"{shlex.join(command)} --compare=numpy 2>&-"
    done = subprocess.run(["sh", "-c", shell], stdout=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == (0 if HAS_ONEDNN else 1)
    assert "failed:0" in done.stdout or not HAS_ONEDNN


def test_names_that_the_terminal_lacks_are_escaped() -> None:
    problem = 'ic4ih5oc6kh3n"\u00e9\u65e5"'
    done = subprocess.run(
        [sys.executable, "-m", "onednn_py", "verify", "-v", "--dir=BWD_D", "--conv", problem],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == (0 if HAS_ONEDNN else 1), done.stderr
    assert "Traceback" not in done.stderr
    assert r"\xe9\u65e5" in done.stdout or not HAS_ONEDNN
