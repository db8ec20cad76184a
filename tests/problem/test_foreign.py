"""Arrays of other libraries, by their protocols: taken where they lie, or refused."""

from __future__ import annotations

import array
import ctypes
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError, DTypeError
from onednn_py.problem.foreign import as_array, is_foreign_array
from tests.support.call_cases import CALLS, DST, SRC, WEIGHTS, arrays_of
from tests.support.foreign_arrays import ByArray, ByDLPack, Failing, OnOtherDevice

FORMS = [ByArray, ByDLPack, memoryview]


def in_ctypes(values: np.ndarray) -> Any:
    kind: Any = ctypes.c_float
    for extent in reversed(values.shape):
        kind = kind * extent
    return kind.from_buffer(values)


@pytest.mark.parametrize("form", [*FORMS, in_ctypes])
@pytest.mark.parametrize("case", CALLS)
def test_results_are_those_of_arrays(case: str, form: Any, backend: str) -> None:
    function, tensors, attributes = CALLS[case]
    expected = arrays_of(function(*tensors, **attributes, backend=backend))
    given = [form(tensor) for tensor in tensors]
    planned = onednn_py.plan(function, *given, **attributes, backend=backend)
    for actual in (
        function(*given, **attributes, backend=backend),
        function(*given, **attributes, backend=backend),
        function(given[0], *tensors[1:], **attributes, backend=backend),
        planned(*given),
        planned(given[0], *tensors[1:]),
    ):
        for found, right in zip(arrays_of(actual), expected, strict=True):
            assert type(found) is np.ndarray
            np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("form", [*FORMS, in_ctypes])
def test_nothing_is_copied(form: Any) -> None:
    held = SRC.copy()
    taken = as_array("here", form(held))
    assert np.shares_memory(taken, held)
    assert taken.ctypes.data == held.ctypes.data
    view = as_array("here", ByDLPack(held[:, ::2]))
    assert view.strides == held[:, ::2].strides


def test_numpy_itself_is_not_touched() -> None:
    for value in (SRC, np.ma.array(SRC), np.float32(1), None, 3, [1.0], "x", b"x", object()):
        assert not is_foreign_array(value)
        assert as_array("here", value) is value
    for kind in (np.ndarray, ByArray, ByDLPack, memoryview):
        assert not is_foreign_array(kind)


def test_a_second_call_works_nothing_out(fresh_cache: None, parsed: list[str]) -> None:
    for form in FORMS:
        onednn_py.convolution(form(SRC), form(WEIGHTS))
        count = len(parsed)
        onednn_py.convolution(form(SRC), form(WEIGHTS))
        assert len(parsed) == count


@pytest.mark.parametrize("form", [ByArray, memoryview])
@pytest.mark.parametrize("case", CALLS)
def test_out_is_written_and_returned(case: str, form: Any, backend: str) -> None:
    function, tensors, attributes = CALLS[case]
    expected = arrays_of(function(*tensors, **attributes, backend=backend))
    planned = onednn_py.plan(function, *tensors, **attributes, backend=backend)
    for call in (
        lambda out: function(*tensors, **attributes, backend=backend, out=out),
        lambda out: planned(*tensors, out=out),
    ):
        held = [np.full_like(one, 9) for one in expected]
        outs = [form(one) for one in held]
        whole = outs[0] if len(outs) == 1 else tuple(outs)
        returned = call((*outs, None) if case == "convolution_backward" else whole)
        for found, given, written, right in zip(
            arrays_of(returned), outs, held, expected, strict=True
        ):
            assert found is given
            np.testing.assert_array_equal(written, right)


def test_out_that_shares_memory_with_an_input(backend: str) -> None:
    room, weights = SRC.copy(), WEIGHTS
    keywords = {"pads_begin": 1, "pads_end": 1, "backend": backend}
    expected = onednn_py.convolution(SRC, weights, **keywords)
    onednn_py.convolution(ByArray(room), weights, out=ByArray(room), **keywords)
    np.testing.assert_array_equal(room, expected)
    both = np.zeros(WEIGHTS.size, np.float32)
    outs = ByArray(both.reshape(WEIGHTS.shape)), ByArray(both[:4])
    with pytest.raises(AttributeValueError, match="shares memory with the other output"):
        onednn_py.convolution_backward_weights(
            SRC, DST, WEIGHTS.shape, bias=True, out=outs, backend=backend
        )


