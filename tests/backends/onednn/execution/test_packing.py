"""Packed weights: the same bits as from the weights themselves, in every layout of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError, DTypeError, ShapeError, TensorSpec
from onednn_py.backends.onednn import machine_here
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection.select import candidates
from onednn_py.backends.onednn.wisdom import Entry, store
from onednn_py.problem.problem import Problem
from tests.support.candidate_runs import computes_products, plan_problem, sub_problems
from tests.support.cases import CURATED, Case, case
from tests.support.forks import exit_code_of_child, needs_fork
from tests.support.memory_layouts import FORMS, gaps
from tests.support.requirements import needs_onednn

GEOMETRIES = (
    *("2d_groups_16", "2d_depthwise", "2d_blocked_channels", "2d_channel_tail", "2d_1x1_strided"),
    *("2d_strided_dilated", "1d_strided", "3d_groups"),
)
FORMATS = {"NCX": True, "NXC": False}
FUNCTIONS = (
    *("convolution", "convolution_backward_data", "convolution_backprop_data"),
    *("conv_transpose", "conv_transpose_backward_data"),
    *("convolution_backward", "conv_transpose_backward"),
)
DATA_GRADIENTS = ("convolution_backward_data", "convolution_backprop_data", "conv_transpose")
WIDE = case((12, 12), 3, pads=1, inputs=32, outputs=48)
SQUARE = case((12, 12), 3, pads=1, inputs=32, outputs=32)

pytestmark = pytest.mark.usefixtures("fresh_cache")


@pytest.fixture
def no_wisdom() -> Iterator[None]:
    store.forget()
    yield
    store.forget()


class Call:
    """A function's plan for a geometry, its tensors, and which of them are the weights."""

    def __init__(
        self,
        name: str,
        geometry: Case,
        dtype: str,
        data_format: str,
        backend: str,
        *,
        bias: bool = True,
        wrt: tuple[str, ...] = ("src", "weights", "bias"),
    ) -> None:
        tensors = geometry.integers(dtype)
        weights_first = FORMATS[data_format]
        source = name.replace("backprop", "backward")
        if source in ("convolution_backward", "conv_transpose_backward"):
            (src, weights, _), keywords = tensors.arguments(
                source.removesuffix("_backward"), data_format, weights_first
            )
            (_, diff_dst, _), _ = tensors.arguments(f"{source}_weights", data_format, weights_first)
            positional = [src, weights, diff_dst]
            keywords["wrt"] = wrt
        else:
            positional, keywords = tensors.arguments(source, data_format, weights_first)
            if not bias and source in ("convolution", "conv_transpose"):
                del positional[2]
        self.name = "weights"
        if name == "convolution_backprop_data":
            self.name = "filter"
            keywords["filter_format"] = keywords.pop("weights_format")
        self._function = getattr(onednn_py, name)
        self._arguments = positional, keywords
        self.plan = onednn_py.plan(self._function, *positional, **keywords, backend=backend)
        self.tensors = [array for array in positional if isinstance(array, np.ndarray)]
        # All functions that take weights take them second.
        self.weights = self.tensors[1]

    @property
    def problem(self) -> Problem:
        """The only problem of the call."""
        positional, keywords = self._arguments
        (sub_problem,) = sub_problems(self._function, *positional, **keywords)
        return sub_problem.problem

    def pack(self, weights: Any = None) -> Any:
        return self.plan.pack(self.name, self.weights if weights is None else weights)

    def with_packed(self, packed: Any, out: Any = None) -> Any:
        return self.plan(self.tensors[0], packed, *self.tensors[2:], out=out)

    def check(self) -> None:
        """Use a packed tensor twice, and compare with the call on the weights themselves."""
        expected = self.plan(*self.tensors)
        packed = self.pack()
        assert packed.shape == self.weights.shape
        assert packed.nbytes >= self.weights.nbytes
        for _ in range(2):
            assert_same_bits(self.with_packed(packed), expected)


def unless_refused(call: Call, packed: Any) -> Any:
    """Return the result with a packed tensor, None if the plan refuses its layout."""
    try:
        return call.with_packed(packed)
    except AttributeValueError as error:
        if "another layout than this plan takes: pack it again" not in str(error):
            raise
        return None


