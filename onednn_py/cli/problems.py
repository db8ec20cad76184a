"""The options that name problems, as benchdnn does: descriptors, batch files, what to compute."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from onednn_py.config import MOST_THREADS
from onednn_py.errors import AttributeValueError
from onednn_py.problem.formats import DATA_FORMATS
from onednn_py.tools.benchdnn import Descriptor, parse_descriptor
from onednn_py.tools.benchdnn.batch import BatchProblem, parse_directions, parse_dtypes, read_batch
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchmark.suites import SUITES, suite_files

__all__ = [
    "add_problem_options",
    "add_suite_option",
    "natural",
    "positive",
    "selected_cases",
    "thread_count",
]

EXAMPLES = {"conv": "mb16ic64ih56oc64oh56kh3ph1", "deconv": "mb16ic64ih28oc32oh56kh4sh2ph1"}


def add_problem_options(parser: argparse.ArgumentParser, directions: str) -> None:
    """Add --conv, --deconv, --batch, --dir, --dt, --format and --mb.

    Parameters
    ----------
    parser : ArgumentParser
    directions : str
        Which ones are the default, for the help.
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
        type=_checked(parse_directions),
        metavar="DIR,...",
        help=f"FWD_D, FWD_B, BWD_D, BWD_W, BWD_WB; _B with bias (default: {directions})",
    )
    group.add_argument(
        "--dt",
        type=_checked(parse_dtypes),
        metavar="TYPE,...",
        help="f32, bf16, f16 (default: f32)",
    )
    group.add_argument(
        "--format",
        type=_checked(_formats),
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
    """Return the cases that the options name, each once, and notes about what was passed over.

    Parameters
    ----------
    arguments : Namespace
    default : sequence of Descriptor
        Taken where the options name no problem.
    directions : sequence of str
        Taken where neither the options nor a file name any.

    Raises
    ------
    AttributeValueError
        Naming the descriptor, or file and line, and what is wrong there; or the operation that
        was named for nothing.
    """
    if not arguments.sources and (operation := getattr(arguments, "operation", None)):
        raise AttributeValueError(f"--{operation}: no descriptor, and no --batch behind it")
    problems = [] if arguments.sources else [BatchProblem(one) for one in default]
    notes: list[str] = []
    for operation, kind, text in arguments.sources:
        if kind == "descriptor":
            transposed = operation == "deconv"
            problems.append(BatchProblem(parse_descriptor(text, transposed=transposed)))
        else:
            path = Path(text)
            transposed = (operation or _operation_of(path)) == "deconv"
            batch = read_batch(path, transposed=transposed)
            problems.extend(batch.problems)
            notes.extend(batch.notes)
    cases = [case for problem in problems for case in _cases(problem, arguments, tuple(directions))]
    # A file may name a problem twice, or two that --mb makes the same.
    return list(dict.fromkeys(cases)), notes


def _cases(
    problem: BatchProblem, arguments: argparse.Namespace, directions: tuple[str, ...]
) -> list[Case]:
    """Return a problem's cases; the command line goes before the file, that before defaults."""
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
    """Keeps the order of descriptors and files, and which operation was named last."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        namespace.operation = self.dest
        found = [(self.dest, "descriptor", text) for text in values]
        namespace.sources = (*namespace.sources, *found)


class _BatchFile(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        operation = getattr(namespace, "operation", None)
        namespace.sources = (*namespace.sources, (operation, "batch", values))


class _Suites(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        for name in values.lower().split(","):
            try:
                files = suite_files(name)
            except AttributeValueError as error:
                raise argparse.ArgumentError(self, str(error).partition(": ")[2]) from None
            found = [(operation, "batch", str(path)) for operation, path in files]
            namespace.sources = (*namespace.sources, *found)


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


def _checked(parse: Callable[[str], tuple[str, ...]]) -> Callable[[str], tuple[str, ...]]:
    def checked(text: str) -> tuple[str, ...]:
        try:
            return parse(text)
        except AttributeValueError as error:
            raise argparse.ArgumentTypeError(str(error).partition(": ")[2]) from None

    return checked


def _formats(text: str) -> tuple[str, ...]:
    for word in text.upper().split(","):
        if word not in DATA_FORMATS:
            accepted = ", ".join(DATA_FORMATS)
            raise AttributeValueError(f"--format={text}: expected some of {accepted}; got {word!r}")
    return tuple(dict.fromkeys(text.upper().split(",")))


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
