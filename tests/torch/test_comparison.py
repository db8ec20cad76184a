"""The comparisons of the other tests fail on wrong tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onednn_py.torch
from tests.support.reproduction import needs_shell, reproduction, run_reproduction
from tests.support.torch_cases import FORMS, TorchCase, in_form
from tests.support.torch_comparison import (
    assert_equal,
    assert_near,
    assert_same_form,
    assert_same_runs,
    counted,
    strides_of,
)

pytestmark = pytest.mark.frameworks

CASE = TorchCase((5, 6), (3, 2), (1, 1), (1, 1), (1, 1), output_padding=(0, 0))
RIGHT = torch.arange(24.0).reshape(2, 3, 4, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        RIGHT.double(),
        RIGHT[:1],
        RIGHT[..., 0],
        RIGHT.clone().requires_grad_(),
        RIGHT.contiguous(memory_format=torch.channels_last),
        RIGHT.transpose(1, 2).contiguous().transpose(1, 2),
        RIGHT.to_sparse(),
        RIGHT.to("meta"),
        torch.nn.Parameter(RIGHT, requires_grad=False),
    ],
    ids=["none", "dtype", "size", "axes", "grad", "channels", "strides", "sparse", "meta", "type"],
)
def test_another_form_is_seen(wrong: Any) -> None:
    assert_same_form(RIGHT.clone(), RIGHT)
    with pytest.raises(AssertionError):
        assert_same_form(wrong, RIGHT)
    with pytest.raises(AssertionError):
        assert_same_form(RIGHT, wrong)


def test_strides_of_single_elements_are_no_difference() -> None:
    other = RIGHT.as_strided(RIGHT.shape, (12, 4, 1, 99))
    assert strides_of(other) == strides_of(RIGHT) == (12, 4, 1, None)
    assert_same_form(other, RIGHT)


@pytest.mark.parametrize("index", [(0, 0, 0, 0), (1, 2, 3, 0)])
@pytest.mark.parametrize("value", [100.0, float("nan"), float("inf")])
def test_one_wrong_element_is_seen(index: tuple[int, ...], value: float) -> None:
    wrong = RIGHT.clone()
    assert_equal(wrong, RIGHT)
    wrong[index] = value
    for comparison in (
        lambda: assert_equal(wrong, RIGHT),
        lambda: assert_equal((RIGHT, wrong), (RIGHT, RIGHT)),
        lambda: assert_near(wrong, RIGHT, RIGHT.abs(), 100),
    ):
        with pytest.raises(AssertionError, match="1 of 24 elements"):
            comparison()


def test_none_and_missing_results_are_seen() -> None:
    assert_equal((None, RIGHT), (None, RIGHT))
    for wrong in ((RIGHT, RIGHT), (None, None), (None,)):
        with pytest.raises(AssertionError):
            assert_equal(wrong, (None, RIGHT))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_tolerance_is_of_roundings(dtype: torch.dtype) -> None:
    """A result that is rounded once more passes; twice the type's step in the result does not."""
    expected = torch.linspace(1, 2, 50, dtype=torch.float64)
    assert_near(expected.to(dtype), expected, expected, 1)
    step = torch.finfo(dtype).eps
    assert_near((expected * (1 + step / 4)).to(dtype), expected, expected, 1)
    # In float32 the sum's own roundings allow (1 + 2) * 2**-23 more.
    wrong = (expected * (1 + 6 * step)).to(dtype)
    with pytest.raises(AssertionError):
        assert_near(wrong, expected, expected, 1)


