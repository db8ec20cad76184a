"""The command ``verify``: compare oneDNN with a float64 reference on benchdnn's problems."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from onednn_py import AttributeValueError, LibraryNotFoundError, OneDNNPyError
from onednn_py.testing.judgement import fit_to_limits
from onednn_py.testing.report import Outcome, outcome_line, succeeded, summary_lines
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.extras import require
from onednn_py.tools.verification.figure import save_error_figure
from onednn_py.tools.verification.numerical_errors import Measurement, grouped, measure, table
from onednn_py.tools.verification.numerical_errors import to_json as measurements_to_json
from onednn_py.tools.verification.report import to_json, to_junit
from onednn_py.tools.verification.verifier import COMPARABLE, Verifier, runners

from .outputs import check_writable, library_title, picture, run_facts, write_json
from .problems import add_problem_command, natural, positive, selected_cases, some_of
from .screen import Screen

__all__ = ["add_parser", "run"]

COMMAND = "python -m onednn_py verify"
DEFAULT_DIRECTIONS = ("BWD_D", "BWD_W", "BWD_WB")
DEFAULT_COMPARE = "numpy"
DEFAULT_MAX_FLOPS = 2e10

# Default problems: each kind of geometry once, within seconds.
DEFAULT_PROBLEMS = (
    ("conv", 'ic3ih32oc16kh7sh2ph3n"first_layer"'),
    ("conv", 'ic32ih14oc64kh1n"1x1"'),
    ("conv", 'ic32ih15oc48kh1sh2n"1x1_stride"'),
    ("conv", 'ic32ih14oc32kh3ph1n"3x3"'),
    ("conv", 'ic17ih13oc19kh3sh2ph1n"channel_tails"'),
    ("conv", 'ic16ih12iw17oc24kh3kw5sh1sw2ph1pw2dh1dw0n"mixed_axes"'),
    ("conv", 'g4ic32ih12oc16kh3ph1n"groups"'),
    ("conv", 'g32ic32ih14oc32kh3ph1n"depthwise"'),
    ("conv", 'ic16iw40oc32kw3pw2dw1n"1d_dilated"'),
    ("conv", 'ic8id7oc16kd3pd1sd2n"3d"'),
    ("deconv", 'ic32ih7oc16kh4sh2ph1n"upsampling"'),
    ("deconv", 'ic16ih9oc24kh3ph1dh1n"dilated"'),
    ("deconv", 'g4ic16iw11oc32kw3sw2pw1n"1d_groups"'),
    ("deconv", 'ic8id4oc6kd3sd2n"3d"'),
)
DESCRIPTION = """Run convolutions and transposed convolutions on oneDNN, filled with
benchdnn's integers, whose sums are exact in the type, and compare every element with a
float64 reference rounded once. Without --conv, --deconv or --batch, a small set of its
own: 14 problems, 84 tests, about a second. Exit status 1 if a test fails or none ran."""
EPILOG = """examples:
  python -m onednn_py verify
  python -m onednn_py verify --dir=BWD_D --dt=f32,bf16 --conv mb2ic64ih56oc64kh3ph1
  python -m onednn_py verify --dt=bf16 --mb=2 --conv --batch shapes_resnet_50
  python -m onednn_py verify --compare=numpy,native --junit=verify.xml
  python -m onednn_py verify --errors --dt=f32,bf16,f16 --plot=errors.png
