"""The command bench: suites, turns, ratios, workers that fail, and what it writes. No times."""

from __future__ import annotations

import json
from collections import Counter
from math import sqrt
from pathlib import Path

import pytest

from onednn_py.cli import bench, main
from onednn_py.errors import AttributeValueError
from onednn_py.tools.benchdnn.batch import read_batch
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchmark.report import CaseTable, gap_lines, group_lines, tiny_lines
from onednn_py.tools.benchmark.results import Result, Timing, grouped, to_json
from onednn_py.tools.benchmark.rounds import Benchmark
from onednn_py.tools.benchmark.suites import SUITES, suite_files
from onednn_py.tools.native_programs import (
    ComparisonUnavailableError,
    NativeProgramError,
    native_program,
)
from tests.support.bench_cases import SMALL, case, timed


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
        folder = Path(suite_files("unet")[0][1]).parents[1]
        assert listed == set(folder.rglob("*.txt"))

    def test_an_unknown_suite(self) -> None:
        with pytest.raises(AttributeValueError, match="expected some of resnet50, .*'vgg'"):
            suite_files("vgg")


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
            ("--threads=0", "expected an integer from 1 to 1024, got '0'"),
            ("--threads=5000", "expected an integer from 1 to 1024, got '5000'"),
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
            (("--deconv",), "--deconv: no descriptor, and no --batch behind it"),
            (("--conv", "mb0ic4ih6oc8kh3"), "no problem to time"),
            (("--json=missing/folder/a.json",), "cannot be written"),
        ],
        ids=["descriptor", "nothing", "empty", "file"],
    )
    def test_errors_before_anything_runs(
        self, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["bench", *arguments]) == 1
        assert message in capsys.readouterr().err
