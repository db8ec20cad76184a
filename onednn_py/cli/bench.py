"""The command ``bench``: the public functions against native oneDNN, PyTorch and NumPy."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from onednn_py.api.info import get_num_threads, info
from onednn_py.config import EFFORTS
from onednn_py.errors import AttributeValueError
from onednn_py.tools.benchdnn import Descriptor, parse_descriptor
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchmark.contestants import OTHERS, contestants
from onednn_py.tools.benchmark.figures import save_ratio_figure
from onednn_py.tools.benchmark.machine import busy_cores, cpu_name
from onednn_py.tools.benchmark.report import (
    CaseTable,
    fault_lines,
    gap_lines,
    group_lines,
    tiny_lines,
)
from onednn_py.tools.benchmark.results import Result, grouped, to_json
from onednn_py.tools.benchmark.rounds import Benchmark
from onednn_py.tools.extras import require

from .outputs import check_writable, picture, write_json
from .problems import add_problem_options, add_suite_option, positive, selected_cases, thread_count
from .screen import Screen

__all__ = ["DEFAULT_DIRECTIONS", "add_parser", "default_problems", "run"]

DEFAULT_DIRECTIONS = ("BWD_D", "BWD_W")
DEFAULT_BUDGET = 0.5

# What others may take of the machine without a word about it.
MOST_BUSY_CORES = 0.2

# What runs without a problem on the command line: one of each kind that networks are made of.
CONVOLUTIONS = (
    'mb16ic3ih224oc64kh7sh2ph3n"first_layer"',
    'mb16ic64ih56oc64kh3ph1n"3x3"',
    'mb16ic256ih56oc64kh1n"1x1"',
    'mb16ic256ih28oc256kh3sh2ph1n"3x3_stride"',
    'mb16g128ic128ih56oc128kh3ph1n"depthwise"',
    'mb4ic32iw16000oc64kw2dw15n"1d_dilated"',
    'mb1ic64id24oc64kd3pd1n"3d"',
)
TRANSPOSED = ('mb16ic256ih16oc128kh4sh2ph1n"upsampling"',)

# NumPy has nothing to show here; native is the least that a call can take.
TINY_OTHERS = ("native", "torch")
TINY = Case(parse_descriptor('mb1ic8ih8oc8kh3ph1n"tiny"'), "BWD_D", "f32", "NCX")

DESCRIPTION = """Time convolutions, transposed convolutions and their gradients as a user calls
them, with fresh results, and compare with others that take turns with them, each in a process
of its own. A ratio is the other's time over ours: above 1, ours is faster. Without --suite,
--conv, --deconv, --batch or --tiny, a small set of its own. Exit status 1 if something could
not be timed, except for what a competitor does not implement."""
EPILOG = """examples:
  python -m onednn_py bench
  python -m onednn_py bench --suite=resnet50 --dt=bf16 --format=NCX --effort=measure
  python -m onednn_py bench --conv mb16ic64ih56oc64oh56kh3ph1 --compare=native,torch
  python -m onednn_py bench --suite=mobilenet,unet --json=ratios.json --plot=ratios.svg
  python -m onednn_py bench --tiny
"""


def add_parser(commands: Any) -> None:
    """Register the command ``bench``."""
    parser = commands.add_parser(
        "bench",
        help="time benchdnn's problems against native oneDNN, PyTorch and NumPy",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_suite_option(parser)
    parser.add_argument(
        "--tiny",
        action="store_true",
        help="time calls rather than arithmetic: a problem of 1 x 8 x 8 x 8, in microseconds",
    )
    add_problem_options(parser, ",".join(DEFAULT_DIRECTIONS))
    parser.add_argument(
        "--compare",
        type=_compared,
        metavar="WHO,...",
        help="with whom: native (C++ on the same oneDNN, needs a compiler), torch, numpy (our own "
        "backend), none (default: all that can run here)",
    )
    parser.add_argument(
        "--effort", choices=EFFORTS, default=EFFORTS[0], help="of our plans (default: %(default)s)"
    )
    parser.add_argument(
        "--threads",
        type=thread_count,
        metavar="N",
        help="of everybody (default: what oneDNN takes)",
    )
    parser.add_argument(
        "--budget",
        type=positive,
        default=DEFAULT_BUDGET,
        metavar="SECONDS",
        help="for each competitor and problem (default: %(default)g)",
    )
    parser.add_argument("--json", metavar="FILE", help="write all times as JSON; - for stdout")
    parser.add_argument(
        "--plot", type=picture, metavar="FILE", help="draw the ratios to a .png or .svg file"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit status.

    Raises
    ------
    OneDNNPyError
        Where an option is wrong, or a competitor that was asked for cannot run.
    """
    if arguments.plot is not None:
        require("matplotlib", "matplotlib", "bench")
    check_writable((arguments.plot, arguments.json))
    screen = Screen(sys.stderr if arguments.json == "-" else sys.stdout)
    cases = _cases(arguments, screen)
    content = _settings(arguments)
    screen.say(_title(content))
    if (busy := content["busy_cores"]) is not None and busy > MOST_BUSY_CORES:
        screen.say(f"other processes keep {busy:.1f} cores busy: the times will be disturbed")
    results: list[Result] = []
    tiny: list[Result] = []
    # What was measured until an interrupt is reported as well.
    with suppress(KeyboardInterrupt):
        if cases:
            names = ("ours", *_others(arguments, OTHERS))
            with _started(arguments, content, screen, names) as benchmark:
                table = CaseTable(cases, benchmark.names[1:])
                screen.say(table.heading())
                for case in screen.tracked(cases):
                    results.append(benchmark.measure(case))
                    for line in (table.line(results[-1]), *fault_lines(results[-1])):
                        screen.say(line)
        if arguments.tiny:
            names = ("ours", "plan", *_others(arguments, TINY_OTHERS))
            with _started(arguments, content, screen, names) as benchmark:
                tiny.append(benchmark.measure(TINY))
    complete = len(results) == len(cases) and len(tiny) == arguments.tiny
    _report(arguments, content, screen, results, tiny)
    if not complete:
        screen.say(f"interrupted, {len(cases) - len(results)} problems were left")
        return 130
    return 0 if all(result.as_expected for result in (*results, *tiny)) else 1


