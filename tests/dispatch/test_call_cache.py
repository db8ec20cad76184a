"""Calls known by their kind: nothing is worked out twice, and nothing taken for another."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError, ShapeError
from onednn_py.dispatch import call_cache
from onednn_py.dispatch.call_cache import call
from onednn_py.problem.call_spec import call_spec
from tests.support.call_cases import (
    BIAS,
    CALLS,
    DST,
    SRC,
    WEIGHTS,
    arrays_of,
    data_gradient,
    numbers,
)
from tests.support.memory_layouts import FORMS, crop, gaps
from tests.support.requirements import needs_onednn

pytestmark = pytest.mark.usefixtures("fresh_cache")


class TestKnownKinds:
    @pytest.mark.parametrize("name", CALLS)
    def test_a_second_call_works_nothing_out(
        self, name: str, backend: str, parsed: list[str]
    ) -> None:
        function, tensors, attributes = CALLS[name]
        expected = function(*tensors, **attributes, backend=backend)
        count = len(parsed)
        assert count
        misses = onednn_py.cache_info().misses
        others = [array + 1 for array in tensors]
        actual = function(*tensors, **attributes, backend=backend)
        function(*others, **attributes, backend=backend)
        out = tuple(np.full_like(array, 9) for array in arrays_of(actual))
        whole = out[0] if len(out) == 1 else out
        if name == "convolution_backward":
            whole = (*out, None)
        written = function(*tensors, **attributes, backend=backend, out=whole)
        assert len(parsed) == count
        assert onednn_py.cache_info().misses == misses
        for right, found, into, given in zip(
            *map(arrays_of, (expected, actual, written)), out, strict=True
        ):
            np.testing.assert_array_equal(found, right)
            np.testing.assert_array_equal(into, right)
            assert into is given
            assert not np.may_share_memory(found, right)

    @pytest.mark.parametrize(
        "change",
        [
            {"strides": 2},
            {"strides": (1, 2)},
            {"pads_begin": 1},
            {"pads_end": 1},
            {"pads_end": (0, 1)},
            {"dilations": 2},
            {"auto_pad": "valid"},
            {"auto_pad": "same_upper"},
            {"groups": 2},
            {"data_format": "NCX"},
            {"weights_format": "OIX"},
            {"strides": 2, "output_padding": 1},
            {"dst_shape": (2, 7, 7, 4)},
            {"dst_shape": (2, 8, 9, 4), "strides": 2, "pads_begin": 2},
            {"auto_pad": "same_lower", "auto_pad_rule": "documented"},
            {"fpmath_mode": "bf16"},
            {"fpmath_mode": "any"},
        ],
        ids=str,
    )
    def test_every_attribute_makes_another_kind(
        self, change: dict[str, Any], backend: str, parsed: list[str]
    ) -> None:
        tensors = (numbers(2, 4, 4, 4), numbers(4, 4, 4, 4))
        data_gradient(*tensors, backend=backend)
        parsed.clear()
        actual = data_gradient(*tensors, **change, backend=backend)
        assert parsed
        onednn_py.cache_clear()
        np.testing.assert_array_equal(actual, data_gradient(*tensors, **change, backend=backend))
        data_gradient(*tensors, backend=backend)

    @pytest.mark.parametrize(
        "changed",
        [
            lambda array: array.astype(np.float16),
            lambda array: array.astype(ml_dtypes.bfloat16),
            lambda array: array.astype(np.float64),
            lambda array: array.astype(">f4"),
            lambda array: array[:1],
            lambda array: array[:0],
            *FORMS,
        ],
    )
    def test_other_arrays_make_another_kind(
        self, changed: Any, backend: str, parsed: list[str]
    ) -> None:
        """Of another type or shape, or lying in memory in another way."""
        data_gradient(backend=backend)
        parsed.clear()
        diff_dst = changed(DST)
        weights = WEIGHTS.astype(diff_dst.dtype)
        dense = np.array(diff_dst, np.float32, order="C")
        expected = data_gradient(dense, WEIGHTS, backend="numpy")
        for _ in range(2):
            actual = data_gradient(diff_dst, weights, backend=backend)
            assert actual.dtype == diff_dst.dtype.newbyteorder("=")
            np.testing.assert_array_equal(actual, expected.astype(actual.dtype))
        assert parsed

    @pytest.mark.parametrize("second", [gaps, crop])
    @pytest.mark.parametrize("first", [gaps, crop])
    def test_strides_make_another_kind(self, first: Any, second: Any, backend: str) -> None:
        """Where NumPy's flags are the same."""
        expected = data_gradient(backend=backend)
        for form in (first, second, first):
            actual = data_gradient(form(DST), form(WEIGHTS), backend=backend)
            np.testing.assert_array_equal(actual, expected)

    def test_the_bias_flag_makes_another_kind(self, backend: str) -> None:
        function, tensors, attributes = CALLS["backward_weights"]
        weights = function(*tensors, **attributes, backend=backend)
        both = function(*tensors, **attributes, bias=True, backend=backend)
        np.testing.assert_array_equal(both[0], weights)
        np.testing.assert_array_equal(both[1], DST.sum(axis=(0, 1, 2)))
        assert isinstance(function(*tensors, **attributes, backend=backend), np.ndarray)
        with pytest.raises(AttributeValueError, match="bias: expected True or False"):
            function(*tensors, **attributes, bias=1, backend=backend)

    def test_a_bias_makes_another_kind(self, backend: str) -> None:
        without = onednn_py.convolution(SRC, WEIGHTS, backend=backend)
        for _ in range(2):
            actual = onednn_py.convolution(SRC, WEIGHTS, BIAS, backend=backend)
            np.testing.assert_array_equal(actual, without + BIAS)
            actual = onednn_py.convolution(SRC, WEIGHTS, None, backend=backend)
            np.testing.assert_array_equal(actual, without)

    @needs_onednn
    def test_the_backend_is_another_plan(self, parsed: list[str]) -> None:
        for _ in range(2):
            expected = data_gradient(backend="onednn")
        count = len(parsed)
        for backend in ("numpy", "onednn", "auto"):
            np.testing.assert_array_equal(data_gradient(backend=backend), expected)
            with onednn_py.use_backend(backend):
                np.testing.assert_array_equal(data_gradient(), expected)
        assert len(parsed) == count
        # auto is oneDNN's plan here.
        assert onednn_py.cache_info().misses == 2

    @needs_onednn
    def test_the_number_of_threads_is_another_plan(self) -> None:
        if onednn_py.get_num_threads() == 1:
            pytest.skip("one thread only")
        for _ in range(2):
            expected = data_gradient()
        for _ in range(2):
            with onednn_py.num_threads(1):
                np.testing.assert_array_equal(data_gradient(), expected)
            np.testing.assert_array_equal(data_gradient(), expected)
        assert onednn_py.cache_info().misses == 2


