"""Calls that are only safe while every other Python thread waits, in no library's function.

A thread that has released the interpreter lock is somewhere in C, and its innermost Python frame
tells where it went from. Where that is a function of the standard library that does nothing but
wait, the thread is inside no product of matrices.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, starmap
from operator import attrgetter, not_
from types import CodeType
from typing import Any

__all__ = ["call_while_others_wait", "first_at_work"]

# By module, functions whose only calls of C that release the interpreter lock are those for a lock,
# a file, a process or the time.
_WAITS = {
    "threading": (
        "Condition.wait",
        "Thread.join",
        "Thread._wait_for_tstate_lock",
    ),
    "selectors": (
        "SelectSelector.select",
        "SelectSelector._select",
        "_PollLikeSelector.select",
        "EpollSelector.select",
        "DevpollSelector.select",
        "KqueueSelector.select",
    ),
    "concurrent.futures.thread": ("_worker",),
    "multiprocessing.connection": ("Connection._recv", "Connection._poll"),
    "socket": ("socket.accept", "SocketIO.readinto"),
    "subprocess": ("Popen._try_wait",),
    # The thread that brings a worker of pytest-xdist its tests.
    "execnet.gateway_base": ("Popen2IO.read",),
    # The threads of a Jupyter kernel; that of the history writes to its database at each cell.
    "ipykernel.heartbeat": ("Heartbeat.run",),
    "ipykernel.iostream": ("OutStream._watch_pipe_fd",),
    "ipykernel.parentpoller": ("ParentPollerUnix.run",),
    "IPython.core.history": (
        "HistoryManager._writeout_input_cache",
        "HistoryManager._writeout_output_cache",
    ),
    "zmq.sugar": ("device",),
    "zmq.sugar.poll": ("Poller.poll",),
    "zmq.utils.garbage": ("GarbageCollectorThread.run",),
}


def call_while_others_wait(functions: Sequence[Callable[[], int]]) -> bool:
    """Call C functions if all other Python threads wait, and return whether they were called.

    Parameters
    ----------
    functions : sequence of callable
        Functions of a ``ctypes.PyDLL``, which keep the interpreter lock and return 0.

    Notes
    -----
    Threads that Python never heard of are not seen. Without an interpreter lock, or on another
    interpreter than CPython, nothing is called while there are other threads.
    """
    if not _has_lock() and len(sys._current_frames()) > 1:
        return False
    known = _waiting_codes()
    # This function's own frame; a thread that entered it beside this thread computes nothing.
    known.add(sys._getframe().f_code)
    # The interpreter changes threads between two instructions. The look at the frames and the
    # calls are therefore one instruction, `all`, whose parts are all written in C. It stops at the
    # first frame that is not known.
    all_have_frames = map(_idents().issubset, starmap(sys._current_frames, [()]))
    frames = chain.from_iterable(map(dict.values, starmap(sys._current_frames, [()])))
    waits = map(known.__contains__, map(attrgetter("f_code"), frames))
    calls = map(not_, chain.from_iterable([starmap(function, [()]) for function in functions]))
    steps = chain(all_have_frames, waits, calls)
    collects = gc.isenabled()
    gc.disable()  # a collection would run finalizers
    try:
        return all(steps)
    finally:
        if collects:
            gc.enable()


def first_at_work() -> str | None:
    """Return where a thread is that is not known to wait, None if all wait."""
    known = _waiting_codes()
    own = threading.get_ident()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    for ident in _idents() - frames.keys():
        return f"thread {names.get(ident)} in code that is not Python's"
    for ident, frame in frames.items():
        code = frame.f_code
        if ident != own and code not in known:
            name = names.get(ident, "without a name")
            return f"thread {name} in {code.co_name} of {os.path.basename(code.co_filename)}"
    return None


def _idents() -> set[int]:
    """Return the threads that Python knows; one without a frame is in code of its own."""
    return {thread.ident for thread in threading.enumerate() if thread.ident is not None}


def _has_lock() -> bool:
    enabled = getattr(sys, "_is_gil_enabled", lambda: True)
    return sys.implementation.name == "cpython" and bool(enabled())


def _waiting_codes() -> set[CodeType]:
    return {
        code
        for module, names in _WAITS.items()
        if module in sys.modules
        for name in names
        for code in _code(sys.modules[module], name)
    }


def _code(module: Any, name: str) -> Iterator[CodeType]:
    found = module
    for part in name.split("."):
        found = getattr(found, part, None)
    code = getattr(found, "__code__", None)
    if isinstance(code, CodeType):
        yield code
