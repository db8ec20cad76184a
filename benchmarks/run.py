#!/usr/bin/env python
"""Measures the parts of docs/performance.md, and writes its tables and figures.

usage: benchmarks/run.py --machine NAME [--part NAME ...] [--again]
       benchmarks/run.py --document | --list [--machine NAME]

A part's times are kept in benchmarks/results/MACHINE/PART.json and not measured again, so that a
long run may be interrupted; what failed is measured again. The document is written from these
files alone.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import checkout  # noqa: F401
from document import DOCUMENTED, write_document
from parts import PARTS, Part

from onednn_py.cli import main as onednn_py

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"

# Keys of the command bench whose values hold paths of this machine.
LOCAL = ("library",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; return 0 if everything could be measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--part", action="append", choices=PARTS, metavar="NAME", help="default: all of them"
    )
    parser.add_argument(
        "--machine", type=_machine, metavar="NAME", help="whose times these are, such as zen4"
    )
    parser.add_argument("--again", action="store_true", help="measure what is measured already")
    parser.add_argument("--document", action="store_true", help="measure nothing")
    parser.add_argument("--list", action="store_true", help="name the parts, and what is missing")
    parsed = parser.parse_args(arguments)
    if not (parsed.machine or parsed.document or parsed.list):
        parser.error("name the machine whose times these are: --machine=NAME")
    parts = [PARTS[name] for name in parsed.part or PARTS]
    machine = parsed.machine or DOCUMENTED
    if parsed.list:
        for part in parts:
            missing = len(part.runs) - len(_complete(_measured(part, machine)))
            print(f"{part.name:20} {part.title}{f' ({missing} to measure)' if missing else ''}")
        return 0
    succeeded = True
    if not parsed.document:
        (RESULTS / machine).mkdir(parents=True, exist_ok=True)
        for part in parts:
            succeeded &= _measure(part, machine, again=parsed.again)
    machines = {path.name: _all_measured(path.name) for path in RESULTS.glob("*/")}
    write_document(ROOT / "docs" / "performance.md", PARTS, machines)
    return 0 if succeeded else 1


def _machine(text: str) -> str:
    if not re.fullmatch("[a-z0-9-]+", text):
        raise argparse.ArgumentTypeError(f"expected small letters, digits, dashes; got {text!r}")
    return text


def _measured(part: Part, machine: str) -> dict[str, Any]:
    """Return the part's runs, as the command bench wrote them, by the value that it varies."""
    path = RESULTS / machine / f"{part.name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _complete(runs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the runs of which nothing failed."""
    return {value: run for value, run in runs.items() if not run.get("failed")}


def _all_measured(machine: str) -> dict[str, Any]:
    return {part.name: runs for part in PARTS.values() if (runs := _measured(part, machine))}


def _measure(part: Part, machine: str, *, again: bool) -> bool:
    """Run what is missing, writing after every run; return whether all runs succeeded."""
    runs = _measured(part, machine)
    known = {} if again else _complete(runs)
    succeeded = True
    for value, options in part.runs.items():
        if value in known:
            continue
        print(f"== {part.title}{f' {value}' if value else ''}", flush=True)
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "times.json")
            status = onednn_py(["bench", *options, f"--json={path}"])
            if status == 130:
                sys.exit(status)
            if not path.is_file() or not path.stat().st_size:
                return False
            content = json.loads(path.read_text(encoding="utf-8"))
        succeeded &= status == 0
        runs[value] = {name: fact for name, fact in content.items() if name not in LOCAL}
        if status:
            runs[value]["failed"] = True
        text = json.dumps(runs, indent=1) + "\n"
        (RESULTS / machine / f"{part.name}.json").write_text(text, encoding="utf-8")
        print(f"{time.monotonic() - start:.0f} s", flush=True)
    return succeeded


if __name__ == "__main__":
    sys.exit(main())
