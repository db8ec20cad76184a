"""What runs in a worker process: one competitor, told what to do line by line.

``python -m onednn_py.tools.benchmark COMPETITOR`` reads requests from its standard input and
answers each with one line of tab-separated fields, as the C++ program ``timing`` does: ``ok`` and
what was asked for, or ``failed``, a status and a message. Before the first request it says
``ok`` and the competitor's version.

    prepare CASE      the case of the requests that follow, as `encoded`; its implementation's name
    run WARM COUNT    seconds of COUNT calls, after WARM that are not timed
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from typing import TextIO

from onednn_py.errors import OneDNNPyError
from onednn_py.tools.benchdnn.case import Case

from .competitors import Competitor, random_inputs
from .requests import Unsupported, decoded

__all__ = ["serve"]

Call = Callable[[], object]


def serve(competitor: Competitor, requests: Iterable[str], answers: TextIO) -> None:
    """Answer requests until there are no more."""

    def answer(*fields: str) -> None:
        # Whatever a message holds, an answer is one line.
        print("\t".join(" ".join(field.split()) for field in fields), file=answers, flush=True)

    try:
        answer("ok", competitor.version())
    except ImportError as error:
        return answer("failed", "missing", str(error))
    call: Call | None = None
    for request in requests:
        name, _, rest = request.strip().partition(" ")
        try:
            if name == "prepare":
                # The memory of the case before is free for this one.
                call = None
                gc.collect()
                call, implementation = _prepared(competitor, decoded(rest))
                answer("ok", implementation)
            elif name == "run" and call is not None:
                warm, count = map(int, rest.split())
                answer("ok", " ".join(f"{seconds:.9g}" for seconds in _timed(call, warm, count)))
            else:
                answer("failed", "failed", f"no request: {request}")
        except Unsupported as error:
            answer("failed", "unsupported", str(error))
        except MemoryError as error:
            answer("failed", "out_of_memory", str(error))
        except Exception as error:
            # PyTorch's errors are of many types; all of them are this case's outcome.
            own = isinstance(error, OneDNNPyError)
            answer("failed", "failed", str(error) if own else f"{type(error).__name__}: {error}")


def _prepared(competitor: Competitor, case: Case) -> tuple[Call, str]:
    call, implementation = competitor.prepared(case, random_inputs(case))
    call()
    return call, implementation()


def _timed(call: Call, warm: int, count: int) -> list[float]:
    """Return the seconds of each call; what it returned is freed before the next, untimed."""
    for _ in range(warm):
        call()
    found = []
    collected = gc.isenabled()
    gc.disable()
    for _ in range(count):
        start = time.perf_counter()
        result = call()
        found.append(time.perf_counter() - start)
        del result
    if collected:
        gc.enable()
    return found
