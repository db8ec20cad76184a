"""Fixtures of the tests of `onednn_py.torch`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
import torch

with warnings.catch_warnings():
    # Parts of PyTorch that are imported later warn of other libraries.
    warnings.simplefilter("ignore")
    import torch._dynamo
    import torch._inductor

import onednn_py.torch
from onednn_py.torch.failures import RAISE
from tests.support.torch_comparison import all_taken


@pytest.fixture
def preferences() -> None:
    """What PyTorch computes faster is left to it, as outside of tests."""


@pytest.fixture(autouse=True)
def pytorchs_own_kernels(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[None]:
    """A test starts and ends with PyTorch's own kernels, and errors of ours are raised in it.

    In between, ours take small calls, too, but for tests of `preferences`.
    """
    monkeypatch.setenv(RAISE, "1")
    torch.manual_seed(0)
    onednn_py.torch.disable()
    with nullcontext() if "preferences" in request.fixturenames else all_taken():
        yield
        onednn_py.torch.disable()


@pytest.fixture
def compiler() -> Iterator[None]:
    """`torch.compile` that remembers nothing of other tests."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
