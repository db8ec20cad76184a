"""The competitors of a benchmark: each a worker process, started here, and how to ask it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from onednn_py.errors import OneDNNPyError
from onednn_py.testing.runners import native_defect, native_tokens
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.native_programs import case_line, native_program

from .worker_process import WorkerFailure, WorkerProcess, worker_environment

__all__ = ["OTHERS", "Competitor", "CompetitorUnavailableError", "started_competitors"]

# What the package can be compared with.
OTHERS = ("native", "torch", "numpy")

# Seconds for one request. Measuring a plan takes many times a call.
TIMEOUT = 300.0

INSTALL_TORCH = "pip install torch (PyTorch for the CPU alone), or leave torch out of --compare"


class CompetitorUnavailableError(OneDNNPyError):
    """A competitor cannot run here; the message says why and what helps."""


@dataclass(frozen=True)
class Competitor:
    """A worker process that takes part in a benchmark.

    Attributes
    ----------
    version : str
        Name and version of what the process runs.
    request : callable
        Writes a case as the process reads it.
    defect : callable
        Says why a case must not be run; empty if it may.
    """

    name: str
    process: WorkerProcess
    version: str
    request: Callable[[Case], str] = lambda case: json.dumps(case.to_json())
    defect: Callable[[Case], str] = lambda case: ""


@contextmanager
def started_competitors(
    names: Sequence[str], *, optional: Sequence[str] = (), threads: int, effort: str
) -> Iterator[tuple[list[Competitor], list[str]]]:
    """Start the competitors' processes, and end them at the end of the ``with`` block.

    Yields
    ------
    list of Competitor
        In the order of the names ("ours", "plan", "native", "torch", "numpy").
    list of str
        Why competitors are missing that are optional.

    Raises
    ------
    CompetitorUnavailableError
        Where a required competitor cannot run: no compiler, no headers, no PyTorch.
    """
    competitors, missing = [], []
    with ExitStack() as stack:
        for name in names:
            try:
                competitor = _start(name, threads, effort)
            except CompetitorUnavailableError as error:
                if name not in optional:
                    raise
                missing.append(f"without {error}")
            else:
                stack.callback(competitor.process.close)
                competitors.append(competitor)
        yield competitors, missing


def _start(name: str, threads: int, effort: str) -> Competitor:
    if name == "native":
        try:
            command = [str(native_program("timing"))]
        except OneDNNPyError as error:
            raise CompetitorUnavailableError(f"native: {error}") from None
    else:
        command = [sys.executable, "-m", "onednn_py.tools.benchmark", name]
    variables = {"ONEDNN_PY_EFFORT": effort} if name in ("ours", "plan") else {}
    process = WorkerProcess(command, worker_environment(threads, **variables), TIMEOUT)
    try:
        version = process.start()
    except WorkerFailure as failure:
        process.close()
        remedy = f": {INSTALL_TORCH}" if failure.status == "missing" else ""
        reason = failure.detail or failure.status
        raise CompetitorUnavailableError(f"{name}: {reason}{remedy}") from None
    if name == "native":
        return Competitor(name, process, version, _native_request, native_defect)
    return Competitor(name, process, version)


def _native_request(case: Case) -> str:
    return case_line({**native_tokens(case), "dt": case.dtype})
