"""Commands on problems that options select as benchdnn's do, and readers of numbers."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from onednn_py import AttributeValueError
from onednn_py.config import MOST_THREADS
from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.batch import BatchProblem, Selection, named_operation, read_batch
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchdnn.options import parse_choices, parse_tags
from onednn_py.tools.benchdnn.suites import (
    DEFAULT_DIRECTIONS,
    DEFAULT_PROBLEMS,
    suite_files,
    suite_lines,
    suites_text,
)

from .screen import Screen

__all__ = [
    "add_measuring_command",
    "add_problem_command",
    "natural",
    "positive",
    "problem_options",
    "selected_cases",
    "some_of",
    "thread_count",
]

# A descriptor of each benchdnn operation, for the help.
EXAMPLES = {"conv": "mb16ic64ih56oc64oh56kh3ph1", "deconv": "mb16ic64ih28oc32oh56kh4sh2ph1"}


def add_problem_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    problems: Sequence[tuple[str, str]],
    directions: Sequence[str],
    **texts: str,
) -> argparse.ArgumentParser:
    """Register a command with --conv, --deconv, --batch, --dir, --dt, --format and --mb.

    Parameters
    ----------
    problems : sequence of (str, str)
        Operations and descriptors that are used if the options select none.
    directions : sequence of str
        Directions that are used if neither the options nor a file give any.
    **texts : str
        ``help``, ``description`` and ``epilog`` of the command.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name, **texts, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    # Sources are pairs of an operation and a descriptor (str) or batch file (Path), in the
    # command's order. The operation is None for a file whose own path must name it.
    parser.set_defaults(run=run, sources=[], operation=None)
    parser.set_defaults(default_sources=problems, default_directions=directions)
    group = parser.add_argument_group("problems, as benchdnn names them")
    for operation, example in EXAMPLES.items():
        group.add_argument(
            f"--{operation}",
            nargs="*",
            metavar="DESC",
            action=_Sources,
            help=f"{operation} descriptors such as {example}; without one, it names the "
            "operation of the --batch or the descriptors behind it",
        )
    group.add_argument(
        "descriptors",
        nargs="*",
        metavar="DESC",
        action=_Sources,
        help="descriptors behind other options, as in a command line of benchdnn's",
    )
    group.add_argument(
        "--batch",
        metavar="FILE",
        action=_Sources,
        type=Path,
        nargs=1,
        help="file of descriptors. --conv or --deconv before it names the operation, or else the "
        "file's name or its folder's does. Options of the command line come before the file's",
    )
    group.add_argument(
        "--dir",
        type=_parser(partial(parse_choices, "dir")),
        metavar="DIR,...",
        help=f"FWD_D, FWD_B, BWD_D, BWD_W, BWD_WB; _B with bias (default: {','.join(directions)})",
    )
    group.add_argument(
        "--dt",
        type=_parser(partial(parse_choices, "dt")),
        metavar="TYPE,...",
        help="f32, bf16, f16 (default: f32)",
    )
    group.add_argument(
        "--format",
        type=_parser(partial(parse_choices, "format")),
        metavar="FORMAT,...",
        help="NCX (weights OIX or IOX), NXC (weights XIO or XOI) (default: both)",
    )
    for tensor in ("src", "dst"):
        group.add_argument(
            f"--{tensor[0]}tag",
            dest=f"{tensor}_formats",
            type=_parser(parse_tags),
            metavar="TAG,...",
            help=f"benchdnn's format of {tensor}, abx for NCX or axb for NXC; src and dst have the"
            " same",
        )
    group.add_argument(
        "--mb",
        type=natural,
        metavar="N",
        help="minibatch in place of the descriptors' own; 0 keeps that",
    )
    return parser


def add_measuring_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    threads: str,
    budget: str,
    seconds: float,
    **texts: str,
) -> argparse.ArgumentParser:
    """Register a command as `add_problem_command` does, with --suite, --threads, --budget, --json.

    Parameters
    ----------
    threads, budget : str
        What the threads and the seconds are for, for the help.
    seconds : float
        The default budget.
    """
    parser = add_problem_command(
        commands, name, run, problems=DEFAULT_PROBLEMS, directions=DEFAULT_DIRECTIONS, **texts
    )
    parser.add_argument(
        "--suite",
        dest="sources",
        action="extend",
        type=_parser(_suites),
        metavar="NAME,...",
        help=f"convolutions of well-known networks: {suites_text()}; the minutes are those of bench"
        " on two cores",
    )
    parser.add_argument(
        "--list-suites",
        action=_ListSuites,
        nargs=0,
        help="print the suites, how many problems they have and about how long they take",
    )
    parser.add_argument(
        "--threads",
        type=thread_count,
        metavar="N",
        help=f"{threads} (default: what oneDNN takes)",
    )
    parser.add_argument(
        "--budget",
        type=positive,
        default=seconds,
        metavar="SECONDS",
        help=f"{budget} (default: %(default)g)",
    )
    parser.add_argument("--json", metavar="FILE", help="write all times as JSON; - for stdout")
    return parser