class Changing(Sequence):
    """A sequence that its owner may change."""

    def __init__(self, *entries: int) -> None:
        self.entries = entries

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: Any) -> Any:
        return self.entries[index]


class Integer:
    """An integer by ``__index__`` alone, which its owner may change."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class TestTypes:
    """What is equal is not the same: True and 1.0 are equal to 1."""

    @pytest.mark.parametrize(
        "good", [1, np.int64(1), (1, 1), [1, 1], (np.int8(1), 1), np.array([1, 1]), range(1, 3)]
    )
    @pytest.mark.parametrize(
        "bad",
        [
            *(True, 1.0, np.True_, np.float64(1), "1", None, (1, True), [1.0, 1], (1, "1")),
            *([np.True_, 1], [[1], [1]], {1}, {1: 1}, np.array([1.0, 1.0]), np.array([True] * 2)),
        ],
        ids=repr,
    )
    @pytest.mark.parametrize("name", ["strides", "dilations"])
    def test_a_wrong_type_after_a_good_call(self, name: str, good: Any, bad: Any) -> None:
        for _ in range(2):
            data_gradient(**{name: good})
        with pytest.raises(AttributeValueError, match=f"{name}.*: expected"):
            data_gradient(**{name: bad})

    @pytest.mark.parametrize("bad", [True, 1.0, "1", None, [1]])
    def test_wrong_groups_after_a_good_call(self, bad: Any) -> None:
        data_gradient(groups=1)
        with pytest.raises(AttributeValueError, match="groups: expected"):
            data_gradient(groups=bad)

    def test_integers_of_all_types(self, backend: str) -> None:
        expected = data_gradient(strides=(1, 2), backend=backend)
        for strides in (
            *([1, 2], np.array([1, 2]), np.array([1, 2], np.uint8), (np.int64(1), np.int16(2))),
            *([np.int32(1), 2], range(1, 3), Changing(1, 2), (Integer(1), Integer(2))),
        ):
            for _ in range(3):
                actual = data_gradient(strides=strides, backend=backend)
                np.testing.assert_array_equal(actual, expected)

    @pytest.mark.parametrize("shape", [list, tuple, np.array, lambda shape: Changing(*shape)])
    def test_shapes_of_all_types(self, shape: Any, backend: str) -> None:
        function, tensors, _ = CALLS["backward_weights"]
        expected = function(*tensors, WEIGHTS.shape, backend=backend)
        for _ in range(3):
            actual = function(*tensors, shape(WEIGHTS.shape), backend=backend)
            np.testing.assert_array_equal(actual, expected)
        with pytest.raises((AttributeValueError, ShapeError), match="weights_shape"):
            function(*tensors, shape((3.0, 3.0, 4.0, 4.0)), backend=backend)

    def test_values_that_change(self, backend: str) -> None:
        """The same object with other content is another call."""
        changing = [[1, 1], np.array([1, 1]), Changing(1, 1)]
        changes = [
            lambda: changing[0].__setitem__(0, 2),
            lambda: changing[1].__setitem__(0, 2),
            lambda: setattr(changing[2], "entries", (2, 1)),
        ]
        expected = data_gradient(strides=(2, 1), backend=backend)
        for strides, change in zip(changing, changes, strict=True):
            for _ in range(2):
                data_gradient(strides=strides, backend=backend)
            change()
            actual = data_gradient(strides=strides, backend=backend)
            np.testing.assert_array_equal(actual, expected)
        stride = Integer(1)
        for _ in range(2):
            data_gradient(strides=stride, backend=backend)
        stride.value = 2
        actual = data_gradient(strides=stride, backend=backend)
        np.testing.assert_array_equal(actual, data_gradient(strides=2, backend=backend))

    @pytest.mark.parametrize(
        "wrt", [("src",), ["src"], {"src"}, frozenset(["src"]), "src", {"src": 1}.keys()]
    )
    def test_wrt_of_all_types(self, wrt: Any, backend: str) -> None:
        tensors = (SRC, WEIGHTS, DST)
        onednn_py.convolution_backward(*tensors, backend=backend)
        for _ in range(3):
            found = onednn_py.convolution_backward(*tensors, wrt=wrt, backend=backend)
            np.testing.assert_array_equal(found.diff_src, data_gradient(backend="numpy"))
            assert found[1:] == (None, None)
        for wrong in (("src", "dst"), "weight", (), None, 1):
            with pytest.raises(AttributeValueError, match="wrt: expected some of"):
                onednn_py.convolution_backward(*tensors, wrt=wrong, backend=backend)


class TestStrangeArguments:
    """What is neither constant nor a list of constants is never looked up."""

    def test_an_argument_whose_hash_fails(self, backend: str) -> None:
        class Unhashable:
            def __hash__(self) -> int:
                raise ValueError("no hash")

        for value in (Unhashable(), (Unhashable(), 1)):
            with pytest.raises(AttributeValueError, match="strides"):
                data_gradient(strides=value, backend=backend)

    def test_a_deeply_nested_tuple(self) -> None:
        """Its hash would overflow the C stack."""
        code = """
