"""What is not as it was at a call before: arrays of the same kind only by their looks, outputs."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError, DTypeError, ShapeError, TensorSpec
from tests.support.call_cases import CALLS, DST, WEIGHTS, data_gradient, numbers
from tests.support.memory_layouts import gaps

pytestmark = pytest.mark.usefixtures("fresh_cache")


class Mine(np.ndarray):
    """A subclass that only has another name."""


class TestArraysAfterAGoodCall:
    def test_one_that_became_read_only(self, backend: str) -> None:
        mine = DST.copy()
        expected = data_gradient(mine, WEIGHTS, backend=backend)
        mine.flags.writeable = False
        np.testing.assert_array_equal(data_gradient(mine, WEIGHTS, backend=backend), expected)
        with pytest.raises(AttributeValueError, match="read-only"):
            data_gradient(numbers(2, 2, 3, 4), WEIGHTS, out=mine, backend=backend)

    def test_subclasses(self, backend: str) -> None:
        expected = data_gradient(backend=backend)
        for _ in range(2):
            actual = data_gradient(DST.view(Mine), WEIGHTS.view(Mine), backend=backend)
            np.testing.assert_array_equal(actual, expected)
            assert type(actual) is np.ndarray

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (np.ma.masked_array(DST), "masked arrays"),
            (TensorSpec(DST.shape, np.float32), "TensorSpec has no data"),
            (DST.tolist(), "expected a numpy.ndarray, got list"),
            (None, "expected a numpy.ndarray, got NoneType"),
            (DST.astype(np.int32), "expected dtype float32"),
            (DST.astype(np.float16), "all tensors must have one dtype"),
        ],
    )
    def test_what_is_no_tensor(self, wrong: Any, message: str, backend: str) -> None:
        for _ in range(2):
            # Of an array, and of a view, which is what a masked array is.
            data_gradient(backend=backend)
            data_gradient(DST[:], WEIGHTS, backend=backend)
            with pytest.raises(DTypeError, match=message):
                data_gradient(wrong, WEIGHTS, backend=backend)

    def test_a_shape_that_does_not_fit(self, backend: str) -> None:
        data_gradient(backend=backend)
        with pytest.raises(ShapeError, match="weights"):
            data_gradient(DST, WEIGHTS[..., :3], backend=backend)


# So many channels that no copy of them is made on the way to oneDNN.
WIDE, WIDE_WEIGHTS = numbers(2, 6, 7, 32), numbers(3, 3, 32, 32)


class TestOutputs:
    """After a good call, by the function and by a plan alike."""

    @pytest.fixture(params=["function", "plan"])
    def gradient(self, request: pytest.FixtureRequest, backend: str) -> Any:
        function = onednn_py.convolution_backward_data
        keywords = {"pads_begin": 1, "pads_end": 1}
        if request.param == "plan":
            return onednn_py.plan(function, WIDE, WIDE_WEIGHTS, **keywords, backend=backend)

        def call(*tensors: Any, out: Any = None) -> Any:
            return function(*tensors, **keywords, out=out, backend=backend)

        call(WIDE, WIDE_WEIGHTS)
        return call

    def test_dense_and_strided(self, gradient: Any) -> None:
        expected = gradient(WIDE, WIDE_WEIGHTS)
        for out in (np.empty_like(WIDE), gaps(WIDE), np.asfortranarray(WIDE), WIDE.copy()[::-1]):
            for _ in range(2):
                out[...] = 9
                assert gradient(WIDE, WIDE_WEIGHTS, out=out) is out
                np.testing.assert_array_equal(out, expected)

    @pytest.mark.parametrize(
        ("out", "error", "message"),
        [
            (np.empty((2, 6, 7, 5), np.float32), ShapeError, r"expected shape \(2, 6, 7, 32\)"),
            (np.empty(WIDE.shape, np.float64), DTypeError, "expected dtype float32"),
            (WIDE.tolist(), DTypeError, "expected a numpy.ndarray"),
            ((np.empty_like(WIDE),), DTypeError, "expected a numpy.ndarray"),
            (np.ma.masked_array(WIDE.copy()), DTypeError, "expected a numpy.ndarray"),
            (np.broadcast_to(WIDE[:1], WIDE.shape), AttributeValueError, "read-only"),
        ],
    )
    def test_what_cannot_be_written(
        self, gradient: Any, out: Any, error: type, message: str
    ) -> None:
        with pytest.raises(error, match=message):
            gradient(WIDE, WIDE_WEIGHTS, out=out)

    def test_one_that_overlaps_an_input(self, gradient: Any) -> None:
        """The same memory, and memory that begins elsewhere, after outputs that were apart."""
        expected = gradient(WIDE, WIDE_WEIGHTS)
        apart = np.empty_like(WIDE)
        for shift in (0, 1, 4, WIDE.size - 1, -5):
            room = np.zeros(3 * WIDE.size, np.float32)
            source = room[WIDE.size : 2 * WIDE.size].reshape(WIDE.shape)
            out = room[WIDE.size + shift : 2 * WIDE.size + shift].reshape(WIDE.shape)
            for _ in range(2):
                source[...] = WIDE
                np.testing.assert_array_equal(gradient(source, WIDE_WEIGHTS, out=apart), expected)
                assert gradient(source, WIDE_WEIGHTS, out=out) is out
                np.testing.assert_array_equal(out, expected)

    def test_other_memory_in_turn(self, gradient: Any) -> None:
        """Only the addresses that changed are told to oneDNN."""
        tensors = [WIDE.copy(), 2 * WIDE]
        expected = [gradient(one, WIDE_WEIGHTS) for one in tensors]
        outs = [np.empty_like(WIDE), np.empty_like(WIDE)]
        for number, other in ((0, 0), (0, 1), (1, 1), (1, 0), (0, 0), (1, 0)):
            gradient(tensors[number], WIDE_WEIGHTS, out=outs[other])
            np.testing.assert_array_equal(outs[other], expected[number])
            outs[other][...] = 9

    def test_no_array_is_kept(self, gradient: Any) -> None:
        for out in (None, np.empty_like(WIDE)):
            tensor = WIDE.copy()
            kept = weakref.ref(tensor)
            for _ in range(2):
                gradient(tensor, WIDE_WEIGHTS, out=out)
            del tensor
            assert kept() is None

    def test_one_that_is_the_weights(self, backend: str) -> None:
        attributes = {"weights_format": "OIX", "data_format": "NCX", "pads_begin": 1, "pads_end": 1}
        src, weights = numbers(3, 3, 3, 3), numbers(3, 3, 3, 3, seed=1)
        expected = onednn_py.convolution(src, weights, **attributes, backend=backend)
        for _ in range(2):
            given = weights.copy()
            onednn_py.convolution(src, given, **attributes, out=given, backend=backend)
            np.testing.assert_array_equal(given, expected)

    def test_outputs_that_overlap_each_other(self, backend: str) -> None:
        function, tensors, attributes = CALLS["backward_weights, bias"]
        weights, bias = function(*tensors, **attributes, backend=backend)
        out = np.empty_like(weights)
        for given in ((out, out.reshape(-1)[:4]), (out, out[0, 0, 0])):
            with pytest.raises(AttributeValueError, match="shares memory with the other output"):
                function(*tensors, **attributes, out=given, backend=backend)
        for given in ((out, None), (None, bias.copy()), (out, bias.copy()), [None, None]):
            found = function(*tensors, **attributes, out=given, backend=backend)
            np.testing.assert_array_equal(found[0], weights)
            np.testing.assert_array_equal(found[1], bias)
            for array, wanted in zip(found, given, strict=True):
                assert wanted is None or array is wanted
        with pytest.raises(AttributeValueError, match="expected .*, got 3 entries"):
            function(*tensors, **attributes, out=(out, bias, bias), backend=backend)
