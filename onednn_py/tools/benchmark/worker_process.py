"""Drives a worker process: sends requests, reads answers, starts it again after it died."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

from onednn_py.errors import OneDNNPyError

__all__ = ["WorkerFailure", "WorkerProcess", "worker_environment"]

# Seconds that a worker has to end by itself once its input is closed.
PATIENCE = 5.0


class WorkerFailure(OneDNNPyError):  # noqa: N818 - most are an outcome rather than an error
    """A request was not fulfilled.

    Attributes
    ----------
    status : str
        ``"died"``, ``"timed out"``, or what the worker answered: ``"unimplemented"``,
        ``"unsupported"``, ``"failed"``, ``"missing"`` or another status of oneDNN.
    detail : str
        The reason, empty if it is unknown.
    """

    def __init__(self, status: str, detail: str) -> None:
        super().__init__(f"{status}: {detail}" if detail else status)
        self.status = status
        self.detail = detail


class WorkerProcess:
    """A process that answers each line with a line; it starts with the first request.

    After a failure that ended the process, the next request starts another process.

    Parameters
    ----------
    timeout : float
        Seconds for a request.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._timeout = timeout
        self._process: subprocess.Popen[str] | None = None
        # Of the process that runs.
        self._lines: queue.SimpleQueue[str | None]
        self._errors: IO[str]

    def start(self) -> str:
        """Start the process unless it runs; return its greeting, empty if it ran already."""
        if self._process is not None:
            return ""
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - see close
        try:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                encoding="utf-8",
                # An interrupt goes to the parent alone, which ends its workers.
                start_new_session=True,
            )
        except OSError as error:
            self._errors.close()
            raise WorkerFailure("failed", f"{self._command[0]} cannot be run: {error}") from None
        # A new queue: no line of the previous process is taken for an answer.
        self._lines = queue.SimpleQueue()
        reader = threading.Thread(
            target=_read, args=(self._process.stdout, self._lines), daemon=True
        )
        reader.start()
        return self._answer()

    def ask(self, request: str) -> str:
        """Return the answer to a request.

        Raises
        ------
        WorkerFailure
            Where the process died, hangs or reports a failure.
        """
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        # A dead process takes no request, and its output has ended.
        with suppress(OSError):
            self._process.stdin.write(request + "\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        try:
            line = self._lines.get(timeout=self._timeout)
        except queue.Empty:
            self.close(0)
            raise WorkerFailure("timed out", f"after {self._timeout:g} s") from None
        if line is None:
            raise WorkerFailure("died", self.close())
        status, *fields = line.rstrip("\n").split("\t")
        if status == "ok":
            return "\t".join(fields)
        if status != "failed" or not fields:
            self.close(0)
            raise WorkerFailure("failed", f"no answer: {line.strip()}")
        raise WorkerFailure(fields[0], " ".join(fields[1:]))

    def close(self, patience: float = PATIENCE) -> str:
        """End the process, if one runs; return how it ended, and its last error line."""
        process, self._process = self._process, None
        if process is None:
            return ""
        assert process.stdin is not None
        # Closing writes what is buffered, which a dead process does not take.
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with self._errors:
            self._errors.seek(0)
            lines = [line.strip() for line in self._errors if line.strip()]
        return "; ".join([_ending(process.returncode), *lines[-1:]])


def _read(output: IO[str], lines: queue.SimpleQueue[str | None]) -> None:
    """Put all lines into the queue and, at the end, None."""
    with output:
        for line in output:
            lines.put(line)
    lines.put(None)


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"


def worker_environment(threads: int, bound: bool = True, /, **more: str) -> dict[str, str]:
    """Return this process's environment, with the same number of threads for every library.

    With ``bound``, OpenMP binds threads to cores (``OMP_PROC_BIND``), unless the environment says
    otherwise. Further variables are keyword arguments.
    """
    environment = dict(os.environ)
    # Verbose output takes time of its own.
    for name in ("ONEDNN_VERBOSE", "DNNL_VERBOSE"):
        environment.pop(name, None)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        environment[name] = str(threads)
    # Unbound, a waking thread may land on the core of the thread that woke it, where each waits
    # for the other for a time slice of the system, 4 ms, at every barrier.
    if bound:
        environment.setdefault("OMP_PROC_BIND", "true")
    return {**environment, **more}
