"""What a worker process is asked by its parent, and the worker's end where the parent is gone."""

from __future__ import annotations

import os
import queue
import selectors
import threading
from collections.abc import Iterator
from typing import IO, Any

__all__ = ["requests_from"]

# Seconds that a worker has to end by itself once its parent is gone or has closed the pipe.
PATIENCE = 1.0


def requests_from(pipe: IO[Any]) -> Iterator[str]:
    """Yield the lines that the parent writes, until it closes the pipe or ends.

    A request may take an hour. A worker whose parent was killed meanwhile would compute for
    nobody, on cores that the next benchmark measures; so this process is ended then.

    Parameters
    ----------
    pipe : file object
        Its descriptor alone is used.
    """
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    ended = threading.Event()
    threading.Thread(target=_read, args=(pipe.fileno(), lines, ended), daemon=True).start()
    try:
        while (line := lines.get()) is not None:
            yield line
    finally:
        ended.set()


def _read(descriptor: int, lines: queue.SimpleQueue[str | None], ended: threading.Event) -> None:
    rest = b""
    # A thread in `select` is known to wait (`system.waiting_threads`); in `os.read` it is not.
    # Windows selects among sockets alone.
    selects = os.name == "posix"
    with selectors.SelectSelector() as selector:
        if selects:
            selector.register(descriptor, selectors.EVENT_READ)
        while True:
            if selects:
                selector.select()
            chunk = os.read(descriptor, 65536)
            if not chunk:
                break
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                lines.put(line.decode())
    if rest:
        lines.put(rest.decode())
    lines.put(None)
    if not ended.wait(PATIENCE):
        os._exit(1)
