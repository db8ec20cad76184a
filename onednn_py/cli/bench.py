"""The command ``bench``: times the public functions, native oneDNN, PyTorch and NumPy."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from onednn_py import AttributeValueError
from onednn_py.config import EFFORTS
from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchmark.bounds import bounds_to_json
from onednn_py.tools.benchmark.competitors import OTHERS, started_competitors
from onednn_py.tools.benchmark.figures import save_ratio_figure
from onednn_py.tools.benchmark.machine import busy_cores, busy_cores_warning, cpu_name
from onednn_py.tools.benchmark.measurement import Benchmark
from onednn_py.tools.benchmark.report import (
    bound_lines,
    case_labels,
    failure_lines,
    gap_lines,
    group_lines,
    result_heading,
    result_line,
    tiny_lines,
)
from onednn_py.tools.benchmark.results import Result, grouped, to_json
from onednn_py.tools.extras import require
from onednn_py.tools.text import counted

from .outputs import check_writable, library_title, picture, run_facts, write_json
from .problems import add_measuring_command, problem_options, selected_cases, some_of
from .screen import Screen

__all__ = ["TINY", "add_parser", "run"]

DEFAULT_BUDGET = 0.5

NO_PEAK = (
    "the columns peak and bound stay empty: native, which measures the machine's peak and"
    " bandwidth, takes no part"
)

# NumPy's overhead is its own; native is the least that a call can take.
TINY_OTHERS = ("native", "torch")
TINY = Case(parse_descriptor('mb1ic8ih8oc8kh3ph1n"tiny"'), "BWD_D", "f32", "NCX")

DESCRIPTION = """Time convolutions, transposed convolutions and their gradients as a user calls
them, with fresh results, and compare with others that take turns with them, each in a process of
its own. A ratio is the other's time over ours: above 1, ours is faster. The bound is the larger
of the arithmetic over the machine's peak and of the bytes, each tensor once, over its bandwidth;
the column has its share of our time, the summary where most time is lost against it. Native
measures peak and bandwidth. Without --suite, --conv, --deconv, --batch or --tiny, a small set of
its own: 8 problems, about a minute and a half on two cores. Exit status 1 if something could not
be timed, except for what a competitor does not implement."""
EPILOG = """examples:
  python -m onednn_py bench
  python -m onednn_py bench --suite=resnet50 --dt=bf16 --format=NCX --effort=measure
  python -m onednn_py bench --conv mb16ic64ih56oc64oh56kh3ph1 --compare=native,torch
  python -m onednn_py bench --suite=mobilenet,unet --json=ratios.json --plot=ratios.svg
  python -m onednn_py bench --tiny

with --training, whole training steps in PyTorch, with options of their own:
  python -m onednn_py bench --training --help
