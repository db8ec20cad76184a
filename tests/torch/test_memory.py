"""Memory of a process that trains for long: bounded."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest
import torch

import onednn_py
import onednn_py.torch
from onednn_py.system.memory_pool import pool
from onednn_py.torch.tensors import MOST_POOLED
from tests.support.torch_programs import run_program

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc"),
]

MIB = 2**20


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_steps_of_training_do_not_grow(dtype: str) -> None:
    """900 steps after the first hundred may add less than 20 kB each.

    The network's smallest result has (2, 8, 16, 16) elements, 16 kB in float32, and a step makes
    about twenty: a single one that is kept in each step is seen.
    """
    found = run_program("training", "1000", "enabled", dtype)
    assert found["taken"] > 0
    before, after = found["resident"]
    assert after - before < 900 * 16 * 1024


@pytest.mark.slow
def test_ever_new_shapes_do_not_grow() -> None:
    """Plans and decisions of shapes are bounded: what 4,000 more shapes add is not kept."""
    found = run_program("shapes", "9000")
    before, after = found["resident"]
    assert found["taken"] > 0
    assert after - before < 64 * MIB


def test_tensors_are_freed() -> None:
    """Nothing keeps the tensors of a call: results, arguments, modules."""
    with onednn_py.torch.enabled():
        module = torch.nn.Conv2d(3, 4, 3)
        src = torch.randn(2, 3, 8, 8, requires_grad=True)
        dst = module(src)
        dst.sum().backward()
        assert src.grad is not None
        kept = [weakref.ref(tensor) for tensor in (src, dst, src.grad, module.weight, module)]
        del module, src, dst
        gc.collect()
        assert [reference() for reference in kept] == [None] * 5


def test_memory_of_results_is_given_back() -> None:
    """A large result's memory is used by the next one, as the package's own results' is."""
    with onednn_py.torch.enabled(), torch.no_grad():
        module = torch.nn.Conv2d(8, 16, 3, padding=1)
        src = torch.randn(2, 8, 224, 224)
        module(src)
        before = onednn_py.cache_info()
        for _ in range(20):
            module(src)
        assert onednn_py.cache_info().bytes <= before.bytes + 2 * 16 * 224 * 224 * 4


def test_results_of_a_size_take_few_blocks_of_the_pool() -> None:
    """Others lie on PyTorch's memory, which its own tensors can use again."""
    with onednn_py.torch.enabled(), torch.no_grad():
        module = torch.nn.Conv2d(8, 16, 3, padding=1)
        src = torch.randn(2, 8, 64, 64)
        before = len(pool._lent)
        results = [module(src) for _ in range(5)]
        assert len(pool._lent) - before <= MOST_POOLED
        addresses = {dst.data_ptr() for dst in results}
        assert len(addresses) == 5
        assert all(torch.equal(dst, results[0]) for dst in results)
        # A block that came back is used again.
        results.clear()
        assert module(src).data_ptr() in addresses


def test_settings_that_come_and_go_keep_nothing() -> None:
    from onednn_py.torch import kernels

    for _ in range(20):
        onednn_py.torch.enable()
        onednn_py.torch.disable()
    gc.collect()
    # At most one for each effort.
    alive = [item for item in gc.get_objects() if type(item) is kernels.Kernels]
    assert len(alive) <= 3
