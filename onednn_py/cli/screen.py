"""The output of a command: lines, and a progress bar if it is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from onednn_py.tools.extras import MissingExtraError, require

__all__ = ["Screen"]

Item = TypeVar("Item")

SECONDS_BETWEEN_COUNTS = 30.0


class Screen:
    """Lines on the standard output; on a terminal also a progress bar, if rich is installed.

    Parameters
    ----------
    json : str or None
        Where the command writes JSON. If it is ``-``, lines go to the standard error.
    requires_rich : bool
        Whether a missing rich is a `MissingExtraError`, and FORCE_COLOR makes a terminal.
    """

    def __init__(self, json: str | None, *, requires_rich: bool = False) -> None:
        self._stream = sys.stderr if json == "-" else sys.stdout
        self._console: Any = None
        if requires_rich or self._stream.isatty():
            with suppress(*() if requires_rich else (MissingExtraError,)):
                console = require("rich.console", "rich", "demo").Console(file=self._stream)
                self._console = console if console.is_terminal else None

    def say(self, *lines: str) -> None:
        for line in lines:
            if self._console is None:
                print(line, file=self._stream, flush=True)
            else:
                self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def tracked(self, items: Sequence[Item]) -> Iterator[Item]:
        """Yield the items and show how many the caller has finished."""
        if self._console is None:
            yield from self._counted(items)
            return
        bars = require("rich.progress", "rich", "demo")
        columns = (
            bars.TextColumn("{task.completed}/{task.total}"),
            bars.BarColumn(),
            bars.TimeRemainingColumn(),
        )
        with bars.Progress(*columns, console=self._console, transient=True) as progress:
            yield from progress.track(items)

    def _counted(self, items: Sequence[Item]) -> Iterator[Item]:
        """Yield the items and print the number of finished ones at intervals."""
        printed_at = time.monotonic()
        for done, item in enumerate(items, start=1):
            yield item
            if time.monotonic() - printed_at > SECONDS_BETWEEN_COUNTS:
                printed_at = time.monotonic()
                self.say(f"{done}/{len(items)}")

    def exit_status(self, left: int, things: str, *, succeeded: bool) -> int:
        """Return the command's exit status; say how many things an interrupt has left, if any."""
        if left:
            self.say(f"interrupted, {left} {things} were left")
            return 130
        return 0 if succeeded else 1
