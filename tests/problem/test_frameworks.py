"""Tensors of PyTorch and arrays of JAX: read where they lie, written as out, or refused."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError, DTypeError
from onednn_py.dispatch import bound_call
from onednn_py.problem.foreign import as_array
from tests.support.call_cases import BIAS, CALLS, DST, SRC, WEIGHTS, arrays_of

pytestmark = pytest.mark.frameworks


@pytest.fixture(scope="module")
def torch() -> Any:
    return importlib.import_module("torch")


@pytest.fixture(scope="module")
def jax() -> Any:
    return importlib.import_module("jax")


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Addresses of the tensors that plans are executed on."""
    found: list[int] = []
    run = bound_call.BoundCall.run

    def noted_run(self: Any, plan: Any, pick: Any, tensors: Any) -> None:
        found.extend(tensor.ctypes.data for tensor in tensors)
        run(self, plan, pick, tensors)

    monkeypatch.setattr(bound_call.BoundCall, "run", noted_run)
    return found


class TestPyTorch:
    @pytest.mark.parametrize("case", CALLS)
    def test_results_are_those_of_arrays(
        self, case: str, backend: str, torch: Any, addresses: list[int]
    ) -> None:
        function, tensors, attributes = CALLS[case]
        given = [torch.from_numpy(tensor.copy()) for tensor in tensors]
        pointers = {tensor.data_ptr() for tensor in given}
        planned = onednn_py.plan(function, *given, **attributes, backend=backend)
        expected = arrays_of(function(*tensors, **attributes, backend=backend))
        function(*given, **attributes, backend=backend)
        for call in (
            lambda: function(*given, **attributes, backend=backend),
            lambda: planned(*given),
        ):
            addresses.clear()
            for found, right in zip(arrays_of(call()), expected, strict=True):
                assert type(found) is np.ndarray
                np.testing.assert_array_equal(found, right)
            assert pointers <= set(addresses)

    @pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16"])
    def test_every_type_lies_where_it_was(self, name: str, torch: Any) -> None:
        dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
        for shape in ((2, 3, 4, 4), (0, 3), ()):
            tensor = torch.ones(shape, dtype=getattr(torch, name))
            turned = tensor.permute(tuple(range(tensor.ndim))[::-1])
            for view in (tensor, turned, tensor[..., ::2] if shape else tensor):
                taken = as_array("here", view)
                assert taken.dtype == dtype
                assert taken.shape == tuple(view.shape)
                if taken.size:
                    assert taken.ctypes.data == view.data_ptr()
                    assert taken.strides == tuple(s * dtype.itemsize for s in view.stride())
                    view.mul_(3)
                    assert (taken == 3).all()
                    view.div_(3)

    @pytest.mark.parametrize("name", ["float16", "bfloat16"])
    def test_calls_of_small_types(self, name: str, backend: str, torch: Any) -> None:
        dtype = getattr(ml_dtypes, name, None) or np.float16
        expected = onednn_py.convolution(SRC.astype(dtype), WEIGHTS.astype(dtype), backend=backend)
        src, weights = (torch.from_numpy(x).to(getattr(torch, name)) for x in (SRC, WEIGHTS))
        found = onednn_py.convolution(src, weights, backend=backend)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)

    def test_channels_last_memory(self, backend: str, torch: Any, addresses: list[int]) -> None:
        src = torch.from_numpy(SRC).permute(0, 3, 1, 2)
        weights = torch.from_numpy(WEIGHTS).permute(3, 2, 0, 1)
        assert src.is_contiguous(memory_format=torch.channels_last)
        for _ in range(2):
            addresses.clear()
            found = onednn_py.convolution(
                src, weights, data_format="NCHW", weights_format="OIHW", backend=backend
            )
        expected = onednn_py.convolution(SRC, WEIGHTS, backend=backend)
        np.testing.assert_array_equal(found, np.moveaxis(expected, -1, 1))
        assert {src.data_ptr(), weights.data_ptr()} <= set(addresses)

    @pytest.mark.parametrize("case", CALLS)
    def test_out_is_written_and_returned(self, case: str, backend: str, torch: Any) -> None:
        function, tensors, attributes = CALLS[case]
        expected = arrays_of(function(*tensors, **attributes, backend=backend))
        planned = onednn_py.plan(function, *tensors, **attributes, backend=backend)
        calls: list[Callable[[Any], Any]] = [
            lambda out: function(*tensors, **attributes, backend=backend, out=out),
            lambda out: planned(*tensors, out=out),
        ]
        for call in calls:
            outs = [torch.full(one.shape, 9.0) for one in expected]
            whole = outs[0] if len(outs) == 1 else tuple(outs)
            returned = call((*outs, None) if case == "convolution_backward" else whole)
            for found, given, right in zip(arrays_of(returned), outs, expected, strict=True):
                assert found is given
                np.testing.assert_array_equal(given.numpy(), right)
            if isinstance(returned, onednn_py.Gradients):
                assert "torch.float32, shape (" in repr(returned)

    def test_out_in_bfloat16_with_strides(self, backend: str, torch: Any) -> None:
        src, weights = (torch.from_numpy(x).bfloat16() for x in (SRC, WEIGHTS))
        room = torch.full((2, 8, 5, 4), 7.0, dtype=torch.bfloat16)
        out = room[:, ::2]
        assert onednn_py.convolution(src, weights, out=out, backend=backend) is out
        expected = onednn_py.convolution(SRC, WEIGHTS).astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(out.float().numpy(), expected.astype(np.float32))
        assert (room[:, 1::2] == 7).all()

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (
                lambda t, x: x.requires_grad_(),
                r"requires grad.*onednn_py\.torch\.enable\(\).*\.detach\(\)",
            ),
            (
                lambda t, x: t.nn.Parameter(x),
                r"requires grad.*onednn_py\.torch\.enable\(\).*\.detach\(\)",
            ),
            (lambda t, x: x.requires_grad_() * 2, "requires grad"),
            (lambda t, x: x.to("meta"), "on the device meta: it has no elements"),
            (lambda t, x: x.to_sparse(), r"of layout torch\.sparse_coo"),
            (lambda t, x: x.to_mkldnn(), r"of layout torch\._mkldnn"),
            (lambda t, x: t.nested.nested_tensor([x[0], x[1]]), "is nested"),
            (lambda t, x: t.quantize_per_tensor(x, 0.1, 0, t.quint8), "is quantized"),
            (lambda t, x: t.complex(x, x).conj().imag, r"negative.*\.resolve_neg\(\)"),
            (lambda t, x: t.complex(x, x).conj(), r"conjugate.*\.resolve_conj\(\)"),
            (lambda t, x: t.complex(x, x), "expected dtype float32.*got complex64"),
            (lambda t, x: x.int(), "expected dtype float32.*got int32"),
            (lambda t, x: x.to(t.float8_e4m3fn), "does not give its elements.*Float8"),
        ],
    )
    @pytest.mark.filterwarnings("ignore")
    def test_refused(self, make: Any, message: str, torch: Any) -> None:
        tensor, weights = make(torch, torch.from_numpy(SRC.copy())), torch.from_numpy(WEIGHTS)
        with pytest.raises(DTypeError, match=message) as caught:
            onednn_py.convolution(tensor, weights)
        assert str(caught.value).startswith("convolution: src: ")
        assert len(str(caught.value)) <= 600
        with pytest.raises(DTypeError, match=message):
            onednn_py.plan("convolution", tensor, weights)
        with pytest.raises(DTypeError, match=message):
            onednn_py.plan("convolution", SRC, WEIGHTS)(tensor, weights)

    def test_fake_and_traced_tensors_are_refused(self, torch: Any) -> None:
        weights = torch.from_numpy(WEIGHTS)
        subclasses = importlib.import_module("torch._subclasses")
        with subclasses.FakeTensorMode():
            fake = torch.ones(SRC.shape)
        with pytest.raises(DTypeError, match="FakeTensor does not give its elements"):
            onednn_py.convolution(fake, weights)

        def traced(src: Any) -> Any:
            with pytest.raises(DTypeError, match="does not give its elements|requires grad"):
                onednn_py.convolution(src, weights)
            return src.sum()

        torch.vmap(traced)(torch.ones(2, *SRC.shape))
        torch.func.grad(traced)(torch.ones(SRC.shape))

    def test_out_that_is_refused(self, torch: Any) -> None:
        with pytest.raises(DTypeError, match=r"out \(dst\): .*requires grad"):
            onednn_py.convolution(SRC, WEIGHTS, out=torch.empty(DST.shape).requires_grad_())
        with pytest.raises(AttributeValueError, match="overlap"):
            onednn_py.convolution(SRC, WEIGHTS, out=torch.zeros(1).expand(DST.shape))

    def test_nothing_is_detached(self, torch: Any) -> None:
        src = torch.from_numpy(SRC.copy()).requires_grad_()
        with torch.no_grad(), pytest.raises(DTypeError, match="requires grad"):
            onednn_py.convolution(src, WEIGHTS)
        np.testing.assert_array_equal(
            onednn_py.convolution(src.detach(), WEIGHTS), onednn_py.convolution(SRC, WEIGHTS)
        )

    @pytest.mark.filterwarnings("ignore")
    def test_no_tangent_is_lost(self, torch: Any) -> None:
        forward_ad, src = torch.autograd.forward_ad, torch.from_numpy(SRC.copy())
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(src, torch.ones_like(src))
            with pytest.raises(DTypeError, match="src: .*has a tangent.*unpack_dual"):
                onednn_py.convolution(dual, WEIGHTS)
            primal = forward_ad.unpack_dual(dual).primal
            np.testing.assert_array_equal(
                onednn_py.convolution(primal, WEIGHTS), onednn_py.convolution(SRC, WEIGHTS)
            )

    def test_shapes_steps_and_packing(self, torch: Any) -> None:
        weights, shape = torch.from_numpy(WEIGHTS), torch.tensor(WEIGHTS.shape)
        found = onednn_py.convolution_backward_weights(
            SRC, DST, shape, strides=torch.tensor([1, 1])
        )
        expected = onednn_py.convolution_backward_weights(SRC, DST, WEIGHTS.shape)
        np.testing.assert_array_equal(found, expected)
        for given in (weights.shape, shape.int()):
            found = onednn_py.convolution_backward_weights(SRC, DST, given)
            np.testing.assert_array_equal(found, expected)
        planned = onednn_py.plan("convolution", torch.from_numpy(SRC), weights)
        packed = planned.pack("weights", weights)
        np.testing.assert_array_equal(planned(SRC, packed), planned(SRC, WEIGHTS))
        with pytest.raises(AttributeValueError, match="weights_shape: .*float32"):
            onednn_py.convolution_backward_weights(SRC, DST, shape.float())


