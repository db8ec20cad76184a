"""How competitors take turns, on fake workers; no times are measured."""

from __future__ import annotations

import pytest

from onednn_py.tools.benchmark import measurement
from onednn_py.tools.benchmark.competitors import Competitor
from onednn_py.tools.benchmark.measurement import Benchmark, schedule, turns
from onednn_py.tools.benchmark.report import failure_lines, gap_lines
from onednn_py.tools.benchmark.results import Timing
from onednn_py.tools.benchmark.worker_process import WorkerFailure
from tests.support.bench_cases import case, timed


class TestTurns:
    def test_every_second_round_is_reversed(self) -> None:
        assert turns("abc", 0) == ["a", "b", "c"]
        assert turns("abc", 1) == ["c", "b", "a"]

    @pytest.mark.parametrize(
        ("estimate", "budget", "runs", "warm"),
        [
            (0.1, 1.0, 10, 1),
            (0.1, 0.2, 5, 1),
            (3.0, 1.0, 3, 1),
            (1.0, 1e9, 300, 1),
            (100.0, 1e9, 3, 0),
            (0.001, 1.0, 1000, 20),
            (1e-6, 1.0, 2000, 2000),
            (0.0, 1.0, 2000, 2000),
        ],
    )
    def test_runs_follow_from_the_budget(
        self, estimate: float, budget: float, runs: int, warm: int
    ) -> None:
        planned = schedule(estimate, budget)
        assert sum(planned.counts) == runs
        assert max(planned.counts) - min(planned.counts) <= 1
        assert planned.warm == warm


class FakeProcess:
    """Answers as a worker process does, and appends (name, request) to a list."""

    def __init__(self, name: str, seconds: float, requests: list[tuple[str, str]]) -> None:
        self.name, self.seconds, self.requests = name, seconds, requests
        self.failing: dict[int, WorkerFailure] = {}
        self.runs = 0

    def ask(self, request: str) -> str:
        word, *rest = request.split()
        self.requests.append((self.name, word))
        if word == "prepare":
            return f"{self.name}_implementation"
        if word == "bandwidth":
            return f"{rest[0]}e4"
        if word == "peak":
            if rest == ["f32"]:
                return "4e11"
            raise WorkerFailure("unimplemented", "no such product")
        self.runs += 1
        if self.runs in self.failing:
            raise self.failing[self.runs]
        return " ".join([str(self.seconds)] * int(rest[1]))


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    monkeypatch.setattr(measurement, "PAUSE", 0.0)
    return []


def fake_competitors(requests: list[tuple[str, str]], **seconds: float) -> list[Competitor]:
    return [
        Competitor(name, FakeProcess(name, time, requests), f"{name} 1.0")
        for name, time in seconds.items()
    ]


class TestBenchmark:
    def test_the_competitors_take_turns(self, requests: list[tuple[str, str]]) -> None:
        benchmark = Benchmark(
            fake_competitors(requests, ours=0.2, native=0.3, numpy=1.0), budget=1.0
        )
        result = benchmark.measure(case())
        assert requests[:6] == [
            (name, word) for name in ("ours", "native", "numpy") for word in ("prepare", "run")
        ]
        there = ["ours", "native", "numpy"]
        back = there[::-1]
        assert [name for name, word in requests[6:] if word == "run"] == [
            *there, *back, *there, *back, *there
        ]  # fmt: skip
        assert result.timings["ours"] == timed(*[0.2] * 5, detail="ours_implementation")
        assert result.ratio("native") == pytest.approx(1.5)
        assert result.peak == 4e11
        assert result.bandwidth == 2**20 * 1e4
        assert result.as_expected
        assert list(benchmark.versions) == there
        assert benchmark.versions["numpy"] == "numpy 1.0"

    def test_a_short_call_is_estimated_again_and_warmed_up(
        self, requests: list[tuple[str, str]]
    ) -> None:
        (competitor,) = fake_competitors(requests, ours=0.001)
        result = Benchmark([competitor], budget=0.1).measure(case())
        assert len(result.own.seconds) == 100
        assert competitor.process.runs == 1 + 1 + 5

    def test_a_failure_while_running_is_that_competitors_outcome(
        self, requests: list[tuple[str, str]]
    ) -> None:
        competitors = fake_competitors(requests, ours=0.2, native=0.3)
        competitors[1].process.failing[3] = WorkerFailure("died", "by SIGSEGV")
        benchmark = Benchmark(competitors, budget=1.0)
        result = benchmark.measure(case())
        assert result.timings["native"] == Timing("died", "by SIGSEGV")
        assert len(result.own.seconds) == 5
        assert not result.as_expected
        assert failure_lines(result) == ["    native died: by SIGSEGV"]
        # It takes part in the next case again.
        assert benchmark.measure(case()).as_expected

    def test_a_defect_is_never_run(self, requests: list[tuple[str, str]]) -> None:
        ours, native = fake_competitors(requests, ours=0.2, native=0.3)
        native = Competitor("native", native.process, "", defect=lambda _: "library#1")
        result = Benchmark([ours, native], budget=1.0).measure(case())
        assert result.timings["native"] == Timing("defect", "library#1")
        assert ("native", "prepare") not in requests
        assert result.as_expected
        assert gap_lines([result]) == ["native: 1 defect, library#1"]

    def test_the_peak_of_a_type(self, requests: list[tuple[str, str]]) -> None:
        benchmark = Benchmark(fake_competitors(requests, ours=1.0, native=1.0), budget=1.0)
        assert benchmark.peak("f16") == benchmark.peak("f32") == 4e11
        assert benchmark.peak("bf16") is None
        assert benchmark.peaks == {"f16": 4e11, "f32": 4e11, "bf16": None}
        assert benchmark.gaps == {"the peak of bf16": "native: no such product"}

    def test_the_bandwidth_of_a_size(self, requests: list[tuple[str, str]]) -> None:
        benchmark = Benchmark(fake_competitors(requests, ours=1.0, native=1.0), budget=1.0)
        assert benchmark.bandwidth(2**22) == benchmark.bandwidth(2**22 + 1000) == 2**22 * 1e4
        assert benchmark.bandwidth(2**23) == 2**23 * 1e4
        assert benchmark.bandwidths == {2**22: 2**22 * 1e4, 2**23: 2**23 * 1e4}
        assert requests == [("native", "bandwidth")] * 2
        assert not benchmark.gaps

    def test_without_native_there_is_no_bound(self, requests: list[tuple[str, str]]) -> None:
        benchmark = Benchmark(fake_competitors(requests, ours=1.0), budget=1.0)
        assert benchmark.measure(case()).bound is None
        reason = "native, which measures it, takes no part"
        assert benchmark.gaps == {"the peak of f32": reason, "the bandwidth": reason}
