"""Gradients of gradients, `torch.func`, forward mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.func import functional_call, grad, jacrev, jvp, vjp, vmap

import onednn_py.torch
from tests.support.torch_cases import integers
from tests.support.torch_comparison import assert_equal, assert_same_form, assert_same_runs, counted
from tests.support.torch_models import small

pytestmark = [
    pytest.mark.frameworks,
    # PyTorch scripts its own forward-mode formulas when they are first used.
    pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning"),
]

F = torch.nn.functional
TOLERANCE = 1e-4

SHAPES: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "1d": (F.conv1d, (2, 4, 7), (6, 2, 3), {"padding": 1, "groups": 2}),
    "2d": (F.conv2d, (2, 3, 6, 5), (4, 3, 3, 2), {"stride": 2, "padding": 1}),
    "3d": (F.conv3d, (1, 2, 4, 5, 4), (3, 2, 2, 3, 2), {"dilation": 2, "padding": 1}),
    "1dt": (F.conv_transpose1d, (2, 4, 5), (4, 3, 3), {"stride": 2, "output_padding": 1}),
    "2dt": (F.conv_transpose2d, (2, 4, 4, 3), (4, 3, 3, 2), {"stride": 2, "groups": 2}),
    "3dt": (F.conv_transpose3d, (1, 2, 3, 2, 3), (2, 3, 2, 2, 2), {"padding": 1, "stride": 2}),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_gradients_of_gradients(name: str, dtype: str) -> None:
    """Values are those of float32: PyTorch's kernels of float16 gradients end the process."""
    function, src, weights, attributes = SHAPES[name]
    outputs = 6 if name == "2dt" else (3 if "t" in name else weights[0])

    def run(dtype: str) -> tuple[torch.Tensor, ...]:
        leaves = [
            integers(*src, dtype=dtype).requires_grad_(),
            integers(*weights, dtype=dtype, seed=1).requires_grad_(),
            integers(outputs, dtype=dtype, seed=2).requires_grad_(),
        ]
        dst = function(*leaves, **attributes)
        diff_dst = integers(*dst.shape, dtype=dtype, seed=3).requires_grad_()
        first = torch.autograd.grad(dst, leaves, diff_dst, create_graph=True)
        others = [integers(*g.shape, dtype=dtype, seed=4 + i) for i, g in enumerate(first)]
        second = torch.autograd.grad(first, [*leaves[:2], diff_dst], others, create_graph=True)
        return (dst, *first, *second)

    theirs, forms = run("float32"), run("float32" if dtype == "float16" else dtype)
    with onednn_py.torch.enabled(), counted() as calls:
        ours = run(dtype)
    # The second backward pass calls convolution several times.
    assert calls.calls > 4
    for found, right, form in zip(ours, theirs, forms, strict=True):
        assert_equal(found, right)
        if dtype != "float16":
            assert_same_form(found, form)


@pytest.mark.parametrize("name", SHAPES)
def test_gradgradcheck_in_float64(name: str) -> None:
    function, src, weights, attributes = SHAPES[name]
    leaves = [
        torch.randn(src, dtype=torch.float64, requires_grad=True),
        torch.randn(weights, dtype=torch.float64, requires_grad=True),
    ]
    with onednn_py.torch.enabled(), counted() as calls:
        assert torch.autograd.gradcheck(lambda *x: function(*x, **attributes), leaves)
        assert torch.autograd.gradgradcheck(lambda *x: function(*x, **attributes), leaves)
    assert not calls.taken
    assert calls.calls


@pytest.mark.parametrize("name", SHAPES)
def test_forward_mode(name: str) -> None:
    function, src, weights, attributes = SHAPES[name]

    def run() -> tuple[torch.Tensor, ...]:
        primals = (integers(*src), integers(*weights, seed=1))
        tangents = (integers(*src, seed=2), integers(*weights, seed=3))
        return jvp(lambda *x: function(*x, **attributes), primals, tangents)

    assert_same_runs(run)


