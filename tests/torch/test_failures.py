"""Errors that come up while a kernel runs, but are the program's: timeouts and the like."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from typing import Any
from unittest.mock import Mock, patch

import pytest
import torch

import onednn_py.torch
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


def convolve_for(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        torch.conv2d(SRC, WEIGHTS)


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


@pytest.mark.parametrize("error", [LateError(), TimeoutError()])
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
