"""What a whole run counts, over the workers of pytest-xdist where it has any.

A worker's counts reach the process that prints them when the worker ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from .native_programs import TOTALS

__all__ = ["Totals"]


class Totals:
    """A plugin of pytest that prints counts at the end.

    Attributes
    ----------
    compared : dict of Counter
        By subject, how many cases were compared, and with which outcomes.
    left_out_tests : int
        How many tests of frameworks a marker left out.
    left_out_files : set of Path
        Test files that were not imported, since they import a framework.
    """

    def __init__(self, compared: Mapping[str, Mapping[str, int]] = TOTALS) -> None:
        self._compared = compared
        self._of_workers: dict[str, Counter[str]] = {}
        self.left_out_tests = 0
        self.left_out_files: set[Path] = set()

    @property
    def compared(self) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {}
        for counts in (self._compared, self._of_workers):
            for subject, numbers in counts.items():
                found.setdefault(subject, Counter()).update(numbers)
        return found

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send a worker's counts."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["totals"] = {
                "compared": {subject: dict(numbers) for subject, numbers in self.compared.items()},
                "tests": self.left_out_tests,
                "files": sorted(map(str, self.left_out_files)),
            }

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take a worker's counts; all workers leave out the same tests."""
        sent = getattr(node, "workeroutput", {}).get("totals")
        if sent is None:  # the worker crashed
            return
        for subject, numbers in sent["compared"].items():
            self._of_workers.setdefault(subject, Counter()).update(numbers)
        self.left_out_tests = max(self.left_out_tests, sent["tests"])
        self.left_out_files.update(map(Path, sent["files"]))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for subject, numbers in self.compared.items():
            terminalreporter.write_line(f"{subject}: {dict(numbers)}")
        tests, files = self.left_out_tests, len(self.left_out_files)
        if tests or files:
            terminalreporter.write_line(
                f"left out: {tests:,} tests and {files:,} test files that need PyTorch, JAX, SciPy "
                "or Dask (-m frameworks, with them installed)"
            )
