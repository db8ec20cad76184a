"""The comparison of candidates fails on wrong results, and on workspaces whose parts overlap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution import program
from onednn_py.backends.onednn.execution.plan import OneDNNPlan, build_plan
from onednn_py.backends.onednn.selection.choice import Choice

from .candidate_runs import CandidateRun, StridedCandidateRun, assert_apart
from .cases import CURATED
from .memory_layouts import gaps
from .requirements import needs_onednn

pytestmark = needs_onednn


class Wrong(OneDNNPlan):
    """A plan whose last element is wrong, in its second execution alone."""

    executions = 0

    def execute(self, tensors: Mapping[str, np.ndarray], *arguments: Any) -> None:
        super().execute(tensors, *arguments)
        self.executions += 1
        if self.executions == 2:
            result = tensors[self.problem.result_role]
            result[(-1,) * result.ndim] += 1


def runs() -> list[CandidateRun]:
    tensors = CURATED["2d"].integers("f32")
    return [
        CandidateRun(tensors, "convolution_backward_data", "NCX"),
        StridedCandidateRun(tensors, "convolution_backward_data", "NCX", gaps),
    ]


def test_results() -> None:
    for run in runs():
        plan = build_plan(current_engine(), run.problem)
        run.check(plan)
        with pytest.raises(AssertionError, match="on convolution_backward_data"):
            run.check(Wrong(current_engine(), *plan.candidates))


@pytest.mark.parametrize("shift", [-64, 2**20], ids=["overlapping", "behind the end"])
def test_workspaces(shift: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run = runs()[0]
    choice = Choice("f32", activations="nxc")  # every tensor is copied
    plan = build_plan(current_engine(), run.problem, choice)
    assert_apart(plan)
    add = program.Layout.add

    def shifted(layout: program.Layout, nbytes: int) -> int:
        offset = add(layout, nbytes)
        return offset + shift if offset else offset

    monkeypatch.setattr(program.Layout, "add", shifted)
    with pytest.raises(AssertionError):
        assert_apart(build_plan(current_engine(), run.problem, choice))
