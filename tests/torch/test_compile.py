"""`torch.compile`, `torch.export`, `torch.fx` and `torch.jit`."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import onednn_py.torch
from tests.support.torch_comparison import (
    assert_equal,
    assert_same_form,
    assert_same_runs,
    counted,
)
from tests.support.torch_models import gradients, small

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.usefixtures("compiler"),
    # PyTorch warns of its own parts while it compiles.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]

needs_compiler = pytest.mark.skipif(
    shutil.which("c++") is None and shutil.which("g++") is None, reason="no C++ compiler here"
)

TOLERANCE = 1e-4
FORMATS = [torch.contiguous_format, torch.channels_last]


def images(height: int = 16, width: int = 12) -> torch.Tensor:
    return torch.randn(4, 3, height, width, generator=torch.Generator().manual_seed(0))


def assert_compiled(
    module: nn.Module, sources: list[torch.Tensor], count: int = 5, **options: Any
) -> None:
    """Compare a compiled module's gradients with those of PyTorch's own kernels, not compiled."""
    expected = [gradients(module, src, module) for src in sources]
    with onednn_py.torch.enabled(), counted() as calls:
        compiled = torch.compile(module, **options)
        found = [gradients(compiled, src, module) for src in sources]
    assert calls.calls >= 2 * count * len(sources)
    for ours, theirs in zip(found, expected, strict=True):
        for one, right in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, right, rtol=TOLERANCE, atol=TOLERANCE)
    # The same compiled code runs on PyTorch's own kernels, too.
    for src, theirs in zip(sources, expected, strict=True):
        with counted() as calls:
            ours = gradients(compiled, src, module)
        assert not calls.calls
        for one, right in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, right, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_aot_eager(memory_format: torch.memory_format) -> None:
    module = small(memory_format)
    src = images().to(memory_format=memory_format)
    assert_compiled(module, [src], backend="aot_eager", fullgraph=True)


def test_aot_eager_with_dynamic_shapes() -> None:
    assert_compiled(
        small(), [images(), images(20, 14), images(8, 30)], backend="aot_eager", dynamic=True
    )


@needs_compiler
@pytest.mark.parametrize("memory_format", FORMATS)
def test_inductor(memory_format: torch.memory_format) -> None:
    """Compiled code asserts the strides of each result."""
    module = small(memory_format)
    src = images().to(memory_format=memory_format)
    assert_compiled(module, [src], fullgraph=True)


@needs_compiler
@pytest.mark.slow
def test_inductor_with_dynamic_shapes() -> None:
    assert_compiled(small(), [images(), images(20, 14), images(8, 30)], dynamic=True)


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3, padding=1, groups=2), (2, 4, 9)),
    "Conv3d": (lambda: nn.Conv3d(4, 6, 3, padding=1, dilation=(1, 1, 2)), (2, 4, 5, 6, 7)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 6, 4, stride=2), (2, 4, 9)),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(4, 6, 2, stride=2), (1, 4, 3, 4, 2)),
}


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=needs_compiler)])
def test_other_numbers_of_axes(backend: str) -> None:
    """In one graph, since each compilation takes seconds."""

    class Several(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleDict({name: make() for name, (make, _) in MODULES.items()})

        def forward(self, sources: dict[str, torch.Tensor]) -> torch.Tensor:
            results = [layer(sources[name]) for name, layer in self.layers.items()]
            return torch.cat([result.flatten() for result in results])

    module = Several()
    sources = {name: torch.randn(shape, requires_grad=True) for name, (_, shape) in MODULES.items()}
    for mask in ("volume", "plain"):
        if mask == "volume":
            for name in ("Conv3d", "ConvTranspose3d"):
                last = sources[name].detach().contiguous(memory_format=torch.channels_last_3d)
                sources[name] = last.requires_grad_()
        expected = gradients(module, sources, module)
        with onednn_py.torch.enabled(), counted() as calls:
            found = gradients(torch.compile(module, backend=backend), sources, module)
        assert calls.calls == 8
        for ours, right in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, right, rtol=TOLERANCE, atol=TOLERANCE)
        if backend == "inductor":
            break


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_inductor_with_autocast(dtype: torch.dtype) -> None:
    module, src = small(), images()
    expected = gradients(module, src, module)
    with onednn_py.torch.enabled(), counted() as calls, torch.autocast("cpu", dtype=dtype):
        found = gradients(torch.compile(module), src, module)
    assert calls.calls == 10
    for ours, right in zip(found, expected, strict=True):
        tolerance = 10 * torch.finfo(dtype).eps
        torch.testing.assert_close(ours.float(), right, rtol=tolerance, atol=tolerance)


@needs_compiler
@pytest.mark.slow
def test_inductor_without_gradients() -> None:
    """In inference, Inductor may fuse convolutions into operations of its own."""
    module, src = small().eval(), images()
    with torch.no_grad():
        expected = module(src)
        with onednn_py.torch.enabled():
            found = torch.compile(module)(src)
    torch.testing.assert_close(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_exported_programs() -> None:
    module, src = small().eval(), images()
    expected = module(src)
    with onednn_py.torch.enabled(), counted() as calls:
        program = torch.export.export(module, (src,))
        found = program.module()(src)
        saved = io.BytesIO()
        torch.export.save(program, saved)
        saved.seek(0)
        loaded = torch.export.load(saved).module()(src)
    assert calls.calls >= 10
    assert_equal(loaded, found)
    torch.testing.assert_close(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_exported_programs_do_not_name_us() -> None:
    with onednn_py.torch.enabled():
        enabled = torch.export.export(small().eval(), (images(),))
    plain = torch.export.export(small().eval(), (images(),))
    assert "onednn_py" not in str(enabled)
    assert [node.target for node in enabled.graph.nodes] == [
        node.target for node in plain.graph.nodes
    ]


def test_traced_graphs() -> None:
    module, src = small(), images()
    traced = torch.fx.symbolic_trace(module)
    assert_same_runs(lambda: gradients(traced, src, traced), TOLERANCE)


@pytest.mark.parametrize(
    "script",
    [torch.jit.script, lambda module: torch.jit.trace(module, images(), check_trace=False)],
    ids=["script", "trace"],
)
def test_torchscript(script: Callable[[nn.Module], nn.Module]) -> None:
    src = images()

    def run() -> list[torch.Tensor]:
        module = script(small())
        with torch.no_grad():
            for _ in range(2):  # the first calls are recorded, later ones are optimized
                module(src)
        return gradients(module, src, module)

    calls = assert_same_runs(run, TOLERANCE)
    # A traced module calls aten::_convolution, an operation of its own, which is PyTorch's.
    assert calls.calls >= 10


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Conv2d(24, 10, 1), (32, 24, 1, 1)),
        (nn.Conv3d(8, 8, 3), (2, 8, 9, 9, 9)),
        (nn.ConvTranspose2d(8, 8, 3), (4, 8, 20, 20)),
    ],
    ids=["product", "volume", "transposed"],
)
def test_a_trace_does_not_keep_the_result(module: nn.Module, shape: tuple[int, ...]) -> None:
    with torch.no_grad(), onednn_py.torch.enabled(), counted() as calls:
        traced = torch.jit.trace(module, torch.randn(shape), check_trace=False)
        other = torch.randn(shape)
        torch.testing.assert_close(traced(other), module(other))
    assert "torch.jit.trace records the call" in calls.left["convolution"]


def test_tracing_sees_the_same_operations() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    def loss(weights: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda w: nn.functional.conv2d(src, w).square().sum())(weights)

    arguments = (torch.randn(4, 3, 3, 3), images())
    plain = make_fx(loss)(*arguments)
    with onednn_py.torch.enabled():
        traced = make_fx(loss)(*arguments)
        found = traced(*arguments)
    assert [node.target for node in traced.graph.nodes] == [
        node.target for node in plain.graph.nodes
    ]
    right = plain(*arguments)
    assert_same_form(found, right)
    torch.testing.assert_close(found, right, rtol=TOLERANCE, atol=TOLERANCE)
