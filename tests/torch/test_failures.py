"""Errors that come up while a kernel runs, but are the program's: timeouts and the like."""

from __future__ import annotations

import bdb
import ctypes
import multiprocessing
import os
import queue
import signal
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock, patch

import pytest
import torch

import onednn_py.torch
from onednn_py.system.memory_pool import SMALLEST_LEASE, pool
from onednn_py.torch import bound_tensors, enabled, registration
from onednn_py.torch.failures import RAISE, is_of_program
from tests.support.torch_comparison import counted

pytestmark = pytest.mark.frameworks

SRC, WEIGHTS = torch.ones(2, 8, 12, 12), torch.ones(6, 8, 3, 3)

# Seconds after which a lost exception has failed a test.
PATIENCE = 5.0


class LateError(Exception):
    """What a program raises where it has waited long enough."""


def raise_late(*_: Any) -> None:
    raise LateError


def convolve_for(seconds: float, src: torch.Tensor = SRC, weights: torch.Tensor = WEIGHTS) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        torch.conv2d(src, weights)


@pytest.mark.parametrize("effort", ["heuristic", "measure"])
def test_a_signal_reaches_the_program(effort: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RAISE)
    before = signal.signal(signal.SIGALRM, raise_late)
    try:
        with enabled(effort=effort), counted() as calls:
            torch.conv2d(SRC, WEIGHTS)
            for _ in range(10):
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                with pytest.raises(LateError):
                    convolve_for(PATIENCE)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not [reason for by in calls.left.values() for reason in by if "error" in reason]


def test_an_error_for_another_thread_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RAISE)
    found: list[str] = []

    def run() -> None:
        for _ in range(10):
            try:
                convolve_for(PATIENCE)
                found.append("lost")
            except LateError:
                found.append("raised")

    with enabled():
        torch.conv2d(SRC, WEIGHTS)
        worker = threading.Thread(target=run)
        worker.start()
        ident = ctypes.c_ulong(worker.ident or 0)
        while worker.is_alive():
            number = len(found)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(LateError))
            while worker.is_alive() and len(found) == number:
                time.sleep(0.001)
            time.sleep(0.01)
        worker.join()
    assert found == ["raised"] * 10


@pytest.mark.parametrize(
    "error",
    [LateError(), TimeoutError(), queue.Empty(), multiprocessing.TimeoutError(), bdb.BdbQuit()],
    ids=repr,
)
def test_errors_of_unknown_classes_are_raised(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(RAISE)
    monkeypatch.setattr(bound_tensors.BoundTensors, "__call__", Mock(side_effect=error))
    with enabled(), counted() as calls, pytest.raises(type(error)):
        torch.conv2d(SRC, WEIGHTS)
    assert not calls.calls


def test_a_timeout_in_pytorchs_turn_does_not_end_the_comparison() -> None:
    late = Mock(call_boxed=Mock(side_effect=LateError))
    with enabled(effort="measure"):
        torch.conv2d(SRC, WEIGHTS)
        originals = dict.fromkeys(registration._kernels.originals, late)
        with (
            patch.object(registration._kernels, "originals", originals),
            pytest.raises(LateError),
        ):
            torch.conv2d(SRC, WEIGHTS)
        with counted() as calls:
            torch.conv2d(SRC, WEIGHTS)
    assert calls.left["convolution"] == {"timed for comparison": 1}


class Items(torch.utils.data.Dataset[int]):
    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> int:
        return index


def test_a_killed_worker_of_a_data_loader_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal's handler of PyTorch raises it between any two instructions."""
    monkeypatch.delenv(RAISE)
    large = torch.ones(8, 64, 56, 56), torch.ones(64, 64, 3, 3)
    # Not forked, since tests before this one may have started threads of JAX.
    loader = torch.utils.data.DataLoader(Items(), num_workers=1, multiprocessing_context="spawn")
    batches: Any = iter(loader)
    next(batches)
    with enabled():
        torch.conv2d(*large)
        os.kill(batches._workers[0].pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="is killed by signal"):
            convolve_for(PATIENCE, *large)


def code_of(module: str) -> Callable[[], None]:
    """Return a function of a module of this name; it raises an error that Python has, too."""
    names: dict[str, Any] = {"__name__": module}
    exec("def function(*_):\n    raise RuntimeError('from elsewhere')", names)
    return names["function"]


@pytest.mark.parametrize(
    "module",
    ["torch.utils.data._utils.signal_handling", "torch.distributed.elastic", "bdb", "asyncio.base"],
)
def test_handlers_of_others(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RAISE)
    monkeypatch.setattr(bound_tensors.BoundTensors, "__call__", Mock(side_effect=code_of(module)))
    with enabled(), pytest.raises(RuntimeError, match="from elsewhere"):
        torch.conv2d(SRC, WEIGHTS)


@pytest.mark.parametrize("module", ["torch", "torch._ops", "torch.backends.mkldnn", "threading"])
def test_code_that_kernels_enter(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RAISE)
    monkeypatch.setattr(bound_tensors.BoundTensors, "__call__", Mock(side_effect=code_of(module)))
    with enabled(), counted() as calls, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.conv2d(SRC, WEIGHTS)
    assert calls.left["convolution"] == {"an error of onednn_py": 1}


NO_MEMORY = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError(), "not enough memory"),
        (NO_MEMORY, "not enough memory"),
        (RecursionError(), "too deep in calls"),
    ],
)
def test_want_of_memory_and_stack_is_no_defect(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not raised, though errors of the package are in these tests, and not warned of."""
    monkeypatch.setattr(bound_tensors.BoundTensors, "__call__", Mock(side_effect=error))
    with enabled(), counted() as calls, warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(torch.conv2d(SRC, WEIGHTS)[0, 0, 0, 0], torch.tensor(72.0))
    assert calls.left["convolution"] == {reason: 1}


def test_pytorch_gets_the_memory_that_is_idle_here() -> None:
    def idle() -> None:
        pool.release(pool.acquire(SMALLEST_LEASE))

    def fails(*_: Any) -> Any:
        had_idle.append(pool.idle_bytes > 0)
        raise NO_MEMORY

    had_idle: list[bool] = []
    short = Mock(call_boxed=Mock(side_effect=fails))
    src = SRC.double()  # left to PyTorch
    with enabled():
        originals = {**registration._kernels.originals, "convolution": short}
        with patch.object(registration._kernels, "originals", originals):
            pool.clear()
            with pytest.raises(RuntimeError, match="DefaultCPUAllocator"):
                torch.conv2d(src, WEIGHTS.double())
            idle()
            with pytest.raises(RuntimeError, match="DefaultCPUAllocator"):
                torch.conv2d(src, WEIGHTS.double())
    assert had_idle == [False, True, False]


def test_code_of_others_is_known_by_its_frames() -> None:
    def raised(function: Any) -> Exception:
        try:
            function()
        except Exception as error:
            # The frames of this module are left out, as a kernel's caller is.
            trace = error.__traceback__
            return error.with_traceback(trace and trace.tb_next)
        raise AssertionError("nothing was raised")

    def own() -> None:
        raise RuntimeError

    assert is_of_program(raised(own))
    assert not is_of_program(raised(Mock(side_effect=RuntimeError)))
    assert not is_of_program(raised(Mock(side_effect=onednn_py.OneDNNPyError)))
    assert is_of_program(raised(Mock(side_effect=LateError)))
