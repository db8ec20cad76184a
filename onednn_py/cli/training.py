"""The command ``bench --training``: times the training steps of networks in PyTorch."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from onednn_py import AttributeValueError
from onednn_py.config import EFFORTS
from onednn_py.tools.benchmark.machine import busy_cores, busy_cores_warning, cpu_name
from onednn_py.tools.benchmark.training.figure import save_training_figure
from onednn_py.tools.benchmark.training.measurement import TrainingBenchmark
from onednn_py.tools.benchmark.training.networks import NETWORKS
from onednn_py.tools.benchmark.training.report import (
    HEADING,
    call_lines,
    left_lines,
    settings_title,
    step_line,
    summary_lines,
)
from onednn_py.tools.benchmark.training.results import StepResult, to_json
from onednn_py.tools.benchmark.training.settings import Settings
from onednn_py.tools.extras import require
from onednn_py.tools.text import counted

from .outputs import check_writable, library_title, picture, run_facts, write_json
from .problems import natural, positive, thread_count
from .screen import Screen

__all__ = ["NAME", "add_parser", "run"]

# A command of its own, for its options are not those of the problems: see `main`.
NAME = "bench --training"

DEFAULT_SECONDS = 5.0

# Networks without a tensor that has the memory format channels_last.
WITHOUT_CHANNELS_LAST = ("wavenet",)

DESCRIPTION = """Time the training step of well-known networks in PyTorch on the CPU, with
PyTorch's own convolutions (plain) and after onednn_py.torch.enable() (enabled). Both take turns in
one process, and the medians of all steps are compared: a ratio above 1 means that the enabled step
is faster. The column "convolution" is the share of the plain step that convolutions and their
gradients take; "taken" and "left" are the convolutions of an enabled step that ran here, and that
were left to PyTorch. A step is the forward pass, the loss, the gradients and stochastic gradient
descent. With --dtype bf16 or f16, parameters and samples are of that type; float16 has smaller
minibatches, for PyTorch's float16 is many times slower. Exit status 1 if a network failed."""
EPILOG = """examples:
  python -m onednn_py bench --training
  python -m onednn_py bench --training --model resnet50,unet --dtype bf16
  python -m onednn_py bench --training --compile --memory-format channels_last --json steps.json
  python -m onednn_py bench --training --model wavenet --calls --effort measure
"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        NAME,
        help="time training steps of networks in PyTorch, enabled and not",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "--model",
        type=_models,
        default=tuple(NETWORKS),
        metavar="NAME,...",
        help=f"{', '.join(NETWORKS)}, or all (default: all)",
    )
    parser.add_argument(
        "--dtype",
        choices=("f32", "bf16", "f16"),
        default="f32",
        help="type of parameters and samples (default: %(default)s)",
    )
    parser.add_argument(
        "--autocast",
        action="store_true",
        help="parameters in f32, and torch.autocast to the type of --dtype instead",
    )
    parser.add_argument(
        "--batch",
        type=_samples,
        metavar="N",
        help="samples of a step, in place of each network's own number",
    )
    parser.add_argument(
        "--compile", action="store_true", help="compile the networks with torch.compile (Inductor)"
    )
    parser.add_argument(
        "--memory-format",
        choices=("channels_first", "channels_last"),
        default="channels_first",
        help="of parameters and samples (default: %(default)s)",
    )
    parser.add_argument(
        "--effort",
        choices=EFFORTS,
        default=EFFORTS[0],
        help="of the enabled steps (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=positive,
        default=DEFAULT_SECONDS,
        metavar="S",
        help="of timed steps for each network, plain and enabled (default: %(default)g); at least "
        "three steps of each",
    )
    parser.add_argument(
        "--threads",
        type=thread_count,
        metavar="N",
        help="of PyTorch and oneDNN (default: what oneDNN takes)",
    )
    parser.add_argument(
        "--memory",
        action="store_true",
        help="measure also the most memory that a process holds which trains, plain and enabled, "
        "each in a process of its own",
    )
    parser.add_argument(
        "--calls",
        action="store_true",
        help="name the calls inside of the step that are slower than PyTorch's own",
    )
    parser.add_argument(
        "--small",
        action="store_true",
        help="small networks of the same kinds of layers, to try the command in seconds",
    )
    parser.add_argument(
        "--plot", type=picture, metavar="FILE", help="draw the ratios to a .png or .svg file"
    )
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write all times as JSON, to a file after each network; - for stdout",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.autocast and arguments.dtype == "f32":
        raise AttributeValueError("--autocast: needs --dtype bf16 or f16, to which it casts")
    if arguments.plot is not None:
        require("matplotlib", "matplotlib", "bench")
    check_writable((arguments.plot, arguments.json))
    screen = Screen(arguments.json)
    chosen = _chosen(arguments, screen)
    facts = run_facts()
    threads = arguments.threads or facts["threads"]
    benchmark = TrainingBenchmark(
        threads=threads, budget=arguments.seconds, memory=arguments.memory
    )
    content = {
        **facts,
        "cpu": cpu_name(),
        "threads": threads,
        "torch": benchmark.version,
        "budget": arguments.seconds,
        "busy_cores": busy_cores(),
    }
    title = (
        f"{benchmark.version}, {library_title(content)}, {counted(threads, 'thread')}: "
        f"{settings_title(chosen[0])}"
    )
    if warning := busy_cores_warning(content["busy_cores"]):
        screen.say(warning)
    screen.say(title, HEADING)
    results: list[StepResult] = []
    # Results that precede an interrupt are reported as well.
    with suppress(KeyboardInterrupt):
        for settings in screen.tracked(chosen):
            results.append(benchmark.measure(settings))
            screen.say(step_line(results[-1]))
            if results[-1].memory_failure:
                screen.say(f"memory was not measured: {results[-1].memory_failure}")
            if arguments.calls:
                screen.say(*call_lines(results[-1]))
            if arguments.json != "-":  # a process that is killed has written what it measured
                write_json(arguments.json, {**content, **to_json(results)})
    screen.say(*summary_lines(results), *left_lines(results))
    write_json(arguments.json, {**content, **to_json(results)})
    if arguments.plot is not None:
        _plot(arguments, screen, results, title)
    left = len(chosen) - len(results)
    succeeded = not any(result.failure or result.memory_failure for result in results)
    return screen.exit_status(left, "networks", succeeded=succeeded)


def _chosen(arguments: argparse.Namespace, screen: Screen) -> list[Settings]:
    """Return the settings of each network; say which has no such memory format."""
    channels_last = arguments.memory_format == "channels_last"
    names = list(arguments.model)
    if channels_last:
        for name in WITHOUT_CHANNELS_LAST:
            if name in names:
                names.remove(name)
                screen.say(f"left out: {name}, whose 1-D tensors cannot be channels_last")
    if not names:
        raise AttributeValueError("--memory-format channels_last: no network is left")
    settings = Settings(
        names[0],
        dtype=arguments.dtype,
        batch=arguments.batch,
        autocast=arguments.autocast,
        compiled=arguments.compile,
        channels_last=channels_last,
        effort=arguments.effort,
        small=arguments.small,
    )
    return [dataclasses.replace(settings, network=name) for name in names]


def _plot(
    arguments: argparse.Namespace, screen: Screen, results: Sequence[StepResult], title: str
) -> None:
    if any(result.ratio for result in results):
        name, _, how = title.rpartition(": ")
        save_training_figure(arguments.plot, {how: results}, name.replace(", ", "\n", 1))
        screen.say(f"the ratios are drawn in {arguments.plot}")
    else:
        screen.say("there is no ratio to draw")


def _models(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.lower().split(",")))
    if names == ("all",):
        return tuple(NETWORKS)
    for name in names:
        if name not in NETWORKS:
            listed = ", ".join(NETWORKS)
            raise argparse.ArgumentTypeError(f"expected some of {listed}, or all; got {name!r}")
    return names


def _samples(text: str) -> int:
    number = natural(text)
    if not number:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1, got {text!r}")
    return number
