"""Signal handlers that compute while their own thread computes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

import pytest

from onednn_py.backends.onednn.binding import openmp
from onednn_py.system import blas_threads, memory_pool, parallel
from onednn_py.system.memory_pool import Block, Pool

# New sizes are planned and known ones are looked up while the handler does the same.
PROGRAM = """
import contextlib, signal, sys, time
import numpy as np
import onednn_py

settings = contextlib.ExitStack()
settings.enter_context(onednn_py.use_backend(sys.argv[1]))
settings.enter_context(onednn_py.use_effort(sys.argv[2]))
onednn_py.set_cache_limit(entries=8)
weights = np.ones((3, 3, 4, 5), np.float32)
busy, computed = False, 0

def compute(size):
    src = np.ones((1, size, size, 4), np.float32)
    dst = onednn_py.convolution(src, weights)
    grads = onednn_py.convolution_backward(src, weights, dst)
    assert dst[0, 0, 0, 0] == 36, dst[0, 0, 0, 0]
    assert grads.diff_src[0, 0, 0, 0] == 180, grads.diff_src[0, 0, 0, 0]

def interrupt(number, frame):
    global busy, computed
    if not busy:
        busy = True
        compute(20 + computed % 9)
        computed += 1
        busy = False

signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
began, size = time.monotonic(), 0
while time.monotonic() - began < 2 or computed < 20:
    compute(20 + size % 12)
    size += 1
signal.setitimer(signal.ITIMER_REAL, 0)
print(computed)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers of signals")
@pytest.mark.parametrize("effort", ["heuristic", "measure"])
def test_a_handler_computes_what_its_thread_computes(backend: str, effort: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, backend, effort],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 20


class Interruption(BaseException):
    """As KeyboardInterrupt, which no test may raise."""


class AtLine:
    """Does something before a line of the pool's code, by the number of lines that ran before.

    Attributes
    ----------
    is_done : bool
        Whether so many lines ran.
    """

    def __init__(self, number: int, act: Callable[[], None]) -> None:
        self._left, self._act, self.is_done = number, act, False

    def __enter__(self) -> AtLine:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != memory_pool.__file__:
            return None
        if event == "line":
            self._left -= 1
            if self._left < 0 and not self.is_done:
                self.is_done = True
                sys.settrace(None)
                self._act()
        return self._trace


LIMIT = 2**20
SIZES = (2**16, 2**17, 2**18, 2**16, 2**17, 2**19, 2**18, 2**19)


def filled(pool: Pool) -> list[Block]:
    """Return blocks in use, beside others that are idle."""
    blocks = [pool.acquire(size) for size in SIZES]
    for block in blocks[::2]:
        pool.release(block)
    pool.give_back(pool.borrow(2**18))
    return blocks[1::2]


def use(pool: Pool, mine: list[Block]) -> None:
    """Do what calls do, with ``mine`` as the blocks that nobody else may have."""
    for size in SIZES:
        mine.append(pool.acquire(size))
    mine.append(workspace := pool.borrow(2**18))
    while len(mine) > 3:
        if (block := mine.pop(0)) is workspace:
            pool.give_back(block)
        else:
            pool.release(block)
    pool.reserve(2**16)
    pool.reserve(0)


def assert_sound(pool: Pool, *in_use: Block) -> None:
    """Assert that a pool keeps its limit, lends nothing twice, and goes on."""
    assert 0 <= pool._counted() <= LIMIT
    lent = [*in_use, *(pool.acquire(size) for size in (*SIZES, *SIZES)), pool.borrow(2**18)]
    assert len({block.ctypes.data for block in lent}) == len(lent)


def interrupted_at_each_line(act: Callable[[Pool, list[Block]], None]) -> int:
    """Use a pool again and again, with something else before each of its lines; count them."""
    for number in range(10_000):
        pool = Pool(LIMIT)
        mine, others = filled(pool), []
        with suppress(Interruption), AtLine(number, partial(act, pool, others)) as line:
            use(pool, mine)
        if not others:  # an error ended the count; the next block that comes back is counted
            pool.release(pool.acquire(LIMIT))
        assert_sound(pool, *mine, *others)
        if not line.is_done:
            return number
    raise AssertionError("the pool's work does not end")


def test_calls_that_interrupt_the_pools_work() -> None:
    """A signal handler, or a destructor, computes between two lines on the same thread."""
    assert interrupted_at_each_line(use) > 100


def test_work_of_the_pool_that_an_error_ends() -> None:
    """As Ctrl-C does: nothing is left behind that keeps the next call waiting."""

    def end(pool: Pool, others: list[Block]) -> None:
        raise Interruption

    assert interrupted_at_each_line(end) > 100


def test_threads_that_use_the_pool_between_two_lines() -> None:
    def elsewhere(pool: Pool, others: list[Block]) -> None:
        thread = threading.Thread(target=use, args=(pool, others), daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()

    assert interrupted_at_each_line(elsewhere) > 100


def test_what_is_asserted_of_a_pool_can_fail() -> None:
    pool = Pool(LIMIT)
    block = pool.acquire(2**17)
    pool.release(block)
    with pytest.raises(AssertionError):
        assert_sound(pool, block)
    pool._workspaces.extend([block] * 9)
    with pytest.raises(AssertionError):
        assert_sound(pool)


def test_work_that_interrupts_the_start_of_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors hold locks meanwhile that are not reentrant."""
    here, start, inner = threading.get_ident(), parallel._start, []

    def interrupted(*arguments: Any) -> None:
        monkeypatch.undo()
        parallel.each(lambda item: inner.append((item, threading.get_ident())), range(5), 2)
        start(*arguments)

    monkeypatch.setattr(parallel, "_start", interrupted)
    outer: list[int] = []
    parallel.each(outer.append, range(9), 2)
    assert inner == [(item, here) for item in range(5)]
    assert sorted(outer) == list(range(9))


def test_a_limit_of_threads_that_interrupts_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """threadpoolctl holds a lock while it sets a number, which is not reentrant."""

    class Controller:
        num_threads = 2

        def set_num_threads(self, number: int) -> None:
            assert lock.acquire(blocking=False)
            Controller.num_threads = number
            if number == 1:
                with blas_threads.limited(3):
                    pass
                lasting.__enter__()
            lock.release()

    lock, lasting = threading.Lock(), blas_threads.limited(4)
    monkeypatch.setattr(blas_threads, "_pools", [Controller()])
    monkeypatch.setattr(blas_threads, "_original", None)
    monkeypatch.setattr(blas_threads, "_process_limit", None)
    with blas_threads.limited(1):
        assert Controller.num_threads == 4
    assert Controller.num_threads == 4
    lasting.__exit__(None, None, None)
    assert Controller.num_threads == 2


def test_an_interrupt_while_a_number_is_set() -> None:
    """A thread keeps its number where Ctrl-C comes as soon as OpenMP has another one."""

    class InterruptedRuntime:
        def __init__(self) -> None:
            self.number = 2

        def omp_get_max_threads(self) -> int:
            return self.number

        def omp_set_num_threads(self, number: int) -> None:
            self.number = number
            if number == 1:
                raise ZeroDivisionError

    interrupted = InterruptedRuntime()
    with pytest.raises(ZeroDivisionError), openmp.OpenMP(interrupted).on(1):
        raise AssertionError("the block was entered")
    assert interrupted.number == 2
