"""The command ``demo``: its runs on every backend, its output and its errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import onednn_py
from onednn_py.tools.extras import install_command

EPOCHS = 2
MODULE = ("-m", "onednn_py")


def run_demo(
    *arguments: str, python: tuple[str, ...] = MODULE, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the demo in a process whose output is not a terminal."""
    inherited = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    return subprocess.run(
        [sys.executable, *python, "demo", *arguments],
        capture_output=True,
        text=True,
        env={**inherited, **environment},
        timeout=300,
    )


def main_after(statement: str) -> tuple[str, ...]:
    """Return the options of ``python`` that run a statement, then the command line."""
    return ("-c", f"{statement}; from onednn_py.cli import main; sys.exit(main())")


@pytest.mark.parametrize(
    ("backend", "dtype"),
    [
        *(("numpy", "f32"), ("onednn", "f32"), ("onednn", "bf16")),
        *(
            pytest.param(backend, dtype, marks=pytest.mark.slow)
            for backend, dtype in (("numpy", "bf16"), ("numpy", "f16"), ("onednn", "f16"))
        ),
    ],
)
def test_short_run(backend: str, dtype: str) -> None:
    if backend == "onednn" and onednn_py.info()["library"] is None:
        pytest.skip("no oneDNN library is loaded")
    finished = run_demo("--json", "--epochs", str(EPOCHS), "--backend", backend, "--dtype", dtype)
    assert finished.returncode == 0, finished.stderr
    result = json.loads(finished.stdout)
    assert result["dtype"] == dtype
    assert [epoch["epoch"] for epoch in result["epochs"]] == [1, 2]
    assert result["epochs"][1]["loss"] < result["epochs"][0]["loss"]
    assert result["test_accuracy"] == result["epochs"][-1]["test_accuracy"] > 0.8
    assert result["seconds"] > sum(epoch["seconds"] for epoch in result["epochs"]) > 0
    assert {row["backend"] for row in result["implementations"]} == {backend}
    assert {row["layer"] for row in result["implementations"]} == {"convolution 1", "convolution 2"}
    if backend == "numpy":
        assert result["seconds_per_epoch"] is None
    else:
        assert set(result["seconds_per_epoch"]) == {"numpy", "onednn"}
    assert "epoch 2/2: loss" in finished.stderr
    assert "below the 97% expected of 30 epochs" in finished.stderr


def test_default_run_reaches_the_goal() -> None:
    finished = run_demo()
    assert finished.returncode == 0, finished.stderr
    lines = finished.stdout.splitlines()
    assert sum(line.startswith("epoch ") for line in lines) == 30
    words = lines[-1].split()
    assert words[:2] == ["test", "accuracy"]
    assert float(words[2].rstrip("%")) >= 97
    assert "below" not in words
    compared = any(line.startswith("one epoch") and "ratio" in line for line in lines)
    assert compared == (onednn_py.info()["library"] is not None)


def test_same_seed_gives_the_same_result() -> None:
    def losses(seed: int) -> list[float]:
        arguments = ("--json", "--epochs", "1", "--backend", "numpy", "--seed", str(seed))
        return [epoch["loss"] for epoch in json.loads(run_demo(*arguments).stdout)["epochs"]]

    assert losses(1) == losses(1) != losses(2)


def test_plot_shows_curves_and_filters(tmp_path: Path) -> None:
    image = pytest.importorskip("matplotlib.image")
    path = tmp_path / "demo.png"
    finished = run_demo("--epochs", "2", "--backend", "numpy", "--plot", str(path))
    assert finished.returncode == 0, finished.stderr
    pixels = image.imread(path)[..., :3]
    height, width, _ = pixels.shape
    assert height > 500
    assert width > 1000
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 100
    for half in (pixels[:, : width // 2], pixels[:, width // 2 :]):
        assert 0.01 < (half < 0.9).any(axis=-1).mean() < 0.9
    assert str(path) in finished.stdout


def test_plot_can_be_svg(tmp_path: Path) -> None:
    path = tmp_path / "demo.svg"
    finished = run_demo("--epochs", "1", "--backend", "numpy", "--plot", str(path))
    assert finished.returncode == 0, finished.stderr
    assert "<svg" in path.read_text(encoding="utf-8")


def test_other_processes_are_told_of(onednn: str) -> None:
    disturbed = main_after("import sys, onednn_py.cli.demo as demo; demo.busy_cores = lambda: 1.5")
    finished = run_demo("--epochs", "1", "--backend", onednn, python=disturbed)
    assert finished.returncode == 0, finished.stderr
    assert "other processes keep 1.5 cores busy" in finished.stdout


def test_without_a_library_the_report_names_numpy() -> None:
    hidden = main_after(
        "import sys, onednn_py.backends.onednn.binding.library as library;"
        " library.library_files = lambda: []"
    )
    finished = run_demo("--epochs", "1", python=hidden, ONEDNN_PY_LIBRARY="")
    assert finished.returncode == 0, finished.stderr
    assert "no oneDNN library is loaded, so everything ran on NumPy" in finished.stdout
    assert "ratio" not in finished.stdout


@pytest.mark.parametrize(
    ("module", "distribution", "arguments"),
    [
        ("sklearn", "scikit-learn", ()),
        ("rich", "rich", ()),
        ("matplotlib", "matplotlib", ("--plot", "demo.png")),
    ],
)
def test_missing_package_is_named_with_the_command_that_installs_it(
    module: str, distribution: str, arguments: tuple[str, ...]
) -> None:
    blocked = main_after(f"import sys; sys.modules[{module!r}] = None")
    finished = run_demo(*arguments, python=blocked)
    assert finished.returncode == 1
    (line,) = finished.stderr.splitlines()
    assert distribution in line
    assert line.endswith(install_command("demo"))


def test_progress_bar_on_a_terminal() -> None:
    finished = run_demo("--epochs", "1", "--backend", "numpy", FORCE_COLOR="1")
    assert finished.returncode == 0, finished.stderr
    assert "━" in finished.stdout
    assert "epoch 1/1: loss" in finished.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("--epochs", "0"),
        ("--epochs", "many"),
        ("--seed", "-1"),
        ("--dtype", "f64"),
        ("--plot", "demo.txt"),
    ],
)
def test_wrong_option_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    finished = run_demo(*arguments)
    assert finished.returncode == 2
    assert arguments[0] in finished.stderr.splitlines()[-1]


def test_a_picture_that_cannot_be_written_is_an_error_before_the_training() -> None:
    finished = run_demo("--plot", "no-such-folder/demo.png")
    assert finished.returncode == 1
    assert "no-such-folder/demo.png: cannot be written" in finished.stderr
    assert "epoch" not in finished.stderr + finished.stdout
