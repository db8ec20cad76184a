"""threadpoolctl is imported without a trace in the environment."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

NAME = "KMP_DUPLICATE_LIB_OK"


@pytest.mark.parametrize("value", [None, "True", "FALSE"])
def test_the_environment_stays(value: str | None) -> None:
    environment = {name: text for name, text in os.environ.items() if name != NAME}
    if value is not None:
        environment[NAME] = value
    program = (
        "import os\n"
        "from onednn_py.system.threadpools import ThreadpoolController\n"
        "assert isinstance(ThreadpoolController().lib_controllers, list)\n"
        f"print(os.environ.get({NAME!r}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == str(value)
