"""Tensors that `onednn_py.torch` computed, compared with those of PyTorch's own kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor

import onednn_py.torch
from onednn_py.torch import kernels, registration

__all__ = [
    "Counted",
    "all_taken",
    "assert_equal",
    "assert_near",
    "assert_same_form",
    "assert_same_runs",
    "counted",
    "decided_anew",
    "sixteen_bits_by",
    "strides_of",
]


def _take(*arguments: Any, **keywords: Any) -> str:
    return ""


@contextmanager
def all_taken() -> Iterator[None]:
    """Compute each call here that can be, also the small ones that PyTorch computes faster."""
    with mock.patch.object(kernels, "reason_to_leave", _take), decided_anew():
        yield


@contextmanager
def sixteen_bits_by(kernel: Any) -> Iterator[None]:
    """Have PyTorch name a kernel for types of 16 bits, whatever this machine's CPU computes with.

    Parameters
    ----------
    kernel : torch._C._ConvBackend
    """
    select = torch._C._select_conv_backend

    def named(src: torch.Tensor, *arguments: Any) -> Any:
        has_16_bits = src.dtype in (torch.bfloat16, torch.float16)
        return kernel if has_16_bits else select(src, *arguments)

    with mock.patch.object(torch._C, "_select_conv_backend", named), decided_anew():
        yield


@contextmanager
def decided_anew() -> Iterator[None]:
    """Forget what was decided of calls, before and after."""
    remembered = registration._kernels._decisions
    remembered.clear()
    try:
        yield
    finally:
        remembered.clear()


class Counted:
    """Calls that were taken and left inside a `counted` block.

    Attributes
    ----------
    taken : dict
        The number of calls by the operation's name; operations without calls are missing.
    left : dict
        For each operation, the number of calls by reason.
    """

    def __init__(self) -> None:
        self.taken: dict[str, int] = {}
        self.left: dict[str, dict[str, int]] = {}

    @property
    def calls(self) -> int:
        return sum(self.taken.values()) + self.left_calls

    @property
    def left_calls(self) -> int:
        return sum(sum(reasons.values()) for reasons in self.left.values())


@contextmanager
def counted() -> Iterator[Counted]:
    """Count the calls inside a ``with`` block, of all threads."""
    found, before = Counted(), onednn_py.torch.statistics()
    try:
        yield found
    finally:
        after = onednn_py.torch.statistics()
        found.taken = _more(after.taken, before.taken)
        found.left = {
            name: more
            for name, reasons in after.left.items()
            if (more := _more(reasons, before.left.get(name, {})))
        }


def _more(after: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {name: n - before.get(name, 0) for name, n in after.items() if n > before.get(name, 0)}


def strides_of(tensor: torch.Tensor) -> tuple[int | None, ...]:
    """Return the strides of axes that have more than one element, None for the others.

    Memory is never reached through the other strides: PyTorch's kernels and fake kernels differ
    in them, and compiled code does not check them.
    """
    return tuple(
        stride if size > 1 else None
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )


def assert_same_form(ours: Any, theirs: Any, what: str = "result") -> None:
    """Raise AssertionError unless both are None or tensors of one type, shape and strides."""
    if theirs is None or ours is None:
        assert ours is theirs, f"{what}: expected {theirs!r:.80}, got {ours!r:.80}"
        return
    if not (type(theirs) is FakeTensor and type(ours) is torch.Tensor):
        assert type(ours) is type(theirs), f"{what}: a {type(ours)} in place of a {type(theirs)}"
    for name in ("dtype", "device", "layout", "shape", "requires_grad"):
        right, found = getattr(theirs, name), getattr(ours, name)
        assert found == right, f"{what}: {name} {found} in place of {right}"
    if theirs.layout is torch.strided and theirs.numel():
        right_strides, found_strides = strides_of(theirs), strides_of(ours)
        assert found_strides == right_strides, (
            f"{what}: strides {ours.stride()} in place of {theirs.stride()}, "
            f"shape {tuple(theirs.shape)}"
        )


def assert_equal(ours: Any, expected: Any, what: str = "result") -> None:
    """Raise AssertionError unless all elements are equal, of tensors, None or tuples of both."""
    if isinstance(expected, Sequence):
        assert len(ours) == len(expected), f"{what}: {len(ours)} results"
        for index, pair in enumerate(zip(ours, expected, strict=True)):
            assert_equal(*pair, f"{what}[{index}]")
        return
    if expected is None or ours is None:
        assert ours is expected, f"{what}: expected {expected!r:.80}, got {ours!r:.80}"
        return
    _assert_within(ours, expected, torch.zeros((), dtype=torch.float64), what)


def assert_near(
    ours: torch.Tensor,
    expected: torch.Tensor,
    magnitude: torch.Tensor,
    terms: int,
    what: str = "result",
) -> None:
    """Raise AssertionError unless each element is within what its roundings allow.

    Parameters
    ----------
    ours : Tensor
        In the data type that was computed.
    expected : Tensor
        Of float64, computed from the same values.
    magnitude : Tensor
        The same sums with the absolute value of each factor, in float64.
    terms : int
        The number of products in the longest of the sums.

    Notes
    -----
    A sum of n products in float32 in any order is off by at most n * 2**-24 times the sum of the
    products' absolute values (Higham, Accuracy and Stability of Numerical Algorithms, section
    3.1); the factor is twice that, since a bias and partial sums are added, too. The result is
    rounded to its type, twice where a bias is added to a result in that type: by at most its
    epsilon altogether. Below the smallest normal number, steps are of a fixed size.
    """
    info = torch.finfo(ours.dtype)
    allowed = (terms + 2) * 2.0**-23 * magnitude.double()
    allowed = allowed + info.eps * (expected.double().abs() + allowed) + info.smallest_normal
    _assert_within(ours, expected, allowed, what)


def assert_same_runs(
    run: Callable[[], Sequence[torch.Tensor | None]],
    tolerance: float = 0.0,
    *,
    are_left: bool = False,
    **settings: Any,
) -> Counted:
    """Compare the tensors that a function returns with the kernels in place and without them.

    Parameters
    ----------
    run : callable
        Takes nothing, and gives the same result whenever it is called.
    tolerance : float
        Allowed difference over the largest absolute value of a tensor; 0 for integers.
    are_left : bool
        Whether all calls are expected to be left to PyTorch; otherwise one at least must run here.
    **settings
        What `onednn_py.torch.enabled` takes.

    Returns
    -------
    Counted
        The calls that were met, of which there is at least one.
    """
    theirs = run()
    with onednn_py.torch.enabled(**settings), counted() as calls:
        ours = run()
    assert calls.calls, "no convolution was called"
    assert bool(calls.taken) != are_left, calls
    assert len(ours) == len(theirs)
    for index, (found, right) in enumerate(zip(ours, theirs, strict=True)):
        assert_same_form(found, right, f"result[{index}]")
        if right is not None:
            largest = right.detach().abs().max().double() if right.numel() else torch.zeros(())
            _assert_within(found, right, tolerance * largest, f"result[{index}]")
    return calls


def _assert_within(ours: Any, expected: Any, allowed: torch.Tensor, what: str) -> None:
    assert ours.shape == expected.shape, f"{what}: shape {ours.shape}, not {expected.shape}"
    exact = torch.complex128 if expected.is_complex() else torch.float64
    found, right = ours.detach().to(exact), expected.detach().to(exact)
    # A comparison with NaN is false, and so a NaN is wrong except where a NaN is expected.
    good = ((found - right).abs() <= allowed) | (found == right) | (found.isnan() & right.isnan())
    if good.all():
        return
    wrong = (~good).nonzero()
    first = tuple(wrong[0].tolist())
    raise AssertionError(
        f"{what}: {len(wrong)} of {good.numel()} elements are wrong, first at {first}: "
        f"{found[first].item()!r} in place of {right[first].item()!r}, "
        f"allowed difference {allowed.expand(right.shape)[first].item():.3g}"
    )
