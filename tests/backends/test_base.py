"""A backend by registration alone, and the policy of what happens where it refuses a problem."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError, LibraryNotFoundError, OneDNNError
from onednn_py.backends import BACKENDS, register
from onednn_py.backends.base import Plan
from onednn_py.problem.problem import Problem
from tests.support.call_cases import CALLS, DST, SRC, WEIGHTS, arrays_of
from tests.support.einsum_backend import EinsumBackend, registered_einsum
from tests.support.requirements import HAS_ONEDNN

pytestmark = pytest.mark.usefixtures("fresh_cache")


@pytest.fixture
def einsum() -> Iterator[EinsumBackend]:
    with registered_einsum() as backend:
        yield backend


@pytest.mark.parametrize("name", CALLS)
def test_every_function_runs_on_a_registered_backend(name: str, einsum: EinsumBackend) -> None:
    function, tensors, attributes = CALLS[name]
    expected = arrays_of(function(*tensors, **attributes, backend="numpy"))
    for _ in range(2):
        actual = arrays_of(function(*tensors, **attributes, backend="einsum"))
        for array, right in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(array, right)
    planned = onednn_py.plan(function, *tensors, **attributes, backend="einsum")
    assert planned.backend.startswith("einsum")


def test_it_is_chosen_like_any_other(einsum: EinsumBackend) -> None:
    with onednn_py.use_backend("einsum"):
        plan = onednn_py.plan(onednn_py.convolution, SRC, WEIGHTS)
    assert repr(plan) == "convolution: einsum"
    with pytest.raises(AttributeValueError, match="one of auto, onednn, numpy, einsum; got 'sum'"):
        onednn_py.use_backend("sum").__enter__()


def test_auto_stays_what_it_was(einsum: EinsumBackend) -> None:
    plan = onednn_py.plan(onednn_py.convolution, SRC, WEIGHTS)
    assert plan.backend == ("onednn" if HAS_ONEDNN else "numpy")


def test_a_name_without_a_backend_is_refused() -> None:
    with pytest.raises(AttributeValueError, match="one of auto, onednn, numpy; got 'einsum'"):
        onednn_py.convolution(SRC, WEIGHTS, backend="einsum")


def test_what_it_does_not_support_runs_on_numpy(
    einsum: EinsumBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def supports(problem: Problem) -> str | None:
        return "no weights gradients" if problem.result_role == "weights" else None

    monkeypatch.setattr(einsum, "supports", supports)
    plan = onednn_py.plan(
        onednn_py.convolution_backward, SRC, WEIGHTS, DST, wrt=("src", "weights"), backend="einsum"
    )
    assert plan.backend == "einsum and numpy"
    assert "convolution_backward_weights: numpy (no weights gradients)" in repr(plan)
    expected = onednn_py.convolution_backward(SRC, WEIGHTS, DST, backend="numpy")
    for actual, right in zip(arrays_of(plan(SRC, WEIGHTS, DST)), expected, strict=False):
        np.testing.assert_array_equal(actual, right)


@pytest.mark.parametrize("status", ["unimplemented", "out_of_memory", "invalid_arguments"])
def test_only_unimplemented_is_hidden(
    status: str, einsum: EinsumBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise OneDNNError("dnnl_primitive_create", status)

    monkeypatch.setattr(einsum, "plan", fail)
    if status != "unimplemented":
        with pytest.raises(OneDNNError, match=rf"{status}: .*convolution f32 src .*weights "):
            onednn_py.convolution(SRC, WEIGHTS, backend="einsum")
        return
    plan = onednn_py.plan(onednn_py.convolution, SRC, WEIGHTS, backend="einsum")
    assert plan.backend == "numpy"
    np.testing.assert_array_equal(
        plan(SRC, WEIGHTS), onednn_py.convolution(SRC, WEIGHTS, backend="numpy")
    )


def test_a_backend_that_cannot_be_used_says_so(
    einsum: EinsumBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare() -> Any:
        raise LibraryNotFoundError("no einsum here")

    monkeypatch.setattr(einsum, "prepare", prepare)
    with pytest.raises(LibraryNotFoundError, match="no einsum here"):
        onednn_py.convolution(SRC, WEIGHTS, backend="einsum")


@pytest.mark.parametrize("name", ["auto", "Einsum"])
def test_names_that_nobody_could_choose(name: str) -> None:
    backend = EinsumBackend()
    backend.name = name
    with pytest.raises(AttributeValueError, match="in lower case"):
        register(backend)
    assert name not in BACKENDS


def test_a_plan_without_execute_is_refused() -> None:
    class Nothing(Plan):
        backend = implementation = "nothing"

    with pytest.raises(TypeError, match="abstract method.* '?execute'?"):
        Nothing()


@pytest.mark.parametrize("wrt", [("src",), ("weights",), ("src", "weights")])
def test_plans_of_both_gradients_say_why_numpy_computes(wrt: tuple[str, ...], backend: str) -> None:
    tensors = [tensor.astype(np.float64) for tensor in (SRC, WEIGHTS, DST)]
    plan = onednn_py.plan(onednn_py.convolution_backward, *tensors, wrt=wrt, backend=backend)
    expected = "(oneDNN has no float64 convolution)" if backend == "onednn" else "numpy,"
    assert repr(plan).count(expected) == len(wrt)
