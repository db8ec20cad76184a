#!/usr/bin/env python
"""Times NumPy programs that call this library: the default against what users can set by hand.

Training loops of NumPy's products and this library's gradients, the network of the demo, gradients
alone and products alone, under several settings of the threads. Each setting runs in processes of
its own, which take turns; a figure is the median over the rounds of the mean time of a step.
Prints a table in Markdown, in milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import checkout  # noqa: F401
import numpy as np
from numpy.typing import NDArray

# Environment variables. With "leave", idle threads spin as long as their libraries let them, which
# is what the other settings are compared in, too.
_LEAVE = {"ONEDNN_PY_IDLE_THREADS": "leave"}
SETTINGS: dict[str, dict[str, str]] = {
    "default": {},
    "leave": _LEAVE,
    "OMP_NUM_THREADS=1": {**_LEAVE, "OMP_NUM_THREADS": "1"},
    "OPENBLAS_NUM_THREADS=1": {**_LEAVE, "OPENBLAS_NUM_THREADS": "1"},
    "OPENBLAS_THREAD_TIMEOUT=4": {**_LEAVE, "OPENBLAS_THREAD_TIMEOUT": "4"},
    "GOMP_SPINCOUNT=0": {**_LEAVE, "GOMP_SPINCOUNT": "0"},
    "OMP_PROC_BIND=true": {**_LEAVE, "OMP_PROC_BIND": "true"},
}
_OURS = ("default", "leave")

# Minibatch, channels, height and width, outputs; the kernel is 3x3.
LOOPS = ((32, 16, 8, 32), (32, 32, 14, 32), (16, 32, 28, 64), (16, 64, 56, 64))
WIDTHS = (64, 200, 500, 1000)

# Not measured: plans are built, memory is mapped, idle threads are looked at.
WARM_UP = 3

Step = Callable[[], Any]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=0.5, help="of each case; default: %(default)s"
    )
    parser.add_argument(
        "--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="NAME"
    )
    parser.add_argument("--cases", default="", help="only those whose names contain this")
    parser.add_argument(
        "--busy", action="store_true", help="beside a process that keeps one core busy"
    )
    parser.add_argument("--json", action="store_true", help="print the times of every round")
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    parsed = parser.parse_args(arguments)
    if parsed.in_this_process:
        print(json.dumps(measure(parsed.cases, parsed.seconds)))
        return 0
    names = list(_cases())
    if not any(parsed.cases in name for name in names):
        parser.error(f"no case's name contains {parsed.cases!r}; cases: {'; '.join(names)}")
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in parsed.settings}
    with _busy_process() if parsed.busy else contextlib.nullcontext():
        for _ in range(parsed.rounds):
            for name, found in rounds.items():
                found.append(_in_fresh_process(SETTINGS[name], parsed))
    if parsed.json:
        print(json.dumps(rounds, indent=1))
    else:
        print(table(rounds))
    return 0


@contextlib.contextmanager
def _busy_process() -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def _in_fresh_process(variables: Mapping[str, str], parsed: argparse.Namespace) -> dict[str, float]:
    # Nothing that the caller has set may change how long threads spin.
    own = {name for setting in SETTINGS.values() for name in setting}
    inherited = {name: value for name, value in os.environ.items() if name not in own}
    command = [sys.executable, __file__, "--in-this-process", f"--seconds={parsed.seconds}"]
    done = subprocess.run(
        [*command, f"--cases={parsed.cases}"],
        env={**inherited, **variables},
        stdout=subprocess.PIPE,
        check=True,
    )
    times: dict[str, float] = json.loads(done.stdout)
    return times


def measure(wanted: str, seconds: float) -> dict[str, float]:
    """Return the mean time of a step of every case, in milliseconds."""
    return {name: _mean(make(), seconds) for name, make in _cases().items() if wanted in name}


def _mean(step: Step, seconds: float) -> float:
    for _ in range(WARM_UP):
        step()
    count, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds or not count:
        step()
        count += 1
    return elapsed / count * 1e3


def _cases() -> dict[str, Callable[[], Step]]:
    cases: dict[str, Callable[[], Step]] = {}
    for loop in LOOPS:
        cases[f"loop {', '.join(map(str, loop))}"] = lambda loop=loop: _training_loop(*loop)
    try:
        import sklearn  # noqa: F401 - the demo's images

        cases["demo, a training step"] = _demo
    except ImportError:
        pass
    for loop in LOOPS:
        cases[f"gradients alone {', '.join(map(str, loop[:3]))}"] = lambda loop=loop: _gradients(
            *loop[:3]
        )
    for width in WIDTHS:
        cases[f"products alone {width}"] = lambda width=width: _product(width)
    return cases


def _tensors(batch: int, channels: int, height: int) -> tuple[NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(0)
    src = random.standard_normal((batch, channels, height, height), dtype=np.float32)
    weights = random.standard_normal((channels, channels, 3, 3), dtype=np.float32)
    return src, weights / np.float32(3 * np.sqrt(channels))


_ATTRIBUTES: Any = {"pads_begin": 1, "pads_end": 1, "data_format": "NCX", "weights_format": "OIX"}


def _training_loop(batch: int, channels: int, height: int, outputs: int) -> Step:
    """Return a training step of a convolution and a dense layer."""
    import onednn_py

    src, weights = _tensors(batch, channels, height)
    random = np.random.default_rng(1)
    dense = random.standard_normal((channels * height**2, outputs), dtype=np.float32) * 0.01

    def step() -> None:
        dst = onednn_py.convolution(src, weights, **_ATTRIBUTES)
        features = dst.reshape(batch, -1)
        diff_scores = features @ dense
        _ = features.T @ diff_scores
        diff_dst = (diff_scores @ dense.T).reshape(dst.shape)
        onednn_py.convolution_backward(src, weights, diff_dst, **_ATTRIBUTES)

    return step


def _gradients(batch: int, channels: int, height: int) -> Step:
    import onednn_py

    src, weights = _tensors(batch, channels, height)
    return lambda: onednn_py.convolution_backward(src, weights, src, **_ATTRIBUTES)


def _product(width: int) -> Step:
    import onednn_py

    # As in a program that calls this library, too.
    onednn_py.convolution(np.ones((1, 9, 2), np.float32), np.ones((3, 2, 4), np.float32))
    factor = np.random.default_rng(0).standard_normal((width, width), dtype=np.float32)
    result = np.empty_like(factor)
    return lambda: np.matmul(factor, factor, out=result)


def _demo() -> Step:
    from onednn_py.tools.demo import training
    from onednn_py.tools.demo.network import Network

    digits = training.load_digits()
    images, labels = digits.train_images[: training.BATCH], digits.train_labels[: training.BATCH]
    network = Network(np.dtype(np.float32), 0)
    return lambda: network.gradients(images, labels)


def table(rounds: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Return the medians as a table, and the default's ratios to others."""
    medians = {
        name: {case: statistics.median(times[case] for times in found) for case in found[0]}
        for name, found in rounds.items()
    }
    cases = list(next(iter(medians.values())))
    others = [name for name in medians if name not in _OURS]
    ratios: dict[str, list[str]] = {}
    if "default" in medians:
        ratios = {"default / leave": ["leave"] if "leave" in medians else []}
        ratios["default / best of the others"] = others
        ratios = {name: rivals for name, rivals in ratios.items() if rivals}
    lines = [["", *medians, *ratios], ["---"] * (1 + len(medians) + len(ratios))]
    for case in cases:
        row = [case, *(f"{times[case]:.3g}" for times in medians.values())]
        for rivals in ratios.values():
            best = min(medians[name][case] for name in rivals)
            row.append(f"{medians['default'][case] / best:.2f}")
        lines.append(row)
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


if __name__ == "__main__":
    sys.exit(main())
