"""Many threads at once, and the kernels put in place while others compute."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest
import torch
from torch import nn

import onednn_py.torch
from tests.support.torch_cases import integers
from tests.support.torch_comparison import assert_equal, counted
from tests.support.torch_models import gradients, small
from tests.support.torch_programs import run_program

pytestmark = pytest.mark.frameworks

F = torch.nn.functional

# Seconds: a thread that needs longer hangs.
PATIENCE = 60


def in_threads(run: Callable[[int], object], count: int = 8) -> None:
    """Call ``run`` in threads that start together; an error or a hang fails the test."""
    start = threading.Barrier(count, timeout=PATIENCE)
    futures = [Future[object]() for _ in range(count)]

    def begin(number: int) -> None:
        try:
            start.wait()
            futures[number].set_result(run(number))
        except BaseException as error:
            futures[number].set_exception(error)

    # An executor would wait for threads that hang, at its own end and at that of the process.
    for number in range(count):
        threading.Thread(target=begin, args=(number,), daemon=True).start()
    for future in futures:
        future.result(timeout=PATIENCE)


def convolve(number: int) -> list[torch.Tensor]:
    """Return dst and gradients of a problem of this number's own."""
    leaves = [
        integers(2, 3, 6 + number % 5, 7, seed=number).requires_grad_(),
        integers(4 + number % 3, 3, 3, 3, seed=number + 1).requires_grad_(),
    ]
    dst = F.conv2d(*leaves, padding=number % 2)
    return [dst, *torch.autograd.grad(dst, leaves, integers(*dst.shape, seed=3))]


def test_threads_compute_problems_of_their_own() -> None:
    expected = [convolve(number) for number in range(30)]

    def run(thread: int) -> None:
        for number in range(30):
            which = (7 * thread + number) % 30
            assert_equal(convolve(which), expected[which])

    with onednn_py.torch.enabled(), counted() as calls:
        in_threads(run)
    assert calls.calls == 8 * 30 * 2


def test_threads_share_a_module() -> None:
    src = torch.randn(4, 3, 16, 12)
    module = small().eval()
    with torch.no_grad():
        expected = module(src)

    def run(thread: int) -> None:
        with torch.no_grad():
            for _ in range(10):
                torch.testing.assert_close(module(src), expected, rtol=1e-4, atol=1e-4)

    with onednn_py.torch.enabled(), counted() as calls:
        in_threads(run)
    assert calls.calls == 8 * 10 * 5


def test_threads_of_the_backward_pass() -> None:
    """Gradients of several graphs are computed at once."""
    src = torch.randn(4, 3, 16, 12)
    modules = [small() for _ in range(4)]
    expected = gradients(modules[0], src, modules[0])

    def run(thread: int) -> None:
        own = modules[thread]
        for _ in range(5):
            for found, right in zip(gradients(own, src, own), expected, strict=True):
                torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-4)

    with onednn_py.torch.enabled():
        in_threads(run, 4)


@pytest.mark.filterwarnings("ignore:.*jit.*:DeprecationWarning")
def test_parallel_parts_of_a_script() -> None:
    """`torch.jit.fork` runs parts on PyTorch's own threads, which Python has not made."""

    class Forked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, src: torch.Tensor) -> torch.Tensor:
            one = torch.jit.fork(self.conv, src)
            other = torch.jit.fork(self.conv, src + 1)
            return torch.jit.wait(one) + torch.jit.wait(other)

    scripted = torch.jit.script(Forked())
    src = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        expected = scripted(src)
        with onednn_py.torch.enabled():
            for _ in range(20):
                torch.testing.assert_close(scripted(src), expected, rtol=1e-4, atol=1e-4)


def test_the_kernels_come_and_go_while_others_compute() -> None:
    """In another process, which a kernel that is freed while it runs would end."""
    found = run_program("switching", "1500")
    assert found["wrong"] == []
    assert found["computed"] > 0


def test_threads_enable_and_disable_at_once() -> None:
    def run(thread: int) -> None:
        for number in range(200):
            if number % 2:
                onednn_py.torch.disable()
            else:
                onednn_py.torch.enable(forward=bool(thread % 2))

    in_threads(run)
    onednn_py.torch.disable()
    expected = convolve(0)
    with onednn_py.torch.enabled(), counted() as calls:
        assert_equal(convolve(0), expected)
    assert calls.calls == 2
    with counted() as calls:
        convolve(0)
    assert not calls.calls


def test_settings_of_a_thread_are_its_own() -> None:
    """`use_backend` of a user's thread does not decide what PyTorch computes on."""
    expected = convolve(1)
    with onednn_py.torch.enabled(), onednn_py.use_backend("numpy"), counted() as calls:
        assert_equal(convolve(1), expected)
    assert calls.calls == 2
