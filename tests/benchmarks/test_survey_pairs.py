"""The survey's pairs: what each rule is worth."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.rules import rules_of
from onednn_py.errors import OneDNNError
from tests.support.requirements import needs_onednn
from tests.support.rules import WITHOUT_AMX, shape_of
from tests.support.survey import lines, needs_benchmarks, row, survey

__all__ = ["survey"]

pytestmark = needs_benchmarks


@needs_onednn
class TestPairs:
    RULES = """
import re
from onednn_py.backends.onednn.selection.rules import Rule

RULES = (
    Rule(lambda s: False, "any", re.compile("gemm"), "never applies"),
    Rule(lambda s: s.weights and s.dense, "any", re.compile("no such kernel"), "decides nothing"),
    Rule(lambda s: s.weights and s.dense, "any", re.compile("gemm"), "slow"),
)
"""

    def test_rules_of_a_file(
        self, survey: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file, out = tmp_path / "rules.py", tmp_path / "pairs.jsonl"
        file.write_text(self.RULES)
        options = ["pairs", f"--rules={file}", f"--out={out}", "--broad", "--dtype=f32"]
        assert survey.main([*options, "--seeds=0:400", "--problems=2"]) == 0
        found = lines(out)
        assert [one["rule"] for one in found] == ["RULES[2]"] * 2
        for one in found:
            assert one["with_microseconds"] > 0 < one["without_microseconds"]
            assert "gemm" in one["with"]["implementation"]
            assert one["with"] != one["without"]
            drawn = survey.draw_broadly(one["seed"])
            assert one["direction"] in {case.direction for case in drawn.cases}
            assert one["direction"].startswith("BWD_W")
        # A further run goes on, and measures no problem again.
        capsys.readouterr()
        assert survey.main([*options, "--seeds=0:400", "--problems=3"]) == 0
        assert lines(out)[:2] == found
        assert len({one["seed"] for one in lines(out)}) == 3
        printed = capsys.readouterr()
        assert "3 problems with two choices" in printed.err
        assert survey.main(["report", str(out)]) == 0
        assert capsys.readouterr().out == printed.out

    def test_every_rule_of_the_package_has_a_name(self, survey: Any) -> None:
        pairs = sys.modules["survey_pairs"]
        names = pairs.named_rules()
        assert {name.partition("[")[0] for name in names} >= {"DATA", "WEIGHTS", "GENERAL"}
        assert set(pairs.named_rules(["DATA"])) < set(names)

    def test_a_rule_that_decides_is_compared_with_the_rules_behind_it(self, survey: Any) -> None:
        """Taking it away must leave every other rule in its place."""
        pairs = sys.modules["survey_pairs"]
        every = pairs.Pairs(pairs.named_rules(), most=1)
        rows = [one for seed in range(40) for one in every.rows(survey.draw(seed))]
        assert rows
        for one in rows:
            drawn = survey.draw(one["seed"])
            case = next(case for case in drawn.cases if case.direction == one["direction"])
            engine = pairs.current_engine()
            problem = pairs.equivalent(case.problem(), engine.library.cpu_isa)
            plan = pairs.decide(engine, problem)
            assert plan.choice.as_dict() == one["with"] != one["without"]
        assert max(every.counts.values()) == 1

    def test_rules_without_limits_by_width(self, survey: Any) -> None:
        """Other CPUs than that of the test have their rules, whatever it is."""
        unlimited = sys.modules["survey_pairs"].without_limits
        text = "mb1ic8ih28oc8kh3ph1 BWD_D f32 NXC"
        (limited, *_) = rules_of(shape_of(text, WITHOUT_AMX, halves_avx512=True))
        full = shape_of(text, WITHOUT_AMX, halves_avx512=False)
        assert limited not in list(rules_of(full))
        assert next(unlimited(full)) is limited
        text = "mb8ic32iw857oc64ow857kw5pw2 BWD_D bf16 NCX"
        limited = next(unlimited(shape_of(text, WITHOUT_AMX, halves_avx512=True)))
        assert limited not in list(rules_of(shape_of(text, WITHOUT_AMX, halves_avx512=True)))

    def test_this_cpu_is_compared_with_rules_without_limits(
        self, survey: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pairs = sys.modules["survey_pairs"]
        monkeypatch.setattr(pairs, "without_limits", lambda shape: reversed([*rules_of(shape)]))
        out = tmp_path / "pairs.jsonl"
        options = ["pairs", "--by-width", "--seeds=0:60", "--problems=1", "--dtype=f32"]
        assert survey.main([*options, f"--out={out}"]) == 0
        assert lines(out)
        for one in lines(out):
            drawn = survey.draw(one["seed"])
            case = next(case for case in drawn.cases if case.direction == one["direction"])
            engine = pairs.current_engine()
            problem = pairs.equivalent(case.problem(), engine.library.cpu_isa)
            here = pairs.decide(engine, problem)
            there = pairs.decide(engine, problem, rules=pairs.without_limits)
            assert here.choice.as_dict() == one["with"]
            assert there.choice.as_dict() == one["without"] != one["with"]

    def test_a_failure_ends_nothing(
        self,
        survey: Any,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        made = survey.Pairs.rows

        def failing(self: Any, drawn: Any) -> list[dict[str, Any]]:
            if drawn.seed == 1:
                raise OneDNNError("dnnl_primitive_create", "runtime_error")
            return made(self, drawn)  # type: ignore[no-any-return]

        monkeypatch.setattr(survey.Pairs, "rows", failing)
        out = tmp_path / "pairs.jsonl"
        options = ["pairs", "--seeds=0:12", "--problems=1", f"--out={out}"]
        assert survey.main(options) == 1
        (failed,) = [one for one in lines(out) if "failure" in one]
        assert failed["seed"] == 1
        assert max(one["seed"] for one in lines(out)) > 1
        assert re.search(r"^12 seeds in \d+ s, 1 failed, ", capsys.readouterr().err, re.M)

    def test_what_cannot_be_read(
        self, survey: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = ["pairs", "--seeds=0:1", f"--out={tmp_path / 'out.jsonl'}"]
        assert survey.main([*options, "--table=DATUM"]) == 2
        assert "no table or rule DATUM; the tables are " in capsys.readouterr().err
        empty = tmp_path / "empty.py"
        empty.write_text("")
        assert survey.main([*options, f"--rules={empty}"]) == 2
        assert "empty.py has no RULES" in capsys.readouterr().err
        for more in ("--table=DATA", "--by-width"):
            assert survey.main([*options, f"--rules={empty}", more]) == 2
            assert "goes with neither --table nor --by-width" in capsys.readouterr().err
        for missing in (tmp_path / "rules.txt", tmp_path / "none.py"):
            assert survey.main([*options, f"--rules={missing}"]) == 2
            assert str(missing) in capsys.readouterr().err

    def test_a_table_by_rule(
        self, survey: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        report = sys.modules["survey_pairs"].pair_lines
        choice = Choice("f32").as_dict()
        rows = [
            {
                **row(seed, 1.0),
                **{"rule": rule, "with": choice, "without": choice},
                **{"with_microseconds": with_, "without_microseconds": 100.0},
            }
            for seed, (rule, with_) in enumerate([("A[0]", 50.0), ("A[0]", 200.0), ("B[1]", 90.0)])
        ]
        printed = list(report(rows))
        assert printed[3].split() == ["all", "3", "0.97", "0.50", "2.00", "1"]
        assert printed[1].split() == ["A[0]", "2", "1.00", "0.50", "2.00", "1"]
        assert printed[2].split() == ["B[1]", "1", "0.90", "0.90", "0.90", "0"]
        assert "A[0], seed 1" in printed[6]
        assert "2.00  200 / 100" in printed[6]
        mixed = tmp_path / "mixed.jsonl"
        mixed.write_text("".join(f"{json.dumps(one)}\n" for one in (*rows, row(9, 1.0))))
        assert survey.main(["report", str(mixed)]) == 2
        assert "pairs have a report of their own" in capsys.readouterr().err