def assert_same_bits(actual: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        for actual_result, expected_result in zip(actual, expected, strict=True):
            assert_same_bits(actual_result, expected_result)
    elif expected is None:
        assert actual is None
    else:
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function(name: str, dtype: str, backend: str) -> None:
    for geometry in GEOMETRIES:
        for data_format in FORMATS:
            Call(name, CURATED[geometry], dtype, data_format, backend).check()


@pytest.mark.parametrize("wrt", [("src",), ("weights",), ("bias",), ("weights", "bias")])
@pytest.mark.parametrize("name", ["convolution_backward", "conv_transpose_backward"])
def test_gradients_that_do_not_need_the_weights(
    name: str, wrt: tuple[str, ...], backend: str
) -> None:
    Call(name, CURATED["2d_groups_16"], "f32", "NXC", backend, wrt=wrt).check()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64(name: str, backend: str) -> None:
    Call(name, CURATED["2d_groups"], "f64", "NXC", backend).check()


STRIDED_1X1 = case((8, 6), 1, 2, inputs=16, outputs=32)


@needs_onednn
@pytest.mark.parametrize(
    ("geometry", "dtype", "data_format"),
    [
        (STRIDED_1X1, "f32", "NCX"),
        (STRIDED_1X1, "f16", "NXC"),
        (STRIDED_1X1, "f32", "NXC"),
        (STRIDED_1X1, "bf16", "NCX"),
        (CURATED["2d_groups_16"], "f32", "NXC"),
        (CURATED["2d_groups_16"], "f16", "NCX"),
    ],
)
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if not name.endswith("backward")])
@pytest.mark.usefixtures("no_wisdom")
def test_every_choice(name: str, geometry: Case, dtype: str, data_format: str) -> None:
    """Wisdom makes a plan take any layout, implementation or formulation."""
    arguments = (name, geometry, dtype, data_format, "onednn")
    problem = Call(*arguments, bias=False).problem
    # On one thread the layouts are the same.
    choices = [
        candidate.choice
        for candidate in candidates(current_engine(), problem)
        if not candidate.choice.threads
    ]
    for choice in choices:
        store.remember(machine_here(), problem.name, Entry(choice.as_dict(), 1.0, 1.0))
        onednn_py.cache_clear()
        call = Call(*arguments, bias=False)
        plan = plan_problem(problem)
        assert onednn_py.cache_info().misses == 1  # the call has the same plan
        assert isinstance(plan, OneDNNPlan)
        assert plan.choice == choice
        call.check()
    expected = {"direct"}
    if geometry is STRIDED_1X1:
        expected |= {"strided_1x1", "matmul"} if computes_products() else {"strided_1x1"}
    if "transpose" in name:
        expected |= {"as_convolution"}
    if name in DATA_GRADIENTS:
        expected |= {"flipped"}
    assert {choice.formulation for choice in choices} == expected


