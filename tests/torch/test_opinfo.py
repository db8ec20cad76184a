"""PyTorch's own samples of its convolutions (OpInfo), with the kernels in place and without."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import onednn_py.torch
from tests.support.torch_comparison import assert_near, assert_same_form, counted

# PyTorch's tests change settings of the process where this variable allows it.
os.environ.setdefault("PYTORCH_TESTING_DEVICE_ONLY_FOR", "cpu")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning"),
]

NAMES = [
    f"nn.functional.{name}{axes}d" for name in ("conv", "conv_transpose") for axes in (1, 2, 3)
]
OPERATIONS = {op.name: op for op in op_db if op.name in NAMES}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}

# Samples, and calls of the kernels, over all tests of this file.
TOTALS: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def totals() -> Iterator[None]:
    from tests.support.native_programs import TOTALS as PRINTED

    yield
    for name, number in TOTALS.items():
        PRINTED[f"PyTorch's own samples: {name}"] = number


def samples(name: str, dtype: torch.dtype) -> list[Any]:
    """Return the samples of an operation, the same each time."""
    torch.manual_seed(0)
    op = OPERATIONS[name]
    found = [*op.sample_inputs("cpu", dtype, requires_grad=dtype.is_floating_point)]
    # Some samples are the same problem in another form; the reference samples are more.
    assert len(found) >= 10
    return found


def leaves_of(sample: Any) -> list[torch.Tensor]:
    tensors = [sample.input, *sample.args, *sample.kwargs.values()]
    return [t for t in tensors if isinstance(t, torch.Tensor) and t.requires_grad]


def results(op: Any, sample: Any, magnitude: bool = False) -> list[torch.Tensor]:
    """Return dst and the gradients of all tensors.

    ``magnitude`` gives the same sums of absolute values.
    """
    dst = op(sample.input, *sample.args, **sample.kwargs)
    if not dst.requires_grad:
        return [dst]
    generator = torch.Generator().manual_seed(0)
    # Of bfloat16's values, which float16 has, too: the same in each type.
    diff_dst = torch.randn(dst.shape, generator=generator).bfloat16().to(dst.dtype)
    diff_dst = diff_dst.abs() if magnitude else diff_dst
    return [dst, *torch.autograd.grad(dst, leaves_of(sample), diff_dst)]


def in_float64(sample: Any, magnitude: bool = False) -> Any:
    """Return a sample of the same values, or of their absolute values, in float64."""

    def changed(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            exact = value.detach().double()
            return (exact.abs() if magnitude else exact).requires_grad_(value.requires_grad)
        return value

    return sample.transform(changed)


def count(title: str, calls: Any) -> None:
    TOTALS[f"{title}, samples"] += 1
    TOTALS[f"{title}, calls taken"] += sum(calls.taken.values())
    for reasons in calls.left.values():
        for reason, number in reasons.items():
            TOTALS[f"{title}, calls left: {reason}"] += number


def test_all_operations_are_there() -> None:
    assert sorted(OPERATIONS) == sorted(NAMES)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients(name: str, dtype: str) -> None:
    op = OPERATIONS[name]
    for sample in samples(name, DTYPES[dtype]):
        expected = results(op, in_float64(sample))
        magnitudes = results(op, in_float64(sample, True), True)
        # PyTorch's own kernels of float16 gradients end the process at times.
        forms = None if dtype == "f16" else results(op, sample)
        with onednn_py.torch.enabled(), counted() as calls:
            ours = results(op, sample)
        count(f"{dtype} values", calls)
        assert calls.calls or not sample.input.numel()
        for index, (found, right, magnitude) in enumerate(
            zip(ours, expected, magnitudes, strict=True)
        ):
            if forms is not None:
                assert_same_form(found, forms[index])
            # No sum has more terms than all tensors have elements.
            terms = sum(tensor.numel() for tensor in leaves_of(sample)) + ours[0].numel()
            assert_near(found, right, magnitude, terms)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_gradients(name: str) -> None:
    op = OPERATIONS[name]

    def second(sample: Any) -> list[torch.Tensor]:
        dst = op(sample.input, *sample.args, **sample.kwargs)
        leaves = leaves_of(sample)
        first = torch.autograd.grad(dst.square().sum(), leaves, create_graph=True)
        total = sum(gradient.square().sum() for gradient in first)
        return list(torch.autograd.grad(total, leaves))

    for sample in samples(name, torch.float32):
        if not sample.input.numel():
            continue
        expected = second(in_float64(sample))
        forms = second(sample)
        with onednn_py.torch.enabled(), counted() as calls:
            ours = second(sample)
        count("f32 gradients of gradients", calls)
        for found, right, form in zip(ours, expected, forms, strict=True):
            assert_same_form(found, form)
            # Three sums of at most some thousand terms, one of the other's results.
            tolerance = 1e-4 * float(right.detach().abs().max())
            torch.testing.assert_close(found.double(), right, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_numerical_gradients(name: str) -> None:
    """`gradcheck` and `gradgradcheck` in float64, which is left to PyTorch."""
    op = OPERATIONS[name]
    with onednn_py.torch.enabled():
        for sample in samples(name, torch.float64):
            leaves = leaves_of(sample)

            def run(*tensors: torch.Tensor, sample: Any = sample) -> torch.Tensor:
                given = iter(tensors)
                changed = sample.transform(
                    lambda value: (
                        next(given)
                        if isinstance(value, torch.Tensor) and value.requires_grad
                        else value
                    )
                )
                return op(changed.input, *changed.args, **changed.kwargs)

            with counted() as calls:
                # Along one random direction, as PyTorch's own tests check it.
                assert torch.autograd.gradcheck(run, leaves, fast_mode=True)
                assert torch.autograd.gradgradcheck(run, leaves, fast_mode=True)
            count("float64 gradcheck and gradgradcheck", calls)
            assert not calls.taken


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64, torch.float64])
@pytest.mark.parametrize("name", NAMES)
def test_types_that_are_left(name: str, dtype: torch.dtype) -> None:
    op = OPERATIONS[name]
    for sample in samples(name, dtype):
        expected = results(op, sample)
        with onednn_py.torch.enabled(), counted() as calls:
            ours = results(op, sample)
        count("types that are left", calls)
        if not dtype.is_complex:  # whose parts are convolved as real tensors
            assert not calls.taken
        for found, right in zip(ours, expected, strict=True):
            # Two sums of a complex result are computed from others, in float32.
            tolerance = 1e-5 * float(right.detach().abs().max()) if right.numel() else 0.0
            torch.testing.assert_close(found, right, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", [name for name in NAMES if OPERATIONS[name].error_inputs_func])
def test_errors(name: str) -> None:
    op = OPERATIONS[name]

    def outcomes() -> list[tuple[type, str]]:
        torch.manual_seed(0)
        found = []
        for wrong in op.error_inputs("cpu"):
            sample = wrong.sample_input
            with pytest.raises(wrong.error_type, match=wrong.error_regex) as raised:
                op(sample.input, *sample.args, **sample.kwargs)
            found.append((raised.type, str(raised.value)))
        return found

    expected = outcomes()
    assert len(expected) >= 5
    with onednn_py.torch.enabled():
        assert outcomes() == expected
    TOTALS["errors, samples"] += len(expected)
