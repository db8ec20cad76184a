"""Parts of a workspace on the same memory: never two that are in use at once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.overlay import overlaid
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.execution.program import Buffer, Layout, Step
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.preference import Preference
from onednn_py.backends.onednn.selection.rules import NOT_GEMM
from onednn_py.backends.onednn.selection.select import candidate_of
from onednn_py.dispatch.general_call import run
from onednn_py.dispatch.settings import settings
from onednn_py.problem.call_spec import call_spec
from tests.support.candidate_runs import used_workspaces
from tests.support.cases import arguments_by_name
from tests.support.requirements import needs_onednn

# Never read where parts are placed.
NOTHING: Any = None


def buffers_of(workspace: Layout, *insides: tuple[int, int]) -> list[Buffer]:
    """Return buffers, each by the index of its part and its offset inside."""
    return [Buffer(NOTHING, offset=workspace.parts[part][0] + begin) for part, begin in insides]


def step(*buffers: int) -> Step:
    return Step("step", NOTHING, tuple(enumerate(buffers)))


def test_parts_of_different_steps_share_memory() -> None:
    workspace = Layout()
    for nbytes in (64, 256, 128, 100):
        workspace.add(nbytes)
    buffers = buffers_of(workspace, (0, 0), (1, 0), (2, 0), (3, 0))
    # The first part is in use throughout, the second up to step 1, the others from step 2 on.
    steps = [step(0, 1), step(1), step(2, 3), step(3, 0)]
    moved, nbytes = overlaid(workspace, buffers, steps)
    assert [buffer.offset for buffer in moved] == [256, 0, 0, 128]
    assert nbytes == 320 < workspace.nbytes


def test_a_part_is_kept_between_its_uses() -> None:
    workspace = Layout()
    for nbytes in (64, 64):
        workspace.add(nbytes)
    buffers = buffers_of(workspace, (0, 0), (1, 0))
    moved, nbytes = overlaid(workspace, buffers, [step(0), step(1), step(0)])
    assert sorted(buffer.offset for buffer in moved) == [0, 64]
    assert nbytes == 128


def test_buffers_inside_a_part_stay_where_they_are_in_it() -> None:
    workspace = Layout()
    for nbytes in (0, 128, 512):
        workspace.add(nbytes)
    buffers = [*buffers_of(workspace, (1, 0), (1, 40), (2, 300)), Buffer(NOTHING, operand=0)]
    moved, nbytes = overlaid(workspace, buffers, [step(2), step(0, 3), step(1)])
    assert [buffer.offset for buffer in moved] == [0, 40, 300, 0]
    assert nbytes == 512


def test_no_two_parts_in_use_overlap() -> None:
    """Of random programs; the workspace is never larger than it was."""
    rng = np.random.default_rng(0)
    smaller = 0
    for _ in range(300):
        workspace = Layout()
        parts = rng.integers(1, 8)
        for nbytes in rng.integers(1, 2000, parts):
            workspace.add(int(nbytes))
        buffers = buffers_of(workspace, *((part, 0) for part in range(parts)))
        steps = [step(*map(int, rng.integers(0, parts, 2))) for _ in range(rng.integers(1, 12))]
        moved, nbytes = overlaid(workspace, buffers, steps)
        used = [
            [number for number, one in enumerate(steps) if part in dict(one.arguments).values()]
            for part in range(parts)
        ]
        for number in range(len(steps)):
            spans = sorted(
                (moved[part].offset, moved[part].offset + workspace.parts[part][1])
                for part in range(parts)
                if used[part] and used[part][0] <= number <= used[part][-1]
            )
            assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
            assert all(end <= nbytes for _, end in spans)
        assert nbytes <= workspace.nbytes
        smaller += nbytes < workspace.nbytes
    assert smaller > 100


@needs_onednn
@pytest.mark.parametrize("family", ["convolution", "conv_transpose"])
@pytest.mark.parametrize("channels", [16, 17])
@pytest.mark.parametrize("wrt", [("src", "weights"), ("src", "weights", "bias")], ids="+".join)
def test_both_gradients_use_memory_again(family: str, channels: int, wrt: tuple[str, ...]) -> None:
    """Of copies in kernels' layouts; the results are those of NumPy."""
    rng = np.random.default_rng(1)
    shape = 2, channels, 24, 24
    src, diff_dst = (rng.integers(-2, 3, shape).astype(np.float32) for _ in range(2))
    weights = rng.integers(-2, 3, (channels, channels, 3, 3)).astype(np.float32)
    keywords = {
        "wrt": wrt,
        "pads_begin": 1,
        "pads_end": 1,
        "data_format": "NCX",
        "weights_format": "OIX" if family == "convolution" else "IOX",
    }
    function = getattr(onednn_py, f"{family}_backward")
    arguments = arguments_by_name(function.__name__, [src, weights, diff_dst], keywords)
    spec = call_spec(function.__name__, arguments)
    engine = current_engine()
    own_layout = Preference(Choice("f32", "direct", "any"), family=NOT_GEMM)
    candidates = []
    for one in spec.sub_problems({}):
        candidate = candidate_of(engine, one.problem, own_layout)
        assert candidate is not None
        candidates.append(candidate.named(dict(one.names)))
    plan = OneDNNPlan(engine, *candidates)
    alone = [OneDNNPlan(engine, one).workspace_bytes for one in candidates]
    assert max(alone) <= plan.workspace_bytes < sum(alone)
    inputs = dict(zip(spec.inputs, (src, weights, diff_dst), strict=True))
    with used_workspaces():
        for _ in range(2):
            results = run(spec, inputs, [None] * len(wrt), settings(), plan.execute)
    found = spec.returned(results)
    expected = function(src, weights, diff_dst, **keywords, backend="numpy")
    for name in (f"diff_{one}" for one in wrt):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
