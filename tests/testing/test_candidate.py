"""Candidates: how they are found and called, and what their results may be."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError
from onednn_py.testing import cases
from onednn_py.testing.candidate import Candidate, UnusableResultError

(DATA,) = cases("ic4ih5oc6kh3ph1", directions="BWD_D")
(BOTH,) = cases("ic4ih5oc6kh3ph1", directions="BWD_WB")


def refused(candidate: Any, case=DATA) -> UnusableResultError:
    with pytest.raises(UnusableResultError) as raised:
        Candidate(candidate).run(case, case.tensors())
    return raised.value


def test_it_is_called_as_the_function_is() -> None:
    called = []

    def kernel(*tensors, **attributes):
        called.append((tensors, attributes))
        return onednn_py.convolution_backward_data(*tensors, **attributes, backend="numpy")

    inputs = DATA.tensors()
    (result,), _ = Candidate(kernel).run(DATA, inputs)
    ((tensors, attributes),) = called
    assert attributes == DATA.attributes
    for given, own in zip(tensors, inputs, strict=True):
        np.testing.assert_array_equal(given, own)
        assert given.flags.writeable
        assert not np.shares_memory(given, own)
    assert result.shape == (2, 4, 5, 5)


def test_kernels_by_the_names_of_functions() -> None:
    function = onednn_py.convolution_backward_data
    by_name = {"convolution_backward_data": function}
    kernels = type("Kernels", (), {name: staticmethod(f) for name, f in by_name.items()})
    for several in (by_name, types.SimpleNamespace(**by_name), onednn_py, kernels):
        (result,), _ = Candidate(several).run(DATA, DATA.tensors())
        assert result.shape == (2, 4, 5, 5)
    error = refused(by_name, BOTH)
    assert (error.status, error.reason) == (
        "skipped", "no candidate for convolution_backward_weights",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        (None, "expected a callable"),
        ("conv", "expected a callable"),
        ({}, "expected a callable"),
        ({"conv2d": print}, "no function has the name 'conv2d'; expected some of convolution"),
        ({"convolution_backward": print}, "no case is of 'convolution_backward'; expected some of"),
        ({"convolution": 3}, "expected a callable"),
        (types.SimpleNamespace(forward=print), "expected a callable"),
        (np.ndarray, "expected a callable"),
    ],
)
def test_what_is_no_candidate(candidate: Any, message: str) -> None:
    with pytest.raises(AttributeValueError, match=message):
        Candidate(candidate)


def test_exceptions_are_failures_and_the_first_is_kept() -> None:
    def kernel(*tensors, **attributes):
        raise ValueError(f"no\nkernel {len(tensors)}" + "!" * 1000)

    candidate = Candidate(kernel)
    for _ in range(2):
        with pytest.raises(UnusableResultError) as raised:
            candidate.run(DATA, DATA.tensors())
    assert raised.value.status == "failed"
    assert raised.value.reason.startswith("the candidate raised ValueError: no kernel 2!!!")
    assert len(raised.value.reason) < 400
    assert isinstance(candidate.error, ValueError)
    assert refused(lambda *_: None).reason.startswith("the candidate raised TypeError: ")


def test_hostile_exceptions_are_failures_too() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

        def __bool__(self) -> bool:
            return False

    def kernel(*tensors, **attributes):
        raise MuteError

    error = refused(kernel)
    assert error.reason == "the candidate raised MuteError: an exception without a message"


def test_not_implemented_is_no_failure() -> None:
    def kernel(*tensors, **attributes):
        raise NotImplementedError("groups")

    error = refused(kernel)
    assert (error.status, error.reason) == ("unimplemented", "groups")


@pytest.mark.parametrize("which", [0, 1])
def test_changed_inputs_are_noticed(which: int) -> None:
    def kernel(*tensors, **attributes):
        result = onednn_py.convolution_backward_data(*tensors, **attributes)
        tensors[which].flat[-1] += 1
        return result

    name = ("diff_dst", "weights")[which]
    assert refused(kernel).reason == f"the candidate changed its input {name}"


def test_an_input_of_another_type_is_a_change() -> None:
    def kernel(diff_dst, weights, **attributes):
        result = onednn_py.convolution_backward_data(diff_dst, weights, **attributes)
        weights.dtype = np.int32
        return result

    assert refused(kernel).reason == "the candidate changed its input weights"


def test_negative_zero_in_place_of_zero_is_a_change() -> None:
    def kernel(diff_dst, weights, **attributes):
        diff_dst *= -1
        diff_dst *= -1
        weights[...] = np.where(weights == 0, np.float32(-0.0), weights)
        return onednn_py.convolution_backward_data(diff_dst, weights, **attributes)

    assert refused(kernel).reason == "the candidate changed its input weights"


@pytest.mark.parametrize(
    ("returned", "case", "message"),
    [
        (None, DATA, "diff_src: expected an array, got None"),
        ([1.0, 2.0], DATA, "diff_src: expected an array, got a list of 2"),
        (3.0, DATA, "diff_src: expected an array, got float"),
        (np.zeros(3), BOTH, "expected a tuple (diff_weights, diff_bias), got numpy.ndarray"),
        ((np.zeros(3),), BOTH, "expected a tuple (diff_weights, diff_bias), got a tuple of 1"),
        ((np.zeros(3), None), BOTH, "diff_bias: expected an array, got None"),
    ],
)
def test_what_is_no_result(returned: Any, case, message: str) -> None:
    error = refused(lambda *tensors, **attributes: returned, case)
    assert (error.status, error.reason) == ("failed", message)


def test_arrays_of_other_libraries_are_results() -> None:
    class Foreign:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __array__(self, dtype=None, copy=None) -> np.ndarray:
            return self.array

    expected = np.arange(3, dtype=np.float32)
    (result,), _ = Candidate(lambda *_, **__: Foreign(expected)).run(DATA, DATA.tensors())
    np.testing.assert_array_equal(result, expected)

    class Broken(Foreign):
        def __array__(self, dtype=None, copy=None) -> np.ndarray:
            raise RuntimeError("on another device")

    error = refused(lambda *_, **__: Broken(expected))
    assert error.status == "failed"
    assert "does not give its elements: on another device" in error.reason
