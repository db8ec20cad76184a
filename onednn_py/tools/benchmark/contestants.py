"""Competitors as the benchmark meets them: processes, started here, and how each is asked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from onednn_py.errors import OneDNNPyError
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.native_programs import case_line, known_defect, native_program
from onednn_py.tools.verification.native_runner import native_tokens

from .processes import Worker, WorkerFailure, worker_environment
from .requests import encoded

__all__ = ["OTHERS", "Contestant", "Unavailable", "contestants"]

# Whom the package can be compared with.
OTHERS = ("native", "torch", "numpy")

# Seconds for one request. A plan that is measured takes many times a call.
TIMEOUT = 300.0

INSTALL_TORCH = "pip install torch (PyTorch for the CPU alone), or leave torch out of --compare"


class Unavailable(OneDNNPyError):  # noqa: N818 - as long as nobody asked for it, no error
    """A competitor cannot run here; the message says why and what helps."""


@dataclass(frozen=True)
class Contestant:
    """A competitor as the benchmark meets it: through the pipes of a process.

    Attributes
    ----------
    name : str
    worker : Worker
    version : str
        Name and version of what the process runs.
    request : callable
        Writes a case as the worker reads it.
    defect : callable
        Says why a case must not be run; empty if it may.
    """

    name: str
    worker: Worker
    version: str
    request: Callable[[Case], str] = encoded
    defect: Callable[[Case], str] = lambda case: ""


@contextmanager
def contestants(
    names: Sequence[str], *, optional: Sequence[str] = (), threads: int, effort: str
) -> Iterator[tuple[list[Contestant], list[str]]]:
    """Start the competitors' processes, and end them at the end of the ``with`` block.

    Parameters
    ----------
    names : sequence of {"ours", "plan", "native", "torch", "numpy"}
    optional : sequence of str
        Those of the names that may be missing.
    threads : int
    effort : {"heuristic", "measure"}
        Of the package's plans.

    Yields
    ------
    list of Contestant
        In the order of the names.
    list of str
        Why optional ones are missing.

    Raises
    ------
    Unavailable
        Where one that is not optional cannot run: no compiler, no headers, no PyTorch.
    """
    found, notes = [], []
    with ExitStack() as stack:
        for name in names:
            try:
                one = _contestant(name, threads, effort)
            except Unavailable as missing:
                if name not in optional:
                    raise
                notes.append(f"without {missing}")
                continue
            stack.callback(one.worker.close)
            found.append(one)
        yield found, notes


def _contestant(name: str, threads: int, effort: str) -> Contestant:
    if name == "native":
        try:
            command = [str(native_program("timing"))]
        except OneDNNPyError as error:
            raise Unavailable(f"native: {error}") from None
        worker = Worker(command, worker_environment(threads), TIMEOUT)
        return Contestant(name, worker, _started(name, worker), _as_native_reads, _defect)
    more = {"ONEDNN_PY_EFFORT": effort} if name in ("ours", "plan") else {}
    command = [sys.executable, "-m", "onednn_py.tools.benchmark", name]
    worker = Worker(command, worker_environment(threads, **more), TIMEOUT)
    return Contestant(name, worker, _started(name, worker))


def _started(name: str, worker: Worker) -> str:
    try:
        return worker.start()
    except WorkerFailure as failure:
        worker.close()
        remedy = f": {INSTALL_TORCH}" if failure.status == "missing" else ""
        raise Unavailable(f"{name}: {failure.detail or failure.status}{remedy}") from None


def _as_native_reads(case: Case) -> str:
    return case_line({**native_tokens(case), "dt": case.dtype})


def _defect(case: Case) -> str:
    return known_defect(case.problem())