def _cases(arguments: argparse.Namespace, screen: Screen) -> list[Case]:
    if arguments.tiny and not arguments.sources:
        return []
    cases, notes = selected_cases(arguments, default_problems(), DEFAULT_DIRECTIONS)
    for note in notes:
        screen.say(note)
    empty = [case for case in cases if not case.descriptor.minibatch]
    for case in empty:
        screen.say(f"left out, with nothing to compute: {case.descriptor}")
    if len(empty) == len(cases):
        raise AttributeValueError("no problem to time")
    return [case for case in cases if case not in empty]


def default_problems() -> list[Descriptor]:
    """Return what is timed where the command line names no problem."""
    return [
        *(parse_descriptor(text) for text in CONVOLUTIONS),
        *(parse_descriptor(text, transposed=True) for text in TRANSPOSED),
    ]


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    facts = info()
    names = ("onednn_py", "numpy", "library", "version", "hash", "cpu_isa")
    return {
        **{name: facts[name] for name in names},
        "cpu": cpu_name(),
        "threads": arguments.threads or get_num_threads(),
        "effort": arguments.effort,
        "budget": arguments.budget,
        "busy_cores": busy_cores(),
    }


def _title(content: Mapping[str, Any]) -> str:
    library = f"oneDNN {content['version']} for {content['cpu_isa']}"
    threads = f"{content['threads']} thread{'s' if content['threads'] > 1 else ''}"
    return f"{library if content['version'] else 'NumPy'}, {threads}, effort {content['effort']}"


def _others(arguments: argparse.Namespace, possible: Sequence[str]) -> list[str]:
    asked = arguments.compare
    return [name for name in possible if asked is None or name in asked]


@contextmanager
def _started(
    arguments: argparse.Namespace,
    content: dict[str, Any],
    screen: Screen,
    names: Sequence[str],
) -> Iterator[Benchmark]:
    """Start the competitors; note their versions and the machine's peak for the JSON."""
    # Who was asked for by name must be there.
    optional = OTHERS if arguments.compare is None else ()
    with contestants(
        names, optional=optional, threads=content["threads"], effort=arguments.effort
    ) as (found, missing):
        for note in missing:
            screen.say(note)
        benchmark = Benchmark(found, budget=arguments.budget)
        content["competitors"] = {**content.get("competitors", {}), **benchmark.versions}
        yield benchmark
        content["peak"] = {**content.get("peak", {}), **benchmark.peaks}


def _report(
    arguments: argparse.Namespace,
    content: Mapping[str, Any],
    screen: Screen,
    results: Sequence[Result],
    tiny: Sequence[Result],
) -> None:
    lines = [*group_lines(grouped(results)), *gap_lines(results)]
    for result in tiny:
        lines += [*tiny_lines(result), *fault_lines(result)]
    for line in lines:
        screen.say(line)
    found = {**content, **to_json(results)}
    if tiny:
        found["tiny"] = to_json(tiny)["cases"][0]
    write_json(arguments.json, found)
    if arguments.plot is not None:
        if grouped(results):
            save_ratio_figure(arguments.plot, results, _title(content))
            screen.say(f"the ratios are drawn in {arguments.plot}")
        else:
            screen.say("there is no ratio to draw")


def _compared(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.lower().split(",")))
    if names == ("none",):
        return ()
    for name in names:
        if name not in OTHERS:
            listed = ", ".join(OTHERS)
            raise argparse.ArgumentTypeError(f"expected some of {listed} or none; got {name!r}")
    return names
