"""Many threads at once, plans that travel between threads, and forked children."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import onednn_py
from tests.support.cases import CURATED, OPERATIONS, case
from tests.support.forks import needs_fork
from tests.support.paths import ROOT
from tests.support.requirements import HAS_ONEDNN, needs_onednn

NAMES = ["2d", "2d_blocked_channels", "2d_strided_dilated", "2d_depthwise", "3d_groups"]


def test_calls_from_many_threads_at_once(backend: str) -> None:
    """Different problems, and the same problem with different data, with no plan built yet."""
    calls = [
        (CURATED[name].integers(dtype, seed), operation)
        for name in NAMES
        for dtype in ("f32", "bf16", "f16")
        for operation in OPERATIONS
        for seed in range(2)
    ]
    for tensors, _ in calls:
        for role in ("src", "weights", "dst"):
            tensors.expected(role)
    onednn_py.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(t.check, operation, backend) for t, operation in calls]:
            future.result()


def test_one_plan_from_many_threads_with_different_data(backend: str) -> None:
    """A workspace that threads shared would mix their results."""
    geometry = case((24, 24), 3, pads=1, minibatch=4, inputs=32, outputs=32)
    calls = []
    for seed in range(6):
        tensors = geometry.integers("f32", seed)
        (diff_dst, weights, shape), keywords = tensors.arguments(
            "convolution_backward_data", "NCX", True
        )
        calls.append((diff_dst, weights, tensors.expected("src")))
    planned = onednn_py.plan(
        onednn_py.convolution_backward_data, diff_dst, weights, shape, **keywords, backend=backend
    )
    barrier = threading.Barrier(len(calls))

    def repeat(diff_dst: np.ndarray, weights: np.ndarray, expected: np.ndarray) -> None:
        barrier.wait()
        for _ in range(20):
            np.testing.assert_array_equal(planned(diff_dst, weights), expected)

    with ThreadPoolExecutor(len(calls)) as pool:
        for future in [pool.submit(repeat, *call) for call in calls]:
            future.result()


def test_a_plan_outlives_the_thread_that_built_it(backend: str) -> None:
    tensors = CURATED["2d_blocked_channels"].integers("f32")
    (src, weights, bias), keywords = tensors.arguments("convolution", "NXC", False)
    plans = []
    thread = threading.Thread(
        target=lambda: plans.append(
            onednn_py.plan(onednn_py.convolution, src, weights, bias, **keywords, backend=backend)
        )
    )
    thread.start()
    thread.join()
    ((actual, expected),) = tensors.results(
        "convolution", plans[0](src, weights, bias), "NXC", False, "native"
    )
    np.testing.assert_array_equal(actual, expected)


# Large enough for OpenMP to enter a parallel region.
FORK = """
import os, sys, threading
import numpy as np, onednn_py

def gradients(seed):
    rng = np.random.default_rng(seed)
    src = rng.integers(-3, 4, (8, 16, 28, 28)).astype(np.float32)
    weights = rng.integers(-3, 4, (32, 16, 3, 3)).astype(np.float32)
    diff_dst = rng.integers(-3, 4, (8, 32, 28, 28)).astype(np.float32)
    found = onednn_py.convolution_backward(
        src, weights, diff_dst, pads_begin=1, pads_end=1, data_format="NCX",
        weights_format="OIX", wrt=("src", "weights", "bias"), backend={backend!r})
    return [np.asarray(array).tobytes() for array in found]

expected = [gradients(seed) for seed in range(2)]

def child():
    assert [gradients(seed) for seed in range(2)] == expected
    # New threads of the child start with OpenMP's default number.
    failures = []
    def work():
        if [gradients(seed) for seed in range(2)] != expected:
            failures.append(1)
    threads = [threading.Thread(target=work) for _ in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures
    {grandchild}
    print("child computed on", onednn_py.get_num_threads(), flush=True)

pid = os.fork()
if pid == 0:
    try:
        child()
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(1)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert [gradients(seed) for seed in range(2)] == expected
print("parent computed again")
"""
GRANDCHILD = "pid = os.fork()\n    if pid == 0:\n        os._exit(0 if gradients(0) == expected[0] else 1)\n    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0"  # noqa: E501


@needs_fork
@pytest.mark.parametrize("grandchild", [False, True])
def test_a_forked_child_computes(grandchild: bool, backend: str) -> None:
    code = FORK.replace("{grandchild}", GRANDCHILD if grandchild else "pass")
    code = code.replace("{backend!r}", repr(backend))
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "parent computed again" in done.stdout
    if HAS_ONEDNN:
        assert "child computed on 1\n" in done.stdout


def good_children(forks: int, backend: str, seconds: float, programs: int = 1) -> str:
    """Return how many children computed, of those that are forked while other threads compute."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.fork_load", str(forks), backend, str(programs)],
        capture_output=True, text=True, timeout=seconds, cwd=ROOT,
    )  # fmt: skip
    return done.stdout + done.stderr


@needs_fork
def test_a_child_forked_while_other_threads_compute(backend: str) -> None:
    """The child must not wait for locks held by threads that it does not have."""
    assert good_children(50, backend, 120) == "50\n"


@needs_fork
@pytest.mark.slow
def test_many_programs_that_fork_during_their_first_calls() -> None:
    """The first calls open the library, build primitives and execute them, each under locks."""
    backend = "onednn" if HAS_ONEDNN else "numpy"
    assert good_children(12, backend, 600, programs=100) == "12\n" * 100


@needs_fork
@pytest.mark.slow
def test_many_children_forked_while_other_threads_compute(backend: str) -> None:
    """With the 1,200 forks of first calls, 5,000; a fifth is on NumPy, which takes fewer locks."""
    forks = 2800 if backend == "onednn" else 1000
    assert good_children(forks, backend, 1500) == f"{forks}\n"


def _gradient_sum(seed: int) -> float:
    ones = np.full((2, 8, 20, 20), float(seed), np.float32)
    weights = np.ones((8, 8, 3, 3), np.float32)
    return float(
        onednn_py.convolution_backward_data(
            ones, weights, data_format="NCX", weights_format="OIX"
        ).sum()
    )


@needs_fork
def test_multiprocessing_by_fork() -> None:
    expected = [_gradient_sum(seed) for seed in range(4)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(_gradient_sum, range(4)).get(timeout=60) == expected


@needs_onednn
def test_the_number_of_threads_is_part_of_the_key() -> None:
    """A primitive is built for a number of threads, which OpenMP keeps per thread."""
    from onednn_py.backends.onednn.binding.library import library

    if not library().uses_openmp:
        pytest.skip("not an OpenMP build")
    src, weights = np.ones((1, 4, 8), np.float32), np.ones((3, 8, 8), np.float32)
    onednn_py.cache_clear()
    onednn_py.convolution(src, weights)

    def on_one_thread() -> None:
        library().lib.omp_set_num_threads(1)
        onednn_py.convolution(src, weights)

    thread = threading.Thread(target=on_one_thread)
    thread.start()
    thread.join()
    expected = 2 if onednn_py.get_num_threads() > 1 else 1
    assert onednn_py.cache_info().misses == expected
    onednn_py.cache_clear()
