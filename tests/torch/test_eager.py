"""Modules as users have them: what PyTorch's own kernels give is given here."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

import onednn_py.torch
from tests.support.torch_cases import integers
from tests.support.torch_comparison import assert_equal, assert_same_form, assert_same_runs, counted
from tests.support.torch_models import gradients, small, step

pytestmark = pytest.mark.frameworks

# Of a small network's gradients, whose sums have up to some thousand terms in another order.
TOLERANCE = 1e-4

FORMATS = [torch.contiguous_format, torch.channels_last]
IMAGES = torch.randn(4, 3, 16, 12, generator=torch.Generator().manual_seed(0))

MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3, padding=1, groups=2), (2, 4, 9)),
    "Conv2d": (lambda: nn.Conv2d(4, 6, (3, 2), stride=2, padding=1), (2, 4, 9, 8)),
    "Conv3d": (lambda: nn.Conv3d(4, 6, 3, padding=(1, 0, 1), dilation=(1, 1, 2)), (2, 4, 5, 6, 7)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 6, 4, stride=2), (2, 4, 9)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, output_padding=1), (2, 4, 5, 6)),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(4, 6, 2, stride=2, bias=False), (1, 4, 3, 4, 2)),
    "circular": (lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"), (2, 4, 6, 7)),
    "reflect": (lambda: nn.Conv1d(4, 6, 5, padding=2, padding_mode="reflect"), (2, 4, 9)),
    "lazy": (lambda: nn.LazyConv2d(6, 3), (2, 4, 6, 7)),
    "unbatched": (lambda: nn.Conv2d(4, 6, 3), (4, 6, 7)),
}


def with_integers(module: nn.Module, src: torch.Tensor) -> nn.Module:
    module(src)  # makes the parameters of a lazy module
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(integers(*parameter.shape, seed=number))
    return module


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    make, shape = MODULES[name]
    src = integers(*shape, seed=9).requires_grad_()
    module = with_integers(make(), src.detach())

    def run() -> list[torch.Tensor | None]:
        src.grad = None
        module.zero_grad()
        dst = module(src)
        dst.backward(integers(*dst.shape, seed=5))
        return [dst, src.grad, *(parameter.grad for parameter in module.parameters())]

    calls = assert_same_runs(run)
    assert set(calls.taken) | set(calls.left) == {"convolution", "convolution_backward"}


def test_the_size_of_a_transposed_result() -> None:
    module, src = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1), integers(1, 4, 5, 6)
    with_integers(module, src)
    assert_same_runs(lambda: [module(src, output_size=(10, 11))])


@pytest.mark.parametrize("memory_format", FORMATS)
def test_training(memory_format: torch.memory_format) -> None:
    src = IMAGES.to(memory_format=memory_format)
    calls = assert_same_runs(lambda: step(small(memory_format), src), TOLERANCE)
    assert calls.calls == 3 * 5 * 2


@pytest.mark.parametrize("memory_format", FORMATS)
def test_the_gradient_of_sum_has_strides_of_zero(memory_format: torch.memory_format) -> None:
    module = nn.Conv2d(3, 8, 3).to(memory_format=memory_format)
    src = IMAGES.clone(memory_format=memory_format).requires_grad_()

    def run() -> list[torch.Tensor | None]:
        src.grad = None
        module.zero_grad()
        module(src).sum().backward()
        return [src.grad, module.weight.grad, module.bias.grad]

    assert_same_runs(run, TOLERANCE)


def test_frozen_parameters_and_images_that_need_no_gradient() -> None:
    for frozen in ("weight", "bias"):
        module = nn.Conv2d(3, 8, 3)
        getattr(module, frozen).requires_grad_(False)

        def run(module: nn.Module = module) -> list[torch.Tensor | None]:
            module.zero_grad()
            module(IMAGES).square().sum().backward()
            return [parameter.grad for parameter in module.parameters()]

        assert_same_runs(run, TOLERANCE)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(mode: Callable[[], AbstractContextManager[Any]]) -> None:
    module = small().eval()

    def run() -> list[torch.Tensor]:
        with mode():
            dst = module(IMAGES)
        assert not dst.requires_grad
        assert dst.is_inference() == (mode is torch.inference_mode)
        return [dst]

    calls = assert_same_runs(run, TOLERANCE)
    assert calls.calls == 5


def test_parameters_made_in_inference_mode() -> None:
    with torch.inference_mode():
        module = small().eval()

        def run() -> list[torch.Tensor]:
            return [module(IMAGES)]

        assert_same_runs(run, TOLERANCE)


def test_a_graph_is_kept_and_walked_twice() -> None:
    module = small()
    loss_of = nn.MSELoss()

    def run() -> list[torch.Tensor | None]:
        module.zero_grad()
        loss = loss_of(module(IMAGES), IMAGES)
        loss.backward(retain_graph=True)
        loss.backward()
        return [parameter.grad for parameter in module.parameters()]

    assert_same_runs(run, TOLERANCE)


def test_a_graph_walked_twice_without_being_kept_is_an_error() -> None:
    with onednn_py.torch.enabled():
        loss = small()(IMAGES).sum()
        loss.backward()
        with pytest.raises(RuntimeError, match="a second time"):
            loss.backward()


def test_an_input_written_after_the_forward_pass_is_an_error() -> None:
    with onednn_py.torch.enabled():
        src = IMAGES.clone()
        loss = nn.Conv2d(3, 4, 3)(src).sum()
        src.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_hooks_see_the_same_tensors() -> None:
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.ConvTranspose2d(8, 3, 3))

    def run() -> list[torch.Tensor]:
        seen: list[torch.Tensor] = []
        handles = []
        for layer in module:
            handles.append(layer.register_forward_hook(lambda m, args, dst: seen.append(dst)))
            handles.append(
                layer.register_full_backward_hook(lambda m, given, made: seen.append(made[0]))
            )
        weight = module[0].weight
        handles.append(weight.register_hook(lambda grad: seen.append(grad) or 2 * grad))
        module.zero_grad()
        module(IMAGES.clone().requires_grad_()).square().mean().backward()
        for handle in handles:
            handle.remove()
        return [*(tensor for tensor in seen if tensor is not None), weight.grad]

    assert_same_runs(run, TOLERANCE)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoints(use_reentrant: bool) -> None:
    module = small()
    src = IMAGES.clone().requires_grad_()

    def run() -> list[torch.Tensor]:
        return gradients(
            lambda images: checkpoint(module, images, use_reentrant=use_reentrant), src, module
        )

    calls = assert_same_runs(run, TOLERANCE)
    # The forward pass is repeated, up to the last tensor that is needed.
    assert 5 * 3 - 1 <= calls.calls <= 5 * 3


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_of_modules(copied: Callable[[nn.Module], nn.Module]) -> None:
    with onednn_py.torch.enabled():
        original = small()
        expected = gradients(original, IMAGES, original)
        other = copied(original)
        assert_equal(gradients(other, IMAGES, other), expected)
    theirs = small()
    theirs.load_state_dict(other.state_dict())
    for ours, right in zip(expected, gradients(theirs, IMAGES, theirs), strict=True):
        torch.testing.assert_close(ours, right, rtol=TOLERANCE, atol=TOLERANCE)


def test_results_are_pickled_and_copied() -> None:
    module = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
    with onednn_py.torch.enabled(), torch.no_grad():
        dst = module(IMAGES)
    for other in (copy.deepcopy(dst), pickle.loads(pickle.dumps(dst)), dst.clone()):
        assert_same_form(other, dst)
        assert_equal(other, dst)


@pytest.mark.parametrize(
    ("src", "weights"),
    [
        ((0, 3, 8, 8), (4, 3, 3, 3)),
        ((2, 0, 8, 8), (4, 0, 3, 3)),
        ((0, 3, 8), (4, 3, 3)),
        ((0, 3, 5, 6, 7), (4, 3, 3, 3, 3)),
        ((2, 3, 8, 8), (0, 3, 3, 3)),
    ],
    ids=str,
)
def test_empty_tensors(src: tuple[int, ...], weights: tuple[int, ...]) -> None:
    def run() -> list[torch.Tensor]:
        leaves = [torch.ones(src).requires_grad_(), torch.ones(weights).requires_grad_()]
        function = getattr(nn.functional, f"conv{len(src) - 2}d")
        try:
            dst = function(*leaves)
        except RuntimeError as error:
            return [torch.tensor(list(str(error).encode()))]
        try:
            return [dst, *torch.autograd.grad(dst.sum(), leaves)]
        except RuntimeError as error:
            return [dst, torch.tensor(list(str(error).encode()))]

    assert_same_runs(run, are_left=True)


def test_both_tensors_are_one() -> None:
    square = integers(3, 3, 4, 4).requires_grad_()

    def run() -> list[torch.Tensor]:
        dst = nn.functional.conv2d(square, square, padding=2)
        return [dst, *torch.autograd.grad(dst.sum(), square)]

    assert_same_runs(run)


def test_a_result_is_written_in_place_by_an_activation() -> None:
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(inplace=True), nn.Conv2d(8, 3, 3))
    assert_same_runs(lambda: gradients(module, IMAGES, module), TOLERANCE)


def test_one_tensor_of_a_result_outlives_the_others() -> None:
    with onednn_py.torch.enabled():
        module = nn.Conv2d(3, 8, 3)
        src = IMAGES.clone().requires_grad_()
        with counted() as calls:
            (kept,) = torch.autograd.grad(module(src).sum(), src)
            right = kept.clone()
            for _ in range(5):
                torch.autograd.grad(module(src + 1).square().sum(), src)
        assert calls.calls == 12
        assert torch.equal(kept, right)


class Doubles(TorchFunctionMode):
    """Makes float64 of all that the program's functions return, and notes their names."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.seen.append(function.__name__)
        found = function(*args, **(kwargs or {}))
        return found.double() if type(found) is torch.Tensor else found


def test_modes_do_not_see_how_a_call_of_compiled_code_is_computed() -> None:
    """PyTorch sets modes aside where Python calls an operation, but not where C++ does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        module = torch.jit.script(torch.nn.Conv2d(16, 8, 3))
    src = integers(4, 16, 20, 20)
    expected = module(src)
    with Doubles() as alone:
        module(src)
    with onednn_py.torch.enabled(), counted() as calls:
        for _ in range(2):  # decided, and known
            with Doubles() as mode:
                found = module(src)
            assert found.dtype is torch.float32
            torch.testing.assert_close(found, expected)
            assert mode.seen == alone.seen
    assert calls.taken == {"convolution": 2}