"""


def add_parser(commands: Any) -> None:
    parser = add_problem_command(
        commands,
        "verify",
        run,
        problems=DEFAULT_PROBLEMS,
        directions=DEFAULT_DIRECTIONS,
        help="check benchdnn's problems against a float64 reference, NumPy and native oneDNN",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument(
        "--compare",
        type=some_of(COMPARABLE),
        default=DEFAULT_COMPARE,
        metavar="WHO,...",
        help="whose results to compare too: numpy (in the same type), native (C++ on the same "
        "oneDNN, needs a compiler), none (default: %(default)s)",
    )
    parser.add_argument(
        "--max-flops",
        type=positive,
        default=DEFAULT_MAX_FLOPS,
        metavar="N",
        help="most operations of a problem; a larger one runs with minibatch 1, or is skipped "
        "where that takes more, too (default: %(default)g)",
    )
    parser.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="seed of the data (default: 0)"
    )
    parser.add_argument("--json", metavar="FILE", help="write all outcomes as JSON; - for stdout")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="a line for every test, not for failures alone"
    )
    errors = parser.add_argument_group("numerical errors")
    errors.add_argument(
        "--errors",
        action="store_true",
        help="fill with normal numbers instead, and report errors by type and implementation",
    )
    errors.add_argument(
        "--plot", type=picture, metavar="FILE", help="draw the errors to a .png or .svg file"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.plot is not None and not arguments.errors:
        raise AttributeValueError("--plot draws the errors of --errors")
    if arguments.junit is not None and arguments.errors:
        raise AttributeValueError("--junit reports tests; --errors has --json")
    if arguments.verbose and arguments.errors:
        raise AttributeValueError("--verbose lists tests; --errors lists only failures")
    if arguments.plot is not None:
        require("matplotlib", "matplotlib", "demo")
    check_writable((arguments.plot, arguments.json))
    check_writable((arguments.junit,), takes_stdout=False)
    screen = Screen(arguments.json)
    cases = selected_cases(arguments, screen, "verify")
    facts = {"seed": arguments.seed, **run_facts()}
    if facts["library"]:
        screen.say(f"{library_title(facts)}, {facts['library']}")
    return (_report_errors if arguments.errors else _verify)(arguments, cases, screen, facts)


def _command(arguments: argparse.Namespace) -> str:
    """Return the command that runs a case again, without the options that select the case."""
    words = [COMMAND]
    if arguments.seed:
        words.append(f"--seed={arguments.seed}")
    compared = ",".join(arguments.compare) or "none"
    if compared != DEFAULT_COMPARE:
        words.append(f"--compare={compared}")
    if arguments.max_flops != DEFAULT_MAX_FLOPS:
        words.append(f"--max-flops={arguments.max_flops!r}")
    if arguments.errors:
        words.append("--errors")
    return " ".join(words)


def _verify(
    arguments: argparse.Namespace, cases: Sequence[Case], screen: Screen, facts: Mapping[str, Any]
) -> int:
    command = _command(arguments)
    verifier = Verifier(arguments.compare, seed=arguments.seed, max_flops=arguments.max_flops)
    outcomes: list[Outcome] = []
    printed = {"failed", "mistrusted", "unimplemented"}
    # After an interrupt, the outcomes so far are reported.
    with suppress(KeyboardInterrupt):
        for case in screen.tracked(cases):
            outcome = verifier.verify(case)
            outcomes.append(outcome)
            if arguments.verbose or outcome.status in printed:
                again = f"{command} {outcome.case.options}"
                screen.say(outcome_line(len(outcomes), outcome, again))
    screen.say(*summary_lines(outcomes))
    write_json(arguments.json, {**facts, **to_json(outcomes, command)})
    if arguments.junit is not None:
        arguments.junit.write_text(to_junit(outcomes, command), encoding="utf-8")
    left = len(cases) - len(outcomes)
    return screen.exit_status(left, "tests", succeeded=succeeded(outcomes))


def _report_errors(
    arguments: argparse.Namespace, cases: Sequence[Case], screen: Screen, facts: Mapping[str, Any]
) -> int:
    command = _command(arguments)
    compared = runners(arguments.compare)
    counts: Counter[str] = Counter()
    measurements: list[Measurement] = []
    # After an interrupt, the errors so far are reported.
    with suppress(KeyboardInterrupt):
        for requested in screen.tracked(cases):
            case, too_large = fit_to_limits(requested, arguments.max_flops)
            if too_large:
                counts.update(("skipped", "cases"))
                screen.say(f"SKIPPED ({too_large}) {command} {requested.options}")
                continue
            try:
                measured = measure(case, compared, seed=arguments.seed)
                failures = [
                    f"{m.implementation}: error {m.largest:.1e} of the largest magnitude"
                    for m in measured
                    if not m.tolerable
                ]
                measurements += measured
            except LibraryNotFoundError:
                raise
            except (OneDNNPyError, MemoryError) as error:
                failures = [f"{type(error).__name__}: {error}"]
            counts.update(cases=1, failed=int(bool(failures)))
            for reason in failures:
                screen.say(f"FAILED ({reason}) {command} {case.options}")
    groups = grouped(measurements)
    screen.say(*table(groups))
    screen.say(f"cases:{counts['cases']} skipped:{counts['skipped']} failed:{counts['failed']}")
    write_json(arguments.json, {**facts, **measurements_to_json(measurements, groups)})
    if arguments.plot is not None and measurements:
        save_error_figure(arguments.plot, measurements, library_title(facts))
        screen.say(f"the errors are drawn in {arguments.plot}")
    succeeded_all = bool(measurements) and not counts["failed"]
    return screen.exit_status(len(cases) - counts["cases"], "cases", succeeded=succeeded_all)
