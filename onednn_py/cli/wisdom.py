"""The command ``wisdom``: shows, copies and deletes the choices that measuring has found."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from onednn_py import wisdom
from onednn_py.backends.onednn import machine_here
from onednn_py.backends.onednn.wisdom.entry import Entry
from onednn_py.backends.onednn.wisdom.files import Contents, merge_into, read
from onednn_py.errors import AttributeValueError, OneDNNPyError
from onednn_py.tools.text import aligned, counted

__all__ = ["add_parser", "run"]

DESCRIPTION = """What measuring has learned about the fastest way to compute a problem. It is
bound to the version and build of oneDNN, the CPU's instruction set and the number of threads.
The default file is the user's own; ONEDNN_PY_WISDOM names another."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "wisdom",
        help="show, export, import or forget what measuring has learned",
        description=DESCRIPTION,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, function, summary in (
        ("show", _show, "list problems, choices and gains"),
        ("export", _export, "add the default file's wisdom to another file"),
        ("import", _import, "add another file's wisdom to the default file"),
        ("forget", _forget, "delete the default file"),
    ):
        action = actions.add_parser(name, help=summary, description=summary.capitalize() + ".")
        if name == "show":
            action.add_argument("file", nargs="?", type=Path, help="instead of the default file")
        elif name != "forget":
            action.add_argument("file", type=Path, metavar="FILE")
        action.add_argument("--json", action="store_true", help="print JSON")
        action.set_defaults(run=run, function=function)


def run(arguments: argparse.Namespace) -> int:
    function: Callable[[argparse.Namespace], None] = arguments.function
    try:
        function(arguments)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"onednn-py wisdom {arguments.action}: {error}", file=sys.stderr)
        return 1
    return 0


def _show(arguments: argparse.Namespace) -> None:
    path = arguments.file or _default_file()
    contents = _read(path, may_be_missing=arguments.file is None)
    here = machine_here()
    entries = {
        problem: entry for (machine, problem), entry in contents.entries.items() if machine == here
    }
    others = Counter(machine for machine, _ in contents.entries if machine != here)
    facts = {
        "path": str(path),
        "machine": here and asdict(here),
        "entries": [
            {"problem": problem, **asdict(entry), "gain": entry.gain}
            for problem, entry in sorted(entries.items())
        ],
        "others": [{**asdict(machine), "entries": count} for machine, count in others.items()],
    }
    _print(
        arguments,
        facts,
        str(path),
        f"{here or 'no oneDNN library'}: {counted(len(entries), 'problem')}",
        *(f"  {line}" for line in _table(entries)),
        *(f"for {machine}: {counted(count, 'problem')}" for machine, count in others.items()),
    )


def _export(arguments: argparse.Namespace) -> None:
    _copy(_default_file(), arguments.file, arguments)


def _import(arguments: argparse.Namespace) -> None:
    _copy(arguments.file, _default_file(), arguments)


def _copy(source: Path, target: Path, arguments: argparse.Namespace) -> None:
    entries = _read(source).entries
    if not entries:
        raise AttributeValueError(f"{source} holds no wisdom")
    if target.exists():
        read(target)  # raises the error of a file that is no wisdom, which stays as it is
    elif target == _default_file():
        target.parent.mkdir(parents=True, exist_ok=True)
    here = machine_here()
    total = merge_into(target, entries, {})
    count = sum(machine == here for machine, _ in entries)
    facts = {"path": str(target), "added": len(entries), "for_here": count, "entries": total}
    added = counted(len(entries), "problem")
    _print(arguments, facts, f"{target}: {added} added, {count} of them for here")


def _forget(arguments: argparse.Namespace) -> None:
    path = _default_file()
    count = len(_read(path, may_be_missing=True).entries)
    if path.exists():
        wisdom.forget(path)
    facts = {"path": str(path), "forgotten": count}
    _print(arguments, facts, f"{path}: {counted(count, 'problem')} forgotten")


def _print(arguments: argparse.Namespace, facts: Mapping[str, Any], *lines: str) -> None:
    """Print the facts as JSON if the option asks for it, or else the lines."""
    for line in [json.dumps(facts, indent=2)] if arguments.json else lines:
        print(line)


def _default_file() -> Path:
    path = wisdom.default_path()
    if path is None:
        raise OneDNNPyError(f"there is no default file: {wisdom.VARIABLE} is off")
    return path


def _read(path: Path, *, may_be_missing: bool = False) -> Contents:
    if may_be_missing and not path.exists():
        return Contents({}, [])
    contents = read(path)
    for reason in contents.ignored:
        print(f"{path}: ignored {reason}", file=sys.stderr)
    return contents


def _table(entries: Mapping[str, Entry]) -> list[str]:
    rows = [
        (
            f"{entry.microseconds:.1f}",
            f"{entry.heuristic_microseconds:.1f}",
            f"{entry.gain:.2f}",
            problem,
            _choice(entry.choice),
        )
        for problem, entry in sorted(entries.items())
    ]
    heading = ("microseconds", "heuristic", "gain", "problem", "choice")
    return aligned([heading, *rows], ">>>") if rows else []


def _choice(choice: Mapping[str, Any]) -> str:
    """Write a choice in one line: strings as they are, other values as JSON."""
    return " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value, separators=(',', ':'))}"
        for name, value in choice.items()
    )
