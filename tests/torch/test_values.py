"""Values and strides over drawn calls: those of PyTorch's own kernels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, note, settings
from hypothesis import strategies as st

import onednn_py.torch
from tests.support.reproduction import reproduction
from tests.support.torch_cases import FORMS, TorchCase, in_form, integers
from tests.support.torch_comparison import assert_same_form, assert_same_runs, counted
from tests.support.torch_strategies import torch_cases

pytestmark = pytest.mark.frameworks

F = torch.nn.functional
CASES = "tests.support.torch_cases"
TAKEN = ("float32", "bfloat16", "float16")


@given(case=torch_cases(), integers=st.booleans())
def test_drawn_calls(case: TorchCase, integers: bool) -> None:
    note(reproduction(CASES, f"{case}.check({integers})"))
    case.check(integers)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TAKEN)
@settings(max_examples=1000)
@given(data=st.data(), integers=st.booleans())
def test_long_sweep_of_drawn_calls(dtype: str, data: st.DataObject, integers: bool) -> None:
    case = data.draw(torch_cases(dtypes=(dtype,)))
    note(reproduction(CASES, f"{case}.check({integers})"))
    case.check(integers)


def check_fake(case: TorchCase) -> None:
    """Compare strides with those of PyTorch's fake kernels, which compiled code asserts."""
    tensors = case.tensors(integers=True)
    fakes = case.fake_results(*tensors)
    with onednn_py.torch.enabled():
        ours = case.results(*tensors)
    for is_wanted, found, fake in zip((True, *case.wanted), ours, fakes, strict=True):
        if is_wanted:
            assert_same_form(found, fake)


@given(case=torch_cases(dtypes=TAKEN))
def test_strides_are_those_of_fake_kernels(case: TorchCase) -> None:
    note(reproduction(__name__, f"check_fake({case})"))
    check_fake(case)


TWO_AXES = {
    **{"size": (7, 6), "kernel": (3, 2), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)},
    **{"output_padding": (0, 0), "groups": 2, "channels": (4, 6)},
}


@pytest.mark.parametrize("dtype", TAKEN)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_each_tensor(form: str, transposed: bool, dtype: str) -> None:
    for place in range(3):
        forms = ["contiguous"] * 3
        forms[place] = form
        case = TorchCase(**TWO_AXES, transposed=transposed, dtype=dtype, forms=tuple(forms))
        with counted() as calls:
            case.check()
        assert sum(calls.taken.values()) + calls.left_calls == 2


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_each_mask_of_gradients(transposed: bool, last: bool) -> None:
    forms = ("channels_last" if last else "contiguous",) * 3
    for number in range(8):
        mask = (bool(number & 1), bool(number & 2), bool(number & 4))
        for bias in (False, True):
            TorchCase(**TWO_AXES, transposed=transposed, mask=mask, bias=bias, forms=forms).check()


CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@pytest.mark.parametrize("unbatched", [False, True])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(
    "attributes",
    [
        {"padding": "same"},
        {"padding": "same", "dilation": 2},
        {"padding": "valid", "stride": 2},
        {"stride": 2, "padding": 1, "dilation": 2, "groups": 2},
    ],
    ids=["same", "dilated same", "valid", "groups"],
)
@pytest.mark.parametrize("kernel", [2, 3])
def test_functions_of_convolution(
    attributes: dict[str, Any], axes: int, unbatched: bool, kernel: int
) -> None:
    groups = attributes.get("groups", 1)
    shape = (4, *(9, 7, 5)[:axes]) if unbatched else (2, 4, *(9, 7, 5)[:axes])

    def run() -> tuple[torch.Tensor, ...]:
        leaves = (
            integers(*shape).requires_grad_(),
            integers(6, 4 // groups, *(kernel,) * axes, seed=1).requires_grad_(),
            integers(6, seed=2).requires_grad_(),
        )
        dst = CONV[axes](*leaves, **attributes)
        return (dst, *torch.autograd.grad(dst, leaves, integers(*dst.shape, seed=3)))

    assert_same_runs(run)


@pytest.mark.parametrize("unbatched", [False, True])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(
    "attributes",
    [
        {"stride": 2, "padding": 1, "output_padding": 1},
        {"stride": 1, "dilation": 2, "output_padding": 1},
        {"stride": 3, "groups": 2},
    ],
    ids=["stride", "dilation", "groups"],
)
def test_functions_of_transposed_convolution(
    attributes: dict[str, Any], axes: int, unbatched: bool
) -> None:
    groups = attributes.get("groups", 1)
    shape = (4, *(5, 4, 3)[:axes]) if unbatched else (2, 4, *(5, 4, 3)[:axes])

    def run() -> tuple[torch.Tensor, ...]:
        leaves = (
            integers(*shape).requires_grad_(),
            integers(4, 6 // groups, *(3,) * axes, seed=1).requires_grad_(),
            integers(6, seed=2).requires_grad_(),
        )
        dst = TRANSPOSED[axes](*leaves, **attributes)
        return (dst, *torch.autograd.grad(dst, leaves, integers(*dst.shape, seed=3)))

    assert_same_runs(run)


@pytest.mark.parametrize("dtype", TAKEN)
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_what_is_not_finite_stays_so(value: float, dtype: str) -> None:
    """Zero times infinity is no number, as in PyTorch's kernels."""

    def run() -> tuple[torch.Tensor, ...]:
        src = integers(1, 2, 6, 6, dtype=dtype)
        src[0, 1, 2, 3] = value
        weights = integers(3, 2, 2, 2, dtype=dtype, seed=1)
        dst = F.conv2d(src, weights)
        diff_dst = integers(*dst.shape, dtype=dtype, seed=2)
        grads = torch.ops.aten.convolution_backward(
            diff_dst, src, weights, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1,
            [True, True, False],
        )  # fmt: skip
        return (dst, *grads[:2])

    assert_same_runs(run)


@pytest.mark.parametrize("sizes", [None, [0], [6], [99]])
def test_sizes_of_bias_that_are_not_its_own(sizes: list[int] | None) -> None:
    """The operation is public: its list of bias sizes need not be right."""
    src, weights = integers(2, 4, 6, 6), integers(6, 4, 3, 3, seed=1)
    diff_dst = integers(2, 6, 4, 4, seed=2)

    def run() -> tuple[torch.Tensor, ...]:
        return torch.ops.aten.convolution_backward(
            diff_dst, src, weights, sizes, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True] * 3
        )

    assert_same_runs(run, are_left=sizes != [6])


def test_lists_of_one_number_for_all_axes() -> None:
    case = TorchCase((7, 6), (3, 3), (2,), (1,), (1,), output_padding=(0,))
    src, weights, _, bias = case.tensors(integers=True)
    assert_same_runs(lambda: (torch.ops.aten.convolution(src, weights, bias, *case.attributes),))


def test_the_tensors_of_a_result_are_its_own() -> None:
    """Results may be written, also in place, while others live."""
    module = torch.nn.Conv2d(4, 4, 3, padding=1)
    src = in_form(integers(1, 4, 8, 8), "window")
    with onednn_py.torch.enabled(), torch.no_grad():
        first = module(src)
        kept = first.clone()
        second = module(src)
        second.add_(1).relu_().mul_(0)
        del second
        third = module(src + 1)
        assert torch.equal(first, kept)
        first.resize_(1, 4, 4, 4).zero_()
        assert third.abs().max() > 0
