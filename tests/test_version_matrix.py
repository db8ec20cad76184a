"""The core of the suite against other oneDNN libraries, each in a process of its own.

A process opens one library, so each path of ``ONEDNN_PY_TEST_LIBRARIES`` (joined as in
``PATH``) gets a run of pytest with ``ONEDNN_PY_LIBRARY`` set to it; headers that lie beside
it, in ``include``, are those that the declarations and the native programs are compiled with.

The library in use is run too, with few tests: the others have it already. That run, and one
that must fail, show that the matrix works wherever the suite runs; without the variable nothing
is skipped, there is only less to do.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import onednn_py
from tests.support.native_programs import TOTALS
from tests.support.requirements import needs_onednn

TESTS = Path(__file__).parent
SELECTION, BINDING = "backends/onednn/selection", "backends/onednn/binding"
CORE = (
    "api/test_gradients",
    "backends/onednn/selection/test_defects",
    "api/test_concurrency",
    "problem/test_arrays",
    "api/test_plan",
    "api/test_properties",
    "backends/onednn/binding/test_declarations",
    "api/test_native_primitives",
    "backends/onednn/selection/test_capabilities",
)
QUICK = (
    f"{SELECTION}/test_capabilities.py",
    f"{BINDING}/test_declarations.py::test_every_function_exists_in_the_library",
)
LISTED = [path for path in os.environ.get("ONEDNN_PY_TEST_LIBRARIES", "").split(os.pathsep) if path]


def run(path: str, tests: Sequence[str], timeout: float) -> dict[str, int]:
    """Run tests with the library at `path`; return how many passed, were skipped, and so on.

    Raises
    ------
    AssertionError
        If a test fails, or if the library cannot be used at all: the tests would then run
        on NumPy and show nothing.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("ONEDNN_PY_TEST_LIBRARIES", "ONEDNN_PY_TEST_INCLUDE", "PYTEST_ADDOPTS")
    }
    environment["ONEDNN_PY_LIBRARY"] = path
    include = Path(path).resolve().parents[1] / "include"
    if (include / "oneapi" / "dnnl" / "dnnl.h").is_file():
        environment["ONEDNN_PY_TEST_INCLUDE"] = str(include)
    info = _python(["-m", "onednn_py", "info", "--json"], environment, timeout=60)
    facts = json.loads(info.stdout)
    assert facts["library"] == path, facts["error"]
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = _python([*command, *(str(TESTS / test) for test in tests)], environment, timeout)
    assert done.returncode == 0, f"oneDNN {facts['version']}, {path}:\n{done.stdout}{done.stderr}"
    counts = summary(done.stdout)
    TOTALS[f"oneDNN {facts['version']}, {path}"] = counts
    return counts


def summary(output: str) -> dict[str, int]:
    """Return the counts of pytest's last line."""
    found = re.findall(r"(\d+) ([a-z]+)", output.splitlines()[-1].split(" in ")[0])
    return {what: int(number) for number, what in found}


def _python(
    arguments: Sequence[str], environment: dict[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(None, id="library in use", marks=needs_onednn),
        *(pytest.param(path, id=path, marks=pytest.mark.slow) for path in LISTED),
    ],
)
def test_the_core_holds(path: str | None) -> None:
    if path is None:
        counts = run(onednn_py.info()["library"], QUICK, timeout=120)
    else:
        counts = run(path, [f"{module}.py" for module in CORE], timeout=3600)
    assert counts["passed"] > 0


def test_a_library_that_cannot_be_used_fails_the_run() -> None:
    with pytest.raises(AssertionError, match="ONEDNN_PY_LIBRARY names a library"):
        run(__file__, QUICK, timeout=120)


def test_a_failing_test_fails_the_run(tmp_path: Path) -> None:
    if onednn_py.info()["library"] is None:
        pytest.skip("no oneDNN library here")
    failing = tmp_path / "test_failing.py"
    failing.write_text("def test_it():\n    assert False\n")
    with pytest.raises(AssertionError, match="1 failed"):
        run(onednn_py.info()["library"], [str(failing)], timeout=120)


def test_the_core_is_there() -> None:
    assert [module for module in CORE if not (TESTS / f"{module}.py").is_file()] == []


def test_counts_are_read_from_the_last_line() -> None:
    output = "1 failed\n812 passed, 3 skipped in 50.21s\n"
    assert summary(output) == {"passed": 812, "skipped": 3}
