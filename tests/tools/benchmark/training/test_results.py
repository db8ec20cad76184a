"""Ratios, means and lines of timed training steps, and the JSON that brings them back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onednn_py.tools.benchmark.training.figure import save_training_figure
from onednn_py.tools.benchmark.training.report import (
    HEADING,
    call_lines,
    left_lines,
    settings_title,
    step_line,
    summary_lines,
)
from onednn_py.tools.benchmark.training.results import Call, StepResult, from_json, to_json
from onednn_py.tools.benchmark.training.settings import Settings

SLOWER = Call("convolution", "1x2x3x3 4x2x1x1", "[[1, 1]]", 2, {"plain": 0.01, "enabled": 0.03})
FASTER = Call("convolution_backward", "1x4x3x3", "[[0]]", 1, {"plain": 0.2, "enabled": 0.1})


def result(network: str = "resnet50", plain: float = 3.0, enabled: float = 2.0) -> StepResult:
    return StepResult(
        Settings(network),
        shapes=["8x3x224x224"],
        seconds={"plain": [plain, 99.0, plain], "enabled": [enabled, 0.0, enabled]},
        share=0.72,
        calls=[FASTER, SLOWER],
        taken={"convolution": 53, "convolution_backward": 50},
        left={"tiny": 3},
        peaks={"plain": 100 * 2**20, "enabled": 110 * 2**20},
    )


FAILED = StepResult(Settings("unet"), failure="out_of_memory: no")


def test_medians_are_compared() -> None:
    assert result().ratio == pytest.approx(1.5)
    assert result().memory_ratio == pytest.approx(1.1)
    assert FAILED.ratio is None
    assert FAILED.memory_ratio is None


def test_mean_and_worst() -> None:
    results = [result(plain=1.0), result("dcgan", plain=8.0), FAILED]
    written = to_json(results)
    assert written["geometric_mean"] == pytest.approx(2**0.5)
    assert written["worst"] == pytest.approx(0.5)
    assert written["worst_network"] == "resnet50"
    assert list(summary_lines(results)) == ["geometric mean 1.41, worst 0.50 (ResNet-50)"]


def test_json_brings_results_back() -> None:
    results = [result(), FAILED]
    assert from_json(json.loads(json.dumps(to_json(results)))) == results


def test_without_a_ratio_there_is_no_mean() -> None:
    assert to_json([FAILED])["geometric_mean"] is None
    assert to_json([FAILED])["worst"] is None
    assert list(summary_lines([FAILED])) == []


def test_lines_stand_below_the_heading() -> None:
    line = step_line(result())
    assert line.split() == [
        *("ResNet-50", "8x3x224x224", "3.000", "2.000", "1.50"),
        *("72%", "103", "3", "110", "1.10"),
    ]
    assert line.index("1.50") + 4 == HEADING.index("ratio") + 5
    assert step_line(FAILED).endswith("out_of_memory: no")


def test_slower_calls_are_named_by_what_they_lose() -> None:
    assert result().slower_calls == [SLOWER]
    title, _, line = call_lines(result())
    assert title.startswith("ResNet-50")
    assert line.split()[:5] == ["20.00", "ms", "5.000", "15.000", "x2"]
    assert not list(call_lines(FAILED))


def test_calls_left_are_summed_over_networks() -> None:
    assert left_lines([result(), result("dcgan")]) == ["6 calls left to PyTorch: tiny"]


def test_settings_in_words() -> None:
    settings = Settings("unet", "bf16", autocast=True, compiled=True, channels_last=True)
    assert settings_title(settings) == (
        "autocast to bf16, channels last, compiled by Inductor, effort heuristic"
    )
    assert settings_title(Settings("unet", batch=1, small=True)) == (
        "f32, channels first, eager, effort heuristic, batch 1, small networks"
    )


def test_the_figure_names_each_network(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "steps.svg"
    save_training_figure(path, {"f32": [result()], "bf16": [result("dcgan"), FAILED]}, "a machine")
    drawn = path.read_text()
    for text in (">ResNet-50<", ">DCGAN<", ">1.50<", ">f32<", ">bf16<", ">geometric mean<"):
        assert text in drawn
    assert ">U-Net<" not in drawn
