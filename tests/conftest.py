"""Fixtures of the whole suite: both backends by one fixture, totals at the end."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping
from typing import Any

import hypothesis
import pytest

# The user's own wisdom would change what is tested, here and in subprocesses.
os.environ["ONEDNN_PY_WISDOM"] = "off"

import onednn_py
from onednn_py.backends.onednn.selection.limits import COMPUTE_DTYPES
from onednn_py.problem import call_spec
from onednn_py.problem.operations import Operation
from onednn_py.problem.recipe import Recipe, recipe
from onednn_py.system.memory_pool import pool
from tests.support.requirements import HAS_ONEDNN

# Test folders of a framework that is missing here cannot be imported, nor can tests of a tool that
# trains in PyTorch.
MISSING = [
    name for name in ("torch", "jax", "scipy", "dask") if importlib.util.find_spec(name) is None
]
collect_ignore = [*MISSING]
if "torch" in MISSING:
    collect_ignore.append("tools/benchmark/training/test_step.py")

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
def cast_float16(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """oneDNN computes float16 in float32, as it does on a CPU without float16 arithmetic."""
    monkeypatch.setitem(COMPUTE_DTYPES, "f16", ("f32",))
    onednn_py.cache_clear()
    yield
    onednn_py.cache_clear()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the operations whose arguments were worked out, as calls do it."""
    found: list[str] = []

    def counted(operation: Operation, arguments: Mapping[str, Any]) -> Recipe:
        found.append(operation.name)
        return recipe(operation, arguments)

    monkeypatch.setattr(call_spec, "recipe", counted)
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    from tests.support.native_programs import TOTALS

    for name, total in TOTALS.items():
        terminalreporter.write_line(f"{name}: {total}")
    for name in MISSING:
        terminalreporter.write_line(f"tests/{name} left out: no {name} here")
