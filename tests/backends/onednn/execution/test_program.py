"""Programs and forks: the first execution of a primitive takes locks of oneDNN's own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.errors import OneDNNError
from onednn_py.system.forks import forks_wait
from tests.support.requirements import needs_onednn

SRC = np.ones((1, 5, 5, 3), np.float32)
WEIGHTS = np.ones((3, 3, 3, 4), np.float32)


@pytest.fixture
def executions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Of each execution of a new plan, whether forks wait for it."""
    engine = current_engine()
    waits: list[bool] = []
    execute: Callable[..., int] = engine.execute

    def recorded(*arguments: Any) -> int:
        waits.append(threading.get_ident() in forks_wait._inside)
        return execute(*arguments)

    monkeypatch.setattr(engine, "execute", recorded)
    onednn_py.cache_clear()
    yield waits
    onednn_py.cache_clear()  # its plans keep the function that records


@needs_onednn
def test_forks_wait_for_the_first_execution(executions: list[bool]) -> None:
    plan = onednn_py.plan(onednn_py.convolution, SRC, WEIGHTS, backend="onednn")
    expected = plan(SRC, WEIGHTS)
    first = len(executions)
    assert first
    assert all(executions)
    np.testing.assert_array_equal(plan(SRC.copy(), WEIGHTS.copy()), expected)
    assert executions[first:] == [False] * first
    assert not forks_wait._inside


@needs_onednn
def test_an_execution_that_fails_is_not_the_first(
    executions: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = current_engine()
    works = engine.execute
    monkeypatch.setattr(engine, "execute", lambda *arguments: 1)  # out of memory
    plan = onednn_py.plan(onednn_py.convolution, SRC, WEIGHTS, backend="onednn")
    with pytest.raises(OneDNNError):
        plan(SRC, WEIGHTS)
    assert not forks_wait._inside
    # Frames keep the function that they were made with, and an error drops them.
    monkeypatch.setattr(engine, "execute", works)
    plan(SRC, WEIGHTS)
    assert executions
    assert all(executions)


@needs_onednn
@pytest.mark.parametrize("error", [OneDNNError, KeyboardInterrupt])
def test_steps_under_way_are_waited_for(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a runtime of the library's defers work, which must not outlive its workspace."""
    plan = onednn_py.plan(onednn_py.convolution, SRC, WEIGHTS, backend="onednn")
    engine, events = current_engine(), []

    def execute(*arguments: Any) -> int:
        events.append("execute")
        if error is KeyboardInterrupt:
            raise KeyboardInterrupt
        return 1  # out of memory

    def wait(stream: Any) -> int:
        events.append("wait")
        return 0

    monkeypatch.setattr(engine, "execute", execute)
    monkeypatch.setattr(engine, "wait", wait)
    onednn_program = plan._current()[1].program
    monkeypatch.setattr(onednn_program, "_waits", True)
    onednn_program._frames.clear()
    with pytest.raises(error):
        plan(SRC, WEIGHTS)
    assert events == ["execute", "wait"]