def test_out_that_is_read_only() -> None:
    held = np.zeros(DST.shape, np.float32)
    held.flags.writeable = False
    for form in (ByArray, memoryview):
        with pytest.raises(AttributeValueError, match=r"out \(dst\): the array is read-only"):
            onednn_py.convolution(SRC, WEIGHTS, out=form(held))


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (ByDLPack(SRC, (2, 1)), r"on the device cuda:1 \(kDLCUDA\)"),
        (ByDLPack(SRC, (10, 0)), "on the device rocm:0"),
        (ByDLPack(SRC, (99, 0)), "on the device 99:0"),
        (OnOtherDevice(SRC), "on the device .*GPU:0: copy it"),
        (Failing(), "Failing does not give its elements: the elements are gone"),
        (ByArray(SRC.astype(int)), "expected dtype float32.*got int64"),
        (ByArray([1.0]), "does not give its elements"),
        (SRC.tolist(), "src: expected a numpy.ndarray, got list .*np.asarray"),
        ((1.0, 2.0), "src: expected a numpy.ndarray, got tuple .*np.asarray"),
        (1.0, "src: expected a numpy.ndarray, got float"),
        (ByArray, "src: expected a numpy.ndarray, got type"),
    ],
)
def test_refused(tensor: Any, message: str, backend: str) -> None:
    for refused in (
        lambda: onednn_py.convolution(tensor, WEIGHTS, backend=backend),
        lambda: onednn_py.plan("convolution", tensor, WEIGHTS, backend=backend),
        lambda: onednn_py.plan("convolution", SRC, WEIGHTS, backend=backend)(tensor, WEIGHTS),
    ):
        with pytest.raises(DTypeError, match=message) as caught:
            refused()
        assert "src: " in str(caught.value)


def test_released_memory_is_refused() -> None:
    released = memoryview(SRC)
    released.release()
    with pytest.raises(DTypeError, match="does not give its elements: operation forbidden"):
        onednn_py.convolution(released, WEIGHTS)


def test_pinned_memory_is_the_cpus() -> None:
    class Pinned(ByArray):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 3, 0

    assert np.shares_memory(as_array("here", Pinned(SRC)), SRC)


def test_packing(backend: str) -> None:
    planned = onednn_py.plan("convolution_backward_data", DST, WEIGHTS, backend=backend)
    expected = planned(DST, WEIGHTS)
    for form in FORMS:
        packed = planned.pack("weights", form(WEIGHTS))
        np.testing.assert_array_equal(planned(DST, packed), expected)
        np.testing.assert_array_equal(planned(form(DST), packed), expected)
    with pytest.raises(DTypeError, match="cuda:0"):
        planned.pack("weights", ByDLPack(WEIGHTS, (2, 0)))


def test_shapes_and_steps(backend: str) -> None:
    expected = onednn_py.convolution_backward_weights(SRC, DST, WEIGHTS.shape, backend=backend)
    for dtype in (np.int32, np.int64):
        shape = np.array(WEIGHTS.shape, dtype)
        for given in (shape, ByArray(shape), ByDLPack(shape), array.array("i", WEIGHTS.shape)):
            found = onednn_py.convolution_backward_weights(SRC, DST, given, backend=backend)
            np.testing.assert_array_equal(found, expected)
    found = onednn_py.convolution(SRC, WEIGHTS, strides=ByArray(np.array([1, 1])), backend=backend)
    np.testing.assert_array_equal(found, onednn_py.convolution(SRC, WEIGHTS, backend=backend))
    for wrong in (np.array(shape, float), shape[None], ByArray(np.array(shape, float)), SRC):
        with pytest.raises(AttributeValueError, match=r"weights_shape: .* of shape .* dtype"):
            onednn_py.convolution_backward_weights(SRC, DST, wrong, backend=backend)


def test_run_op() -> None:
    attributes = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    inputs = [ByArray(SRC), ByDLPack(DST), ByArray(np.array(WEIGHTS.shape, np.int32))]
    found = onednn_py.run_op("ConvolutionBackwardWeights", inputs, attributes)
    expected = onednn_py.convolution_backward_weights(SRC, DST, WEIGHTS.shape)
    np.testing.assert_array_equal(found, expected)


class Copying(ByArray):
    """Gives a copy of its elements at every question, as files of arrays do."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.held.copy()


def test_out_that_gives_copies_is_refused() -> None:
    planned = onednn_py.plan("convolution", SRC, WEIGHTS)
    gradients = onednn_py.convolution_backward
    assert np.array_equal(
        onednn_py.convolution(Copying(SRC), WEIGHTS), onednn_py.convolution(SRC, WEIGHTS)
    )
    with pytest.raises(DTypeError, match=r"out \(dst\): .*Copying gives copies of its elements"):
        onednn_py.convolution(SRC, WEIGHTS, out=Copying(np.zeros_like(DST)))
    with pytest.raises(DTypeError, match=r"out \(dst\): .*gives copies"):
        planned(SRC, WEIGHTS, out=Copying(np.zeros_like(DST)))
    with pytest.raises(DTypeError, match=r"out \(diff_src\): .*gives copies"):
        gradients(SRC, WEIGHTS, DST, out=(Copying(np.zeros_like(SRC)), None, None))


class Size(tuple[int, ...]):
    """A shape of another library, such as torch.Size."""


def test_a_shape_of_another_library_is_checked_once(fresh_cache: None, parsed: list[str]) -> None:
    for shape in (Size(SRC.shape), SRC.shape, Size(SRC.shape)):
        onednn_py.convolution_backward_data(DST, WEIGHTS, shape)
    assert len(parsed) == 1
