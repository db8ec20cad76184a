"""The command bench: suites, turns, ratios, workers that fail, and what it writes. No times."""

from __future__ import annotations

import io
import json
import os
import sys
from collections import Counter
from math import sqrt
from pathlib import Path

import numpy as np
import pytest

from onednn_py.benchdnn import parse_descriptor
from onednn_py.benchdnn.batch import read_batch
from onednn_py.benchdnn.case import Case
from onednn_py.benchmark import machine, rounds, torch_calls
from onednn_py.benchmark.competitors import COMPETITORS, Competitor, random_inputs
from onednn_py.benchmark.contestants import Contestant
from onednn_py.benchmark.processes import Worker, WorkerFailure, worker_environment
from onednn_py.benchmark.report import CaseTable, fault_lines, gap_lines, group_lines, tiny_lines
from onednn_py.benchmark.requests import Unsupported, decoded, encoded
from onednn_py.benchmark.results import Result, Timing, grouped, to_json
from onednn_py.benchmark.rounds import Benchmark, schedule, turns
from onednn_py.benchmark.suites import SUITES, suite_files
from onednn_py.benchmark.worker import serve
from onednn_py.cli import bench, main
from onednn_py.comparison import ComparisonUnavailableError, NativeProgramError, native_program
from onednn_py.errors import AttributeValueError

SMALL = ("--conv", 'mb1ic4ih6oc8kh3ph1n"small"')


def case(text: str = "mb1ic4ih6oc8kh3ph1", direction: str = "BWD_D", **more: str) -> Case:
    dtype, data_format = more.get("dtype", "f32"), more.get("data_format", "NCX")
    return Case(parse_descriptor(text), direction, dtype, data_format)


def timed(*seconds: float, detail: str = "jit") -> Timing:
    return Timing("ok", detail, seconds)


class TestSuites:
    @pytest.mark.parametrize("name", SUITES)
    def test_every_problem_is_valid(self, name: str) -> None:
        names = Counter()
        for operation, path in suite_files(name):
            batch = read_batch(path, transposed=operation == "deconv")
            assert batch.problems
            assert not batch.notes
            for problem in batch.problems:
                assert problem.minibatch
                descriptor = problem.descriptor.with_minibatch(problem.minibatch)
                names[descriptor.name] += 1
                for direction in bench.DEFAULT_DIRECTIONS:
                    for data_format in ("NCX", "NXC"):
                        one = Case(descriptor, direction, "f32", data_format)
                        assert one.problem()
                        assert one.descriptor.flops < 1e11
        assert all(found.startswith(f"{name}:") for found in names)
        assert set(names.values()) == {1}

    def test_every_file_belongs_to_a_suite(self) -> None:
        listed = {path for name in SUITES for _, path in suite_files(name)}
        folder = Path(bench.suite_files("unet")[0][1]).parents[1]
        assert listed == set(folder.rglob("*.txt"))

    def test_an_unknown_suite(self) -> None:
        with pytest.raises(AttributeValueError, match="expected some of resnet50, .*'vgg'"):
            suite_files("vgg")


class TestTurns:
    def test_there_and_back(self) -> None:
        assert turns("abc", 0) == ["a", "b", "c"]
        assert turns("abc", 1) == ["c", "b", "a"]

    @pytest.mark.parametrize(
        ("estimate", "budget", "runs"),
        [(0.1, 1.0, 10), (0.1, 0.2, 5), (3.0, 1.0, 3), (1e-6, 1.0, 2000), (0.0, 1.0, 2000)],
    )
    def test_runs_follow_from_the_budget(self, estimate: float, budget: float, runs: int) -> None:
        found = schedule(estimate, budget)
        assert sum(found.counts) == runs
        assert max(found.counts) - min(found.counts) <= 1
        # A single call a turn is too long to need another before it.
        assert found.warm == (runs >= 10)


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


def results() -> list[Result]:
    """Ratios to native 2, 0.5, 8 with NCX and 3 with NXC; 8 with the same implementation."""
    rows = [
        ("mb1ic4ih6oc8kh3n0", "NCX", timed(0.1, 0.2, 0.9), timed(0.4)),
        ("mb1ic4ih6oc8kh3n1", "NCX", timed(1.0), timed(0.5, detail="gemm")),
        ("mb1ic4ih6oc8kh3n2", "NCX", timed(1.0), timed(8.0, detail="gemm")),
        ("mb1ic4ih6oc8kh3n3", "NXC", timed(0.0001), timed(0.0003)),
    ]
    return [
        Result(case(text, data_format=data_format), {"ours": ours, "native": native}, 1e9)
        for text, data_format, ours, native in rows
    ]


