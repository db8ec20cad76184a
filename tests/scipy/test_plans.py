"""Plans of operators: packed weights, other numbers of threads, few plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py.api.packed import PackedTensor

pytestmark = pytest.mark.frameworks

SRC = (1, 6, 6, 16)


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch, onednn: str) -> list[str]:
    """Weights of any size are packed; how often each call's tensor was."""
    from onednn_py.scipy import plans

    monkeypatch.setattr(plans, "PACKED_FROM", 0)
    given: list[str] = []
    run = onednn_py.Plan.__call__

    def noted(self: Any, *tensors: Any, **keywords: Any) -> Any:
        given.append(type(tensors[-1]).__name__)
        return run(self, *tensors, **keywords)

    monkeypatch.setattr(onednn_py.Plan, "__call__", noted)
    return given


def operator(**keywords: Any) -> Any:
    from onednn_py.scipy import convolution_operator

    weights = np.arange(3 * 3 * 16 * 16).reshape(3, 3, 16, 16) % 5 - 2
    return convolution_operator(SRC, weights.astype(np.float32), **keywords)


def check(made: Any) -> None:
    x = np.arange(made.shape[1]) % 3
    reference = operator(backend="numpy")
    assert np.array_equal(made @ x, reference @ x)
    y = np.arange(made.shape[0]) % 3
    assert np.array_equal(made.H @ y, reference.H @ y)


def test_packed_weights_compute_the_same(packed: list[str], onednn: str) -> None:
    check(operator(backend=onednn))
    assert packed == ["PackedTensor", "ndarray"] * 2  # ours, and the reference on NumPy


def test_plans_that_refuse_packed_weights_pack_again(
    packed: list[str], onednn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = operator(backend=onednn)
    check(made)
    refuses = [True]
    execute = onednn_py.Plan._execute_packed

    def refusing(self: Any, label: str, tensor: PackedTensor) -> Any:
        if refuses[0]:
            raise onednn_py.AttributeValueError("another layout")
        return execute(self, label, tensor)

    monkeypatch.setattr(onednn_py.Plan, "_execute_packed", refusing)
    check(made)
    refuses[0] = False
    packed.clear()
    check(made)
    assert packed == ["PackedTensor", "ndarray"] * 2


def test_other_numbers_of_threads(packed: list[str], onednn: str) -> None:
    made = operator(backend=onednn)
    for threads in (1, 2, 1, 3):
        with onednn_py.num_threads(threads):
            check(made)


def test_large_weights_are_packed_by_themselves(onednn: str) -> None:
    from onednn_py.scipy import convolution_operator

    weights = np.ones((3, 3, 176, 176), np.float32)
    made = convolution_operator((1, 4, 4, 176), weights, backend=onednn)
    assert isinstance(made._plans.forward(1)._given, PackedTensor)
    assert not isinstance(operator(backend=onednn)._plans.forward(1)._given, PackedTensor)
    assert (made @ np.ones(made.shape[1])).tolist() == [9 * 176] * made.shape[0]


def test_few_plans_are_kept() -> None:
    made = operator()
    for columns in range(1, 9):
        assert (made @ np.ones((made.shape[1], columns))).shape == (made.shape[0], columns)
    assert made._plans.forward.cache_info().currsize == 4


def test_plans_are_built_once(fresh_cache: None) -> None:
    made = operator()
    x = np.ones(made.shape[1])
    made @ x
    misses = onednn_py.cache_info().misses
    for _ in range(5):
        made @ x
    assert onednn_py.cache_info().misses == misses
    assert made._plans.forward.cache_info().misses == 1
