"""The program of a worker process: one runner, told what to do line by line.

The process reads requests from its standard input and answers each with one line of
tab-separated fields, as the C++ program ``timing`` does: ``ok`` and what was asked for, or
``failed``, a status and a message. Before the first request it writes ``ok`` and the version.

    prepare CASE      the case of the requests that follow, as JSON of `Case.to_json`; the answer
                      is the implementation's name
    run WARM COUNT    seconds of COUNT calls, after WARM that are not timed
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterable
from typing import TextIO

from onednn_py.errors import OneDNNPyError
from onednn_py.tools.benchdnn.case import Case

from .runners import Call, Runner, random_inputs
from .torch_runner import UnsupportedCaseError

__all__ = ["serve"]


def serve(runner: Runner, requests: Iterable[str], answers: TextIO) -> None:
    """Answer requests until there are no more."""

    def answer(*fields: str) -> None:
        # A message may hold line breaks and tabs; an answer is one line.
        print("\t".join(" ".join(field.split()) for field in fields), file=answers, flush=True)

    try:
        answer("ok", runner.version())
    except ImportError as error:
        return answer("failed", "missing", str(error))
    call: Call | None = None
    for request in requests:
        name, _, rest = request.strip().partition(" ")
        try:
            if name == "prepare":
                # Free the memory of the previous case first.
                call = None
                gc.collect()
                call, implementation = _prepare(runner, Case.from_json(json.loads(rest)))
                answer("ok", implementation)
            elif name == "run" and call is not None:
                warm, count = map(int, rest.split())
                answer("ok", " ".join(f"{seconds:.9g}" for seconds in _timed(call, warm, count)))
            else:
                answer("failed", "failed", f"no request: {request}")
        except UnsupportedCaseError as error:
            answer("failed", "unsupported", str(error))
        except MemoryError as error:
            answer("failed", "out_of_memory", str(error))
        except Exception as error:
            # PyTorch's errors are of many types; each is the outcome of this case alone.
            own = isinstance(error, OneDNNPyError)
            answer("failed", "failed", str(error) if own else f"{type(error).__name__}: {error}")


def _prepare(runner: Runner, case: Case) -> tuple[Call, str]:
    call, implementation = runner.prepare(case, random_inputs(case))
    call()
    return call, implementation


def _timed(call: Call, warm: int, count: int) -> list[float]:
    """Return the seconds of each call; its result is freed, untimed, before the next one."""
    for _ in range(warm):
        call()
    seconds = []
    gc.disable()
    try:
        for _ in range(count):
            start = time.perf_counter()
            result = call()
            seconds.append(time.perf_counter() - start)
            del result
    finally:
        gc.enable()
    return seconds