class TestArrays:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("dtype", ["f32", "f16"])
    def test_weights_of_any_strides(self, form: Any, dtype: str, backend: str) -> None:
        for name in ("convolution", "conv_transpose_backward_data"):
            call = Call(name, CURATED["2d_groups_16"], dtype, "NXC", backend)
            expected = call.plan(*call.tensors)
            assert_same_bits(call.with_packed(call.pack(form(call.weights))), expected)
            swapped = call.weights.astype(call.weights.dtype.newbyteorder()).view(np.ndarray)
            assert_same_bits(call.with_packed(call.pack(swapped)), expected)

    def test_other_tensors_and_outputs_of_any_strides(self, backend: str) -> None:
        call = Call("convolution", WIDE, "f32", "NXC", backend)
        expected = call.plan(*call.tensors)
        packed = call.pack()
        assert_same_bits(call.plan(gaps(call.tensors[0]), packed, call.tensors[2]), expected)
        for out in (np.empty_like(expected), gaps(expected), expected.copy()[::-1]):
            assert call.with_packed(packed, out=out) is out
            np.testing.assert_array_equal(out, expected)

    def test_an_output_that_is_an_input(self, backend: str) -> None:
        call = Call("convolution", case(8, 3, pads=1, inputs=4), "f32", "NCX", backend)
        expected = call.plan(*call.tensors)
        src = call.tensors[0].copy()
        call.plan(src, call.pack(), call.tensors[2], out=src)
        np.testing.assert_array_equal(src, expected)

    @pytest.mark.parametrize("dtype", ["f32", "f16"])
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_a_packed_tensor_is_a_copy(self, name: str, dtype: str, backend: str) -> None:
        for data_format in FORMATS:
            call = Call(name, WIDE, dtype, data_format, backend)
            expected = call.plan(*call.tensors)
            weights = call.weights.copy()
            packed = call.pack(weights)
            weights.fill(9)
            assert_same_bits(call.with_packed(packed), expected)

    def test_a_packed_tensor_outlives_the_cache(self, backend: str) -> None:
        call = Call("convolution_backward_data", WIDE, "f32", "NCX", backend)
        expected = call.plan(*call.tensors)
        packed = call.pack()
        onednn_py.cache_clear()
        for _ in range(3):
            Call("convolution", WIDE, "f32", "NCX", backend).check()
        assert_same_bits(call.with_packed(packed), expected)


class TestErrors:
    def test_names(self, backend: str) -> None:
        call = Call("convolution", WIDE, "f32", "NXC", backend)
        for name in ("src", "bias", "filter", "", None, 1):
            with pytest.raises(AttributeValueError, match="pack: expected 'weights'; got"):
                call.plan.pack(name, call.weights)
        backprop = Call("convolution_backprop_data", WIDE, "f32", "NXC", backend)
        with pytest.raises(AttributeValueError, match="pack: expected 'filter'; got 'weights'"):
            backprop.plan.pack("weights", backprop.weights)
        shape = call.weights.shape
        without_weights = onednn_py.plan(
            onednn_py.convolution_backward_weights,
            call.tensors[0],
            np.empty((2, 10, 10, 48), np.float32),
            shape,
            backend=backend,
        )
        with pytest.raises(AttributeValueError, match="the plan takes no weights"):
            without_weights.pack("weights", call.weights)

    def test_tensors(self, backend: str) -> None:
        call = Call("convolution", WIDE, "f32", "NXC", backend)
        for wrong, error, message in (
            (call.weights[..., :3], ShapeError, "weights: planned for shape"),
            (call.weights.astype(np.float16), DTypeError, "planned for f32, got float16"),
            (call.weights.astype(np.int32), DTypeError, "expected dtype float32"),
            (np.ma.masked_array(call.weights), DTypeError, "masked arrays"),
            (TensorSpec(call.weights.shape, np.float32), DTypeError, "a TensorSpec has no data"),
            (call.weights.tolist(), DTypeError, "expected a numpy.ndarray, got list"),
            (call.pack(), DTypeError, "expected a numpy.ndarray, got .*PackedTensor"),
            (None, DTypeError, "expected a numpy.ndarray, got NoneType"),
        ):
            with pytest.raises(error, match=message):
                call.plan.pack("weights", wrong)

    def test_arguments_that_take_no_packed_weights(self, backend: str) -> None:
        call = Call("convolution", WIDE, "f32", "NXC", backend)
        packed = call.pack()
        with pytest.raises(AttributeValueError, match=r"src: PackedTensor\(weights.*another plan"):
            call.plan(packed, call.weights, call.tensors[2])
        with pytest.raises(DTypeError, match="expected a numpy.ndarray, got .*PackedTensor"):
            onednn_py.convolution(call.tensors[0], packed)

    def test_other_plans(self, backend: str) -> None:
        """With weights of the same shape, whose layout may even be the same."""
        square = case((9, 9), 3, pads=1, minibatch=3, inputs=3, outputs=3)
        packed = Call("convolution", square, "f32", "NCX", backend).pack()
        for name, dtype, data_format in (
            ("convolution", "f32", "NXC"),
            ("convolution", "f16", "NCX"),
            ("conv_transpose", "f32", "NCX"),
            ("conv_transpose_backward_data", "f32", "NCX"),
            ("convolution_backprop_data", "f32", "NCX"),
        ):
            other = Call(name, square, dtype, data_format, backend)
            if other.weights.shape == packed.shape:
                with pytest.raises(AttributeValueError, match="packed for another plan"):
                    other.with_packed(packed)
        with pytest.raises(AttributeValueError, match="packed for another plan"):
            Call("convolution", WIDE, "f32", "NCX", backend).with_packed(packed)

    def test_plans_of_the_same_weights(self, backend: str) -> None:
        """Each plan takes the packed weights or refuses their layout."""
        call = Call("convolution", WIDE, "f32", "NCX", backend)
        packed = call.pack()
        for geometry in (
            WIDE,
            case((13, 11), 3, pads=1, inputs=32, outputs=48),
            case((40, 40), 3, 2, minibatch=1, inputs=32, outputs=48),
        ):
            other = Call("convolution", geometry, "f32", "NCX", backend)
            expected = other.plan(other.tensors[0], call.weights, other.tensors[2])
            result = unless_refused(other, packed)
            if result is None:
                assert geometry is not WIDE
            else:
                assert_same_bits(result, expected)

    def test_repr(self, backend: str) -> None:
        packed = Call("convolution_backprop_data", WIDE, "f32", "NXC", backend).pack()
        assert repr(packed) == f"PackedTensor(filter, shape (3, 3, 32, 48), {packed.nbytes} bytes)"


