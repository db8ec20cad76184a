"""The command bench: its options, what it prints and writes, and its exit status."""

from __future__ import annotations

import json
import os
from math import sqrt
from pathlib import Path

import pytest

from onednn_py.cli import bench, main
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchmark.measurement import Benchmark
from onednn_py.tools.benchmark.results import Result, Timing
from onednn_py.tools.native_programs import (
    ComparisonUnavailableError,
    NativeProgramError,
    native_program,
)
from tests.support.bench_cases import case, timed

SMALL = ("--conv", 'mb1ic4ih6oc8kh3ph1n"small"')


def test_a_small_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    others = ["native", "numpy"]
    try:
        native_program("timing")
    except NativeProgramError:
        raise
    except ComparisonUnavailableError:
        others = ["numpy"]
    json_path, picture = tmp_path / "found.json", tmp_path / "ratios.svg"
    options = [f"--compare={','.join(others)}", f"--json={json_path}", f"--plot={picture}"]
    options += ["--budget=0.01", "--format=NXC", "--threads=1", *SMALL]
    assert main(["bench", *options, "--deconv", "mb1ic4ih6oc8kh4sh2ph1"]) == 0
    printed = capsys.readouterr().out
    assert "small" in printed
    found = json.loads(json_path.read_text())
    assert found["threads"] == 1
    assert list(found["competitors"]) == ["ours", *others]
    assert [one["direction"] for one in found["cases"]] == ["BWD_D", "BWD_W"] * 2
    for one in found["cases"]:
        assert {timing["status"] for timing in one["timings"].values()} == {"ok"}
        assert all(ratio > 0 for ratio in one["ratios"].values())
    if "native" in others:
        assert found["peak"]["f32"] > 0
    assert picture.read_text().startswith("<?xml")


@pytest.fixture
def instead(monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    """Give these results, one after the other, in place of measured ones."""
    given: list[Result] = []

    def measure(benchmark: Benchmark, case: Case) -> Result:
        if not given:
            raise KeyboardInterrupt
        return given.pop(0)

    monkeypatch.setattr(Benchmark, "measure", measure)
    return given


def test_a_competitor_that_died_is_no_success(
    instead: list[Result], capsys: pytest.CaptureFixture[str]
) -> None:
    timings = {"ours": timed(1.0), "numpy": Timing("died", "by SIGSEGV")}
    instead.append(Result(case(), timings))
    assert main(["bench", "--compare=numpy", "--dir=BWD_D", "--format=NCX", *SMALL]) == 1
    assert "numpy died: by SIGSEGV" in capsys.readouterr().out


def test_an_interrupt_leaves_what_was_measured(
    instead: list[Result], capsys: pytest.CaptureFixture[str]
) -> None:
    instead.append(Result(case(), {"ours": timed(1.0), "numpy": timed(sqrt(2))}))
    assert main(["bench", "--compare=numpy", "--dir=BWD_D", "--json=-", *SMALL]) == 130
    captured = capsys.readouterr()
    assert json.loads(captured.out)["groups"][0]["geometric_mean"] == pytest.approx(sqrt(2))
    assert "interrupted, 1 problems were left" in captured.err


def test_tiny_alone(instead: list[Result], capsys: pytest.CaptureFixture[str]) -> None:
    timings = {"ours": timed(2e-5), "plan": timed(1e-5)}
    instead.append(Result(bench.TINY, timings))
    assert main(["bench", "--tiny", "--compare=none", "--json=-"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["cases"] == []
    assert found["tiny"]["timings"]["plan"]["median"] == 1e-5
    assert "plain call" in captured.err


def test_a_suite_with_another_minibatch() -> None:
    given: list[Case] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Benchmark, "measure", lambda benchmark, case: given.append(case) or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            main(["bench", "--suite=dcgan", "--mb=2", "--compare=none"])
    assert given[0].descriptor.minibatch == 2
    assert given[0].descriptor.name == "dcgan:discriminator1"


def test_missing_but_asked_for(
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
            "expected some of native, torch, numpy or none; got 'keras'",
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
    ],
    ids=["descriptor", "nothing", "empty", "file"],
)
def test_errors_before_anything_runs(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 1
    assert message in capsys.readouterr().err
