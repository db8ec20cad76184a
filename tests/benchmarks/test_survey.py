"""The survey: what its seeds draw, and what it records, judges and reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.wisdom import store
from onednn_py.backends.onednn.wisdom.entry import Entry
from onednn_py.errors import OneDNNError
from onednn_py.tools.benchdnn.batch import read_batch
from onednn_py.tools.benchdnn.suites import SUITES, suite_files
from tests.support.requirements import needs_onednn
from tests.support.survey import BENCHMARKS, lines, needs_benchmarks, row, survey

__all__ = ["survey"]

pytestmark = needs_benchmarks


@pytest.fixture
def measure(survey: Any) -> Any:
    return sys.modules["survey_measure"]


def test_scripts_measure_the_package_beside_them(tmp_path: Path) -> None:
    """Not another one that is installed, whose rules would be judged."""
    (tmp_path / "onednn_py").mkdir()
    (tmp_path / "onednn_py" / "__init__.py").write_text("raise ImportError('another one')")
    for script, arguments in (("survey.py", ["--help"]), ("run.py", ["--list"])):
        subprocess.run(
            [sys.executable, BENCHMARKS / script, *arguments],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            check=True,
            timeout=60,
        )


class TestDraw:
    def test_a_seed_determines_its_problem(self, survey: Any) -> None:
        """A file of another run, or of another machine, is about the same problems."""
        expected = "conv mb4ic16ih16oc47oh16kh3ph1 BWD_D bf16 NCX"
        survey.draw(2)
        assert str(survey.draw(3)) == expected
        assert survey.draw(3).family == "3x3"
        assert survey.draw(3) != survey.draw(4)

    def test_all_that_is_promised_is_drawn(self, survey: Any) -> None:
        drawn = [survey.draw(seed) for seed in range(400)]
        cases = [one.cases[0] for one in drawn]
        families = Counter(one.family for one in drawn)
        assert families.keys() == survey.FAMILIES.keys()
        assert min(families.values()) > 400 / len(families) / 2
        directions = Counter(one.direction for one in drawn)
        assert directions.keys() == {
            "FWD_D",
            "FWD_B",
            "BWD_D",
            "BWD_W",
            "BWD_WB",
            "BWD_DW",
            "BWD_DWB",
        }
        for words in ({case.dtype for case in cases}, {case.data_format for case in cases}):
            assert words in ({"f32", "bf16"}, {"NCX", "NXC"})
        ranks = {len(case.descriptor.src) for case in cases}
        assert ranks == {1, 2, 3}
        minibatches = {case.descriptor.minibatch for case in cases}
        assert {1, 32} <= minibatches <= set(range(1, 33))
        assert any(max(case.descriptor.dilations) > 1 for case in cases)

    def test_broad_draws_have_all_operations(self, survey: Any) -> None:
        drawn = [survey.draw_broadly(seed) for seed in range(400)]
        assert drawn[7] == survey.draw_broadly(7) != drawn[8]
        assert {one.family for one in drawn} == set(survey.KINDS)
        assert {one.direction for one in drawn} == {"FWD_D", "FWD_B", "BWD_D", "BWD_W", "BWD_WB"}
        descriptors = [one.cases[0].descriptor for one in drawn]
        biased = [one.direction.endswith("B") for one in drawn]
        transposed = [one.transposed for one in descriptors]
        assert 40 < sum(a and b for a, b in zip(biased, transposed, strict=True)) < 80
        assert {len(one.src) for one in descriptors} == {1, 2, 3}
        assert max(max(one.strides) for one in descriptors) == 4
        assert max(max(one.dilations) for one in descriptors) > 1
        for one in drawn[:60]:
            assert sys.modules["survey_draw"].Drawn.from_json(one.to_json()) == one

    def test_deep_draws_are_large_layers_of_many_channels(self, survey: Any) -> None:
        drawn = [survey.draw_deep(seed) for seed in range(300)]
        assert drawn[7] == survey.draw_deep(7) != drawn[8]
        assert {one.family for one in drawn} == set(survey.DEEP_FAMILIES)
        assert {one.direction for one in drawn} == {"FWD_D", "BWD_D", "BWD_W"}
        cases = [one.cases[0] for one in drawn]
        assert {len(case.descriptor.src) for case in cases} == {1, 2, 3}
        assert any(case.descriptor.transposed for case in cases)
        for case in cases:
            assert case.descriptor.groups == 1
            assert min(case.descriptor.inputs, case.descriptor.outputs) >= 32
            seconds = case.descriptor.flops / 1e11 + case.nbytes / 1e10
            assert 2e-3 <= seconds <= 60e-3
        for one in drawn[:60]:
            assert sys.modules["survey_draw"].Drawn.from_json(one.to_json()) == one

    def test_deep_draws_of_many_images(self, survey: Any) -> None:
        found = set()
        for seed in range(300):
            before = survey.draw_deep(seed)
            after = survey.draw_deep_of_many_images(seed)
            d, many = before.cases[0].descriptor, after.cases[0].descriptor
            factor = many.minibatch // d.minibatch
            assert many == d.with_minibatch(factor * d.minibatch)
            assert before.family == after.family
            found.add(factor)
            if factor == 4:
                assert many.minibatch in {32, 64, 128}
                assert max(d.dst) <= 40
        assert found == {1, 4}

    def test_sides_that_are_powers_of_two(self, survey: Any) -> None:
        drawn = [survey.draw_powers_of_two(seed) for seed in range(300)]
        assert drawn[7] == survey.draw_powers_of_two(7) != drawn[8]
        assert {one.family for one in drawn} == set(survey.POWER_FAMILIES)
        assert {one.direction for one in drawn} == {"FWD_D", "FWD_B", "BWD_D", "BWD_W", "BWD_WB"}
        descriptors = [one.cases[0].descriptor for one in drawn]
        assert {len(one.src) for one in descriptors} == {1, 2, 3}
        assert any(one.transposed for one in descriptors)
        assert all(side.bit_count() == 1 for one in descriptors for side in one.src)
        # Most keep the size, double or halve it; kernels of 2 without strides take one off.
        whole = [one for one in descriptors if prod(one.dst) % 1024 == 0]
        assert len(whole) > 200
        for one in drawn[:60]:
            assert sys.modules["survey_draw"].Drawn.from_json(one.to_json()) == one

    def test_depthwise_images_of_many_channels(self, survey: Any) -> None:
        drawn = [survey.draw_depthwise(seed) for seed in range(300)]
        assert drawn[7] == survey.draw_depthwise(7) != drawn[8]
        assert {one.family for one in drawn} == set(survey.DEPTHWISE_FAMILIES)
        assert {one.direction for one in drawn} == {"FWD_D", "BWD_D", "BWD_W", "BWD_WB"}
        descriptors = [one.cases[0].descriptor for one in drawn]
        assert all(one.groups == one.inputs == one.outputs for one in descriptors)
        channels = {one.groups for one in descriptors}
        assert min(channels) < 128
        assert 1024 < max(channels) <= 2048
        assert sum(one.groups % 256 == 0 for one in descriptors) > 100
        assert {one.kernel for one in descriptors} == {(3, 3), (5, 5), (7, 7)}

    def test_tensors_are_not_too_large(self, survey: Any) -> None:
        for seed in range(200):
            for case in survey.draw(seed).cases:
                assert case.elements * case.numpy_dtype.itemsize < 100 * 2**20

    def test_no_problem_is_a_suite_s(self, survey: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        ours = {str(survey.draw(seed).cases[0].descriptor.with_minibatch(1)) for seed in range(300)}
        theirs = {
            str(problem.descriptor.with_minibatch(1)).partition('n"')[0]
            for name in SUITES
            for operation, path in suite_files(name)
            for problem in read_batch(path, transposed=operation == "deconv").problems
        }
        assert not ours & theirs
        # A suite's problem is drawn again.
        draws = sys.modules["survey_draw"]
        first = draws._anonymous(survey.draw(3).cases[0].descriptor)
        monkeypatch.setattr(draws, "_suite_descriptors", lambda: {first})
        assert draws._anonymous(survey.draw(3).cases[0].descriptor) != first

    def test_a_line_of_a_file_is_read_back(self, survey: Any) -> None:
        for seed in range(60):
            drawn = survey.draw(seed)
            written = json.loads(json.dumps(drawn.to_json()))
            assert sys.modules["survey_draw"].Drawn.from_json(written) == drawn

    def test_both_gradients_share_what_they_read(self, survey: Any) -> None:
        drawn = next(one for one in map(survey.draw, range(200)) if one.direction == "BWD_DWB")
        data, weights = drawn.sub_problems
        assert dict(data.names) == {"src": "diff_src", "dst": "diff_dst"}
        assert dict(weights.names) == {
            "weights": "diff_weights",
            "dst": "diff_dst",
            "bias": "diff_bias",
        }
        assert weights.problem.bias is not None
        assert data.problem.dst == weights.problem.dst


@needs_onednn
class TestMeasuring:
    # Seeds of quick problems: a weights gradient, both gradients, a transposed one.
    SEEDS = (10, 22, 108)

    def test_every_way_is_recorded(self, survey: Any, measure: Any) -> None:
        for seed in self.SEEDS:
            drawn = survey.draw(seed)
            rows = measure.recorded(drawn, budget=0.2)
            assert [row["direction"] for row in rows] == [case.direction for case in drawn.cases]
            for case, found in zip(drawn.cases, rows, strict=True):
                assert json.loads(json.dumps(found)) == found
                assert found["problem"] == case.problem().name
                times = {
                    json.dumps(way["choice"]): way["microseconds"]
                    for way in found["ways"]
                    if "wrong" not in way
                }
                assert all(Choice.from_dict(way["choice"]) for way in found["ways"])
                assert found["microseconds"] == min(times.values()) > 0
                (heuristic,) = found["heuristic"]
                assert found["heuristic_microseconds"] == times[json.dumps(heuristic)]

    def test_wrong_results_never_win(
        self, survey: Any, measure: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = measure.OneDNNPlan

        class Wrong(made):  # type: ignore[misc]
            """Writes nothing, in no time."""

            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments)
                if self.address_runner is not None:
                    self.address_runner = replace(self.address_runner, run=lambda pointers: None)

            def execute(self, *arguments: Any) -> None:
                pass

        monkeypatch.setattr(measure, "OneDNNPlan", Wrong)
        (found,) = measure.recorded(survey.draw(10), budget=0.2)
        assert found["measured"] == found["heuristic"]
        right = [way for way in found["ways"] if "wrong" not in way]
        assert len(right) == 1 < len(found["ways"])
        named = list(survey.report_lines([found]))
        number = len(found["ways"]) - 1
        assert f"results that differ from those of the rules' choice: {number}" in named
        assert sum("seed 10 " in line for line in named) == number + 1

    def test_right_results_are_not_named(self, survey: Any) -> None:
        ways = [{"choice": Choice("f32").as_dict(), "microseconds": 1.0}]
        assert not any("differ" in line for line in survey.report_lines([row(1, 120, ways=ways)]))

    def test_plans_take_turns(self, survey: Any, measure: Any) -> None:
        for seed in self.SEEDS:
            drawn = survey.draw(seed)
            (found,) = measure.judged(drawn, budget=0.1)
            assert found["direction"] == drawn.direction
            number = len(drawn.cases)
            assert len(found["heuristic"]) == len(found["measured"]) == number
            if found["heuristic"] == found["measured"]:
                assert found["microseconds"] == found["heuristic_microseconds"]
            assert found["microseconds"] > 0
            assert measure.in_words(found["measured"]).count(" and ") == number - 1

    def test_the_heuristic_plan_knows_nothing_measured(
        self, survey: Any, measure: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What was measured before, or comes from a file of wisdom, would hide a bad rule."""
        drawn = survey.draw(10)
        problem = drawn.cases[0].problem()
        rules = measure.judged(drawn, budget=0)[0]["heuristic"]
        ways = measure.recorded(drawn, budget=0.2)[0]["ways"]
        other = next(way["choice"] for way in ways if way["choice"] != rules[0])
        entry = Entry(other, 1.0, 2.0)
        store.remember(measure.machine_here(), problem.name, entry)
        assert measure.judged(drawn, budget=0)[0]["heuristic"] == rules

    def test_fresh_tensors_have_the_problems_layouts(self, survey: Any, measure: Any) -> None:
        drawn = survey.draw(22)
        subs = drawn.sub_problems
        tensors = measure._fresh_tensors(subs)
        assert tensors.keys() == {"src", "weights", "diff_dst", "diff_src", "diff_weights"}
        layout = subs[0].problem.dst
        found = tensors["diff_dst"]
        assert found.shape == layout.shape
        assert tuple(stride // found.itemsize for stride in found.strides) == layout.strides
        assert np.isfinite(found.astype(np.float32)).all()


class TestCommands:
    @pytest.fixture
    def seeds(self, survey: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """Seeds that are measured by stand-ins; number 5 fails."""
        measured: list[int] = []

        def stand_in(drawn: Any, budget: float) -> list[dict[str, Any]]:
            measured.append(drawn.seed)
            if drawn.seed == 5:
                raise OneDNNError("dnnl_primitive_create", "runtime_error")
            times = {"heuristic_microseconds": 3.0, "microseconds": 2.0}
            return [{**drawn.to_json(), **times, "heuristic": [], "measured": []}]

        monkeypatch.setitem(survey.MEASURES, "judge", stand_in)
        return measured

    def test_a_survey_is_resumed(
        self, survey: Any, seeds: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "judged.jsonl"
        assert survey.main(["judge", "--seeds=0:3", f"--out={out}"]) == 0
        # An interrupt has cut the last line off.
        out.write_text(out.read_text()[:-20])
        assert survey.main(["judge", "--seeds=0:5", f"--out={out}"]) == 0
        assert seeds == [0, 1, 2, 2, 3, 4]
        assert [one["seed"] for one in lines(out)] == [0, 1, 2, 3, 4]
        assert "3 problems in 0 s, 0 failed, 0 left" in capsys.readouterr().err

    def test_a_slice_ends_in_time(
        self, survey: Any, seeds: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "judged.jsonl"
        assert survey.main(["judge", "--seeds=0:3", f"--out={out}", "--seconds=0"]) == 0
        assert not seeds
        assert "0 problems in 0 s, 0 failed, 3 left" in capsys.readouterr().err

    def test_a_failure_ends_nothing(
        self, survey: Any, seeds: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "judged.jsonl"
        assert survey.main(["judge", "--seeds=4:7", f"--out={out}"]) == 1
        assert seeds == [4, 5, 6]
        assert "failure" in lines(out)[1]
        assert "failed: OneDNNError: " in capsys.readouterr().err
        assert survey.main(["report", str(out)]) == 0
        assert "(of 2)" in capsys.readouterr().out

    def test_filters(self, survey: Any, seeds: list[int], tmp_path: Path) -> None:
        drawn = [survey.draw(seed) for seed in range(100, 160)]
        for number, (option, wanted) in enumerate(
            [
                ("--dtype=bf16", {one.seed for one in drawn if one.cases[0].dtype == "bf16"}),
                ("--format=NXC", {one.seed for one in drawn if one.cases[0].data_format == "NXC"}),
                ("--family=thin", {one.seed for one in drawn if one.family == "thin"}),
                (
                    "--direction=FWD_B,BWD_WB",
                    {one.seed for one in drawn if one.direction in ("FWD_B", "BWD_WB")},
                ),
            ]
        ):
            seeds.clear()
            out = tmp_path / f"{number}.jsonl"
            assert survey.main(["judge", "--seeds=100:160", f"--out={out}", option]) == 0
            assert set(seeds) == wanted
            assert 0 < len(wanted) < 60

    def test_broad_problems_of_a_kind(self, survey: Any, seeds: list[int], tmp_path: Path) -> None:
        kind = "depthwise, transposed"
        wanted = [seed for seed in range(60) if survey.draw_broadly(seed).family == kind]
        out = tmp_path / "broad.jsonl"
        options = ["judge", "--broad", "--seeds=0:60", f"--out={out}", f"--family={kind}"]
        assert survey.main(options) == 0
        assert seeds == wanted
        assert 0 < len(wanted) < 60

    def test_seeds_that_are_no_range(self, survey: Any, capsys: pytest.CaptureFixture[str]) -> None:
        for text in ("3", "5:5", "a:b"):
            with pytest.raises(SystemExit):
                survey.main(["judge", f"--seeds={text}", "--out=x"])
            assert f"expected FIRST:END, such as 0:300; got '{text}'" in capsys.readouterr().err

    def test_a_report_without_times(
        self, survey: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        empty = tmp_path / "empty.jsonl"
        empty.touch()
        assert survey.main(["report", str(empty)]) == 1
        assert "there are no times" in capsys.readouterr().err

    def test_the_report(
        self, survey: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        rows = [row(1, 400.0), row(2, 100.0), row(3, 110.0, family="1x1", dtype="bf16")]
        out, plot = tmp_path / "judged.jsonl", tmp_path / "plot.svg"
        out.write_text("".join(f"{json.dumps(one)}\n" for one in rows))
        assert survey.main(["report", str(out), f"--plot={plot}"]) == 0
        text = capsys.readouterr().out
        table = [line.split() for line in text.splitlines()]
        assert ["thin", "2", "2.000", "1", "50%", "4.00"] in table
        assert ["all", "3", "1.639", "1", "33%", "4.00"] in table
        assert ["f32", "NCX", "BWD_D", "2", "2.000", "1", "50%", "4.00"] in table
        worst = text.partition("the worst")[2].splitlines()
        assert worst[1].split()[:2] == ["4.00", "400"]
        assert "seed 1 thin: conv mb1ic4ih6oc8kh3ph1 BWD_D f32 NCX" in worst[1]
        assert worst[2].strip().startswith("heuristic: first, as_convolution")
        assert worst[3].strip() == "measured:  numpy"
        assert "<svg" in plot.read_text()
