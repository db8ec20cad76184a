"""What is left to PyTorch's own kernels: its results, its errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import onednn_py.torch
from tests.support.torch_cases import integers
from tests.support.torch_comparison import assert_equal, assert_same_form, assert_same_runs, counted

pytestmark = pytest.mark.frameworks

F = torch.nn.functional
aten = torch.ops.aten


def outcome(run: Callable[[], Any]) -> Any:
    """Return what a function returns, or its error's type and text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return run()
        except Exception as error:
            return type(error), str(error)


SRC, WEIGHTS, BIAS = integers(2, 4, 8, 7), integers(6, 4, 3, 3, seed=1), integers(6, seed=2)
LINE, VOLUME = integers(2, 4, 8), integers(2, 4, 5, 6, 7)

# Each is wrong for PyTorch.
WRONG: dict[str, Callable[[], Any]] = {
    "channels": lambda: F.conv2d(SRC, WEIGHTS[:, :3]),
    "channels of groups": lambda: F.conv2d(SRC, WEIGHTS, groups=2),
    "groups that do not divide": lambda: F.conv2d(SRC, WEIGHTS[:5, :2], groups=2),
    "no groups": lambda: F.conv2d(SRC, WEIGHTS, groups=0),
    "negative groups": lambda: F.conv2d(SRC, WEIGHTS, groups=-1),
    "axes of weights": lambda: F.conv2d(SRC, WEIGHTS[0]),
    "axes of src": lambda: F.conv2d(SRC[0, 0], WEIGHTS),
    "axes of function": lambda: F.conv1d(SRC, WEIGHTS),
    "kernel larger than src": lambda: F.conv2d(SRC[..., :2], WEIGHTS),
    "dilated kernel larger than src": lambda: F.conv2d(SRC, WEIGHTS, dilation=4),
    "stride of zero": lambda: F.conv2d(SRC, WEIGHTS, stride=0),
    "negative stride": lambda: F.conv2d(SRC, WEIGHTS, stride=-1),
    "negative padding": lambda: F.conv2d(SRC, WEIGHTS, padding=-1),
    "dilation of zero": lambda: F.conv2d(SRC, WEIGHTS, dilation=0),
    "strides of three axes": lambda: F.conv2d(SRC, WEIGHTS, stride=(1, 1, 1)),
    "padding same with stride": lambda: F.conv2d(SRC, WEIGHTS, stride=2, padding="same"),
    "unknown padding": lambda: F.conv2d(SRC, WEIGHTS, padding="full"),
    "size of bias": lambda: F.conv2d(SRC, WEIGHTS, BIAS[:5]),
    "axes of bias": lambda: F.conv2d(SRC, WEIGHTS, BIAS[:, None]),
    "type of weights": lambda: F.conv2d(SRC, WEIGHTS.double()),
    "type of bias": lambda: F.conv2d(SRC, WEIGHTS, BIAS.double()),
    "bfloat16 and float32": lambda: F.conv2d(SRC.bfloat16(), WEIGHTS),
    "float16 and float32": lambda: F.conv2d(SRC, WEIGHTS.half()),
    "complex and float": lambda: F.conv2d(SRC, WEIGHTS.to(torch.complex64)),
    "sparse src": lambda: F.conv2d(SRC.to_sparse(), WEIGHTS),
    "sparse weights": lambda: F.conv2d(SRC, WEIGHTS.to_sparse()),
    "no tensor": lambda: F.conv2d(SRC.numpy(), WEIGHTS),
    "no weights": lambda: F.conv2d(SRC, None),
    "huge stride": lambda: F.conv2d(SRC, WEIGHTS, stride=2**70),
    "huge padding": lambda: F.conv2d(SRC, WEIGHTS, padding=2**62),
    "transposed channels": lambda: F.conv_transpose2d(SRC, WEIGHTS),
    "transposed output padding": lambda: F.conv_transpose2d(
        SRC, WEIGHTS[:4], stride=2, output_padding=2
    ),
    "transposed negative output padding": lambda: F.conv_transpose2d(
        SRC, WEIGHTS[:4], stride=2, output_padding=-1
    ),
    "transposed without a result": lambda: F.conv_transpose2d(SRC[..., :1], WEIGHTS[:4], padding=2),
    "backward mask": lambda: aten.convolution_backward(
        SRC, SRC, WEIGHTS, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True]
    ),
    "backward channels": lambda: aten.convolution_backward(
        SRC, SRC, WEIGHTS[:, :3], None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True] * 3
    ),
    "backward type": lambda: aten.convolution_backward(
        integers(2, 6, 6, 5).double(), SRC, WEIGHTS, None,
        [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True] * 3,
    ),
    "backward axes": lambda: aten.convolution_backward(
        integers(2, 6, 6), SRC, WEIGHTS, None,
        [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True] * 3,
    ),
    "axes of lists": lambda: aten.convolution(
        SRC, WEIGHTS, None, [1, 1, 1], [0, 0], [1, 1], False, [0, 0], 1
    ),
    "empty lists": lambda: aten.convolution(SRC, WEIGHTS, None, [], [], [], False, [], 1),
    "one axis": lambda: aten.convolution(
        SRC[0, 0], WEIGHTS[0, 0], None, [1], [0], [1], False, [0], 1
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_those_of_pytorch(name: str) -> None:
    expected = outcome(WRONG[name])
    assert isinstance(expected, tuple), "no error"
    with onednn_py.torch.enabled():
        assert outcome(WRONG[name]) == expected


def check_diff_dst(shape: tuple[int, ...]) -> None:
    """A gradient of a shape that no forward pass gives: PyTorch's words, or its results."""

    def run() -> Any:
        return aten.convolution_backward(
            integers(*shape), SRC, WEIGHTS, [6],
            [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True] * 3,
        )  # fmt: skip

    expected = outcome(run)
    with onednn_py.torch.enabled():
        found = outcome(run)
    if isinstance(expected[0], type):
        assert found == expected
    else:
        assert_equal(found, expected)


@pytest.mark.parametrize(
    "shape", [(2, 6, 5, 5), (1, 6, 6, 5), (2, 5, 6, 5), (2, 6, 6, 6), (3, 6, 6, 5)], ids=str
)
def test_a_gradient_of_another_shape(shape: tuple[int, ...]) -> None:
    check_diff_dst(shape)


OTHERS: dict[str, Callable[[], Any]] = {
    "float64": lambda: F.conv2d(SRC.double(), WEIGHTS.double(), BIAS.double()),
    "integers": lambda: F.conv2d(SRC.long(), WEIGHTS.long()),
    "complex": lambda: F.conv2d(SRC + 1j * SRC, WEIGHTS - 2j * WEIGHTS),
    "conjugated complex": lambda: F.conv2d((SRC + 1j * SRC).conj(), (WEIGHTS + 0j).conj()),
    "empty batch": lambda: F.conv2d(SRC[:0], WEIGHTS, BIAS),
    "empty batch of lines": lambda: F.conv1d(LINE[:0], WEIGHTS[..., 0]),
    "empty batch of volumes": lambda: F.conv_transpose3d(VOLUME[:0], WEIGHTS[:4, :, :, :, None]),
    "same padding of float64": lambda: F.conv2d(SRC.double(), WEIGHTS.double(), padding="same"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_left(name: str) -> None:
    is_left = "complex" not in name  # whose real and imaginary parts are real tensors
    calls = assert_same_runs(lambda: [OTHERS[name]()], are_left=is_left)
    if is_left:
        assert calls.left_calls == 1


def test_fake_tensors() -> None:
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(tensor) for tensor in (SRC, WEIGHTS, BIAS)]
        for fake in fakes:
            fake.requires_grad_()
        theirs = F.conv2d(*fakes)
        with onednn_py.torch.enabled(), counted() as calls:
            ours = F.conv2d(*fakes)
            gradients = torch.autograd.grad(ours.sum(), fakes)
    assert not calls.taken
    assert_same_form(ours, theirs)
    for gradient, fake in zip(gradients, fakes, strict=True):
        assert gradient.shape == fake.shape


def test_tensors_without_memory() -> None:
    leaves = [torch.empty(t.shape, device="meta", requires_grad=True) for t in (SRC, WEIGHTS)]
    theirs = F.conv2d(*leaves)
    with onednn_py.torch.enabled(), counted() as calls:
        ours = F.conv2d(*leaves)
        gradients = torch.autograd.grad(ours.sum(), leaves)
    assert not calls.calls, "the kernels are the CPU's"
    assert_same_form(ours, theirs)
    assert [gradient.device.type for gradient in gradients] == ["meta", "meta"]


def test_weights_without_memory() -> None:
    """PyTorch gives a result of any values."""

    def run() -> Any:
        return F.conv2d(SRC, WEIGHTS.to("meta"))

    theirs = run()
    with onednn_py.torch.enabled():
        F.conv2d(SRC, WEIGHTS)  # the same call, with memory
        with counted() as calls:
            assert_same_form(run(), theirs)
    assert not calls.taken


@pytest.mark.filterwarnings("ignore:.*quantiz.*")
def test_quantized_tensors() -> None:
    def run() -> list[torch.Tensor]:
        src = torch.quantize_per_tensor(SRC, 0.5, 10, torch.quint8)
        weights = torch.quantize_per_tensor(WEIGHTS, 0.5, 0, torch.qint8)
        dst = torch.ao.nn.quantized.functional.conv2d(src, weights, BIAS, scale=1.0, zero_point=3)
        return [dst.dequantize()]

    theirs = run()
    with onednn_py.torch.enabled():
        assert_equal(run(), theirs)


class Named(torch.Tensor):
    """A subclass that changes nothing."""


class Wrapper(torch.Tensor):
    """A subclass without memory of its own, as distributed and quantized tensors are."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, device=inner.device
        )

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        def unwrapped(value: Any) -> Any:
            return value.inner if isinstance(value, Wrapper) else value

        result = function(*(unwrapped(value) for value in args), **(kwargs or {}))
        return cls(result) if isinstance(result, torch.Tensor) else result


def test_subclasses_of_tensors() -> None:
    calls = assert_same_runs(lambda: [F.conv2d(SRC.as_subclass(Named), WEIGHTS)], are_left=True)
    assert calls.calls == 1


def test_subclasses_are_asked_nothing() -> None:
    """In the backward pass, PyTorch's own kernels call no method of a tensor."""
    asked = []

    class Asked(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            asked.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})

    leaf = torch.Tensor._make_subclass(Asked, SRC, True)
    with onednn_py.torch.enabled():
        dst = F.conv2d(leaf, WEIGHTS.clone().requires_grad_())
        with torch._C.DisableTorchFunctionSubclass():
            plain = dst.as_subclass(torch.Tensor)
        asked.clear()
        with counted() as calls:
            torch.autograd.backward(plain, torch.ones(plain.shape))
    assert calls.left["convolution_backward"] == {"a tensor is of a subclass": 1}
    assert not asked


def test_subclasses_without_memory() -> None:
    with torch.no_grad():
        theirs = F.conv2d(Wrapper(SRC), Wrapper(WEIGHTS))
        with onednn_py.torch.enabled():
            ours = F.conv2d(Wrapper(SRC), Wrapper(WEIGHTS))
    assert isinstance(ours, Wrapper)
    assert_equal(ours.inner, theirs.inner)


def test_modes_of_dispatch_see_the_operations() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seeing(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.seen.append(str(function))
            return function(*args, **(kwargs or {}))

    names = []
    for enabled in (False, True):
        if enabled:
            onednn_py.torch.enable()
        weights = WEIGHTS.clone().requires_grad_()
        with Seeing() as mode:
            F.conv2d(SRC, weights).sum().backward()
        names.append(mode.seen)
    assert names[0] == names[1]
    assert "aten.convolution.default" in names[0]
    assert "aten.convolution_backward.default" in names[0]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_mkldnn_turned_off_turns_us_off() -> None:
    """Who turns PyTorch's own oneDNN off looks for its defects, or for exact sums."""

    def run() -> list[torch.Tensor]:
        with torch.backends.mkldnn.flags(enabled=False):
            return [F.conv2d(SRC, WEIGHTS, BIAS)]

    assert_same_runs(run, are_left=True)


@contextmanager
def reduced_precision() -> Iterator[None]:
    settings = torch.backends.mkldnn.conv
    before = settings.fp32_precision
    settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before


SETTINGS = {
    "deterministic": lambda: torch.backends.mkldnn.flags(enabled=True, deterministic=True),
    "reduced precision": reduced_precision,
}


@pytest.mark.filterwarnings("ignore:TF32 acceleration:UserWarning")
@pytest.mark.parametrize("name", SETTINGS)
def test_other_settings_of_mkldnn(name: str) -> None:
    """They are PyTorch's to interpret, also where the same call was taken before."""
    with onednn_py.torch.enabled():
        F.conv2d(SRC, WEIGHTS, BIAS)
        with SETTINGS[name](), counted() as calls:
            F.conv2d(SRC, WEIGHTS, BIAS)
        assert not calls.taken
        assert calls.left_calls == 1
        with counted() as calls:
            F.conv2d(SRC, WEIGHTS, BIAS)
        assert calls.taken == {"convolution": 1}


def test_tensors_in_the_layout_of_mkldnn() -> None:
    def run() -> list[torch.Tensor]:
        with torch.no_grad():
            return [F.conv2d(SRC.to_mkldnn(), WEIGHTS, BIAS).to_dense()]

    theirs = run()
    with onednn_py.torch.enabled():
        assert_equal(run(), theirs)


def test_deterministic_algorithms() -> None:
    """The same bits each time."""
    src, weights = torch.randn(4, 16, 20, 20), torch.randn(24, 16, 3, 3)

    def run() -> list[torch.Tensor]:
        leaves = [src.clone().requires_grad_(), weights.clone().requires_grad_()]
        dst = F.conv2d(*leaves, padding=1)
        return [dst, *torch.autograd.grad(dst.square().sum(), leaves)]

    torch.use_deterministic_algorithms(True)
    try:
        with onednn_py.torch.enabled():
            first = run()
            for _ in range(3):
                assert_equal(run(), first)
    finally:
        torch.use_deterministic_algorithms(False)


def test_negative_views() -> None:
    """Views that PyTorch negates lazily have other bits in memory than they have values."""

    def run() -> list[torch.Tensor]:
        pairs = torch.view_as_complex(torch.stack((SRC, SRC), -1))
        plain, negated = pairs.imag, pairs.conj().imag
        assert negated.is_neg()
        assert negated.stride() == plain.stride()
        return [F.conv2d(plain, WEIGHTS), F.conv2d(negated, WEIGHTS), F.conv2d(plain, WEIGHTS)]

    assert_same_runs(run)


def test_tensors_with_zero_strides_and_written_results() -> None:
    """A result shares no memory with an input, though a 1x1 kernel of ones copies it."""
    src = integers(1, 1, 4, 4)
    with onednn_py.torch.enabled():
        dst = F.conv2d(src, torch.ones(1, 1, 1, 1))
        dst.zero_()
    assert src.abs().max() > 0
