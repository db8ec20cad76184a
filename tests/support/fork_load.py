"""A program that forks again and again while its other threads call the package.

Run with the number of forks, the backend's name and a number of programs; each program prints the
number of its good children. A child that does not end in 20 seconds prints where it stands, and
fails. Programs run one after another, in processes that have imported the package and called
nothing: most of a program's time would be its imports.
"""

from __future__ import annotations

import faulthandler
import os
import random
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from typing import Any

import ml_dtypes
import numpy as np

import onednn_py

# Seconds until a child is taken to hang.
PATIENCE = 20.0

# Seconds between two calls of a thread: without them, a child and the fork wait for the CPUs.
PAUSE = 5e-4

# Children that live at a time: the next one is forked while they compute.
AT_A_TIME = 8

TYPES = (np.float32, np.float32, ml_dtypes.bfloat16, np.float16)


def call(rng: random.Random, backend: str) -> bool:
    """Compute something of a random kind and a random size, and tell whether it is right."""
    # Each sum is exact in every type: at most 256 ones.
    size, channels, dtype = rng.randint(3, 16), rng.choice((1, 2, 16)), rng.choice(TYPES)
    src = np.ones((1, size + 2, size + 1, channels), dtype)
    weights = np.ones((3, 2, channels, 4), dtype)
    dst = np.ones((1, size, size, 4), dtype)
    kind = rng.randrange(4)
    if kind == 0:
        found = onednn_py.convolution(src, weights, backend=backend)
        return bool((found == 6 * channels).all())
    if kind == 1:
        found = onednn_py.plan(
            onednn_py.conv_transpose_backward_data, src, weights, backend=backend
        )(src, weights)
        return bool((found == 6 * channels).all())
    if kind == 2:
        with onednn_py.num_threads(2):
            found = onednn_py.convolution_backward_data(dst, weights, backend=backend)
        rows, columns = _meetings(size, 3), _meetings(size, 2)
        return bool((found == 4 * np.multiply.outer(rows, columns)[..., np.newaxis]).all())
    gradients = onednn_py.convolution_backward(
        src, weights, dst, wrt=("src", "weights", "bias"), backend=backend
    )
    return bool((np.asarray(gradients.diff_weights) == np.asarray(size * size, dtype)).all())


def _meetings(size: int, kernel: int) -> np.ndarray[Any, Any]:
    """Return how many of ``size`` windows of ``kernel`` elements meet each element of src."""
    return np.convolve(np.ones(size), np.ones(kernel))


def work(stop: threading.Event, seed: int, backend: str) -> None:
    rng = random.Random(seed)
    while not stop.is_set():
        if not call(rng, backend):
            raise AssertionError("a wrong result in the parent")
        time.sleep(PAUSE)


def child(number: int, backend: str) -> None:
    """Compute in a forked child, and end it."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    is_right = False
    try:
        rng = random.Random(-number)
        is_right = call(rng, backend)
    finally:
        os._exit(0 if is_right else 1)


def main(forks: int, backend: str) -> None:
    warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
    sys.setswitchinterval(1e-4)  # threads are interrupted at more places
    stop, good, children = threading.Event(), 0, deque[int]()
    # The first call opens the library, while children are forked.
    threads = [
        threading.Thread(target=work, args=(stop, seed, backend), daemon=True) for seed in range(2)
    ]
    for thread in threads:
        thread.start()
    try:
        for number in range(1, forks + AT_A_TIME + 1):
            if number <= forks:
                pid = os.fork()
                if pid == 0:
                    child(number, backend)
                children.append(pid)
            if number > AT_A_TIME:
                if os.waitstatus_to_exitcode(os.waitpid(children.popleft(), 0)[1]):
                    break
                good += 1
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    print(good, flush=True)


def run_programs(forks: int, backend: str, programs: int) -> None:
    """Run programs in processes of their own."""
    for _ in range(programs):
        pid = os.fork()
        if pid == 0:
            try:
                main(forks, backend)
            except BaseException:
                traceback.print_exc()
            sys.stderr.flush()
            os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    run_programs(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
