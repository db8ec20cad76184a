"""The survey's search for rules: what it finds in times, and the file that it writes."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from onednn_py.backends.onednn.selection.choice import Choice
from tests.support.requirements import needs_onednn
from tests.support.rules import WITHOUT_AMX, shape_of
from tests.support.survey import needs_benchmarks, survey

__all__ = ["survey"]

pytestmark = needs_benchmarks

KIND = ("not s.bf16", "not s.channels_last", "s.forward", "not s.transposed", "s.dense")
GEMM = Choice("f32", implementation="x64:gemm:jit")
PRODUCT = Choice("f32", "matmul", "given", "given", "brg:avx512_core")


@dataclass
class Shape:
    """Facts of a problem; those that a test does not name are no condition's."""

    inputs: int
    pixels: int
    strided: bool

    def __getattr__(self, name: str) -> int:
        if name.startswith("__"):
            raise AttributeError(name)
        return 1


def problems(
    survey: Any, choice: Choice, gain: Callable[[Shape], float], number: int = 200
) -> list[Any]:
    """Return recorded problems, of which a choice takes e to the power of ``gain`` the time."""
    timed = sys.modules["survey_timed"]
    draw = random.Random(5)
    found = []
    for seed in range(number):
        shape = Shape(draw.randrange(1, 100), draw.randrange(1, 9000), draw.random() < 0.5)
        takes = draw.uniform(1.0, 3.0)
        times = {timed.Action.of(choice): takes + gain(shape)}
        found.append(timed.Timed(seed, KIND, shape, takes, takes, times))
    return found


def searched(found: list[Any]) -> Any:
    return sys.modules["survey_search"].search(found)


def test_a_conjunction_is_found(survey: Any) -> None:
    every = problems(survey, GEMM, lambda one: -0.5 if one.inputs < 30 and not one.strided else 0.5)
    (rule,) = searched(every)
    assert rule.conditions[: len(KIND)] == KIND
    assert "not s.strided" in rule.conditions
    assert any(text.startswith("s.inputs < ") for text in rule.conditions)
    assert rule.action.implementation == "x64:gemm:jit"
    assert max(rule.ratios) < 1.7
    mean = sum(rule.ratios) / len(rule.ratios)
    assert mean < 0.75


@pytest.mark.parametrize(
    ("gain", "why"),
    [
        (lambda one: 0.3, "always slower"),
        (lambda one: -0.01, "too little"),
        (lambda one: -0.5 if one.pixels % 2 else 0.5, "no condition tells when"),
    ],
)
def test_what_does_not_gain_is_no_rule(
    survey: Any, gain: Callable[[Shape], float], why: str
) -> None:
    assert not searched(problems(survey, GEMM, gain)), why


def test_a_gain_on_one_half_is_no_rule(survey: Any) -> None:
    every = problems(survey, GEMM, lambda one: -0.5)
    timed = sys.modules["survey_timed"]
    spoilt = [
        timed.Timed(
            *(one.seed, one.kind, one.shape, one.rules_take, one.least),
            {
                action: time if one.seed % 2 else one.rules_take + 0.5
                for action, time in one.actions.items()
            },
        )
        for one in every
    ]
    assert searched(every)
    assert not searched(spoilt)


def test_a_problem_is_decided_once(survey: Any) -> None:
    every = problems(survey, GEMM, lambda one: -0.5)
    timed = sys.modules["survey_timed"]
    both = [
        timed.Timed(
            *(one.seed, one.kind, one.shape, one.rules_take, one.least),
            {**one.actions, timed.Action.of(PRODUCT): one.rules_take - 0.4},
        )
        for one in every
    ]
    (rule,) = searched(both)
    assert rule.action == timed.Action.of(GEMM)
    assert len(rule.ratios) == len(both)


def test_the_file_has_rules(survey: Any, tmp_path: Path) -> None:
    module, timed = sys.modules["survey_search"], sys.modules["survey_timed"]
    found = [
        module.Found((*KIND, "s.inputs < 30"), timed.Action.of(PRODUCT), (0.5, 1.1)),
        module.Found(("s.bf16", "s.weights"), timed.Action.of(GEMM), (0.8,)),
    ]
    file = tmp_path / "rules.py"
    file.write_text("\n".join(module.rule_lines(found)))
    first, second = sys.modules["survey_pairs"].read_rules(file).values()
    assert first.measured == "recorded: 0.74, 1.10 of 2"
    assert (first.formulation, first.activations, first.weights) == ("matmul", "given", "given")
    assert first.compute_dtype == ""
    assert first.family.search("brg:avx512_core")
    assert not first.family.search("brg:avx512_core_bf16")
    assert first.holds(shape_of("mb1ic8ih14oc64kh1 FWD_D f32 NCX", WITHOUT_AMX, halves_avx512=True))
    assert not first.holds(
        shape_of("mb1ic32ih14oc64kh1 FWD_D f32 NCX", WITHOUT_AMX, halves_avx512=True)
    )
    assert second.compute_dtype == "f32"


@needs_onednn
def test_recorded_problems_are_searched(
    survey: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded, out = tmp_path / "recorded.jsonl", tmp_path / "rules.py"
    options = ["--seeds=0:12", "--budget=0.2", f"--out={recorded}"]
    assert survey.main(["record", *options]) == 0
    rows = survey.read_rows(recorded)
    timed = list(sys.modules["survey_timed"].timed_problems(rows))
    assert 0 < len(timed) <= len(rows)
    assert all(one.least <= one.rules_take for one in timed)
    capsys.readouterr()
    assert survey.main(["search", str(recorded), f"--out={out}"]) == 0
    assert f"{len(timed)} problems" in capsys.readouterr().out
    assert out.read_text().startswith("import re\n")
    # Times of another machine say nothing of this one.
    elsewhere = tmp_path / "elsewhere.jsonl"
    elsewhere.write_text("".join(json.dumps({**row, "machine": "other"}) + "\n" for row in rows))
    assert survey.main(["search", str(elsewhere), f"--out={out}"]) == 1
