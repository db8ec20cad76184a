"""Calls while every other thread waits: which threads are known to wait, and which are not."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import queue
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from onednn_py.system import waiting_threads
from onednn_py.system.waiting_threads import call_while_others_wait, first_at_work


@contextmanager
def beside(work: Callable[[], object], end: Callable[[], object]) -> Iterator[None]:
    """Run ``work`` on another thread, which ``end`` ends, inside the ``with`` block."""
    thread = threading.Thread(target=work, name="beside", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end()
        thread.join(60)


def reaches(wanted: Callable[[], bool]) -> bool:
    """Whether a condition is met within some seconds; threads begin to wait when they can."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if wanted():
            return True
        time.sleep(0.01)
    return False


def called() -> bool:
    """Whether a function is called now."""
    calls: list[int] = []

    def function() -> int:
        calls.append(1)
        return 0

    # In real use the functions are C functions.
    found = call_while_others_wait([function])
    assert found == bool(calls)
    return found


def on_event() -> tuple[Callable[[], object], Callable[[], object]]:
    event = threading.Event()
    return event.wait, event.set


def on_queue() -> tuple[Callable[[], object], Callable[[], object]]:
    items: queue.Queue[int] = queue.Queue()
    return items.get, lambda: items.put(1)


def on_selector() -> tuple[Callable[[], object], Callable[[], object]]:
    reading, writing = socket.socketpair()
    selector = selectors.DefaultSelector()
    selector.register(reading, selectors.EVENT_READ)

    def work() -> None:
        selector.select()
        for opened in (selector, reading, writing):
            opened.close()

    return work, lambda: writing.send(b"x")


def on_tests() -> tuple[Callable[[], object], Callable[[], object]]:
    """A thread that brings a worker of pytest-xdist its tests."""
    gateway = pytest.importorskip("execnet.gateway_base", reason="no pytest-xdist here")
    reading, writing = (
        os.fdopen(end, mode) for end, mode in zip(os.pipe(), ("rb", "wb"), strict=True)
    )
    pipe = gateway.Popen2IO(writing, reading, gateway.get_execmodel("thread"))

    def end() -> None:
        pipe.write(b"x")
        pipe.close_write()

    def work() -> None:
        pipe.read(1)
        pipe.close_read()

    return work, end


def on_thread() -> tuple[Callable[[], object], Callable[[], object]]:
    event = threading.Event()
    other = threading.Thread(target=event.wait, daemon=True)
    other.start()
    return other.join, event.set


@pytest.fixture(autouse=True)
def alone() -> None:
    """No thread of another test is at work."""
    assert reaches(lambda: first_at_work() is None)


@pytest.mark.parametrize("wait", [on_event, on_queue, on_selector, on_tests, on_thread])
def test_threads_that_are_known_to_wait(
    wait: Callable[[], tuple[Callable[[], object], Callable[[], object]]],
) -> None:
    work, end = wait()
    with beside(work, end):
        assert reaches(lambda: first_at_work() is None)
        assert reaches(called)


def test_idle_threads_of_a_pool() -> None:
    with ThreadPoolExecutor(2) as pool:
        pool.submit(int).result()
        assert reaches(called)


def test_a_thread_in_code_that_is_not_known() -> None:
    """A lock that user's code takes itself looks like any function of C that it calls."""
    lock = threading.Lock()
    lock.acquire()

    def work() -> None:
        lock.acquire()

    with beside(work, lock.release):
        where = f"thread beside in work of {os.path.basename(__file__)}"
        assert reaches(lambda: first_at_work() == where)
        for _ in range(100):
            assert not called()


def test_a_thread_without_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in C may have started Python, and compute on its main thread."""
    real = sys._current_frames
    main = threading.main_thread().ident
    with beside(*on_event()):
        assert reaches(called)
        monkeypatch.setattr(
            sys, "_current_frames", lambda: {k: v for k, v in real().items() if k != main}
        )
        assert not called()
        assert first_at_work() == "thread MainThread in code that is not Python's"


def test_several_functions_are_called_in_order() -> None:
    calls: list[int] = []

    def first() -> int:
        calls.append(1)
        return 0

    def second() -> int:
        calls.append(2)
        return 0

    assert call_while_others_wait([first, second])
    assert calls == [1, 2]


def test_garbage_collection_is_put_back() -> None:
    seen: list[bool] = []

    def function() -> int:
        seen.append(gc.isenabled())
        return 0

    call_while_others_wait([function])
    assert gc.isenabled()
    gc.disable()
    try:
        call_while_others_wait([function])
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert seen == [False, False]


def test_without_an_interpreter_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread might begin a product at any moment, so there must be none."""
    monkeypatch.setattr(waiting_threads, "_has_lock", lambda: False)
    if len(sys._current_frames()) == 1:
        assert called()
    with beside(*on_event()):
        assert reaches(lambda: first_at_work() is None)
        assert not called()


@pytest.mark.skipif(os.name != "posix", reason="C functions by name")
def test_no_other_thread_runs_between_the_look_and_the_call() -> None:
    """A thread that is often at work, and says so, is never at work when the function is called."""
    woken, stop = threading.Event(), threading.Event()
    at_work, seen = ctypes.c_int(0), ctypes.c_int(0)
    copy = ctypes.PyDLL(None).memcpy
    copy.restype = None
    look = functools.partial(copy, ctypes.byref(seen), ctypes.byref(at_work), 4)

    def work() -> None:
        while not stop.is_set():
            woken.wait(0.0002)
            at_work.value = 1
            for _ in range(2000):
                pass
            at_work.value = 0

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    calls = 0
    try:
        with beside(work, stop.set):
            for _ in range(20000):
                calls += call_while_others_wait([look])
                assert not seen.value
    finally:
        sys.setswitchinterval(interval)
    assert calls
