"""Handlers that run between two lines of a thread, as those of signals do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from typing import Any

__all__ = ["every_interruption"]


def every_interruption(
    work: Callable[[], None], interrupt: Callable[[], None], files: Collection[str]
) -> int:
    """Run ``work`` again and again, interrupted before its first line, its second, and so on.

    Lines of ``files`` count. Returns after how many runs there was no further line to interrupt.
    """

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            lines += 1
            if lines == line:
                interrupt()
        return trace

    lines = line = 0
    while lines >= line:
        line, lines = line + 1, 0
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(None)
    return line - 1