class TestJax:
    @pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
    def test_arrays_lie_where_they_were(self, name: str, jax: Any) -> None:
        array = jax.numpy.ones((2, 3, 4), name)
        taken = as_array("here", array)
        assert taken.dtype == np.dtype(getattr(ml_dtypes, name, None) or name)
        assert taken.ctypes.data == array.unsafe_buffer_pointer()
        assert not taken.flags.writeable

    @pytest.mark.parametrize("case", CALLS)
    def test_results_are_those_of_arrays(
        self, case: str, backend: str, jax: Any, addresses: list[int]
    ) -> None:
        function, tensors, attributes = CALLS[case]
        given = [jax.numpy.asarray(tensor) for tensor in tensors]
        pointers = {array.unsafe_buffer_pointer() for array in given}
        expected = arrays_of(function(*tensors, **attributes, backend=backend))
        planned = onednn_py.plan(function, *given, **attributes, backend=backend)
        function(*given, **attributes, backend=backend)
        addresses.clear()
        found = arrays_of(function(*given, **attributes, backend=backend))
        assert pointers <= set(addresses)
        for some in (found, arrays_of(planned(*given))):
            for one, right in zip(some, expected, strict=True):
                assert type(one) is np.ndarray
                np.testing.assert_array_equal(one, right)

    def test_bfloat16(self, backend: str, jax: Any) -> None:
        src, weights, bias = (
            jax.numpy.asarray(x, jax.numpy.bfloat16) for x in (SRC, WEIGHTS, BIAS)
        )
        expected = onednn_py.convolution(*map(np.asarray, (src, weights, bias)), backend=backend)
        found = onednn_py.convolution(src, weights, bias, backend=backend)
        np.testing.assert_array_equal(found, expected)

    def test_out_is_read_only(self, jax: Any) -> None:
        with pytest.raises(AttributeValueError, match=r"out \(dst\): the array is read-only"):
            onednn_py.convolution(SRC, WEIGHTS, out=jax.numpy.zeros(DST.shape))

    def test_traced_and_deleted_arrays_are_refused(self, jax: Any) -> None:
        def traced(src: Any) -> Any:
            with pytest.raises(
                DTypeError, match="does not give its elements: .*__array__"
            ) as caught:
                onednn_py.convolution(src, WEIGHTS)
            assert len(str(caught.value)) <= 600
            return src

        src = jax.jit(traced)(SRC)
        src.delete()
        with pytest.raises(DTypeError, match="deleted"):
            onednn_py.convolution(src, WEIGHTS)
