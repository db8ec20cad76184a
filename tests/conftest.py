"""Fixtures of the whole suite: both backends by one fixture, totals at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

# The user's own wisdom would change what is tested, here and in subprocesses.
os.environ["ONEDNN_PY_WISDOM"] = "off"

import onednn_py
from onednn_py.api import backward as joint_module
from onednn_py.dispatch import call_cache as call_module
from onednn_py.system.memory_pool import pool
from tests.support.requirements import HAS_ONEDNN

hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.register_profile(
    "ci", deadline=None, print_blob=True, derandomize=True, max_examples=200
)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")


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


@pytest.fixture
def fresh_cache() -> Iterator[None]:
    """Nothing cached; the limits are put back."""
    before, limit = onednn_py.cache_info(), pool._limit
    onednn_py.cache_clear()
    yield
    onednn_py.set_cache_limit(entries=before.entries_limit, bytes=before.bytes_limit)
    pool.set_limit(limit)
    onednn_py.cache_clear()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the operations whose arguments were worked out, as calls do it."""
    found: list[str] = []
    for module in (call_module, joint_module):
        recipe = module.recipe

        def counted(name: str, *arguments: Any, recipe: Any = recipe, **more: Any) -> Any:
            found.append(name)
            return recipe(name, *arguments, **more)

        monkeypatch.setattr(module, "recipe", counted)
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    from tests.support.native_programs import TOTALS

    for name, total in TOTALS.items():
        terminalreporter.write_line(f"{name}: {total}")