@pytest.mark.parametrize("name", SHAPES)
def test_vjp(name: str) -> None:
    function, src, weights, attributes = SHAPES[name]

    def run() -> tuple[torch.Tensor, ...]:
        dst, back = vjp(lambda *x: function(*x, **attributes), integers(*src), integers(*weights))
        return (dst, *back(integers(*dst.shape, seed=3)))

    assert_same_runs(run)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("in_dims", [(0, None), (None, 0), (0, 0), (1, 0)])
def test_vmap(name: str, in_dims: tuple[int | None, int | None]) -> None:
    function, src, weights, attributes = SHAPES[name]

    def batched(shape: tuple[int, ...], dim: int | None, seed: int) -> torch.Tensor:
        if dim is None:
            return integers(*shape, seed=seed)
        return integers(*shape[:dim], 5, *shape[dim:], seed=seed)

    def run() -> tuple[torch.Tensor, ...]:
        tensors = batched(src, in_dims[0], 0), batched(weights, in_dims[1], 1)
        return (vmap(lambda *x: function(*x, **attributes), in_dims)(*tensors),)

    assert_same_runs(run)


def test_gradients_of_each_sample() -> None:
    module = small()
    module.norm = torch.nn.Identity()  # a batch norm has no gradient of one sample
    parameters = {name: p.detach() for name, p in module.named_parameters()}
    images = torch.randn(4, 3, 16, 12, generator=torch.Generator().manual_seed(0))

    def loss(given: dict[str, torch.Tensor], image: torch.Tensor) -> torch.Tensor:
        return functional_call(module, given, (image[None],)).square().mean()

    def run() -> tuple[torch.Tensor, ...]:
        return tuple(vmap(grad(loss), in_dims=(None, 0))(parameters, images).values())

    assert_same_runs(run, TOLERANCE)
    with onednn_py.torch.enabled():
        together = run()
        alone = [tuple(grad(loss)(parameters, image).values()) for image in images]
    for name, found, *singles in zip(parameters, together, *alone, strict=True):
        torch.testing.assert_close(
            found, torch.stack(singles), rtol=TOLERANCE, atol=TOLERANCE, msg=name
        )


def test_gradients_of_gradients_by_torch_func() -> None:
    weights, src = integers(3, 2, 3, seed=1), integers(2, 2, 6)

    def loss(given: torch.Tensor) -> torch.Tensor:
        return F.conv1d(src, given).pow(3).sum()

    def run() -> tuple[torch.Tensor, ...]:
        return (grad(loss)(weights), grad(lambda w: grad(loss)(w).square().sum())(weights))

    assert_same_runs(run, TOLERANCE)


def test_jacobians() -> None:
    weights, src = integers(2, 2, 3, seed=1), integers(1, 2, 5)
    assert_same_runs(lambda: (jacrev(lambda w: F.conv1d(src, w))(weights),))


def test_hessian_vector_products() -> None:
    weights, src = integers(2, 2, 3, seed=1), integers(1, 2, 5)

    def loss(given: torch.Tensor) -> torch.Tensor:
        return F.conv1d(src, given).pow(3).sum()

    def run() -> tuple[torch.Tensor, ...]:
        return jvp(grad(loss), (weights,), (integers(2, 2, 3, seed=7),))

    assert_same_runs(run, TOLERANCE)


def test_dual_tensors() -> None:
    fwd = torch.autograd.forward_ad

    def run() -> tuple[torch.Tensor, ...]:
        with fwd.dual_level():
            src = fwd.make_dual(integers(2, 3, 6, 5), integers(2, 3, 6, 5, seed=1))
            dst = F.conv2d(src, integers(4, 3, 3, 3, seed=2))
            primal, tangent = fwd.unpack_dual(dst)
        return primal, tangent

    assert_same_runs(run)