class TestResults:
    def test_ratios_are_of_medians(self) -> None:
        first = results()[0]
        assert first.ratio("native") == pytest.approx(2)
        assert first.ratio("torch") is None
        assert first.rate == pytest.approx(first.case.descriptor.flops / 0.2)
        assert first.peak_share == pytest.approx(first.rate / 1e9)

    def test_groups(self) -> None:
        channels_first, channels_last, same = grouped(results())
        assert channels_first.ratios == pytest.approx((2, 0.5, 8))
        assert channels_first.geometric_mean == pytest.approx(2)
        assert channels_first.faster == 2
        assert channels_first.worst.name == "1"
        assert channels_last.geometric_mean == pytest.approx(3)
        assert (same.other, same.ratios) == ("native", pytest.approx((2,)))
        assert "same implementation" in same.note

    def test_what_has_no_time_is_in_no_group(self) -> None:
        failed = Timing("unimplemented", "")
        some = [
            Result(case(), {"ours": timed(1.0), "torch": failed}),
            Result(case(), {"ours": Timing("failed", "why"), "torch": timed(1.0)}),
        ]
        assert grouped(some) == []
        assert group_lines(grouped(some)) == []
        assert [one.as_expected for one in some] == [True, False]
        assert gap_lines(some) == ["torch: 1 unimplemented"]

    def test_json(self) -> None:
        found = json.loads(json.dumps(to_json(results())))
        assert [group["worst"] for group in found["groups"]] == pytest.approx([0.5, 3, 2])
        assert found["groups"][0] == {
            **{"dtype": "f32", "format": "NCX", "direction": "BWD_D", "other": "native"},
            **{"note": "", "cases": 3, "faster": 2, "worst": 0.5, "worst_case": "1"},
            "geometric_mean": pytest.approx(2),
        }
        first = found["cases"][0]
        assert first["descriptor"] == 'mb1ic4ih6oc8oh4kh3ph0n"0"'
        assert first["timings"]["ours"] == {
            **{"status": "ok", "detail": "jit"},
            **{"median": 0.2, "least": 0.1, "runs": 3},
        }
        assert first["ratios"] == {"native": pytest.approx(2)}

    def test_the_table_has_set_widths(self) -> None:
        some = results()
        table = CaseTable([one.case for one in some], ["native"])
        lines = [table.heading(), *map(table.line, some)]
        assert lines[1].split() == [
            *("0", "BWD_D", "f32", "NCX", "200.00", "0", "0%", "2.00", "jit")
        ]
        ends = {line.rindex("jit") for line in lines[1:]}
        assert ends == {lines[0].index("implementation")}

    def test_a_long_name_is_cut_and_a_failure_is_a_line(self) -> None:
        one = Result(case(f"mb1ic4ih6oc8kh3n{'x' * 99}"), {"ours": Timing("failed", "why")})
        line = CaseTable([one.case], []).line(one)
        assert line == f"{'x' * 37}...  BWD_D f32 NCX  failed: why"

    def test_the_tiny_problem(self) -> None:
        timings = {"ours": timed(2e-5), "plan": timed(1e-5), "torch": timed(4e-5)}
        lines = tiny_lines(Result(bench.TINY, timings))
        assert [line.split() for line in lines[2:]] == [
            ["plain", "call", "20.0", "2.00"],
            ["plan,", "out=", "10.0", "4.00"],
            ["PyTorch", "40.0"],
        ]


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
        assert "ONEDNN_VERBOSE" not in environment


