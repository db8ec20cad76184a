"""Command-line options that select problems as benchdnn's do, and readers of numbers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from onednn_py import AttributeValueError
from onednn_py.config import MOST_THREADS
from onednn_py.tools.benchdnn import Descriptor, parse_descriptor
from onednn_py.tools.benchdnn.batch import BatchProblem, read_batch
from onednn_py.tools.benchdnn.case import DATA_FORMATS, Case
from onednn_py.tools.benchdnn.options import parse_choices
from onednn_py.tools.benchmark.suites import SUITES, suite_files

__all__ = [
    "add_problem_options",
    "add_suite_option",
    "natural",
    "positive",
    "selected_cases",
    "thread_count",
]

# A descriptor of each benchdnn operation, for the help.
EXAMPLES = {"conv": "mb16ic64ih56oc64oh56kh3ph1", "deconv": "mb16ic64ih28oc32oh56kh4sh2ph1"}


def add_problem_options(parser: argparse.ArgumentParser, directions: str) -> None:
    """Add --conv, --deconv, --batch, --dir, --dt, --format and --mb.

    Parameters
    ----------
    parser : ArgumentParser
    directions : str
        The default directions, for the help.
    """
    group = parser.add_argument_group("problems, as benchdnn names them")
    for operation, example in EXAMPLES.items():
        group.add_argument(
            f"--{operation}",
            nargs="*",
            metavar="DESC",
            action=_Descriptors,
            help=f"{operation} descriptors such as {example}; without one, it names the "
            "operation of the --batch behind it",
        )
    group.add_argument(
        "--batch",
        metavar="FILE",
        action=_BatchFile,
        help="file of descriptors, of the operation that --conv or --deconv before it names, "
        "or else its name or its folder's; its options hold where the command line has none",
    )
    group.add_argument(
        "--dir",
        type=_choices("dir"),
        metavar="DIR,...",
        help=f"FWD_D, FWD_B, BWD_D, BWD_W, BWD_WB; _B with bias (default: {directions})",
    )
    group.add_argument(
        "--dt",
        type=_choices("dt"),
        metavar="TYPE,...",
        help="f32, bf16, f16 (default: f32)",
    )
    group.add_argument(
        "--format",
        type=_choices("format"),
        default=DATA_FORMATS,
        metavar="FORMAT,...",
        help="NCX (weights OIX or IOX), NXC (weights XIO or XOI) (default: both)",
    )
    group.add_argument(
        "--mb",
        type=natural,
        metavar="N",
        help="minibatch in place of the descriptors' own; 0 keeps that",
    )
    # Pairs of an operation and a descriptor (str) or batch file (Path), in the command's order.
    # The operation is None for a file whose own path must name it.
    parser.set_defaults(sources=())


def add_suite_option(parser: argparse.ArgumentParser) -> None:
    """Add --suite, whose problems `selected_cases` reads as well."""
    parser.add_argument(
        "--suite",
        action=_Suites,
        metavar="NAME,...",
        help=f"convolutions of well-known networks: {', '.join(SUITES)}",
    )


def selected_cases(
    arguments: argparse.Namespace, default: Sequence[Descriptor], directions: Sequence[str]
) -> tuple[list[Case], list[str]]:
    """Return the distinct cases that the options select, and notes on ignored parts of files.

    Parameters
    ----------
    arguments : Namespace
    default : sequence of Descriptor
        Problems used if the options select none.
    directions : sequence of str
        Directions used if neither the options nor a file give any.

    Raises
    ------
    AttributeValueError
        Naming the descriptor, or the file and line, and the error there; or an operation that
        is given neither descriptor nor file.
    """
    if not arguments.sources and (operation := getattr(arguments, "operation", None)):
        raise AttributeValueError(f"--{operation}: no descriptor, and no --batch behind it")
    problems = [] if arguments.sources else [BatchProblem(descriptor) for descriptor in default]
    notes: list[str] = []
    for operation, source in arguments.sources:
        if isinstance(source, Path):
            transposed = (operation or _operation_of(source)) == "deconv"
            batch = read_batch(source, transposed=transposed)
            problems.extend(batch.problems)
            notes.extend(batch.notes)
        else:
            descriptor = parse_descriptor(source, transposed=operation == "deconv")
            problems.append(BatchProblem(descriptor))
    cases = [case for problem in problems for case in _cases(problem, arguments, directions)]
    # A file may hold a problem twice, and --mb may make two problems equal.
    return list(dict.fromkeys(cases)), notes


def _cases(
    problem: BatchProblem, arguments: argparse.Namespace, directions: Sequence[str]
) -> list[Case]:
    """Return a problem's cases; options override the file, and the file overrides defaults."""
    minibatch = problem.minibatch if arguments.mb is None else arguments.mb
    descriptor = problem.descriptor
    if minibatch:
        descriptor = descriptor.with_minibatch(minibatch)
    dtypes = ("f32",) if problem.dtypes is None else problem.dtypes
    return [
        Case(descriptor, direction, dtype, data_format)
        for direction in arguments.dir or problem.directions or directions
        for dtype in arguments.dt or dtypes
        for data_format in arguments.format
    ]


class _Descriptors(argparse.Action):
    """Appends descriptors, and sets the operation of the batch files that follow."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        namespace.operation = self.dest
        namespace.sources += tuple((self.dest, text) for text in values)


class _BatchFile(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        namespace.sources += ((getattr(namespace, "operation", None), Path(values)),)


class _Suites(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        for name in values.lower().split(","):
            try:
                files = suite_files(name)
            except AttributeValueError as error:
                raise argparse.ArgumentError(self, _without_option(error)) from None
            namespace.sources += tuple(files)


def _operation_of(path: Path) -> str:
    resolved = path.resolve()
    for name in (resolved.name.lower(), resolved.parent.name.lower()):
        for operation in reversed(EXAMPLES):
            if operation in name:
                return operation
    raise AttributeValueError(
        f"--batch {path}: neither the file's name nor its folder's tells whether it is of conv"
        " or deconv: put --conv or --deconv before it"
    )


def _choices(option: str) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        try:
            return parse_choices(option, text)
        except AttributeValueError as error:
            raise argparse.ArgumentTypeError(_without_option(error)) from None

    return parse


def _without_option(error: AttributeValueError) -> str:
    """Return an error's message without the option, which argparse puts in front of it."""
    return str(error).partition(": ")[2]


def natural(text: str) -> int:
    """Read an integer of at least 0."""
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise argparse.ArgumentTypeError(f"expected an integer of at least 0, got {text!r}")
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
    if not value > 0:
        raise argparse.ArgumentTypeError(f"expected a positive number, got {text!r}")
    return value
