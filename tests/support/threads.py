"""Work on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["on_another_thread"]

Result = TypeVar("Result")


def on_another_thread(work: Callable[[], Result]) -> Result:
    """Return what a function returns on a new thread, to which no number of threads was applied."""
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]
