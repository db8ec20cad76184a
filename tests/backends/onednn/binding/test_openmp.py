"""Numbers of threads by a runtime: its own limit, and interrupts between any two lines."""

from __future__ import annotations

import sys

from onednn_py.backends.onednn.binding import openmp
from onednn_py.system import parallel
from tests.support.interruptions import every_interruption
from tests.support.threads import on_another_thread


class Runtime:
    """An OpenMP runtime that gives a thread no more than four threads, and two at first."""

    def __init__(self) -> None:
        self.number = 2

    def omp_get_max_threads(self) -> int:
        return self.number

    def omp_set_num_threads(self, number: int) -> None:
        self.number = min(number, 4)


class Interrupt(BaseException):
    """As KeyboardInterrupt, which ends a test run."""


def test_a_runtime_with_its_own_limit() -> None:
    def work() -> list[int]:
        limited = openmp.OpenMP(Runtime())
        return [limited.apply(number) for number in (None, 9, 9, 3, 9, None, None)]

    assert on_another_thread(work) == [2, 4, 4, 3, 4, 2, 2]


def test_an_interrupted_number_is_put_back() -> None:
    """Wherever an interrupt comes: while a number is applied, replaced or put back."""

    def interrupt() -> None:
        raise Interrupt

    def apply() -> None:
        try:
            for number in (None, 1, 3, None):
                limited.apply(number)
        except Interrupt:
            pass
        sys.settrace(None)
        found = limited.apply(1), limited.apply(None)
        numbers.append((*found, runtime.number, parallel.current_threads()))

    def work() -> int:
        return every_interruption(apply, interrupt, [openmp.__file__])

    runtime, numbers = Runtime(), list[tuple[int, ...]]()
    limited = openmp.OpenMP(runtime)
    assert on_another_thread(work) > 20
    assert set(numbers) == {(1, 2, 2, 2)}
