"""The command ``tune``: measure problems in advance, and keep what was learned as wisdom."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from onednn_py import wisdom
from onednn_py.api.threads import num_threads
from onednn_py.backends.onednn.autotune import DEFAULT_BUDGET, described
from onednn_py.backends.onednn.binding.runtime import runtime
from onednn_py.dispatch.planner import (
    NO_IMPLEMENTATION,
    known,
    machine_here,
    measure_problem,
    unfit,
)
from onednn_py.errors import AttributeValueError, OneDNNError
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchmark.report import CaseColumn
from onednn_py.wisdom.files import read

from .bench import DEFAULT_DIRECTIONS, default_problems
from .outputs import check_writable, write_json
from .problems import add_problem_options, add_suite_option, positive, selected_cases, thread_count
from .screen import Screen

__all__ = ["add_parser", "run"]

# What an interrupt may lose, were it to come while the file is written.
PROBLEMS_BETWEEN_SAVES = 5

MEASURED, KNOWN, NUMPY, FAILED = "measured", "known", "numpy", "failed"

DESCRIPTION = """Time the ways in which oneDNN can compute each problem, and save the fastest as
wisdom: plans of these problems take it from then on. Problems that are known already are
left alone. Without --suite, --conv, --deconv or --batch, the problems of bench. Exit status 1 if
a measurement failed or oneDNN takes none of the problems."""
EPILOG = """examples:
  python -m onednn_py tune --suite=resnet50 --dt=f32,bf16 --format=NCX
  python -m onednn_py tune --conv mb16ic64ih56oc64oh56kh3ph1 --threads=1 --again
  python -m onednn_py tune --suite=unet --budget=20 --output=unet.json --json=-
"""


@dataclass(frozen=True)
class Tuned:
    """What came of a problem.

    Attributes
    ----------
    case : Case
    status : str
        ``"measured"``, ``"known"`` already, ``"numpy"`` runs it, or ``"failed"``.
    detail : str
        The choice, or the reason why there is none.
    heuristic_microseconds, microseconds : float or None
    timings : tuple of (str, float)
        The ways that were measured, in microseconds.
    """

    case: Case
    status: str
    detail: str
    heuristic_microseconds: float | None = None
    microseconds: float | None = None
    timings: tuple[tuple[str, float], ...] = ()

    @property
    def gain(self) -> float | None:
        if self.heuristic_microseconds is None or self.microseconds is None:
            return None
        return self.heuristic_microseconds / self.microseconds


def add_parser(commands: Any) -> None:
    """Register the command ``tune``."""
    parser = commands.add_parser(
        "tune",
        help="measure problems in advance, and keep what was learned",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_suite_option(parser)
    add_problem_options(parser, ",".join(DEFAULT_DIRECTIONS))
    parser.add_argument(
        "--threads",
        type=thread_count,
        metavar="N",
        help="to measure with (default: what oneDNN takes)",
    )
    parser.add_argument(
        "--budget",
        type=positive,
        default=DEFAULT_BUDGET,
        metavar="SECONDS",
        help="for each problem (default: %(default)g)",
    )
    parser.add_argument("--again", action="store_true", help="measure even what is known already")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="wisdom file to add to (default: the user's own, or what ONEDNN_PY_WISDOM names)",
    )
    parser.add_argument("--json", metavar="FILE", help="write all times as JSON; - for stdout")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit status.

    Raises
    ------
    OneDNNPyError
        Where an option is wrong, there is no oneDNN, or a file cannot be read or written.
    """
    screen = Screen(sys.stderr if arguments.json == "-" else sys.stdout)
    cases, notes = selected_cases(arguments, default_problems(), DEFAULT_DIRECTIONS)
    for note in notes:
        screen.say(note)
    if not cases:
        raise AttributeValueError("no problem to measure")
    check_writable((arguments.json,))
    runtime()
    found: list[Tuned] = []
    with nullcontext() if arguments.threads is None else num_threads(arguments.threads):
        path = _prepared(arguments.output)
        screen.say(str(machine_here()))
        # What was measured until an interrupt is kept and reported as well.
        with suppress(KeyboardInterrupt):
            _tune(cases, arguments, path, screen, found)
        _save(path)
        _report(arguments, path, screen, found)
    if len(found) < len(cases):
        screen.say(f"interrupted, {len(cases) - len(found)} problems were left")
        return 130
    statuses = {tuned.status for tuned in found}
    return 0 if FAILED not in statuses and statuses & {MEASURED, KNOWN} else 1