@pytest.mark.parametrize("form", FORMS)
def test_forms_lie_as_they_are_called(form: str) -> None:
    plain = torch.arange(2.0 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    made = in_form(plain, form)
    expected = {
        "contiguous": (60, 20, 5, 1),
        "channels_last": (60, 1, 15, 3),
        "permuted": (1, 8, 2, 24),
        "sliced": (120, 40, 10, 2),
        "window": (336, 56, 8, 1),
        "expanded": (0, 20, 5, 1),
        "one": (0, 0, 0, 0),
    }
    assert made.stride() == expected[form]
    if form not in ("expanded", "one"):
        assert torch.equal(made, plain)
    assert torch.equal(made[0, 0, 0, 0], plain[0, 0, 0, 0])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_integers_are_exact_in_their_type(dtype: str) -> None:
    big = TorchCase((29, 31), (5, 5), (1, 1), (2, 2), (1, 1), channels=(32, 48), dtype=dtype)
    tensors = big.tensors(integers=True)
    assert all(tensor.abs().max() > 0 for tensor in tensors)
    for result in big.results(*(tensor.double() for tensor in tensors)):
        assert result is not None
        assert result.abs().max() > 1
        assert torch.equal(result, result.to(getattr(torch, dtype)).double())


def test_a_case_runs_here_and_is_counted() -> None:
    with counted() as calls:
        CASE.check()
    assert calls.taken == {"convolution": 1, "convolution_backward": 1}
    assert not calls.left
    with counted() as calls:
        TorchCase(**{**vars(CASE), "dtype": "float64"}).check()
    assert not calls.taken
    assert calls.left_calls == calls.calls == 2


WRONG_KERNELS = {
    "value": "lambda dst: dst + (torch.arange(dst.numel()).reshape(dst.shape) == 1)",
    "strides": "lambda dst: dst.movedim(1, -1).contiguous().movedim(-1, 1)",
    "dtype": "lambda dst: dst.double()",
    "nothing": "lambda dst: None",
}


@pytest.mark.parametrize("wrong", WRONG_KERNELS)
@pytest.mark.parametrize("integers", [True, False])
def test_a_case_fails_on_a_wrong_kernel(
    wrong: str, integers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil = eval(WRONG_KERNELS[wrong])
    results, active = TorchCase.results, []

    def spoiled(self: TorchCase, *tensors: torch.Tensor) -> tuple[Any, ...]:
        dst, *gradients = results(self, *tensors)
        return (spoil(dst) if active else dst, *gradients)

    class Enabled:
        def __enter__(self) -> None:
            active.append(self)

        def __exit__(self, *error: object) -> None:
            active.clear()

    monkeypatch.setattr(TorchCase, "results", spoiled)
    monkeypatch.setattr(onednn_py.torch, "enabled", Enabled)
    with pytest.raises(AssertionError, match="dst"):
        CASE.check(integers)


def test_a_case_fails_where_an_input_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    results = TorchCase.results

    def writing(self: TorchCase, *tensors: torch.Tensor) -> tuple[Any, ...]:
        found = results(self, *tensors)
        if tensors[1].dtype is torch.float32:
            tensors[1].flatten()[0].add_(1)
        return found

    monkeypatch.setattr(TorchCase, "results", writing)
    with pytest.raises(AssertionError, match="after the call|elements are wrong"):
        CASE.check()


@pytest.mark.parametrize("wrong", ["value", "strides", "count", "no call"])
def test_runs_that_differ_are_seen(wrong: str) -> None:
    runs = []

    def run() -> tuple[torch.Tensor, ...]:
        runs.append(wrong)
        dst = CASE.results(*CASE.tensors(integers=True))[0] if wrong != "no call" else RIGHT
        assert dst is not None
        if len(runs) == 1:
            return (dst,)
        other = {"value": dst * (1 + 1e-3), "strides": in_form(dst, "channels_last")}
        return (dst, dst) if wrong == "count" else (other.get(wrong, dst),)

    with pytest.raises(AssertionError):
        assert_same_runs(run, tolerance=1e-4)
    assert len(runs) == 2


@needs_shell
@pytest.mark.parametrize("wrong", [False, True])
def test_a_case_is_reproduced_by_its_text(wrong: bool) -> None:
    statement = f"{CASE}.check()"
    if wrong:
        statement = f"TorchCase.dst_size = property(lambda self: (1, 1)); {statement}"
    done = run_reproduction(reproduction("tests.support.torch_cases", statement))
    assert done.returncode == int(wrong), done.stderr
