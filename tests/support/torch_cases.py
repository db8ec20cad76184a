"""One call of PyTorch's convolution operations, and its gradients, computed both ways."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import onednn_py.torch
from onednn_py.torch.defects import is_defective
from onednn_py.torch.preference import Call
from onednn_py.torch.signature import Geometry
from tests.support.torch_comparison import (
    all_taken,
    assert_equal,
    assert_near,
    assert_same_form,
    counted,
)

__all__ = ["FORMS", "TorchCase", "in_form", "integers"]

aten = torch.ops.aten

# How a tensor may lie in memory. "expanded": all images are the same memory; "one": all elements
# are, as in the gradient that `sum` hands over.
FORMS = ("contiguous", "channels_last", "permuted", "sliced", "window", "expanded", "one")


def integers(*shape: int, dtype: str = "float32", seed: int = 0) -> torch.Tensor:
    """Return numbers from -2 to 2, so that short sums of products are exact in each type."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=generator).to(getattr(torch, dtype))


def in_form(tensor: torch.Tensor, form: str) -> torch.Tensor:
    """Return a tensor that lies in memory in this form.

    The values are the same, but for ``"expanded"``, which repeats those of the first image, and
    ``"one"``, which repeats the first element.
    """
    if form == "channels_last":
        return tensor.movedim(1, -1).contiguous().movedim(-1, 1)
    if form == "permuted":
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if form == "sliced":
        room = tensor.new_full((*tensor.shape[:-1], 2 * tensor.shape[-1]), 7)
        view = room[..., ::2]
        return view.copy_(tensor)
    if form == "window":
        room = tensor.new_full([n + 3 for n in tensor.shape], 7)
        view = room[tuple(slice(1, -2) for _ in tensor.shape)]
        return view.copy_(tensor)
    if form == "expanded":
        return tensor[:1].expand(tensor.shape)
    if form == "one":
        return tensor.flatten()[0].expand(tensor.shape)
    assert form == "contiguous", form
    return tensor.contiguous()


