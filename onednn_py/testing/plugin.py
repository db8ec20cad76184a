"""A plugin of pytest: ``pytest -p onednn_py.testing.plugin`` ends with benchdnn's line of counts.

The package has no entry point for pytest, so that it costs nothing where nobody asks for it.
"""

from __future__ import annotations

from typing import Any

import pytest

from onednn_py.tools.benchdnn.case import Case, row

from .comparison import observers
from .report import Outcome, Report, summary_lines

__all__ = ["pytest_configure", "pytest_unconfigure"]

NAME = "onednn_py-summary"


class Summary:
    """Collects the outcomes of a run, of pytest-xdist's workers too, and prints their counts."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def observe(self, report: Report) -> None:
        # A case's tensors are not among what an outcome holds.
        self.outcomes += report.outcomes

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.outcomes:
            terminalreporter.section("compared with oneDNN")
            for line in summary_lines(self.outcomes):
                terminalreporter.write_line(line)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[NAME] = [row(outcome) for outcome in self.outcomes]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for values in getattr(node, "workeroutput", {}).get(NAME, ()):
            fields = {name: values[name] for name in Outcome.__slots__ if name != "case"}
            self.outcomes.append(Outcome(Case.from_json(values), **fields))


def pytest_configure(config: pytest.Config) -> None:
    """Begin to collect."""
    summary = Summary()
    config.pluginmanager.register(summary, NAME)
    observers.append(summary.observe)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop collecting."""
    summary = config.pluginmanager.unregister(name=NAME)
    if isinstance(summary, Summary):
        observers.remove(summary.observe)
