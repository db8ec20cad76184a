"""The command ``info``: the library in use, the CPU, threads, and rejected libraries."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

import onednn_py
from onednn_py.config import VARIABLES, unknown_variables

__all__ = ["add_parser", "run"]

# Facts that are printed below the table of the others.
_APART = ("threads_note", "idle_threads", "freed_memory", "rejected", "error")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "info", help="versions, the library in use, CPU, threads, rejected libraries"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    facts = onednn_py.info()
    for name in unknown_variables():
        print(
            f"{name} is no variable of this package; it has {', '.join(VARIABLES)}",
            file=sys.stderr,
        )
    if arguments.json:
        print(json.dumps(facts, indent=2))
        return _status(facts)
    shown = {name: value for name, value in facts.items() if name not in _APART}
    width = max(map(len, shown))
    for name, value in shown.items():
        print(f"{name:{width}}  {_text(value)}")
    if facts["threads_note"]:
        print(f"threads of {facts['runtime']}: {facts['threads_note']}")
    for row in facts["idle_threads"]:
        print("idle threads of {library} ({threads}), {path}: {state}".format(**row))
    print(f"freed memory: {facts['freed_memory']}")
    for rejection in facts["rejected"]:
        print(f"rejected  {rejection['path']} ({rejection['source']}): {rejection['reason']}")
    if facts["error"]:
        print(facts["error"])
    return _status(facts)


def _status(facts: Mapping[str, object]) -> int:
    """Return 1 where calls that name no backend fail."""
    return 0 if facts["backend"] else 1


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(name for name, enabled in value.items() if enabled) or "none"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "none" if value is None else str(value)
