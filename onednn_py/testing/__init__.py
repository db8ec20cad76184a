"""Hold a kernel of your own against oneDNN, on benchdnn's problems with benchdnn's integers."""

from typing import Any

from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.native_programs import ComparisonUnavailableError

from .comparison import assert_matches, compare
from .report import Outcome, Report
from .selection import cases

__all__ = [
    "Case",
    "ComparisonUnavailableError",
    "Outcome",
    "Report",
    "assert_matches",
    "cases",
    "compare",
]


def __getattr__(name: str) -> Any:
    # hypothesis, which the strategies are made of, is an extra: `import *` does without.
    if name == "strategies":
        from importlib import import_module

        return import_module("onednn_py.testing.strategies")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
