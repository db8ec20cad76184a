"""The survey's pairs: what each rule is worth."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from onednn_py.backends.onednn.selection.choice import Choice
from tests.support.requirements import needs_onednn
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
            plan = pairs.decide(pairs.current_engine(), pairs.in_plane(case.problem()))
            assert plan.choice.as_dict() == one["with"] != one["without"]
        assert max(every.counts.values()) == 1

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
        for missing in (tmp_path / "rules.txt", tmp_path / "none.py"):
            assert survey.main([*options, f"--rules={missing}"]) == 2
            assert str(missing) in capsys.readouterr().err

    def test_a_table_by_rule(self, survey: Any) -> None:
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
        assert printed[1].split() == ["A[0]", "2", "1.00", "0.50", "2.00", "1"]
        assert printed[2].split() == ["B[1]", "1", "0.90", "0.90", "0.90", "0"]
        assert "A[0], seed 1" in printed[5]
        assert "2.00  200 / 100" in printed[5]
