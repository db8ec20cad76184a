"""Work on several threads: every item once, errors, nesting, NumPy's error state, forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from onednn_py.system import parallel
from onednn_py.system.parallel import available_cpus, boxes, each, spans
from tests.support.forks import needs_fork

THREADS = [1, 2, 5]


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_every_item_is_done_once(count: int, threads: int) -> None:
    done = np.zeros(count, int)
    lock = threading.Lock()

    def work(item: int) -> None:
        with lock:
            done[item] += 1

    each(work, range(count), threads)
    assert (done == 1).all()


def test_spans_and_boxes() -> None:
    assert list(spans(5, 2)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert list(spans(0, 3)) == []
    for shape in ((7,), (3, 5, 4), (1, 1), (2, 0, 3), (9, 2, 1, 11)):
        for most in (1, 2, 5, 8, 13, 10**6):
            grid = np.zeros(shape, int)
            for box in boxes(shape, most):
                grid[box] += 1
                assert 0 < grid[box].size <= most
            assert (grid == 1).all()


@pytest.mark.parametrize("threads", THREADS)
def test_the_first_error_is_raised(threads: int) -> None:
    done = []

    def work(item: int) -> None:
        if item == 3:
            raise KeyError(item)
        done.append(item)

    with pytest.raises(KeyError, match="3"):
        each(work, range(1000), threads)
    assert len(done) < 999 or threads > 1
    each(done.append, range(3), threads)


def test_an_error_of_a_worker_is_raised() -> None:
    caller = threading.get_ident()
    workers = threading.Event()

    def work(item: int) -> None:
        if threading.get_ident() != caller:
            workers.set()
            raise MemoryError
        workers.wait(10)

    with pytest.raises(MemoryError):
        each(work, range(2), 2)


def test_nested_work_stays_on_its_thread() -> None:
    def work(item: int) -> None:
        here = threading.get_ident()
        inner: list[int] = []
        each(lambda _: inner.append(threading.get_ident()), range(10), 3)
        assert set(inner) == {here}

    each(work, range(10), 3)


@pytest.mark.parametrize("action", ["ignore", "raise"])
def test_workers_take_over_the_error_state(action: str) -> None:
    zeros, barrier = np.zeros(10), threading.Barrier(2, timeout=10)

    def work(item: int) -> None:
        barrier.wait()
        1 / zeros

    with warnings.catch_warnings(), np.errstate(divide=action):
        warnings.simplefilter("error")
        if action == "ignore":
            each(work, range(2), 2)
        else:
            with pytest.raises(FloatingPointError):
                each(work, range(2), 2)


def test_many_callers_at_once() -> None:
    totals = [0] * 8

    def call(number: int) -> None:
        results: list[int] = []
        each(results.append, range(200), 3)
        totals[number] = sum(results)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30)
    assert totals == [sum(range(200))] * 8


@pytest.mark.skipif(available_cpus() < 2, reason="no second thread")
def test_work_that_no_future_is_known_of_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system gives no further thread, work is queued all the same, and may be begun."""
    fresh = ThreadPoolExecutor(2, "onednn_py", parallel._begin_worker)
    monkeypatch.setattr(parallel, "_workers", fresh)
    is_worker_busy, may_go_on = threading.Event(), threading.Event()

    def block(_: int) -> None:
        if threading.current_thread() is not caller:
            is_worker_busy.set()
            may_go_on.wait(30)
        else:
            is_worker_busy.wait(30)

    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def work(item: int) -> None:
        if threading.current_thread().name.startswith("onednn_py"):
            has_item.set()
            time.sleep(0.2)
        else:
            may_go_on.set()
            has_item.wait(30)
        done.append(item)

    caller = threading.Thread(target=each, args=(block, range(2), 2))
    caller.start()
    is_worker_busy.wait(30)
    done: list[int] = []
    has_item = threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        each(work, range(6), 2)
    assert has_item.is_set()
    assert sorted(done) == list(range(6))
    caller.join(30)
    fresh.shutdown()


@needs_fork
def test_a_forked_child_has_one_thread_and_exit_does_not_hang() -> None:
    code = """
import atexit, os, threading
from onednn_py.system.parallel import current_threads, each
idents = set()
each(lambda item: None, range(100), 3)
child = os.fork()
if child == 0:
    each(lambda item: idents.add(threading.get_ident()), range(100))
    os._exit(0 if current_threads() == 1 and len(idents) == 1 else 1)
status = os.waitpid(child, 0)[1]
assert status == 0, status
# The workers have stopped by then; the caller does all the work.
atexit.register(lambda: each(lambda item: None, range(100), 3))
"""
    # Since Python 3.12 a fork beside other threads warns.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not done.stderr


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity of threads")
def test_workers_do_not_share_the_cpu_of_a_bound_caller() -> None:
    # OpenMP binds the calling thread like this under OMP_PROC_BIND.
    code = """
import os, threading
from onednn_py.system.parallel import available_cpus, each
cpus = os.sched_getaffinity(0)
os.sched_setaffinity(0, {min(cpus)})
assert available_cpus() == len(cpus)
barrier = threading.Barrier(2, timeout=30)
found = {}
def work(item):
    found[threading.current_thread()] = os.sched_getaffinity(0)
    barrier.wait()
each(work, range(2), 2)
worker, = (found[thread] for thread in found if thread is not threading.main_thread())
assert worker == cpus, worker
assert os.sched_getaffinity(0) == {min(cpus)}
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


INTERRUPTED = """
import signal, threading, time
from onednn_py.system.parallel import each

class Stop(Exception):
    pass

def interrupt(*_):
    raise Stop

begun, ended, worker_has_item = [], [], threading.Semaphore(0)
def work(item):
    begun.append(item)
    if threading.current_thread() is threading.main_thread():
        if item == 0:
            worker_has_item.acquire(timeout=20)
    else:
        worker_has_item.release()
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        time.sleep(1.0)
    ended.append(item)

signal.signal(signal.SIGALRM, interrupt)
try:
    each(work, range(20), threads=2)
except Stop:
    assert sorted(begun) == sorted(ended) == list(range(20)), (begun, ended)
else:
    raise AssertionError("no interrupt")
each(begun.append, range(20), threads=2)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer signals here")
@pytest.mark.skipif(available_cpus() < 2, reason="no second thread")
def test_an_interrupt_waits_for_workers() -> None:
    """The arrays that workers write to may be reused afterwards."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