class TestCommand:
    def test_a_small_run(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        others = ["native", "numpy"]
        try:
            native_program("timing")
        except NativeProgramError:
            raise
        except ComparisonUnavailableError:
            others = ["numpy"]
        json_path, picture = tmp_path / "found.json", tmp_path / "ratios.svg"
        options = [f"--compare={','.join(others)}", f"--json={json_path}", f"--plot={picture}"]
        options += ["--budget=0.01", "--format=NXC", "--threads=1", *SMALL]
        assert main(["bench", *options, "--deconv", "mb1ic4ih6oc8kh4sh2ph1"]) == 0
        printed = capsys.readouterr().out
        assert "small" in printed
        found = json.loads(json_path.read_text())
        assert found["threads"] == 1
        assert list(found["competitors"]) == ["ours", *others]
        assert [one["direction"] for one in found["cases"]] == ["BWD_D", "BWD_W"] * 2
        for one in found["cases"]:
            assert {timing["status"] for timing in one["timings"].values()} == {"ok"}
            assert all(ratio > 0 for ratio in one["ratios"].values())
        if "native" in others:
            assert found["peak"]["f32"] > 0
        assert picture.read_text().startswith("<?xml")

    @pytest.fixture
    def instead(self, monkeypatch: pytest.MonkeyPatch) -> list[Result]:
        """Give these results, one after the other, in place of measured ones."""
        given: list[Result] = []

        def measure(self: Benchmark, asked_for: Case) -> Result:
            if not given:
                raise KeyboardInterrupt
            return given.pop(0)

        monkeypatch.setattr(Benchmark, "measure", measure)
        return given

    def test_a_competitor_that_died_is_no_success(
        self, instead: list[Result], capsys: pytest.CaptureFixture[str]
    ) -> None:
        timings = {"ours": timed(1.0), "numpy": Timing("died", "by SIGSEGV")}
        instead.append(Result(case(), timings))
        assert main(["bench", "--compare=numpy", "--dir=BWD_D", "--format=NCX", *SMALL]) == 1
        assert "numpy died: by SIGSEGV" in capsys.readouterr().out

    def test_an_interrupt_leaves_what_was_measured(
        self, instead: list[Result], capsys: pytest.CaptureFixture[str]
    ) -> None:
        instead.append(Result(case(), {"ours": timed(1.0), "numpy": timed(sqrt(2))}))
        assert main(["bench", "--compare=numpy", "--dir=BWD_D", "--json=-", *SMALL]) == 130
        captured = capsys.readouterr()
        assert json.loads(captured.out)["groups"][0]["geometric_mean"] == pytest.approx(sqrt(2))
        assert "interrupted, 1 problems were left" in captured.err

    def test_tiny_alone(self, instead: list[Result], capsys: pytest.CaptureFixture[str]) -> None:
        timings = {"ours": timed(2e-5), "plan": timed(1e-5)}
        instead.append(Result(bench.TINY, timings))
        assert main(["bench", "--tiny", "--compare=none", "--json=-"]) == 0
        captured = capsys.readouterr()
        found = json.loads(captured.out)
        assert found["cases"] == []
        assert found["tiny"]["timings"]["plan"]["median"] == 1e-5
        assert "plain call" in captured.err

    def test_a_suite_with_another_minibatch(self) -> None:
        given: list[Case] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Benchmark, "measure", lambda self, one: given.append(one) or 1 / 0)
            with pytest.raises(ZeroDivisionError):
                main(["bench", "--suite=dcgan", "--mb=2", "--compare=none"])
        assert given[0].descriptor.minibatch == 2
        assert given[0].descriptor.name == "dcgan:discriminator1"

    @pytest.mark.parametrize(
        ("option", "message"),
        [
            (
                "--compare=native,keras",
                "expected some of native, torch, numpy or none; got 'keras'",
            ),
            ("--suite=vgg", "expected some of resnet50, mobilenet"),
            ("--threads=0", "expected an integer of at least 1, got '0'"),
            ("--budget=-1", "expected a positive number"),
            ("--plot=a.jpg", "expected a name ending in .png or .svg"),
            ("--effort=more", "invalid choice"),
        ],
    )
    def test_wrong_options(
        self, option: str, message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as caught:
            main(["bench", option])
        assert caught.value.code == 2
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--conv", "ic4oc4"), "no spatial axis"),
            (("--conv", "mb0ic4ih6oc8kh3"), "no problem to time"),
            (("--json=missing/folder/a.json",), "cannot be written"),
        ],
        ids=["descriptor", "empty", "file"],
    )
    def test_errors_before_anything_runs(
        self, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["bench", *arguments]) == 1
        assert message in capsys.readouterr().err


def test_busy_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert (machine.busy_cores(0.01) or 0) >= 0
    monkeypatch.setattr(machine, "STATISTICS", tmp_path / "missing")
    assert machine.busy_cores(0.0) is None
