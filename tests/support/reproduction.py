"""Commands that repeat what a property test has found, without pytest and hypothesis."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

needs_shell = pytest.mark.skipif(
    sys.platform == "win32", reason="commands are for a shell as POSIX has it"
)


def reproduction(module: str, statement: str) -> str:
    """Return a command for a POSIX shell in the repository's root.

    Parameters
    ----------
    module : str
        Its names are imported: a test module gives its own ``__name__``.
    statement : str
        Fails as the test does.
    """
    # The user's own wisdom is left out, as in the tests.
    return "ONEDNN_PY_WISDOM=off " + shlex.join(
        ["python", "-c", f"from {module} import *; {statement}"]
    )


def run_reproduction(command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of `reproduction` with the Python of the tests."""
    folders = (os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath))
    return subprocess.run(
        ["sh", "-c", command], cwd=ROOT, env={**os.environ, "PATH": os.pathsep.join(folders)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
