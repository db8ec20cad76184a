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
from onednn_py.torch.tensors import MADE_AT_ONCE, MOST_POOLED, SMALLEST_HOLE, _without_elements
from tests.support.torch_comparison import counted
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


def _weights_gradients(elements: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of weights and bias of a call whose src has so many elements."""
    src = torch.ones(1, 4, elements // 4)
    diff_dst, weights = torch.ones_like(src), torch.ones(4, 4, 1)
    numbers = (4,), (1,), (0,), (1,), False, (0,), 1
    mask = (False, True, True)
    _, *found = torch.ops.aten.convolution_backward(diff_dst, src, weights, *numbers, mask)
    return found[0], found[1]


def _left() -> int:
    return len(_without_elements.get(torch.float32, ()))


def test_gradients_of_weights_are_made_in_batches_beside_large_tensors() -> None:
    elements = SMALLEST_HOLE // 4
    with onednn_py.torch.enabled():
        _weights_gradients(elements)  # the first call makes a batch
        for _ in range(2 * MADE_AT_ONCE):
            before = _left()
            diff_weights, diff_bias = _weights_gradients(elements)
            assert (before - _left()) % MADE_AT_ONCE == 2
        assert _left() < MADE_AT_ONCE
        before = _left()
        _weights_gradients(elements - 4)
        assert _left() == before
    assert diff_weights.shape == (4, 4, 1)
    assert torch.equal(diff_weights, torch.full((4, 4, 1), elements / 4))
    assert torch.equal(diff_bias, torch.full((4,), elements / 4))
    assert diff_weights.is_contiguous()
    assert diff_weights.untyped_storage().nbytes() == 16 * 4
    assert diff_weights.untyped_storage().resizable()


def test_inference_mode_leaves_no_tensors_that_training_cannot_use() -> None:
    elements = SMALLEST_HOLE // 4
    _without_elements.clear()
    with onednn_py.torch.enabled():
        with torch.inference_mode():
            inside, _ = _weights_gradients(elements)
        assert _left() == 0
        outside, _ = _weights_gradients(elements)
        assert _left() > 0
        with torch.inference_mode():
            again, _ = _weights_gradients(elements)
    assert torch.equal(inside, outside)
    assert torch.equal(again, outside)
    assert not outside.is_inference()


def test_settings_that_come_and_go_keep_nothing() -> None:
    from onednn_py.torch import kernels

    for _ in range(20):
        onednn_py.torch.enable()
        onednn_py.torch.disable()
    gc.collect()
    # At most one for each effort.
    alive = [item for item in gc.get_objects() if type(item) is kernels.Kernels]
    assert len(alive) <= 3


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
def test_small_results_are_tensors_that_can_be_resized(form: torch.memory_format) -> None:
    src = torch.ones(2, 4, 6, 6).contiguous(memory_format=form)
    weights = torch.ones(8, 4, 3, 3)
    with torch.inference_mode(), onednn_py.torch.enabled():
        torch.conv2d(src, weights)  # decides, and keeps what results are like
    with onednn_py.torch.enabled():
        dst = torch.conv2d(src, weights)
    assert dst.is_contiguous(memory_format=form)
    assert not dst.is_inference()
    assert dst.resize_(50, 50).fill_(1).sum() == 2500


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_programs_own_tensors_can_be_resized(dtype: torch.dtype) -> None:
    """As FSDP frees and fills parameters, and `out=` fills a buffer for one batch after another."""
    src, weights = (torch.ones(shape, dtype=dtype) for shape in ((4, 16, 20, 20), (8, 16, 3, 3)))
    bias = torch.ones(8, dtype=dtype)
    diff_dst = torch.ones(4, 8, 18, 18, dtype=dtype)
    strides = torch.ones(16, 20, 20, dtype=dtype).expand(4, 16, 20, 20)
    arguments = [8], (1, 1), (0, 0), (1, 1), False, (0, 0), 1, (True, True, True)
    with onednn_py.torch.enabled(), counted() as calls:
        for activations in (src, strides):
            dst = torch.nn.functional.conv2d(activations, weights, bias)
            found = torch.ops.aten.convolution_backward(diff_dst, activations, weights, *arguments)
    assert calls.taken == {"convolution": 2, "convolution_backward": 2}
    assert (dst == 145).all()
    for tensor in (src, weights, bias, diff_dst, strides, found[1], found[2]):
        assert tensor.untyped_storage().resizable()
    weights.untyped_storage().resize_(0)