@dataclass(frozen=True)
class TorchCase:
    """A call of ``aten::convolution`` or ``aten::convolution_backward``.

    Attributes
    ----------
    size, kernel : tuple of int
        The spatial shapes of src and weights.
    channels : tuple of int
        Of src, and of dst.
    forms : tuple of str
        Of src, weights and diff_dst, from `FORMS`.
    mask : tuple of bool
        Which of the gradients of src, weights and bias are wanted.
    """

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool = False
    output_padding: tuple[int, ...] = (0,)
    groups: int = 1
    minibatch: int = 2
    channels: tuple[int, int] = (3, 4)
    bias: bool = True
    dtype: str = "float32"
    forms: tuple[str, str, str] = ("contiguous",) * 3
    mask: tuple[bool, bool, bool] = (True, True, True)
    seed: int = 0

    @property
    def attributes(self) -> tuple[Any, ...]:
        """What both operations take after their tensors."""
        return (
            *(list(self.stride), list(self.padding), list(self.dilation)),
            *(self.transposed, list(self.output_padding), self.groups),
        )

    @property
    def weights_shape(self) -> tuple[int, ...]:
        inputs, outputs = self.channels
        if self.transposed:
            return (inputs, outputs // self.groups, *self.kernel)
        return (outputs, inputs // self.groups, *self.kernel)

    @property
    def dst_size(self) -> tuple[int, ...]:
        """As the documentation of PyTorch's modules has it."""
        numbers = zip(
            self.size, self.kernel,
            *(self._full(n) for n in (self.stride, self.padding, self.dilation)),
            self._full(self.output_padding), strict=True,
        )  # fmt: skip
        if self.transposed:
            return tuple((n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, d, o in numbers)
        return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, _ in numbers)

    def _full(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        return numbers * (len(self.size) if len(numbers) == 1 else 1)

    @property
    def wanted(self) -> tuple[bool, bool, bool]:
        """Which of the gradients are computed: that of bias where there is a bias."""
        return (*self.mask[:2], self.mask[2] and self.bias)

    @property
    def fails(self) -> bool:
        """Whether PyTorch's own kernels fail, at the forward pass or at gradients."""
        numbers = self.stride, self.padding, self.dilation
        geometry = Geometry(*numbers, self.transposed, self.output_padding, self.groups)
        return any(
            is_defective(
                Call(
                    geometry.expanded(len(self.size)),
                    getattr(torch, self.dtype),
                    (self.minibatch, self.channels[0], *self.size),
                    self.weights_shape,
                    (self.minibatch, self.channels[1], *self.dst_size),
                    forward=forward,
                    kernel=None,
                    is_channels_last=False,
                    only_weights=False,
                    threads=torch.get_num_threads(),
                )
            )
            for forward in (True, False)
        )

    @property
    def terms(self) -> int:
        """Products in the longest of the sums, of any result."""
        per_group = max(self.channels) // self.groups * prod(self.kernel)
        return max(per_group, self.minibatch * max(prod(self.size), prod(self.dst_size)))

    def tensors(self, integers: bool) -> tuple[torch.Tensor, ...]:
        """Return src, weights, diff_dst and bias in their forms.

        Integers are so few and so small that each sum of products is exact in the case's type,
        in whatever order it is computed.
        """
        generator = torch.Generator().manual_seed(self.seed)
        dtype = getattr(torch, self.dtype)
        shapes = (
            (self.minibatch, self.channels[0], *self.size),
            self.weights_shape,
            (self.minibatch, self.channels[1], *self.dst_size),
            (self.channels[1],),
        )
        for density in (0.5, 0.25, 0.1, 0.04, 0.02, 0.01, 0.003, 0.001):
            made = []
            for shape, form in zip(shapes, (*self.forms, "contiguous"), strict=True):
                numbers = torch.randn(shape, generator=generator, dtype=torch.float64)
                if integers:
                    kept = torch.rand(shape, generator=generator) < density
                    numbers = (2 * numbers).round().clamp(-3, 3) * kept
                made.append(in_form(numbers.to(dtype), form))
            tensors = tuple(made)
            largest = max(
                float(result.max()) for result in self.results(*(t.double().abs() for t in tensors))
                if result is not None and result.numel()
            )  # fmt: skip
            # 2 / epsilon: integers up to there are exact.
            if not integers or largest <= 2 / torch.finfo(dtype).eps:
                return tensors
        raise AssertionError(f"no exact values for {self}")

    def results(
        self,
        src: torch.Tensor,
        weights: torch.Tensor,
        diff_dst: torch.Tensor,
        bias: torch.Tensor,
    ) -> tuple[torch.Tensor | None, ...]:
        """Return dst and the gradients of src, weights and bias, by the kernels in place."""
        given = bias if self.bias else None
        sizes = list(bias.shape) if self.bias else None
        dst = aten.convolution(src, weights, given, *self.attributes)
        gradients = aten.convolution_backward(
            diff_dst, src, weights, sizes, *self.attributes, list(self.wanted)
        )
        return (dst, *gradients)

    def fake_results(self, *tensors: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return results without values, whose strides compiled code asserts."""
        with FakeTensorMode() as mode:
            return self.results(*(mode.from_tensor(tensor) for tensor in tensors))

    def check(self, integers: bool = True) -> None:
        """Raise AssertionError unless results are as PyTorch's own kernels give them.

        Types, shapes and strides are those of PyTorch's kernels on the same tensors; values are
        those of its kernels on the same values in float64. A gradient that is not wanted is not
        compared: some of PyTorch's kernels return it nevertheless.

        In float16, and where PyTorch's own kernels are known to fail, the types, shapes and
        strides are those of its fake kernels: its own kernels of float16 gradients write where
        they may not (PyTorch 2.13), and end the process.
        """
        tensors = self.tensors(integers)
        # The tensors that must not change.
        kept = [tensor.clone() for tensor in tensors]
        run = self.fake_results if self.dtype == "float16" or self.fails else self.results
        forms = run(*tensors)
        expected = self.results(*(tensor.double() for tensor in tensors))
        with all_taken(), onednn_py.torch.enabled(), counted() as calls:
            ours = self.results(*tensors)
        magnitudes = expected
        if not integers:
            magnitudes = self.results(*(tensor.double().abs() for tensor in tensors))
        names = ("dst", "diff_src", "diff_weights", "diff_bias")
        wanted = (True, *self.wanted)
        for name, is_wanted, found, form, right, magnitude in zip(
            names, wanted, ours, forms, expected, magnitudes, strict=True
        ):
            if not is_wanted:
                continue
            assert_same_form(found, form, name)
            operation = "convolution" if name == "dst" else "convolution_backward"
            if integers:
                assert_equal(found, right, name)
            elif operation not in calls.left:
                # PyTorch's own loops are less exact: some sum a bias gradient in bfloat16.
                assert_near(found, right, magnitude, self.terms, name)
        for name, tensor, before in zip(
            ("src", "weights", "diff_dst", "bias"), tensors, kept, strict=True
        ):
            assert_equal(tensor, before, f"{name} after the call")
