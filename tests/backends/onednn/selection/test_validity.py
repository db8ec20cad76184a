"""Choices of files: valid ones of any problem, and the reasons why others are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.decide import decide
from onednn_py.backends.onednn.selection.validity import invalid
from onednn_py.problem.problem import Problem
from onednn_py.tools.benchdnn.case import Case as Benchdnn
from onednn_py.tools.benchdnn.descriptor import parse_descriptor
from tests.support.candidate_runs import CandidateRun
from tests.support.cases import CURATED
from tests.support.requirements import needs_onednn


@pytest.fixture
def problem() -> Problem:
    return CandidateRun(CURATED["2d"].integers("f32"), "convolution", "NXC").problem


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"compute_dtype": "bf16"}, "compute_dtype bf16: expected f32"),
        ({"compute_dtype": "f16"}, "compute_dtype f16: expected f32"),
        ({"compute_dtype": "u8"}, "compute_dtype u8: expected f32"),
        ({"compute_dtype": ""}, "compute_dtype : expected f32"),
        ({"formulation": "winograd"}, "there is no formulation winograd"),
        ({"formulation": ""}, "there is no formulation "),
        ({"activations": "nchw"}, "there are no layouts nchw, any"),
        ({"weights": "nxc"}, "there are no layouts any, nxc"),
        ({"activations": "ncx", "weights": "given"}, "there are no layouts ncx, given"),
        ({"chunks": 0}, "0 chunks: expected 1 to 65536"),
        ({"chunks": -1}, "-1 chunks: expected 1 to 65536"),
        ({"chunks": 3}, "a minibatch of 2 has no 3 equal chunks"),
        ({"chunks": 2**40}, "1099511627776 chunks: expected 1 to 65536"),
        ({"chunks": 2**40, "split_axis": "spatial"}, "1099511627776 chunks: expected 1 to 1024"),
        ({"split_axis": "columns"}, "split_axis columns: expected minibatch or "),
        ({"bias_apart": True}, "bias_apart: there is no bias gradient"),
    ],
    ids=str,
)
def test_reasons(fields: dict[str, Any], reason: str, problem: Problem) -> None:
    assert invalid(problem, Choice("f32")) is None
    found = invalid(problem, Choice(**{"compute_dtype": "f32", **fields}))
    assert found is not None
    assert found.startswith(reason)


def test_halves_may_be_computed_in_float32(problem: Problem) -> None:
    for dtype in ("bf16", "f16"):
        half = replace(problem, dtype=dtype)
        assert invalid(half, Choice("f32")) is None
        assert invalid(half, Choice(dtype)) is None


@needs_onednn
def test_what_the_rules_choose_for_a_large_minibatch() -> None:
    descriptor = parse_descriptor("g64mb1025ic64ih56oc64kh3ph1")
    problem = Benchdnn(descriptor, "BWD_W", "f32", "NCX").problem()
    choice = decide(current_engine(), problem).choice
    assert invalid(problem, choice) is None
