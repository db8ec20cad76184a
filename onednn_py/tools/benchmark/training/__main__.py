"""A worker process that trains: ``python -m onednn_py.tools.benchmark.training``.

It reads requests from its standard input, lines of JSON, and answers each with one line as the
other workers do: ``ok`` and JSON, or ``failed``, a status and a message. Before the first request
it writes ``ok`` and PyTorch's version.

    {"time": SETTINGS, "budget": SECONDS}                  seconds of steps, and their calls
    {"memory": SETTINGS, "side": "plain" or "enabled"}     peak of the process in bytes
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Mapping
from typing import Any, TextIO

from onednn_py.tools.benchmark import torch_runner
from onednn_py.tools.benchmark.worker_requests import requests_from


def main() -> None:
    # Whatever a library prints goes to the standard error, not among the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        version = torch_runner.version()
        import onednn_py.torch  # noqa: F401 - PyTorch may be too old for it
    except ImportError as error:
        return _answer(answers, "failed", "missing", str(error))
    _answer(answers, "ok", version)
    for line in requests_from(sys.stdin):
        try:
            _answer(answers, "ok", json.dumps(_fulfilled(json.loads(line))))
        except MemoryError as error:
            _answer(answers, "failed", "out_of_memory", str(error))
        except Exception as error:
            # PyTorch's errors are of many types; each is the outcome of this network alone.
            _answer(answers, "failed", "failed", f"{type(error).__name__}: {error}"[:600])
    return None


def _fulfilled(request: Mapping[str, Any]) -> dict[str, Any]:
    from .calls import profile_calls
    from .memory import peak_memory
    from .settings import Settings
    from .step import Training
    from .timing import Sides, count_calls, time_steps

    settings = Settings.from_json(request["time" if "time" in request else "memory"])
    training, sides = Training(settings), Sides(settings.effort)
    # The command says what was left to PyTorch and why.
    warnings.simplefilter("ignore")
    if "memory" in request:
        return {"peak": peak_memory(training, sides, request["side"])}
    seconds = time_steps(training, sides, request["budget"])
    return {
        "shapes": training.shapes,
        "seconds": seconds,
        **count_calls(training, sides),
        **profile_calls(training, sides),
    }


def _answer(answers: TextIO, *fields: str) -> None:
    # A message may hold line breaks and tabs; an answer is one line.
    print("\t".join(" ".join(field.split()) for field in fields), file=answers, flush=True)


if __name__ == "__main__":
    main()