def _prepared(output: Path | None) -> Path:
    """Return the file to save to, found to be writable before a long run."""
    path = wisdom.default_path() if output is None else output
    if path is None:
        raise AttributeValueError(
            f"no file to save to: {wisdom.VARIABLE} is off; name one with --output"
        )
    try:
        if path.exists():
            # What is no wisdom is refused here rather than moved aside by saving.
            read(path)
        if output is None:
            path.parent.mkdir(parents=True, exist_ok=True)
        elif path.exists():
            # The default file is read by itself.
            wisdom.load(path)
    except OSError as error:
        raise AttributeValueError(f"{path}: cannot be read: {error}") from None
    _save(path)
    return path


def _save(path: Path) -> None:
    try:
        wisdom.save(path)
    except OSError as error:
        raise AttributeValueError(f"{path}: cannot be written: {error}") from None


def _tune(
    cases: Sequence[Case],
    arguments: argparse.Namespace,
    path: Path,
    screen: Screen,
    found: list[Tuned],
) -> None:
    column = CaseColumn(cases)
    screen.say(f"{column.heading()}  heuristic µs    best µs   gain  choice")
    unsaved = 0
    for case in screen.tracked(cases):
        found.append(_tuned(case, arguments.budget, again=arguments.again))
        screen.say(f"{column.cell(case)}  {_line(found[-1])}")
        unsaved += found[-1].status == MEASURED
        if unsaved == PROBLEMS_BETWEEN_SAVES:
            _save(path)
            unsaved = 0


def _tuned(case: Case, budget: float, *, again: bool) -> Tuned:
    problem = case.problem()
    reason = unfit(problem)
    if reason:
        return Tuned(case, NUMPY, reason)
    before = None if again else known(problem)
    if before is not None:
        choice, entry = before
        return Tuned(
            case, KNOWN, described(choice), entry.heuristic_microseconds, entry.microseconds
        )
    try:
        measured = measure_problem(problem, budget)
    except OneDNNError as error:
        if error.status == "unimplemented":
            return Tuned(case, NUMPY, NO_IMPLEMENTATION)
        return Tuned(case, FAILED, str(error))
    except MemoryError as error:
        return Tuned(case, FAILED, f"not enough memory: {error}")
    return Tuned(
        case,
        MEASURED,
        described(measured.plan.choice),
        measured.heuristic_microseconds,
        measured.microseconds,
        measured.timings,
    )


def _line(tuned: Tuned) -> str:
    if tuned.gain is None:
        label = "runs on NumPy" if tuned.status == NUMPY else tuned.status
        return f"{label}: {tuned.detail}"
    times = f"{tuned.heuristic_microseconds:12.1f}  {tuned.microseconds:9.1f}  {tuned.gain:5.2f}"
    note = " (known already)" if tuned.status == KNOWN else ""
    return f"{times}  {tuned.detail}{note}"


def _report(
    arguments: argparse.Namespace, path: Path, screen: Screen, found: Sequence[Tuned]
) -> None:
    gains = [tuned.gain for tuned in found if tuned.status == MEASURED and tuned.gain is not None]
    kept = sum(gain == 1 for gain in gains)
    mean = geometric_mean(gains) if gains else None
    counts = Counter(tuned.status for tuned in found)
    if mean is not None:
        screen.say(
            f"{_counted(len(gains), 'problem')} measured: {mean:.2f} times as fast on the geometric"
            f" mean, {kept} kept the heuristic choice"
        )
    others = {KNOWN: "known already", NUMPY: "on NumPy", FAILED: "failed"}
    for status, label in others.items():
        if counts[status]:
            screen.say(f"{_counted(counts[status], 'problem')} {label}")
    screen.say(f"saved in {path}")
    content = {
        "machine": str(machine_here()),
        "budget": arguments.budget,
        "path": str(path),
        **{status: counts[status] for status in (MEASURED, KNOWN, NUMPY, FAILED)},
        "kept_heuristic": kept,
        "geometric_mean": mean,
        "cases": [_case(tuned) for tuned in found],
    }
    write_json(arguments.json, content)


def _case(tuned: Tuned) -> dict[str, Any]:
    case = tuned.case
    return {
        "operation": case.descriptor.operation,
        "descriptor": str(case.descriptor),
        "name": case.descriptor.name,
        "direction": case.direction,
        "dtype": case.dtype,
        "format": case.data_format,
        "status": tuned.status,
        "detail": tuned.detail,
        "heuristic_microseconds": tuned.heuristic_microseconds,
        "microseconds": tuned.microseconds,
        "gain": tuned.gain,
        "timings": [{"choice": name, "microseconds": time} for name, time in tuned.timings],
    }


def _counted(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
