#!/usr/bin/env python
"""Measures what a call takes besides its primitives, and prints it as tables in Markdown.

usage: benchmarks/calls.py [--format NCX|NXC] [--seconds S] [--first N]

The first table has data gradients of several sizes. Its column "primitives" is the plan's
executions alone in a loop, of reorders too; the others are microseconds above it. The second table
has the first call with each of N new image sizes, both gradients at once, against the same call
repeated, with minibatches of 1 and of 2: PyTorch computes small single images without oneDNN, and
then makes no primitive. All that is compared in a line takes turns, and the medians are printed.
PyTorch is compared with if it is installed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import checkout  # noqa: F401
import numpy as np
import numpy.typing as npt

import onednn_py
from onednn_py.backends.onednn.execution.program import _Frame
from onednn_py.system.memory_pool import pool

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

Array = npt.NDArray[Any]
Call = Callable[[], object]

# Minibatch, input channels, height and width, output channels, kernel; 10 us to 2 ms.
PROBLEMS = (
    (1, 8, 8, 8, 3),
    (2, 16, 14, 16, 3),
    (4, 16, 28, 32, 3),
    (8, 32, 28, 32, 3),
    (8, 64, 28, 64, 1),
    (8, 64, 28, 64, 3),
)

# Seconds of calls between two looks at the clock.
TURN = 2e-3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--format", choices=("NCX", "NXC"), default="NCX")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each function and problem")
    parser.add_argument("--first", type=int, default=24, metavar="N", help="new image sizes")
    arguments = parser.parse_args()
    if torch is not None:
        torch.set_num_threads(onednn_py.get_num_threads())
    names = ["problem", "primitives, us", "plan with out", "plan", "call", "PyTorch"]
    print(_line(names), _line(["---"] * len(names)), sep="\n")
    for problem in PROBLEMS:
        times = _alternate(_calls(problem, arguments.format), arguments.seconds)
        base = times["primitives"]
        others = [f"{times[name] - base:+.1f}" if name in times else "" for name in names[2:]]
        print(_line(["x".join(map(str, problem)), f"{base:.1f}", *others]), flush=True)
    print()
    print(_line(["first call, ms", "ours", "PyTorch"]), _line(["---"] * 3), sep="\n")
    for minibatch in (1, 2):
        found = _first_calls(minibatch, arguments.first, arguments.format)
        for label, times in found.items():
            row = [f"{label}, minibatch {minibatch}", *(f"{one:.2f}" for one in times)]
            print(_line(row), flush=True)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _tensors(problem: tuple[int, ...], data_format: str) -> tuple[Array, Array, Array]:
    """Return src, weights and diff_dst of ones; pads keep height and width."""
    batch, inputs, size, outputs, kernel = problem
    src = np.ones((batch, inputs, size, size), np.float32)
    weights = np.ones((outputs, inputs, kernel, kernel), np.float32)
    diff_dst = np.ones((batch, outputs, size, size), np.float32)
    if data_format == "NCX":
        return src, weights, diff_dst
    channels_last = [np.ascontiguousarray(one.transpose(0, 2, 3, 1)) for one in (src, diff_dst)]
    return channels_last[0], np.ascontiguousarray(weights.transpose(2, 3, 1, 0)), channels_last[1]


def _keywords(problem: tuple[int, ...], data_format: str) -> dict[str, Any]:
    weights_format = "OIX" if data_format == "NCX" else "XIO"
    pad = problem[-1] // 2
    return {
        "data_format": data_format,
        "weights_format": weights_format,
        "pads_begin": pad,
        "pads_end": pad,
    }


def _calls(problem: tuple[int, ...], data_format: str) -> dict[str, Call]:
    """Return what is compared: functions that compute a data gradient, by name."""
    src, weights, diff_dst = _tensors(problem, data_format)
    arguments = (diff_dst, weights, src.shape)
    keywords = _keywords(problem, data_format)
    function = onednn_py.convolution_backward_data
    planned = onednn_py.plan(function, *arguments, **keywords)
    out = planned(diff_dst, weights)
    calls: dict[str, Call] = {
        "primitives": _primitives(planned, diff_dst, weights, out),
        "plan with out": lambda: planned(diff_dst, weights, out=out),
        "plan": lambda: planned(diff_dst, weights),
        "call": lambda: function(*arguments, **keywords),
    }
    if torch is not None:
        calls["PyTorch"] = _torch_call(problem, data_format, [True, False, False])
    return calls


def _primitives(planned: Any, diff_dst: Array, weights: Array, out: Array) -> Call:
    """Return a function that executes the plan's primitives, and nothing else."""
    _, plan, pick = planned._current()
    program = plan.program
    frame = _Frame(plan.engine, program)
    block = pool.acquire(max(program.workspace_bytes, 1))
    program._place(frame, block)
    program._bind(frame, plan.address_runner.pointers(pick((diff_dst, weights, out))))

    def run(keep: object = (plan, block, diff_dst, weights, out)) -> None:
        program._run(frame)

    return run


def _torch_call(problem: tuple[int, ...], data_format: str, mask: list[bool]) -> Call:
    layout = torch.contiguous_format if data_format == "NCX" else torch.channels_last
    src, weights, diff_dst = (
        torch.from_numpy(one).to(memory_format=layout) for one in _tensors(problem, "NCX")
    )
    backward = torch.ops.aten.convolution_backward.default
    pads = [problem[-1] // 2] * 2
    geometry = ([1, 1], pads, [1, 1], False, [0, 0], 1)
    return lambda: backward(diff_dst, src, weights, None, *geometry, mask)


def _time(call: Call, number: int) -> float:
    begin = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - begin) / number


def _alternate(calls: dict[str, Call], seconds: float) -> dict[str, float]:
    """Return each function's median time in microseconds."""
    numbers, times = {}, {name: [] for name in calls}  # type: ignore[var-annotated]
    for name, call in calls.items():
        _time(call, 3)
        numbers[name] = max(1, int(TURN / _time(call, 3)))
    for _ in range(max(5, int(seconds / TURN))):
        for name, call in calls.items():
            call()
            times[name].append(_time(call, numbers[name]))
    return {name: median(found) * 1e6 for name, found in times.items()}


def _first_calls(minibatch: int, number: int, data_format: str) -> dict[str, list[float]]:
    """Return medians in milliseconds: of first calls, and of the same calls later."""
    first: list[list[float]] = []
    later: list[list[float]] = []
    for size in range(20, 21 + number):
        problem = (minibatch, 16, size, 32, 3)
        tensors = _tensors(problem, data_format)
        keywords = _keywords(problem, data_format)
        calls: list[Call] = [partial(onednn_py.convolution_backward, *tensors, **keywords)]
        if torch is not None:
            calls.append(_torch_call(problem, data_format, [True, True, False]))
        first.append([_time(call, 1) * 1e3 for call in calls])
        for call in calls:
            _time(call, 3)
        later.append([_time(call, 5) * 1e3 for call in calls])
    # The first size opens the libraries.
    return {
        "new size": [median(column) for column in zip(*first[1:], strict=True)],
        "again": [median(column) for column in zip(*later[1:], strict=True)],
    }


if __name__ == "__main__":
    main()
