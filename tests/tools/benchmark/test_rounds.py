"""How the command bench measures: turns, workers and their deaths. No times."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from onednn_py.cli import main
from onednn_py.errors import AttributeValueError
from onednn_py.tools.benchdnn import parse_descriptor
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchmark import machine, rounds, torch_calls
from onednn_py.tools.benchmark.competitors import COMPETITORS, Competitor, random_inputs
from onednn_py.tools.benchmark.contestants import Contestant
from onednn_py.tools.benchmark.processes import Worker, WorkerFailure, worker_environment
from onednn_py.tools.benchmark.report import fault_lines, gap_lines
from onednn_py.tools.benchmark.requests import Unsupported, decoded, encoded
from onednn_py.tools.benchmark.results import Timing
from onednn_py.tools.benchmark.rounds import Benchmark, schedule, turns
from onednn_py.tools.benchmark.worker import serve
from tests.support.bench_cases import SMALL, case, timed


class TestTurns:
    def test_there_and_back(self) -> None:
        assert turns("abc", 0) == ["a", "b", "c"]
        assert turns("abc", 1) == ["c", "b", "a"]

    @pytest.mark.parametrize(
        ("estimate", "budget", "runs", "warm"),
        [
            (0.1, 1.0, 10, 1),
            (0.1, 0.2, 5, 1),
            (3.0, 1.0, 3, 0),
            (0.001, 1.0, 1000, 20),
            (1e-6, 1.0, 2000, 2000),
            (0.0, 1.0, 2000, 2000),
        ],
    )
    def test_runs_follow_from_the_budget(
        self, estimate: float, budget: float, runs: int, warm: int
    ) -> None:
        found = schedule(estimate, budget)
        assert sum(found.counts) == runs
        assert max(found.counts) - min(found.counts) <= 1
        # A call that is longer than all that is planned needs no other before it.
        assert found.warm == warm


class FakeWorker:
    """Answers as a worker does, and writes down who was asked for what."""

    def __init__(self, name: str, seconds: float, asked: list[tuple[str, str]]) -> None:
        self.name, self.seconds, self.asked = name, seconds, asked
        self.failing: dict[int, WorkerFailure] = {}
        self.runs = 0

    def ask(self, request: str) -> str:
        word, *rest = request.split()
        self.asked.append((self.name, word))
        if word == "prepare":
            return f"{self.name}_implementation"
        if word == "peak":
            if rest == ["f32"]:
                return "4e11"
            raise WorkerFailure("unimplemented", "no such product")
        self.runs += 1
        if self.runs in self.failing:
            raise self.failing[self.runs]
        return " ".join([str(self.seconds)] * int(rest[1]))

    def close(self) -> None:
        self.asked.append((self.name, "close"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    monkeypatch.setattr(rounds, "PAUSE", 0.0)
    return []


def contest(asked: list[tuple[str, str]], **seconds: float) -> list[Contestant]:
    return [
        Contestant(name, FakeWorker(name, time, asked), f"{name} 1.0")
        for name, time in seconds.items()
    ]


class TestBenchmark:
    def test_the_competitors_take_turns(self, asked: list[tuple[str, str]]) -> None:
        benchmark = Benchmark(contest(asked, ours=0.2, native=0.3, numpy=1.0), budget=1.0)
        result = benchmark.measure(case())
        assert asked[:6] == [
            (n, w) for n in ("ours", "native", "numpy") for w in ("prepare", "run")
        ]
        there = ["ours", "native", "numpy"]
        back = there[::-1]
        assert [name for name, word in asked[6:] if word == "run"] == [
            *there, *back, *there, *back, *there
        ]  # fmt: skip
        assert result.timings["ours"] == timed(*[0.2] * 5, detail="ours_implementation")
        assert result.ratio("native") == pytest.approx(1.5)
        assert result.peak == 4e11
        assert result.as_expected
        assert benchmark.names == there
        assert benchmark.versions["numpy"] == "numpy 1.0"

    def test_a_short_call_is_estimated_again_and_warmed_up(
        self, asked: list[tuple[str, str]]
    ) -> None:
        (one,) = contest(asked, ours=0.001)
        result = Benchmark([one], budget=0.1).measure(case())
        assert len(result.own.seconds) == 100
        assert one.worker.runs == 1 + 1 + 5

    def test_a_failure_while_running_is_that_competitors_outcome(
        self, asked: list[tuple[str, str]]
    ) -> None:
        contestants = contest(asked, ours=0.2, native=0.3)
        contestants[1].worker.failing[3] = WorkerFailure("died", "by SIGSEGV")
        benchmark = Benchmark(contestants, budget=1.0)
        result = benchmark.measure(case())
        assert result.timings["native"] == Timing("died", "by SIGSEGV")
        assert len(result.own.seconds) == 5
        assert not result.as_expected
        assert fault_lines(result) == ["    native died: by SIGSEGV"]
        # The next case finds it in its place again.
        assert benchmark.measure(case()).as_expected

    def test_a_defect_is_never_run(self, asked: list[tuple[str, str]]) -> None:
        ours, native = contest(asked, ours=0.2, native=0.3)
        native = Contestant("native", native.worker, "", defect=lambda _: "library#1")
        result = Benchmark([ours, native], budget=1.0).measure(case())
        assert result.timings["native"] == Timing("defect", "library#1")
        assert ("native", "prepare") not in asked
        assert result.as_expected
        assert gap_lines([result]) == ["native: 1 defect, library#1"]

    def test_the_peak_of_a_type(self, asked: list[tuple[str, str]]) -> None:
        benchmark = Benchmark(contest(asked, ours=1.0, native=1.0), budget=1.0)
        assert benchmark.peak("f16") == benchmark.peak("f32") == 4e11
        assert benchmark.peak("bf16") is None
        assert benchmark.peaks == {"f16": 4e11, "f32": 4e11, "bf16": None}
        assert Benchmark(contest(asked, ours=1.0), budget=1.0).peak("f32") is None


class TestWorker:
    """Requests and answers, inside this process."""

    def answers(self, competitor: Competitor, *requests: str) -> list[list[str]]:
        output = io.StringIO()
        serve(competitor, requests, output)
        return [line.split("\t") for line in output.getvalue().splitlines()]

    def competitor(self, call: object) -> Competitor:
        return Competitor(lambda: "fake 1", lambda one, inputs: (call, lambda: one.direction))

    def test_a_case_is_prepared_and_timed(self) -> None:
        calls = []
        greeting, prepared, times = self.answers(
            self.competitor(lambda: calls.append(1)), f"prepare {encoded(case())}", "run 2 3"
        )
        assert greeting == ["ok", "fake 1"]
        assert prepared == ["ok", "BWD_D"]
        assert times[0] == "ok"
        assert len([float(word) for word in times[1].split()]) == 3
        assert len(calls) == 1 + 2 + 3

    @pytest.mark.parametrize(
        ("error", "answer"),
        [
            (Unsupported("other\npads"), ["failed", "unsupported", "other pads"]),
            (MemoryError("much"), ["failed", "out_of_memory", "much"]),
            (RuntimeError("a\tb"), ["failed", "failed", "RuntimeError: a b"]),
            (AttributeValueError("no"), ["failed", "failed", "no"]),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_an_error_is_an_answer(self, error: Exception, answer: list[str]) -> None:
        def call() -> None:
            raise error

        found = self.answers(self.competitor(call), f"prepare {encoded(case())}", "run 0 1")
        assert found[1] == answer
        # What was not prepared is not run.
        assert found[2][:2] == ["failed", "failed"]

    def test_a_competitor_that_is_not_installed(self) -> None:
        def version() -> str:
            raise ImportError("No module named 'torch'")

        found = self.answers(Competitor(version, COMPETITORS["numpy"].prepared), "run 0 1")
        assert found == [["failed", "missing", "No module named 'torch'"]]

    @pytest.mark.parametrize("name", ["ours", "plan", "numpy"])
    @pytest.mark.parametrize("direction", ["BWD_D", "BWD_WB", "FWD_B"])
    def test_the_packages_own_calls_compute_the_case(self, name: str, direction: str) -> None:
        one = case("g2mb1ic4ih6iw5oc8kh3kw2sh2sw1ph1pw0", direction, data_format="NXC")
        inputs = random_inputs(one)
        call, implementation = COMPETITORS[name].prepared(one, inputs)
        found = call()
        found = found if isinstance(found, tuple) else (found,)
        for result, expected in zip(found, one.call(inputs, "auto"), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
        assert implementation()

    def test_a_case_survives_the_pipe(self) -> None:
        descriptor = parse_descriptor('g2ic8ih5oc16kh4sh2ph1dh1n"a,b"', transposed=True)
        one = Case(descriptor, "BWD_WB", "bf16", "NXC")
        assert decoded(encoded(one)) == one


class TestPyTorch:
    """What of it needs no PyTorch."""

    def test_end_pads_that_it_has(self) -> None:
        def found(text: str, transposed: bool = False) -> tuple[int, ...]:
            return torch_calls._output_padding(parse_descriptor(text, transposed=transposed))

        assert found("ic4ih8oc4kh3sh2ph1") == (0, 0)
        assert found("ic4ih4oc4oh8kh3sh2ph1", transposed=True) == (1, 1)
        assert found("ic4iw8oc4kw2dw3") == (0,)

    @pytest.mark.parametrize("text", ["ic4ih8oc4oh8kh4ph1", "ic4ih8oc4oh4kh3sh2ph0"])
    def test_end_pads_that_it_has_not(self, text: str) -> None:
        with pytest.raises(Unsupported, match="pads both ends alike"):
            torch_calls._output_padding(parse_descriptor(text))

    def test_missing_but_asked_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "torch.py").write_text("raise ImportError('not here')")
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        monkeypatch.setenv("PYTHONPATH", path)
        assert main(["bench", "--compare=torch", *SMALL]) == 1
        error = capsys.readouterr().err
        assert "torch: not here: pip install torch" in error


class TestProcesses:
    def worker(self, code: str, timeout: float = 30) -> Worker:
        return Worker([sys.executable, "-c", code], worker_environment(1), timeout)

    def test_one_that_dies_is_started_again(self) -> None:
        worker = self.worker(
            "import os, sys\nprint('ok\\thello', flush=True)\n"
            "for line in sys.stdin:\n"
            "    if line == 'die\\n':\n"
            "        print('first\\nlast words', file=sys.stderr, flush=True); os.abort()\n"
            "    print('ok', line.strip().upper(), sep='\\t', flush=True)"
        )
        assert worker.start() == "hello"
        assert worker.ask("one") == "ONE"
        with pytest.raises(WorkerFailure, match="died: by SIGABRT; last words") as caught:
            worker.ask("die")
        assert caught.value.status == "died"
        assert worker.ask("two") == "TWO"
        worker.close()
        worker.close()

    def test_one_that_hangs_is_ended(self) -> None:
        worker = self.worker("import time; print('ok', flush=True); time.sleep(60)", timeout=1.5)
        with pytest.raises(WorkerFailure, match=r"timed out: after 1\.5 s"):
            worker.ask("anything")
        worker.close()

    def test_one_that_talks_nonsense_is_ended(self) -> None:
        with pytest.raises(WorkerFailure, match="failed: no answer: hello"):
            self.worker("print('hello'); input()").start()

    def test_one_that_ends_at_once(self) -> None:
        with pytest.raises(WorkerFailure, match="died: exit status 3; why"):
            self.worker("import sys; print('why', file=sys.stderr); sys.exit(3)").start()

    def test_a_program_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(WorkerFailure, match="cannot be run"):
            Worker([str(tmp_path / "missing")], {}, 1).start()

    def test_all_get_the_same_threads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ONEDNN_VERBOSE", "1")
        environment = worker_environment(3, ONEDNN_PY_EFFORT="measure")
        assert environment["OMP_NUM_THREADS"] == environment["OPENBLAS_NUM_THREADS"] == "3"
        assert environment["ONEDNN_PY_EFFORT"] == "measure"
        assert environment["OMP_PROC_BIND"] == "true"
        assert "ONEDNN_VERBOSE" not in environment
        monkeypatch.setenv("OMP_PROC_BIND", "spread")
        assert worker_environment(3)["OMP_PROC_BIND"] == "spread"


def test_cpu_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    processors = tmp_path / "cpuinfo"
    monkeypatch.setattr(machine, "PROCESSORS", processors)
    monkeypatch.setattr(machine.platform, "processor", lambda: "")
    assert machine.cpu_name() is None
    processors.write_text("model name\t: Fast 1\ncpu family\t: 25\nmodel\t\t: 17\n\nmodel\t: 3\n")
    assert machine.cpu_name() == "Fast 1, family 25 model 17"
    processors.write_text("model name\t: Fast 1\n")
    assert machine.cpu_name() == "Fast 1"
    processors.write_text("Features\t: fp\n")
    monkeypatch.setattr(machine.platform, "processor", lambda: "arm")
    assert machine.cpu_name() == "arm"


def test_busy_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert (machine.busy_cores(0.01) or 0) >= 0
    monkeypatch.setattr(machine, "STATISTICS", tmp_path / "missing")
    assert machine.busy_cores(0.0) is None
