"""Requests and answers of a worker, inside this process."""

from __future__ import annotations

import gc
import io
import json

import pytest

from onednn_py.errors import AttributeValueError
from onednn_py.tools.benchmark.runners import Runner
from onednn_py.tools.benchmark.torch_runner import UnsupportedCaseError
from onednn_py.tools.benchmark.worker import serve
from tests.support.bench_cases import case

PREPARE = f"prepare {json.dumps(case().to_json())}"


def answers(runner: Runner, *requests: str) -> list[list[str]]:
    output = io.StringIO()
    serve(runner, requests, output)
    return [line.split("\t") for line in output.getvalue().splitlines()]


def runner(call: object) -> Runner:
    return Runner(lambda: "fake 1", lambda case, inputs: (call, case.direction))


def test_a_case_is_prepared_and_timed() -> None:
    calls = []
    greeting, prepared, times = answers(runner(lambda: calls.append(1)), PREPARE, "run 2 3")
    assert greeting == ["ok", "fake 1"]
    assert prepared == ["ok", "BWD_D"]
    assert times[0] == "ok"
    assert len([float(word) for word in times[1].split()]) == 3
    assert len(calls) == 1 + 2 + 3


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (UnsupportedCaseError("other\npads"), ["failed", "unsupported", "other pads"]),
        (MemoryError("much"), ["failed", "out_of_memory", "much"]),
        (RuntimeError("a\tb"), ["failed", "failed", "RuntimeError: a b"]),
        (AttributeValueError("no"), ["failed", "failed", "no"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_an_answer(error: Exception, answer: list[str]) -> None:
    def call() -> None:
        raise error

    lines = answers(runner(call), PREPARE, "run 0 1")
    assert lines[1] == answer
    # A case that was not prepared is not run.
    assert lines[2][:2] == ["failed", "failed"]


def test_an_error_of_a_timed_call_leaves_the_garbage_collector_on() -> None:
    calls = iter([None])
    lines = answers(runner(lambda: next(calls)), PREPARE, "run 0 1")
    assert lines[2][:2] == ["failed", "failed"]
    assert gc.isenabled()


def test_a_runner_that_is_not_installed() -> None:
    def version() -> str:
        raise ImportError("No module named 'torch'")

    lines = answers(Runner(version, runner(None).prepare), "run 0 1")
    assert lines == [["failed", "missing", "No module named 'torch'"]]
