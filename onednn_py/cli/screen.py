"""Where a command writes: lines, and a progress bar where the output is a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, TypeVar

from onednn_py.tools.extras import MissingExtraError, require

__all__ = ["Screen"]

Item = TypeVar("Item")

SECONDS_BETWEEN_COUNTS = 30.0


class Screen:
    """Lines on a stream, under which a progress bar runs if it is a terminal and rich is there."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console: Any = None
        if stream.isatty():
            try:
                self._console = require("rich.console", "rich", "demo").Console(file=stream)
            except MissingExtraError:
                # A bar is no reason to fail.
                self._console = None

    def say(self, line: str) -> None:
        if self._console is None:
            print(line, file=self._stream, flush=True)
        else:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def tracked(self, items: Sequence[Item]) -> Iterator[Item]:
        """Yield the items, counting those that the caller is done with."""
        with self._bar(len(items)) as advance:
            for item in items:
                yield item
                advance()

    @contextmanager
    def _bar(self, total: int) -> Iterator[Callable[[], None]]:
        if self._console is None:
            yield self._counter(total)
            return
        bars = require("rich.progress", "rich", "demo")
        columns = (
            bars.TextColumn("{task.completed}/{task.total}"),
            bars.BarColumn(),
            bars.TimeRemainingColumn(),
        )
        with bars.Progress(*columns, console=self._console, transient=True) as progress:
            task = progress.add_task("", total=total)
            yield lambda: progress.advance(task)

    def _counter(self, total: int) -> Callable[[], None]:
        """Return what counts, and says so now and then."""
        done, said = 0, time.monotonic()

        def advance() -> None:
            nonlocal done, said
            done += 1
            if time.monotonic() - said > SECONDS_BETWEEN_COUNTS:
                said = time.monotonic()
                self.say(f"{done}/{total}")

        return advance
