"""Sections during which other threads cannot fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from onednn_py.system import forks
from onednn_py.system.forks import forks_wait
from tests.support.forks import needs_fork


def exit_code(code: int = 0) -> int:
    """Return the exit code of a child that ends at once."""
    pid = os.fork()
    if pid == 0:
        os._exit(code if not forks_wait._inside else 99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_nothing_keeps_a_property_under_a_lock() -> None:
    """Until Python 3.12, a cached_property has one lock for all objects, which outlives a fork."""
    package = Path(forks.__file__).parents[1]
    users = [
        path.relative_to(package).parts[0]
        for path in package.rglob("*.py")
        if "cached_property\n" in path.read_text(encoding="utf-8")
    ]
    assert set(users) <= {"tools"}


@needs_fork
def test_a_fork_waits_for_other_threads() -> None:
    inside, events = threading.Event(), []

    def work() -> None:
        with forks_wait, forks_wait:
            inside.set()
            time.sleep(0.2)
            events.append("work")

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    assert exit_code(7) == 7
    events.append("fork")
    thread.join()
    assert events == ["work", "fork"]


@needs_fork
def test_a_fork_does_not_wait_for_its_own_thread() -> None:
    begin = time.monotonic()
    with forks_wait:
        pid = os.fork()
        if pid == 0:
            with forks_wait:
                os._exit(len(forks_wait._inside))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert not forks_wait._inside
    assert exit_code() == 0
    assert time.monotonic() - begin < forks.LONGEST_WAIT


@needs_fork
def test_a_fork_waits_no_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "LONGEST_WAIT", 0.05)
    inside, done = threading.Event(), threading.Event()

    def work() -> None:
        with forks_wait:
            inside.set()
            done.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    assert exit_code() == 0
    done.set()
    thread.join()


# Prints whether the fork, which begins while a thread is in a section, ends before the limit.
LOCKED_SECTION = """
import onednn_py, os, threading, time
from onednn_py.system import forks

inside = threading.Event()

def work():
    with forks.forks_wait:
        inside.set()
        time.sleep(0.2)
        {work}

thread = threading.Thread(target=work)
thread.start()
inside.wait()
begin = time.monotonic()
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
print(0.1 < time.monotonic() - begin < forks.LONGEST_WAIT)
thread.join()
"""


@needs_fork
@pytest.mark.parametrize(
    "work",
    [
        "import logging; logging.getLogger('a').isEnabledFor(10)",
        "from concurrent.futures import ThreadPoolExecutor as Pool; Pool(1).submit(int).result()",
    ],
    ids=["logging", "workers"],
)
def test_a_section_may_take_locks_that_forks_take(work: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c",
         LOCKED_SECTION.replace("{work}", work)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "True\n", done.stdout + done.stderr


def test_an_error_ends_a_section() -> None:
    with pytest.raises(ZeroDivisionError), forks_wait:
        raise ZeroDivisionError
    assert not forks_wait._inside


def test_an_interrupt_that_comes_before_a_section(monkeypatch: pytest.MonkeyPatch) -> None:
    """`with` calls no __exit__ where __enter__ ends with an error."""

    class Forking:
        def __enter__(self) -> None: ...

        def __exit__(self, *error: object) -> None:
            raise ZeroDivisionError

    monkeypatch.setattr(forks_wait, "_forking", Forking())
    with pytest.raises(ZeroDivisionError), forks_wait:
        raise AssertionError("the section was entered")
    assert not forks_wait._inside


@needs_fork
def test_only_one_fork_waits_for_a_section_that_does_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where an interrupt comes before the first line of __exit__."""
    monkeypatch.setattr(forks, "LONGEST_WAIT", 1.0)
    thread = threading.Thread(target=forks_wait.__enter__)
    thread.start()
    thread.join()
    assert exit_code() == 0
    begin = time.monotonic()
    assert exit_code() == 0
    assert time.monotonic() - begin < forks.LONGEST_WAIT
    assert not forks_wait._inside