import numpy as np, onednn_py
value = (1,)
for _ in range(2_000_000):
    value = (value,)
src, weights = np.ones((1, 4, 4, 1), np.float32), np.ones((2, 2, 1, 1), np.float32)
try:
    onednn_py.convolution(src, weights, strides=value)
except (onednn_py.AttributeValueError, RecursionError):
    import os
    os._exit(7)  # taking the tuple apart is the interpreter's own business
"""
        assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 7

    def test_locals_of_a_debugger_are_no_arguments(self) -> None:
        arguments = {**inspect_defaults(), "src": SRC, "weights": WEIGHTS, "x": 5, "y": None}
        expected = onednn_py.convolution(SRC, WEIGHTS)
        out = np.empty_like(expected)
        assert call("convolution", {**arguments, "out": out}) is out
        np.testing.assert_array_equal(out, expected)

    def test_a_list_that_changes_while_it_is_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        strides = [1, 1]

        def changing(name: str, arguments: Any) -> Any:
            strides[0] = 2
            return call_spec(name, arguments)

        onednn_py.cache_clear()
        with monkeypatch.context() as patched:
            patched.setattr(call_cache, "call_spec", changing)
            first = onednn_py.convolution(SRC, WEIGHTS, strides=strides)
        expected = onednn_py.convolution(SRC, WEIGHTS)
        assert first.shape == expected.shape
        assert onednn_py.convolution(SRC, WEIGHTS, strides=[1, 1]).shape == expected.shape


def inspect_defaults() -> dict[str, Any]:
    parameters = inspect.signature(onednn_py.convolution).parameters
    return {name: parameter.default for name, parameter in parameters.items()}
