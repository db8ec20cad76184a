"""The command bench --training: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from onednn_py.cli import main
from onednn_py.tools.benchmark.training.measurement import TrainingBenchmark
from onednn_py.tools.benchmark.training.networks import NETWORKS
from onednn_py.tools.benchmark.training.results import StepResult
from onednn_py.tools.benchmark.training.settings import Settings
from tests.support.requirements import needs_onednn

COMMAND = ("bench", "--training")


@pytest.mark.frameworks
def test_a_small_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, picture = tmp_path / "steps.json", tmp_path / "steps.svg"
    options = ["--model=wavenet", "--small", "--batch=1", "--seconds=0.01", "--threads=1"]
    options += ["--memory", "--calls", f"--json={path}", f"--plot={picture}"]
    # The option may stand anywhere behind the command.
    assert main(["bench", *options, "--training"]) == 0
    printed = capsys.readouterr().out
    assert "WaveNet-like" in printed
    assert "geometric mean" in printed
    written = json.loads(path.read_text())
    assert written["torch"].startswith("PyTorch ")
    (network,) = written["networks"]
    assert network["settings"]["batch"] == 1
    assert network["shapes"] == ["1x1x64"]
    assert network["ratio"] == pytest.approx(
        network["median"]["plain"] / network["median"]["enabled"]
    )
    assert sum(network["taken"].values()) + sum(network["left"].values()) == 29
    assert min(network["peaks"].values()) > 2**20
    assert ">WaveNet-like<" in picture.read_text()


@pytest.mark.frameworks
def test_a_failure_is_the_outcome_of_its_network_alone() -> None:
    benchmark = TrainingBenchmark(threads=1, budget=0.01, memory=False)
    # Norms need more than one value for each channel.
    failed = benchmark.measure(Settings("efficientnet", batch=-1, small=True))
    assert "RuntimeError" in failed.failure
    assert failed.ratio is None


class FakeBenchmark:
    """Measures nothing: each network has the result of its name, or interrupts."""

    version = "PyTorch 0"

    def __init__(self, **options: object) -> None:
        pass

    def measure(self, settings: Settings) -> StepResult:
        if settings.network == "unet":
            raise KeyboardInterrupt
        if settings.network == "dcgan":
            return StepResult(settings, failure="died: by SIGSEGV")
        seconds = {"plain": [2.0], "enabled": [1.0]}
        return StepResult(settings, shapes=["1x1"], seconds=seconds, left={"tiny": 2})


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onednn_py.cli.training.TrainingBenchmark", FakeBenchmark)


@pytest.mark.usefixtures("fake")
def test_settings_reach_each_network(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--dtype=bf16", "--autocast", "--compile", "--effort=measure", "--batch=2"]
    assert main([*COMMAND, *options, "--model=wavenet,resnet50", "--json=-"]) == 0
    written = json.loads(capsys.readouterr().out)
    expected = Settings(
        "wavenet", "bf16", 2, autocast=True, compiled=True, effort="measure"
    ).to_json()
    assert [n["settings"] for n in written["networks"]] == [
        expected,
        {**expected, "network": "resnet50"},
    ]
    assert written["geometric_mean"] == 2.0


@pytest.mark.usefixtures("fake")
def test_channels_last_leaves_out_what_has_no_such_format(
    capsys: pytest.CaptureFixture[str],
) -> None:
    option = "--memory-format=channels_last"
    assert main([*COMMAND, option, "--model=resnet50,wavenet"]) == 0
    assert "left out: wavenet" in capsys.readouterr().out
    assert main([*COMMAND, option, "--model=wavenet"]) == 1
    assert "no network is left" in capsys.readouterr().err


@pytest.mark.usefixtures("fake")
def test_a_network_that_failed_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--model=resnet50,dcgan"]) == 1
    printed = capsys.readouterr().out
    assert "died: by SIGSEGV" in printed
    assert "2 calls left to PyTorch: tiny" in printed


@pytest.mark.usefixtures("fake")
def test_an_interrupt_keeps_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--model=resnet50,unet,dcgan", "--json=-"]) == 130
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["networks"]) == 1
    assert "interrupted, 2 networks were left" in captured.err


@pytest.mark.usefixtures("fake")
def test_each_network_is_written_when_it_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "steps.json"
    usual = FakeBenchmark.measure

    def measure(self: FakeBenchmark, settings: Settings) -> StepResult:
        if settings.network == "wavenet":
            raise SystemExit  # what no handler of an interrupt sees
        return usual(self, settings)

    monkeypatch.setattr(FakeBenchmark, "measure", measure)
    with pytest.raises(SystemExit):
        main([*COMMAND, "--model=resnet50,wavenet", f"--json={path}"])
    assert [one["settings"]["network"] for one in json.loads(path.read_text())["networks"]] == [
        "resnet50"
    ]


@needs_onednn  # without a library nothing is started, and PyTorch not looked for
def test_missing_pytorch_is_an_error_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('not here')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    assert main([*COMMAND, "--model=unet"]) == 1
    error = capsys.readouterr().err
    assert "onednn-py bench --training: not here: " in error
    assert "install" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model=vgg"], "expected some of resnet50, efficientnet"),
        (["--dtype=f64"], "invalid choice"),
        (["--batch=0"], "expected an integer of at least 1, got '0'"),
        (["--seconds=0"], "expected a positive number"),
        (["--memory-format=NHWC"], "invalid choice"),
        (["--plot=a.jpg"], "expected a name ending in .png or .svg"),
        # Options of the problems mean nothing here.
        (["--suite=resnet50"], "unrecognized arguments: --suite=resnet50"),
        (["--compare=torch"], "unrecognized arguments: --compare=torch"),
    ],
)
def test_wrong_options(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*COMMAND, *options])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_options_of_training_need_training(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["bench", "--model=unet"])
    assert caught.value.code == 2
    assert "--model" in capsys.readouterr().err


def test_options_that_contradict_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--autocast"]) == 1
    assert "--autocast: needs --dtype bf16 or f16" in capsys.readouterr().err


def test_the_help_names_the_networks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*COMMAND, "--help"])
    assert caught.value.code == 0
    assert ", ".join(NETWORKS) in " ".join(capsys.readouterr().out.split())
