#!/usr/bin/env python
"""Times convolutions with large kernels against SciPy's by FFT: which is faster from which size.

One image or volume of one channel, convolved with kernels of growing size, without padding: this
library's plan, `scipy.signal.fftconvolve` and `scipy.signal.oaconvolve`, in float32, with SciPy's
workers on as many threads as this library uses. The three take turns; a figure is a ratio of
medians. Prints a table in Markdown: seconds of the faster FFT over seconds of this library, by size
and kernel, and the first kernel from which on the FFT is faster.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import checkout  # noqa: F401
import numpy as np
import scipy.fft
import scipy.signal

import onednn_py

KERNELS = {2: (3, 5, 7, 9, 11, 13, 15, 21, 31), 3: (3, 5, 7, 9, 11)}
SIZES = {2: (64, 128, 256, 512, 1024, 2048), 3: (32, 64, 128, 192)}

Call = Callable[[], Any]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--axes", type=int, nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--rounds", type=int, default=7, help="default: %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=0.05, help="of each turn; default: %(default)s"
    )
    options = parser.parse_args(arguments)
    for axes in options.axes:
        print(f"\n{axes}-D, {onednn_py.get_num_threads()} threads, SciPy {scipy.__version__}\n")
        print(_row(["size", *(_power(kernel, axes) for kernel in KERNELS[axes]), "FFT from"]))
        print(_row(["---"] * (len(KERNELS[axes]) + 2)))
        for size in SIZES[axes]:
            ratios = [
                ratio(size, kernel, axes, options.rounds, options.seconds)
                for kernel in KERNELS[axes]
            ]
            print(_row([_power(size, axes), *(f"{r:.2f}" for r in ratios), first(ratios, axes)]))
            sys.stdout.flush()
    return 0


def ratio(size: int, kernel: int, axes: int, rounds: int, seconds: float) -> float:
    """Return the time of the faster FFT over that of this library."""
    calls = competitors(size, kernel, axes)
    expected = calls[0]()
    for call in calls[1:]:
        # Sums of standard normal numbers: an FFT's error grows with their size, a little.
        np.testing.assert_allclose(call(), expected, atol=1e-4 * kernel**axes)
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, found in zip(calls, times, strict=True):
            found.append(seconds_of(call, seconds))
    ours, *ffts = map(statistics.median, times)
    return min(ffts) / ours


def competitors(size: int, kernel: int, axes: int) -> list[Call]:
    rng = np.random.default_rng(0)
    image = rng.standard_normal((size,) * axes, np.float32)
    weights = rng.standard_normal((kernel,) * axes, np.float32)
    # A convolution here is a correlation in signal processing: SciPy gets the flipped kernel.
    flipped = np.ascontiguousarray(np.flip(weights))
    src, filters = image[None, ..., None], weights[..., None, None]
    plan = onednn_py.plan(onednn_py.convolution, src, filters)
    # SciPy may use the same number of threads.
    workers = onednn_py.get_num_threads()

    def by_fft(function: Callable[..., Any]) -> Call:
        def call() -> Any:
            with scipy.fft.set_workers(workers):
                return function(image, flipped, mode="valid")

        return call

    return [
        lambda: plan(src, filters)[0, ..., 0],
        by_fft(scipy.signal.fftconvolve),
        by_fft(scipy.signal.oaconvolve),
    ]


def seconds_of(call: Call, least: float) -> float:
    """Return the mean time of a call, over calls that take ``least`` seconds or more."""
    count, start = 0, time.perf_counter()
    while True:
        call()
        count += 1
        passed = time.perf_counter() - start
        if passed >= least:
            return passed / count


def first(ratios: Sequence[float], axes: int) -> str:
    """Return the first kernel from which on the FFT is faster with all that were measured."""
    slower = [index for index, value in enumerate(ratios) if value >= 1]
    index = max(slower, default=-1) + 1
    return _power(KERNELS[axes][index], axes) if index < len(ratios) else "none of these"


def _power(extent: int, axes: int) -> str:
    return "x".join([str(extent)] * axes)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
