"""Measures networks, each in processes of its own: one for times, one for each peak of memory."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from typing import Any

import onednn_py
from onednn_py.errors import LibraryNotFoundError, OneDNNPyError
from onednn_py.tools.benchmark.worker_process import (
    WorkerFailure,
    WorkerProcess,
    worker_environment,
)
from onednn_py.tools.extras import install_command

from .results import Call, StepResult
from .settings import Settings

__all__ = ["PyTorchMissingError", "TrainingBenchmark"]

# Seconds for one request: all steps of a network, compiled or with measured plans.
TIMEOUT = 3600.0


class PyTorchMissingError(OneDNNPyError, ImportError):
    """PyTorch is not installed, or too old; the message says what to do."""


class TrainingBenchmark:
    """Measures networks.

    Parameters
    ----------
    threads : int
    budget : float
        Seconds of timed steps for each network and side.
    memory : bool
        Whether the peaks of memory are measured as well.

    Raises
    ------
    PyTorchMissingError
    LibraryNotFoundError
        If there is no oneDNN library, which every network would need.
    """

    def __init__(self, *, threads: int, budget: float, memory: bool) -> None:
        if onednn_py.info()["library"] is None:
            raise LibraryNotFoundError(
                "no oneDNN library is loaded, which computes PyTorch's convolutions here: see"
                " `python -m onednn_py info`"
            )
        # As in a user's own training, whose threads are not bound.
        self._environment = worker_environment(threads, False)
        self._budget = budget
        self._memory = memory
        process = self._process()
        try:
            self.version = process.start()
        except WorkerFailure as failure:
            if failure.status == "missing":
                command = install_command("torch", "torch")
                raise PyTorchMissingError(f"{failure.detail}: {command}") from None
            raise
        finally:
            process.close()

    def measure(self, settings: Settings) -> StepResult:
        """Return the times of a network's steps; a failure is its outcome."""
        try:
            found = self._asked({"time": settings.to_json(), "budget": self._budget})
            calls = [Call(**call) for call in found.pop("calls")]
        except WorkerFailure as failure:
            return StepResult(settings, failure=str(failure))
        result = StepResult(settings, calls=calls, **found)
        if not self._memory:
            return result
        try:
            peaks = {
                side: self._asked({"memory": settings.to_json(), "side": side})["peak"]
                for side in ("plain", "enabled")
            }
        except WorkerFailure as failure:
            return dataclasses.replace(result, memory_failure=str(failure))
        return dataclasses.replace(result, peaks=peaks)

    def _asked(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of a fresh process."""
        process = self._process()
        try:
            answer: dict[str, Any] = json.loads(process.ask(json.dumps(request)))
        finally:
            process.close()
        return answer

    def _process(self) -> WorkerProcess:
        command = [sys.executable, "-m", "onednn_py.tools.benchmark.training"]
        return WorkerProcess(command, self._environment, TIMEOUT)