"""


def add_parser(commands: Any) -> None:
    parser = add_measuring_command(
        commands,
        "bench",
        run,
        help="time benchdnn's problems against native oneDNN, PyTorch and NumPy",
        description=DESCRIPTION,
        epilog=EPILOG,
        threads="of every competitor",
        budget="for each competitor and problem",
        seconds=DEFAULT_BUDGET,
    )
    parser.add_argument(
        "--tiny",
        action="store_true",
        help="time calls rather than arithmetic: a problem of 1 x 8 x 8 x 8, in microseconds",
    )
    parser.add_argument(
        "--compare",
        type=some_of(OTHERS),
        metavar="WHO,...",
        help="with whom: native (C++ on the same oneDNN, needs a compiler), torch, numpy (our own "
        "backend), none (default: all that can run here)",
    )
    parser.add_argument(
        "--effort",
        choices=EFFORTS,
        default=EFFORTS[0],
        help="effort of our plans (default: %(default)s)",
    )
    parser.add_argument(
        "--plot", type=picture, metavar="FILE", help="draw the ratios to a .png or .svg file"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.plot is not None:
        require("matplotlib", "matplotlib", "bench")
    check_writable((arguments.plot, arguments.json))
    screen = Screen(arguments.json)
    cases = []
    if arguments.sources or not arguments.tiny:
        cases = selected_cases(arguments, screen, "time", leave_out_empty=True)
    elif given := problem_options(arguments):
        raise AttributeValueError(
            f"--tiny: times a problem of its own, for which {', '.join(given)} has no meaning"
        )
    content = _settings(arguments)
    screen.say(_title(content))
    if warning := busy_cores_warning(content["busy_cores"]):
        screen.say(warning)
    results: list[Result] = []
    tiny: list[Result] = []
    # Results that precede an interrupt are reported as well.
    with suppress(KeyboardInterrupt):
        if cases:
            names = ("ours", *_others(arguments, OTHERS))
            with _benchmark(arguments, content, screen, names) as benchmark:
                others = list(benchmark.versions)[1:]
                heading, *labels = case_labels(cases)
                screen.say(f"{heading}  {result_heading(others)}")
                for case, label in screen.tracked(list(zip(cases, labels, strict=True))):
                    result = benchmark.measure(case)
                    results.append(result)
                    line = result_line(result, others)
                    screen.say(f"{label}  {line}", *failure_lines(result))
        if arguments.tiny:
            names = ("ours", "plan", *_others(arguments, TINY_OTHERS))
            with _benchmark(arguments, content, screen, names) as benchmark:
                tiny.append(benchmark.measure(TINY))
    _report(arguments, content, screen, results, tiny)
    left = len(cases) + arguments.tiny - len(results) - len(tiny)
    succeeded = all(result.as_expected for result in (*results, *tiny))
    return screen.exit_status(left, "problems", succeeded=succeeded)


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    facts = run_facts()
    return {
        **facts,
        "cpu": cpu_name(),
        "threads": arguments.threads or facts["threads"],
        "effort": arguments.effort,
        "budget": arguments.budget,
        "busy_cores": busy_cores(),
    }


def _title(content: Mapping[str, Any]) -> str:
    library = library_title(content) if content["version"] else "NumPy"
    return f"{library}, {counted(content['threads'], 'thread')}, effort {content['effort']}"


def _others(arguments: argparse.Namespace, possible: Sequence[str]) -> list[str]:
    chosen = arguments.compare
    return [name for name in possible if chosen is None or name in chosen]


@contextmanager
def _benchmark(
    arguments: argparse.Namespace,
    content: dict[str, Any],
    screen: Screen,
    names: Sequence[str],
) -> Iterator[Benchmark]:
    """Start the competitors; add their versions and the machine's facts to the JSON's content."""
    # A competitor that --compare names must be able to run.
    optional = OTHERS if arguments.compare is None else ()
    with started_competitors(
        names, optional=optional, threads=content["threads"], effort=arguments.effort
    ) as (competitors, missing):
        screen.say(*missing)
        if "native" not in (competitor.name for competitor in competitors):
            screen.say(NO_PEAK)
        benchmark = Benchmark(competitors, budget=arguments.budget)
        content["competitors"] = {**content.get("competitors", {}), **benchmark.versions}
        try:
            yield benchmark
        finally:
            for name, found in (
                ("peak", benchmark.peaks),
                ("bandwidth", benchmark.bandwidths),
                ("bound_gaps", benchmark.gaps),
            ):
                content[name] = {**content.get(name, {}), **found}


def _report(
    arguments: argparse.Namespace,
    content: Mapping[str, Any],
    screen: Screen,
    results: Sequence[Result],
    tiny: Sequence[Result],
) -> None:
    screen.say(*group_lines(grouped(results)), *gap_lines(results))
    if results:
        screen.say(*bound_lines(results, content.get("bound_gaps", {})))
    for result in tiny:
        screen.say(*tiny_lines(result), *failure_lines(result))
    content = {**content, **to_json(results), "bounds": bounds_to_json(results)}
    if tiny:
        content["tiny"] = to_json(tiny)["cases"][0]
    write_json(arguments.json, content)
    if arguments.plot is not None:
        if grouped(results):
            save_ratio_figure(arguments.plot, results, _title(content))
            screen.say(f"the ratios are drawn in {arguments.plot}")
        else:
            screen.say("there is no ratio to draw")
