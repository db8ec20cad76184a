"""Another library registers kernels of its own after ours, and keeps ours to call them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import onednn_py.torch
from onednn_py.torch import registration

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore:Warning only once for all operators:UserWarning"),
]

SRC, WEIGHTS = torch.ones(2, 4, 17, 15), torch.ones(4, 4, 3, 3)


@pytest.fixture
def others() -> Iterator[list[Any]]:
    """What the other library keeps; everything is taken away at the end."""
    kept: list[Any] = []
    yield kept
    for library in kept:
        library._destroy()
    onednn_py.torch.disable()
    assert not registration._registered


def register_another(others: list[Any]) -> None:
    original = torch.library.get_kernel("aten::convolution", "CPU")
    library = torch.library.Library("aten", "IMPL")
    library.impl(
        "convolution",
        lambda keyset, *rest: original.call_boxed(keyset, *rest),
        "CPU",
        with_keyset=True,
    )
    others.append(library)


def taken() -> int:
    return onednn_py.torch.statistics().taken.get("convolution", 0)


def test_a_kernel_above_ours_goes_on_after_disable(others: list[Any]) -> None:
    expected = torch.conv2d(SRC, WEIGHTS)
    onednn_py.torch.enable()
    register_another(others)
    before = taken()
    assert torch.equal(torch.conv2d(SRC, WEIGHTS), expected)
    assert taken() == before + 1
    onednn_py.torch.disable()
    assert torch.equal(torch.conv2d(SRC, WEIGHTS), expected)
    assert taken() == before + 1


def test_enable_refuses_below_another_kernel(others: list[Any]) -> None:
    onednn_py.torch.enable()
    register_another(others)
    onednn_py.torch.disable()
    with pytest.raises(RuntimeError, match="another library has registered a CPU kernel"):
        onednn_py.torch.enable()
    with onednn_py.torch.enabled(forward=False):  # whose operation nobody else has
        torch.conv2d(SRC, WEIGHTS)
    others.pop()._destroy()
    before = taken()
    with onednn_py.torch.enabled():
        torch.conv2d(SRC, WEIGHTS)
    assert taken() == before + 1


def test_a_kernel_before_ours_is_never_replaced(others: list[Any]) -> None:
    register_another(others)
    with pytest.raises(RuntimeError, match="another library has registered a CPU kernel"):
        onednn_py.torch.enable()
    assert not registration._registered


def test_blocks_of_two_threads_may_end_in_any_order() -> None:
    first, second = onednn_py.torch.enabled(), onednn_py.torch.enabled(forward=False)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert registration._registered.keys() == {"convolution_backward"}
    second.__exit__(None, None, None)
    assert not registration._registered
