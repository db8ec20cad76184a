"""Threads that compute have a stack for signal handlers, where oneDNN's kernels move the stack."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn import library
from onednn_py.system import signal_stack as module
from onednn_py.system.signal_stack import GUARD_BYTES, STACK_BYTES, SignalStack
from tests.support.requirements import needs_onednn

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="stacks are given on Linux alone")


def in_thread(function: object) -> object:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(function()))  # type: ignore[operator]
    thread.start()
    thread.join()
    return found[0]


def begin_of_stack() -> int | None:
    return module._current(module._scope())


def test_a_thread_without_a_stack_gets_one() -> None:
    def ensured() -> tuple[int | None, int | None, bool]:
        stack, before = SignalStack(), begin_of_stack()
        stack.ensure()
        return before, begin_of_stack(), stack.is_ensured

    before, after, is_ensured = in_thread(ensured)  # type: ignore[misc]
    assert before is None
    assert after
    assert is_ensured


def test_a_thread_keeps_the_stack_that_it_has() -> None:
    def ensured() -> tuple[int | None, int | None]:
        first, second = SignalStack(), SignalStack()
        first.ensure()
        begin = begin_of_stack()
        second.ensure()
        return begin, begin_of_stack()

    begin, after = in_thread(ensured)  # type: ignore[misc]
    assert begin == after


def test_a_stack_that_another_has_put_in_its_place_is_left() -> None:
    memory = ctypes.create_string_buffer(2**15)
    address = ctypes.addressof(memory)

    def replaced() -> int | None:
        stack = SignalStack()
        stack.ensure()
        other = module._StackT(address, 0, len(memory))
        module._scope().sigaltstack(ctypes.byref(other), None)
        del stack
        return begin_of_stack()

    assert in_thread(replaced) == address


def test_each_thread_has_its_own() -> None:
    stack, begins, meet = SignalStack(), [], threading.Barrier(3)

    def ensure() -> None:
        stack.ensure()
        begins.append(begin_of_stack())
        meet.wait(30)

    threads = [threading.Thread(target=ensure) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({*begins, None}) == 4


def test_threads_that_end_give_their_stacks_back() -> None:
    stack = SignalStack()

    def mapped_bytes() -> int:
        size = Path("/proc/self/statm").read_text().split()[0]
        return int(size) * GUARD_BYTES

    def end_threads(number: int) -> None:
        for _ in range(number):
            in_thread(stack.ensure)

    end_threads(10)
    before = mapped_bytes()
    end_threads(200)
    assert mapped_bytes() - before < 50 * STACK_BYTES


@needs_onednn
def test_threads_that_compute_have_a_stack() -> None:
    if not library().moves_stack:
        pytest.skip("the kernels of this library leave the stack where it is")
    weights = np.ones((3, 3, 4, 5), np.float32)

    def computed() -> int | None:
        onednn_py.convolution(np.ones((1, 8, 8, 4), np.float32), weights, backend="onednn")
        return begin_of_stack()

    assert in_thread(computed)


# On CPUs without AVX-512, the gradient is a product with more summands than the kernel keeps on its
# stack. pytest's own faulthandler has given its process an alternate stack.
PROGRAM = """
import signal, sys, time
import numpy as np
import onednn_py

interrupted = 0
def interrupt(number, frame):
    global interrupted
    interrupted += 1

signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
began, size = time.monotonic(), 0
while time.monotonic() - began < 2:
    size = 20 + (size + 1) % 40
    src = np.ones((1, size + 2, size + 2, 4), np.float32)
    diff_dst = np.ones((1, size, size, 5), np.float32)
    found = onednn_py.convolution_backward_weights(src, diff_dst, (3, 3, 4, 5), backend="onednn")
    assert (found == size**2).all(), found
signal.setitimer(signal.ITIMER_REAL, 0)
print(interrupted)
"""


@needs_onednn
def test_signals_during_products() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 20


@needs_onednn
def test_the_stack_of_faulthandler_is_left() -> None:
    program = (
        "import faulthandler, numpy as np, onednn_py\n"
        "from onednn_py.system import signal_stack as module\n"
        "faulthandler.enable()\n"
        "begin = module._current(module._scope())\n"
        "onednn_py.convolution(np.ones((1, 8, 8, 4), 'f'), np.ones((3, 3, 4, 5), 'f'))\n"
        "assert begin == module._current(module._scope()) != None\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_nothing_is_said_when_the_interpreter_ends() -> None:
    """A module's names may be gone before the thread's memory is."""
    program = (
        "import sys\n"
        "from onednn_py.system import signal_stack as module\n"
        "memory = module._Memory(module._scope())\n"
        "sys.kept = memory\n"  # until after the modules
        "module.threading = module._current = module.FAILED = module.sys = None\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stderr == ""
