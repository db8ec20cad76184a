"""The command ``tune``: measures problems in advance, and saves the choices as wisdom."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from onednn_py import num_threads, wisdom
from onednn_py.backends import ONEDNN
from onednn_py.backends.onednn import DEFAULT_BUDGET, library, machine_here, recall
from onednn_py.backends.onednn.wisdom.files import read
from onednn_py.dispatch.planner import NO_IMPLEMENTATION
from onednn_py.errors import AttributeValueError, OneDNNError
from onednn_py.tools.benchdnn.case import Case, row
from onednn_py.tools.benchmark.machine import busy_cores, busy_cores_warning
from onednn_py.tools.benchmark.report import case_labels
from onednn_py.tools.text import counted

from .outputs import check_writable, reason, write_json
from .problems import add_measuring_command, selected_cases
from .screen import Screen

__all__ = ["add_parser", "run"]

# Measurements that are lost at most, whatever ends the process.
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
class Outcome:
    """The outcome of tuning one case.

    Attributes
    ----------
    status : str
        ``"measured"``, ``"known"`` (from wisdom), ``"numpy"`` (oneDNN does not run it), or
        ``"failed"``.
    detail : str
        The choice, or the reason why there is none.
    heuristic_microseconds, microseconds : float or None
        Of the choice without measuring, and of the fastest one.
    timings : tuple of (str, float)
        The choices that were measured, and their times in microseconds.
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
    parser = add_measuring_command(
        commands,
        "tune",
        run,
        help="measure problems in advance, and keep what was learned",
        description=DESCRIPTION,
        epilog=EPILOG,
        threads="to measure with",
        budget="for each problem",
        seconds=DEFAULT_BUDGET,
    )
    parser.add_argument("--again", action="store_true", help="measure even what is known already")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="wisdom file to add to (default: the user's own, or what ONEDNN_PY_WISDOM names)",
    )


def run(arguments: argparse.Namespace) -> int:
    screen = Screen(arguments.json)
    cases = selected_cases(arguments, screen, "measure")
    check_writable((arguments.json,))
    library()
    outcomes: list[Outcome] = []
    with nullcontext() if arguments.threads is None else num_threads(arguments.threads):
        path = _checked_output(arguments.output)
        screen.say(str(machine_here()))
        screen.say(f"saves to {path}")
        if warning := busy_cores_warning(busy_cores()):
            screen.say(warning)
        # Outcomes that precede an interrupt are saved and reported as well.
        with suppress(KeyboardInterrupt):
            _tune(cases, arguments, path, screen, outcomes)
        _save(path)
        _report(arguments, path, screen, outcomes)
    statuses = {outcome.status for outcome in outcomes}
    succeeded = FAILED not in statuses and bool(statuses & {MEASURED, KNOWN})
    return screen.exit_status(len(cases) - len(outcomes), "problems", succeeded=succeeded)


def _checked_output(output: Path | None) -> Path:
    """Return the file to save to, after reading and writing it once, before a long run."""
    path = wisdom.default_path() if output is None else output
    if path is None:
        raise AttributeValueError(
            f"no file to save to: {wisdom.VARIABLE} is off; name one with --output"
        )
    if os.path.exists(path):
        # Saving would move a file that holds no wisdom aside; reading refuses it.
        read(path)
        if output is not None:
            # Planning reads the default file by itself.
            wisdom.load(path)
    elif output is None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise AttributeValueError(f"{path}: cannot be written: {reason(error)}") from None
    _save(path)
    return path


def _save(path: Path) -> None:
    try:
        wisdom.save(path)
    except OSError as error:
        raise AttributeValueError(f"{path}: cannot be written: {reason(error)}") from None


def _tune(
    cases: Sequence[Case],
    arguments: argparse.Namespace,
    path: Path,
    screen: Screen,
    outcomes: list[Outcome],
) -> None:
    """Tune the cases, and append their outcomes to the list."""
    heading, *labels = case_labels(cases)
    screen.say(f"{heading}  heuristic µs    best µs   gain  choice")
    unsaved = 0
    for case, label in screen.tracked(list(zip(cases, labels, strict=True))):
        outcome = _tune_case(case, arguments.budget, again=arguments.again)
        outcomes.append(outcome)
        screen.say(f"{label}  {_line(outcome)}")
        unsaved += outcome.status == MEASURED
        if unsaved == PROBLEMS_BETWEEN_SAVES:
            _save(path)
            unsaved = 0


def _tune_case(case: Case, budget: float, *, again: bool) -> Outcome:
    problem = case.problem()
    if reason := ONEDNN.supports(problem):
        return Outcome(case, NUMPY, reason)
    if not again and (found := recall(problem)):
        times = (found.entry.heuristic_microseconds, found.entry.microseconds)
        return Outcome(case, KNOWN, str(found.choice), *times)
    try:
        measured = ONEDNN.measure(problem, budget)
    except OneDNNError as error:
        if error.status == "unimplemented":
            return Outcome(case, NUMPY, NO_IMPLEMENTATION)
        return Outcome(case, FAILED, str(error))
    except MemoryError as error:
        return Outcome(case, FAILED, f"not enough memory: {error}")
    detail = str(measured.plan.choice)
    times = (measured.heuristic_microseconds, measured.microseconds)
    return Outcome(case, MEASURED, detail, *times, measured.timings)


def _line(outcome: Outcome) -> str:
    if outcome.gain is None:
        label = "runs on NumPy" if outcome.status == NUMPY else outcome.status
        return f"{label}: {outcome.detail}"
    times = f"{outcome.heuristic_microseconds:12.1f}  {outcome.microseconds:9.1f}"
    note = " (known already)" if outcome.status == KNOWN else ""
    return f"{times}  {outcome.gain:5.2f}  {outcome.detail}{note}"


def _report(
    arguments: argparse.Namespace, path: Path, screen: Screen, outcomes: Sequence[Outcome]
) -> None:
    gains = [outcome.gain for outcome in outcomes if outcome.status == MEASURED and outcome.gain]
    kept = sum(gain == 1 for gain in gains)
    mean = geometric_mean(gains) if gains else None
    counts = Counter(outcome.status for outcome in outcomes)
    if mean is not None:
        screen.say(
            f"{counted(len(gains), 'problem')} measured: {mean:.2f} times as fast on the geometric"
            f" mean, {kept} kept the heuristic choice"
        )
    for status, label in ((KNOWN, "known already"), (NUMPY, "on NumPy"), (FAILED, "failed")):
        if counts[status]:
            screen.say(f"{counted(counts[status], 'problem')} {label}")
    screen.say(f"saved in {path}")
    content = {
        "machine": str(machine_here()),
        "budget": arguments.budget,
        "path": str(path),
        **{status: counts[status] for status in (MEASURED, KNOWN, NUMPY, FAILED)},
        "kept_heuristic": kept,
        "geometric_mean": mean,
        "cases": [
            {
                **row(outcome),
                "gain": outcome.gain,
                "timings": [
                    {"choice": choice, "microseconds": time} for choice, time in outcome.timings
                ],
            }
            for outcome in outcomes
        ],
    }
    write_json(arguments.json, content)