@needs_onednn
class TestOtherState:
    """Threads, wisdom and processes other than those that the weights were packed in."""

    def test_another_number_of_threads(self) -> None:
        for name in FUNCTIONS:
            for data_format in FORMATS:
                call = Call(name, WIDE, "f32", data_format, "onednn")
                expected = call.plan(*call.tensors)
                packed = call.pack()
                with onednn_py.num_threads(1):
                    result = unless_refused(call, packed)
                    if result is None:
                        result = call.with_packed(call.pack())
                    assert_same_bits(result, expected)
                assert_same_bits(call.with_packed(packed), expected)

    @pytest.mark.usefixtures("no_wisdom")
    @pytest.mark.parametrize("name", ["convolution", *DATA_GRADIENTS])
    @pytest.mark.parametrize("geometry", [WIDE, SQUARE])
    def test_wisdom_of_another_layout(self, name: str, geometry: Case) -> None:
        call = Call(name, geometry, "f32", "NCX", "onednn")
        packed, problem = call.pack(), call.problem
        refused = 0
        for candidate in candidates(current_engine(), problem):
            store.forget()  # plans ask wisdom again
            entry = Entry(candidate.choice.as_dict(), 1.0, 1.0)
            store.remember(machine_here(), problem.name, entry)
            expected = call.plan(*call.tensors)
            result = unless_refused(call, packed)
            refused += result is None
            assert result is None or (result == expected).all()
            assert_same_bits(call.with_packed(call.pack()), expected)
        assert refused

    @needs_fork
    def test_a_child_reads_what_its_parent_packed(self) -> None:
        call = Call("convolution", WIDE, "f32", "NCX", "onednn")
        expected = call.plan(*call.tensors)
        packed = call.pack()

        def good() -> bool:
            own = call.with_packed(call.pack())
            return bool((call.with_packed(packed) == expected).all() and (own == expected).all())

        assert exit_code_of_child(good) == 0
        assert_same_bits(call.with_packed(packed), expected)


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_many_threads(dtype: str, backend: str) -> None:
    """Threads use one packed tensor or the array itself, each with a diff_dst of its own."""
    call = Call("convolution_backward_data", WIDE, dtype, "NCX", backend)
    packed = call.pack()
    gradients = [np.roll(call.tensors[0], shift, axis=2) for shift in range(6)]
    expected = [call.plan(diff_dst, call.weights) for diff_dst in gradients]

    def work(number: int) -> None:
        for step in range(30):
            weights = call.weights if step % 5 == 4 else packed
            assert_same_bits(call.plan(gradients[number], weights), expected[number])

    with ThreadPoolExecutor(len(gradients)) as pool:
        for future in [pool.submit(work, number) for number in range(len(gradients))]:
            future.result()
