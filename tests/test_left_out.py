"""What a test run leaves out is said, and what is skipped in every run of CI is found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest

from tests.support.paths import ROOT

SKIPS = ROOT / ".ci" / "skips.py"

LINE = re.compile(r"^left out: ([\d,]+) tests and ([\d,]+) test files that need PyTorch", re.M)


def left_out(*arguments: str) -> tuple[int, int] | None:
    """Return how many tests and files a run says that it leaves out, None if it says nothing."""
    # What CI asks of its own run, such as a file of results, is not for this one.
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *arguments],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode in (0, 5), done.stdout + done.stderr
    found = LINE.search(done.stdout)
    return (int(found[1].replace(",", "")), int(found[2].replace(",", ""))) if found else None


def test_tests_of_frameworks_are_left_out_and_named() -> None:
    found = left_out("tests/problem/test_frameworks.py")
    assert found is not None
    assert found[0] > 10
    assert found[1] == 0


@pytest.mark.slow  # many tests are collected
def test_files_of_frameworks_are_not_imported() -> None:
    files = [
        path
        for name in ("torch", "jax", "scipy", "dask")
        for path in (ROOT / "tests" / name).rglob("test_*.py")
    ]
    assert files
    files.append(ROOT / "tests" / "tools" / "benchmark" / "training" / "test_step.py")
    # Tests that a keyword leaves out are left out for another reason.
    # The largest folders, which hold none of these files, are left out to save time.
    large = ("--ignore=tests/api", "--ignore=tests/backends")
    assert left_out("tests", *large, "-k", "no_test_has_this_name") == (0, len(files))


@pytest.mark.parametrize(
    "arguments",
    [("tests/problem/test_problem.py",), ("-m", "frameworks", "tests/problem/test_frameworks.py")],
)
def test_nothing_is_said_where_nothing_is_left_out(arguments: tuple[str, ...]) -> None:
    assert left_out(*arguments) is None


def junit(path: Path, reason: str = "no", **skipped: bool) -> str:
    cases = "".join(
        f'<testcase classname="tests.test_it" name="{name}">'
        f"{f'<skipped message={quoteattr(reason)}/>' if skip else ''}</testcase>"
        for name, skip in skipped.items()
    )
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>", encoding="utf-8")
    return str(path)


@pytest.mark.skipif(not SKIPS.is_file(), reason="not in a checkout")
@pytest.mark.parametrize("everywhere", [False, True])
def test_what_is_skipped_in_every_run_is_found(tmp_path: Path, everywhere: bool) -> None:
    runs = [
        junit(tmp_path / "with.xml", one=False, two=True),
        junit(tmp_path / "without.xml", one=True, two=True),
        junit(tmp_path / "frameworks.xml", two=everywhere, three=False),
    ]
    done = subprocess.run(
        [sys.executable, str(SKIPS), *runs], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == int(everywhere)
    assert ("skipped in every run: tests.test_it::two" in done.stdout) == everywhere


@pytest.mark.skipif(not SKIPS.is_file(), reason="not in a checkout")
def test_what_the_cpu_lacks_is_counted_apart(tmp_path: Path) -> None:
    runs = [
        junit(tmp_path / "with.xml", "this CPU has no bf16", one=False, two=True),
        junit(tmp_path / "without.xml", "no oneDNN library here", one=True, two=True),
    ]
    done = subprocess.run(
        [sys.executable, str(SKIPS), *runs], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert "1 tests ran somewhere, 0 nowhere\n1 tests are for other CPUs" in done.stdout
