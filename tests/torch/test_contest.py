"""With the effort to measure, both sides compute in turn, and the faster goes on."""

from __future__ import annotations

from unittest.mock import Mock, patch

import pytest
import torch

import onednn_py.torch
from onednn_py.torch import kernels, registration
from onednn_py.torch.contest import ROUNDS, Contest
from tests.support.torch_comparison import counted

pytestmark = pytest.mark.frameworks


@pytest.mark.parametrize(("ours", "theirs"), [(1.0, 2.0), (2.0, 1.0), (1.0, 1.0)])
def test_the_faster_side_goes_on(ours: float, theirs: float) -> None:
    contest = Contest()
    turns = []
    while not contest.is_decided:
        turns.append(contest.is_ours)
        # The first calls plan, and are slow on both sides.
        slow = 100 if len(turns) <= 2 else 1
        contest.add(contest.is_ours, slow * (ours if contest.is_ours else theirs))
    assert turns == [True, False] * (ROUNDS + 1)
    assert contest.is_ours == (ours <= theirs)
    contest.add(True, 0.0)
    assert contest.is_ours == (ours <= theirs)


def test_calls_are_computed_in_turn_and_then_by_one_side() -> None:
    # A size that no other test has: decisions are remembered.
    src, weights = torch.ones(2, 8, 21, 23), torch.ones(8, 8, 3, 3)
    expected = torch.conv2d(src, weights)
    counts = []
    with onednn_py.torch.enabled(effort="measure"):
        for _ in range(2 * ROUNDS + 6):
            onednn_py.torch.reset_statistics()
            assert torch.equal(torch.conv2d(src, weights), expected)
            statistics = onednn_py.torch.statistics()
            counts.append(statistics.taken.get("convolution", 0))
            assert sum(statistics.left.get("convolution", {}).values()) == 1 - counts[-1]
    assert counts[: 2 * ROUNDS + 2] == [1, 0] * (ROUNDS + 1)
    assert len(set(counts[2 * ROUNDS + 2 :])) == 1


def test_deterministic_algorithms_are_never_compared() -> None:
    src, weights = torch.ones(2, 8, 19, 23), torch.ones(8, 8, 3, 3)
    torch.use_deterministic_algorithms(True)
    try:
        with onednn_py.torch.enabled(effort="measure"):
            onednn_py.torch.reset_statistics()
            for _ in range(4):
                torch.conv2d(src, weights)
            assert onednn_py.torch.statistics().taken == {"convolution": 4}
    finally:
        torch.use_deterministic_algorithms(False)


def test_an_error_of_pytorch_ends_the_comparison() -> None:
    """Calls that run here do not fail because PyTorch's kernel is tried."""
    src, weights = torch.ones(2, 8, 17, 23), torch.ones(8, 8, 3, 3)
    expected = torch.conv2d(src, weights)
    with onednn_py.torch.enabled(effort="measure"):
        torch.conv2d(src, weights)
        originals = {name: Mock() for name in registration._kernels.originals}
        for original in originals.values():
            original.call_boxed.side_effect = RuntimeError("not implemented")
        with patch.object(registration._kernels, "originals", originals), counted() as calls:
            for _ in range(4):
                assert torch.equal(torch.conv2d(src, weights), expected)
    assert originals["convolution"].call_boxed.call_count == 1
    assert calls.taken == {"convolution": 4}
    assert not calls.left_calls


def test_deterministic_algorithms_are_not_chosen_by_times() -> None:
    src, weights = torch.ones(2, 8, 16, 23), torch.ones(8, 8, 3, 3)
    torch.use_deterministic_algorithms(True)
    try:
        with (
            patch.object(kernels, "BoundTensors", side_effect=kernels.BoundTensors) as bound,
            onednn_py.torch.enabled(effort="measure"),
        ):
            torch.conv2d(src, weights)
        assert bound.call_args.args[-1] == "heuristic"
    finally:
        torch.use_deterministic_algorithms(False)
