"""Fixtures of the whole suite: both backends by one fixture, totals at the end."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# The user's own wisdom would change what is tested, here and in subprocesses.
os.environ["ONEDNN_PY_WISDOM"] = "off"

# Workers of pytest-xdist share the cores, so that a thread of OpenMP that spins keeps another
# worker's thread from its core: three quarters of the suite took 480 seconds in place of 270.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import onednn_py
from onednn_py.backends.onednn.selection.limits import COMPUTE_DTYPES
from onednn_py.problem import call_spec
from onednn_py.problem.operations import Operation
from onednn_py.problem.recipe import Recipe, recipe
from tests.support.requirements import HAS_ONEDNN
from tests.support.totals import Totals

# What imports a framework, by its path under tests/: folders of the same names, and the tests of a
# tool that trains in PyTorch.
FRAMEWORKS = {
    "torch": "torch",
    "jax": "jax",
    "scipy": "scipy",
    "dask": "dask",
    "tools/benchmark/training/test_step.py": "torch",
}

COUNTS = pytest.StashKey[Totals]()

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
    before = onednn_py.cache_info()
    onednn_py.cache_clear()
    yield
    onednn_py.set_cache_limit(entries=before.entries_limit, bytes=before.bytes_limit)
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


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COUNTS] = Totals()
    config.pluginmanager.register(config.stash[COUNTS])


def leaves_out_frameworks(config: pytest.Config) -> bool:
    return "not frameworks" in config.option.markexpr


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no framework that is not asked for, or that is missing; CI asks for all."""
    tests = Path(__file__).parent
    inside = collection_path.is_relative_to(tests)
    framework = FRAMEWORKS.get(collection_path.relative_to(tests).as_posix() if inside else "")
    if framework is None:
        return None
    if not leaves_out_frameworks(config):
        missing = importlib.util.find_spec(framework) is None
        if not missing or ("CI" in os.environ and "frameworks" in config.option.markexpr):
            return None
    asked = [config.invocation_params.dir / arg.split("::")[0] for arg in config.args]
    if any(collection_path.is_relative_to(path.resolve()) for path in asked):
        is_file = collection_path.suffix == ".py"
        files = [collection_path] if is_file else collection_path.rglob("test_*.py")
        config.stash[COUNTS].left_out_files.update(files)
    return True


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count what the markers leave out; keywords leave out what else they like."""
    for item in items:
        config = item.config
        is_marked = item.get_closest_marker("frameworks") is not None
        if is_marked and leaves_out_frameworks(config) and not config.option.keyword:
            config.stash[COUNTS].left_out_tests += 1
