"""PyTorch's operations with our kernels in place: results equal PyTorch's own."""

from __future__ import annotations

import pytest
import torch

import onednn_py.torch

pytestmark = pytest.mark.frameworks


@pytest.mark.parametrize("transposed", [False, True])
def test_small_integers_give_equal_results(transposed: bool) -> None:
    torch.manual_seed(0)
    src = torch.randint(-3, 4, (2, 4, 9, 8)).float()
    weights = torch.randint(-3, 4, (4, 4, 3, 3)).float()
    arguments = ([2, 1], [1, 1], [1, 1], transposed, [0, 0], 1)
    expected = torch.ops.aten.convolution(src, weights, None, *arguments)
    diff_dst = torch.randint_like(expected, -3, 4)
    wanted = torch.ops.aten.convolution_backward(
        diff_dst, src, weights, [4], *arguments, [True] * 3
    )
    before = onednn_py.torch.statistics()
    with onednn_py.torch.enabled():
        dst = torch.ops.aten.convolution(src, weights, None, *arguments)
        found = torch.ops.aten.convolution_backward(
            diff_dst, src, weights, [4], *arguments, [True] * 3
        )
    after = onednn_py.torch.statistics()
    for name in ("convolution", "convolution_backward"):
        assert after.taken[name] == before.taken.get(name, 0) + 1
    for one, other in zip((dst, *found), (expected, *wanted), strict=True):
        assert torch.equal(one, other)
        assert one.stride() == other.stride()
