"""`statistics`, and errors of ours: counted, warned of once, left to PyTorch."""

from __future__ import annotations

import warnings
from typing import Any
from unittest.mock import Mock

import pytest
import torch

import onednn_py.torch
from onednn_py.torch import bound_tensors, enabled, failures, reset_statistics, statistics
from tests.support.torch_cases import integers
from tests.support.torch_comparison import assert_equal, counted

pytestmark = pytest.mark.frameworks

F = torch.nn.functional
SRC, WEIGHTS = integers(2, 8, 12, 12), integers(6, 8, 3, 3, seed=1)


def step() -> list[torch.Tensor]:
    leaves = [SRC.clone().requires_grad_(), WEIGHTS.clone().requires_grad_()]
    dst = F.conv2d(*leaves)
    return [dst, *torch.autograd.grad(dst, leaves, integers(*dst.shape, seed=2))]


EXPECTED = step()


def test_calls_are_counted() -> None:
    with enabled(), counted() as calls:
        step()
        F.conv2d(SRC.double(), WEIGHTS.double())
        F.conv2d(SRC[:0], WEIGHTS)
    assert calls.calls == 4
    assert calls.left["convolution"]["data type float64"] == 1
    assert sum(calls.left["convolution"].values()) >= 2


def test_the_numbers_are_a_copy() -> None:
    with enabled():
        first = statistics()
        kept = str(first)
        step()
        assert str(first) == kept
        second = statistics()
        second.taken.clear()
        second.left.clear()
        assert str(statistics()) != str(second)


def test_the_text_names_operations_and_reasons() -> None:
    with enabled():
        step()
        F.conv2d(SRC.double(), WEIGHTS.double())
    text = str(statistics())
    for words in ("convolution:", "convolution_backward:", "float64"):
        assert words in text


def test_reset() -> None:
    with enabled():
        step()
        reset_statistics()
        assert statistics().taken == {}
        assert statistics().left == {}
        step()
    assert sum(statistics().taken.values()) == 2


def test_numbers_stay_when_the_kernels_go() -> None:
    with enabled():
        step()
    before = str(statistics())
    step()
    assert str(statistics()) == before


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let both kernels raise an error."""

    def broken_by(error: BaseException) -> None:
        # No function of this module: the kernels let the errors of other code through.
        monkeypatch.setattr(bound_tensors.BoundTensors, "__call__", Mock(side_effect=error))

    monkeypatch.setattr(failures, "_warned", False)
    return broken_by


@pytest.mark.parametrize(
    "error",
    [
        onednn_py.OneDNNPyError("mine"),
        RuntimeError("x" * 10_000),
        TypeError(),
        OSError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_are_left_to_pytorch(
    error: Exception, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(failures.RAISE)
    broken(error)
    with enabled(), counted() as calls:
        with pytest.warns(RuntimeWarning, match=r"onednn_py\.torch") as warned:
            found = step()
        assert len(warned) == 1
        assert len(str(warned[0].message)) <= 600
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            step()
    assert_equal(found, EXPECTED)
    assert not calls.taken
    for name in ("convolution", "convolution_backward"):
        (reason,) = calls.left[name]
        assert "error" in reason
        assert calls.left[name][reason] == 2


def test_a_warning_that_is_an_error_is_no_wrong_result(
    broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(failures.RAISE)
    broken(RuntimeError("mine"))
    with enabled(), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            step()
        assert_equal(step(), EXPECTED)


def test_errors_are_raised_where_the_variable_is_set(broken: Any) -> None:
    broken(RuntimeError("mine"))
    with enabled(), pytest.raises(RuntimeError, match="mine"):
        step()
    onednn_py.torch.disable()
    assert_equal(step(), EXPECTED)


def test_an_interrupt_is_no_error_of_ours(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(failures.RAISE)
    broken(KeyboardInterrupt())
    with enabled(), pytest.raises(KeyboardInterrupt):
        step()
