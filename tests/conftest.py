"""Fixtures of the whole suite: both backends by one fixture, totals at the end."""

from __future__ import annotations

import os

import hypothesis
import pytest

# The user's own wisdom would change what is tested, here and in subprocesses.
os.environ["ONEDNN_PY_WISDOM"] = "off"

import onednn_py

hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.register_profile(
    "ci", deadline=None, print_blob=True, derandomize=True, max_examples=200
)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")

HAS_ONEDNN = onednn_py.info()["library"] is not None

needs_onednn = pytest.mark.skipif(not HAS_ONEDNN, reason="no oneDNN library here")


@pytest.fixture(params=["onednn", "numpy"])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "onednn" and not HAS_ONEDNN:
        pytest.skip("no oneDNN library here")
    return request.param


@pytest.fixture
def onednn() -> str:
    if not HAS_ONEDNN:
        pytest.skip("no oneDNN library here")
    return "onednn"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    from native_programs import TOTALS

    for name, total in TOTALS.items():
        terminalreporter.write_line(f"{name}: {total}")