def selected_cases(
    arguments: argparse.Namespace, screen: Screen, purpose: str, *, leave_out_empty: bool = False
) -> list[Case]:
    """Return the distinct cases that the options select; print what is ignored or left out.

    Parameters
    ----------
    purpose : str
        What the command does with a problem, for the error.
    leave_out_empty : bool
        Whether cases with minibatch 0 are left out.

    Raises
    ------
    AttributeValueError
        Naming the descriptor, or the file and line, and the error there; or an operation that
        is given neither descriptor nor file. Also if there is no case.
    """
    if arguments.operation and not arguments.sources:
        raise AttributeValueError(
            f"--{arguments.operation}: no descriptor, and no --batch behind it"
        )
    problems: list[BatchProblem] = []
    for operation, source in arguments.sources or arguments.default_sources:
        if isinstance(source, Path):
            transposed = (operation or _named_operation(source)) == "deconv"
            batch = read_batch(source, transposed=transposed)
            problems.extend(batch.problems)
            screen.say(*batch.notes)
        else:
            descriptor = parse_descriptor(source, transposed=operation == "deconv")
            problems.append(BatchProblem(descriptor))
    selection = Selection(
        arguments.default_directions,
        directions=arguments.dir,
        dtypes=arguments.dt,
        formats=_formats(arguments),
        minibatch=arguments.mb,
    )
    # A file may hold a problem twice, and --mb may make two problems equal.
    cases = list(dict.fromkeys(case for problem in problems for case in problem.cases(selection)))
    if leave_out_empty:
        empty = [case.descriptor for case in cases if not case.descriptor.minibatch]
        screen.say(*(f"left out, with nothing to compute: {descriptor}" for descriptor in empty))
        cases = [case for case in cases if case.descriptor.minibatch]
    if not cases:
        raise AttributeValueError(f"no problem to {purpose}")
    return cases


def problem_options(arguments: argparse.Namespace) -> list[str]:
    """Return the names of the given options that say what problems are, without their sources."""
    values = {
        f"--{arguments.operation}": arguments.operation,
        "--dir": arguments.dir,
        "--dt": arguments.dt,
        "--format": arguments.format,
        "--stag": arguments.src_formats,
        "--dtag": arguments.dst_formats,
        "--mb": arguments.mb,
    }
    return [name for name, value in values.items() if value is not None]


def _formats(arguments: argparse.Namespace) -> tuple[str, ...] | None:
    """Return the formats of --format, --stag and --dtag, which must agree; None without them."""
    given = {arguments.format, arguments.src_formats, arguments.dst_formats} - {None}
    if len(given) > 1:
        raise AttributeValueError(
            "--format, --stag and --dtag: src and dst have one format, got several"
        )
    return given.pop() if given else None


class _Sources(argparse.Action):
    """Appends descriptors, or a batch file of the operation whose option precedes it."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        if self.dest in EXAMPLES:
            namespace.operation = self.dest
        elif self.dest == "descriptors" and values and not namespace.operation:
            parser.error(f"{values[0]}: put --conv or --deconv before it")
        added = [(namespace.operation, value) for value in values]
        namespace.sources = [*namespace.sources, *added]


class _ListSuites(argparse.Action):
    """Prints the suites, and exits."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        print(*suite_lines(), sep="\n")
        parser.exit()


def _suites(text: str) -> list[tuple[str, Path]]:
    return [file for name in text.lower().split(",") for file in suite_files(name)]


def _named_operation(path: Path) -> str:
    if not os.path.exists(path):
        raise AttributeValueError(f"--batch {path}: there is no such file")
    if path.is_dir():
        raise AttributeValueError(f"--batch {path}: is a folder, not a file of descriptors")
    operation = named_operation(path)
    if operation is None:
        raise AttributeValueError(
            f"--batch {path}: neither the file's name nor its folder's tells whether it is of conv"
            " or deconv: put --conv or --deconv before it"
        )
    return operation


def _parser(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a reader of an option's value whose errors argparse prints with the option."""

    def read(text: str) -> Any:
        try:
            return parse(text)
        except AttributeValueError as error:
            raise argparse.ArgumentTypeError(str(error).partition(": ")[2]) from None

    return read


def some_of(accepted: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Return a reader of names with commas between them; ``none``, by itself, is no name."""

    def read(text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(name.strip() for name in text.lower().split(",")))
        if names == ("none",):
            return ()
        for name in names:
            if name not in accepted:
                raise argparse.ArgumentTypeError(
                    f"expected some of {', '.join(accepted)}, or none by itself; got {name!r}"
                )
        return names

    return read


def natural(text: str) -> int:
    """Read an integer of at least 0 and fewer than 19 digits."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"expected an integer of at least 0, got {text!r}")
    if len(text) > 18:
        raise argparse.ArgumentTypeError(f"expected at most 18 digits, got {len(text)}")
    return int(text)


def thread_count(text: str) -> int:
    """Read a number of threads."""
    number = natural(text)
    if not 0 < number <= MOST_THREADS:
        raise argparse.ArgumentTypeError(
            f"expected an integer from 1 to {MOST_THREADS}, got {text!r}"
        )
    return number


def positive(text: str) -> float:
    """Read a positive number, such as 2e10."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < inf:
        raise argparse.ArgumentTypeError(f"expected a positive number, got {text!r}")
    return value
