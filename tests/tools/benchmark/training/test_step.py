"""Small networks of every kind train alike with PyTorch's own convolutions and with ours."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

import onednn_py.torch
from onednn_py.tools.benchmark.training.calls import profile_calls
from onednn_py.tools.benchmark.training.networks import NETWORKS
from onednn_py.tools.benchmark.training.settings import Settings
from onednn_py.tools.benchmark.training.step import Training
from onednn_py.tools.benchmark.training.timing import Sides, count_calls, time_steps

pytestmark = pytest.mark.frameworks

STEPS = 10

# Largest relative difference of a loss within ten steps: the samples and most layers are small, so
# that few sums are rounded otherwise in another order; a rounding of a gradient changes a parameter
# by the rate's thousandth of it. Four to eight units in the last place of the type (2**-23, 2**-7,
# 2**-10) are less than what gradients make of the losses that are wrong by a tenth.
TOLERANCES = {"f32": 2.0**-20, "bf16": 2.0**-8, "f16": 2.0**-8}


@pytest.fixture(autouse=True)
def _ours_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call is left to PyTorch: neither for an error of ours, nor because it is small."""
    monkeypatch.setenv("ONEDNN_PY_TORCH_RAISE", "1")
    monkeypatch.setattr(onednn_py.torch.kernels, "reason_to_leave", lambda *arguments: "")


def losses(
    settings: Settings, *, enabled: bool, steps: int = STEPS, factor: float = 1.0
) -> torch.Tensor:
    """Return the losses of each step; the factor is that of the gradients of weights."""
    training = Training(settings)
    for module in convolutions(training):
        module.weight.register_hook(lambda gradient: gradient * factor)
    with onednn_py.torch.enabled() if enabled else nullcontext():
        return torch.tensor([training.step() for _ in range(steps)])


def convolutions(training: Training) -> list[torch.nn.Module]:
    return [
        module
        for whole in training._modules
        for module in whole.modules()
        if isinstance(module, torch.nn.modules.conv._ConvNd)
    ]


def taken() -> int:
    return sum(onednn_py.torch.statistics().taken.values())


def assert_equal_losses(settings: Settings, *, steps: int = STEPS, factor: float = 1.0) -> None:
    expected = losses(settings, enabled=False, steps=steps)
    before = taken()
    found = losses(settings, enabled=True, steps=steps, factor=factor)
    assert taken() - before >= steps * 2, "PyTorch ran its own convolutions"
    assert torch.isfinite(expected).all()
    tolerance = TOLERANCES[settings.dtype]
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("network", ["resnet50", "convnext", "dcgan"])
def test_wrong_gradients_are_found(network: str, dtype: str) -> None:
    with pytest.raises(AssertionError, match="not close"):
        assert_equal_losses(Settings(network, dtype, small=True), factor=1.1)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("network", NETWORKS)
def test_losses_of_ten_steps_are_equal(network: str, dtype: str) -> None:
    assert_equal_losses(Settings(network, dtype, small=True))


@pytest.mark.parametrize("network", [name for name in NETWORKS if name != "wavenet"])
def test_channels_last(network: str) -> None:
    assert_equal_losses(Settings(network, channels_last=True, small=True), steps=3)


def test_autocast() -> None:
    assert_equal_losses(Settings("unet", "bf16", autocast=True, small=True))


# torch.compile imports parts of PyTorch that warn of their own age.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("network", ["unet", "dcgan"])
def test_compiled_by_inductor(network: str) -> None:
    assert_equal_losses(Settings(network, compiled=True, small=True), steps=3)


def test_steps_learn() -> None:
    found = losses(Settings("convnext", small=True), enabled=True)
    assert (found[1:] < found[:-1]).all()


def test_equal_settings_begin_alike() -> None:
    first = losses(Settings("dcgan", small=True), enabled=False, steps=2)
    assert torch.equal(first, losses(Settings("dcgan", small=True), enabled=False, steps=2))
    assert first.shape == (2, 2)


def test_the_minibatch_can_be_chosen() -> None:
    assert Training(Settings("wavenet", batch=3, small=True)).shapes == ["3x1x64"]


def test_sides_alternate_and_are_counted() -> None:
    training, sides = Training(Settings("unet", small=True)), Sides("heuristic")
    seconds = time_steps(training, sides, budget=0.01)
    assert all(len(times) >= 3 and min(times) > 0 for times in seconds.values())
    counts = count_calls(training, sides)
    # Each layer runs forward and backward once.
    assert sum(counts["taken"].values()) == 2 * len(convolutions(training))
    assert not counts["left"]


def test_the_profiler_sees_each_convolution() -> None:
    training = Training(Settings("wavenet", small=True))
    found = profile_calls(training, Sides("heuristic"))
    assert 0 < found["share"] < 1
    by_operation = {
        name: sum(call["count"] for call in found["calls"] if call["operation"] == name)
        for name in ("convolution", "convolution_backward")
    }
    # A first layer, four of three convolutions, and the last two; what the last layer hands on is
    # not used, so its convolution has no gradient.
    assert by_operation == {"convolution": 15, "convolution_backward": 14}
    for call in found["calls"]:
        assert min(call["seconds"].values()) > 0
