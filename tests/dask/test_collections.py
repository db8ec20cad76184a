"""Arguments of the functions on dask arrays: checked before anything is computed, settings kept."""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError, DTypeError, ShapeError
from onednn_py.api import FUNCTIONS
from onednn_py.errors import SignatureError
from tests.support.dask_cases import DASK_FUNCTIONS

pytestmark = pytest.mark.frameworks


@pytest.fixture
def da() -> Any:
    return pytest.importorskip("dask.array")


@pytest.fixture
def functions() -> Any:
    return importlib.import_module("onednn_py.dask")


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("a chunk was computed")


def forbidden(
    da: Any, shape: tuple[int, ...], dtype: Any = np.float32, chunks: Any = "auto"
) -> Any:
    """A dask array whose chunks cannot be computed."""
    return da.zeros(shape, dtype=np.float32, chunks=chunks).map_blocks(
        never, dtype=dtype, meta=np.empty((0,) * len(shape), dtype)
    )


WEIGHTS = np.ones((3, 3, 4), np.float32)


@pytest.mark.parametrize("function", DASK_FUNCTIONS)
def test_signatures_are_those_of_the_numpy_functions(functions: Any, function: str) -> None:
    ours = inspect.signature(getattr(functions, function)).parameters
    numpys = inspect.signature(FUNCTIONS[function]).parameters
    own = {"threads_per_block": 1, "split_every": 4}
    assert {name: ours[name].default for name in own} == own
    shared = [name for name in ours if name not in (*own, "unknown")]
    assert shared == [name for name in numpys if name != "out"]
    for name in shared:
        assert ours[name].default == numpys[name].default
        assert ours[name].kind == numpys[name].kind


@pytest.mark.parametrize(
    ("src", "weights", "keywords", "error", "message"),
    [
        (
            {"shape": (2, 9, 5)},
            WEIGHTS,
            {},
            ShapeError,
            r"convolution: weights: expected .*5.*\(3, 3, 4",
        ),
        ({"shape": (2, 9)}, WEIGHTS, {}, ShapeError, "expected tensors of one rank"),
        ({"shape": (2, 1, 3)}, WEIGHTS, {}, ShapeError, "the kernel extends over 3 elements"),
        ({"shape": (2, 9, 3), "dtype": np.int32}, WEIGHTS, {}, DTypeError, "src: expected dtype"),
        (
            {"shape": (2, 9, 3), "dtype": np.float16},
            WEIGHTS,
            {},
            DTypeError,
            "src f16, weights f32",
        ),
        (
            {"shape": (2, 9, 3)},
            WEIGHTS.tolist(),
            {},
            DTypeError,
            "weights: expected a numpy.ndarray",
        ),
        ({"shape": (2, 9, 3)}, None, {}, DTypeError, "weights: expected a numpy.ndarray"),
        ({"shape": (2, 9, 3)}, WEIGHTS, {"strides": 0}, AttributeValueError, "strides"),
        ({"shape": (2, 9, 3)}, WEIGHTS, {"backend": "cuda"}, AttributeValueError, "backend"),
        ({"shape": (2, 9, 3)}, WEIGHTS, {"fpmath_mode": "f8"}, AttributeValueError, "fpmath_mode"),
        (
            {"shape": (2, 9, 3)},
            WEIGHTS,
            {"threads_per_block": 0},
            AttributeValueError,
            "convolution: threads_per_block: expected an integer",
        ),
        ({"shape": (2, 9, 3)}, WEIGHTS, {"split_every": 1}, AttributeValueError, "split_every"),
        ({"shape": (2, 9, 3)}, WEIGHTS, {"split_every": "a"}, AttributeValueError, "split_every"),
        ({"shape": (2, 9, 3)}, WEIGHTS, {"stride": 2}, SignatureError, "strides"),
        ({"shape": (2, 9, 3)}, WEIGHTS, {"out": WEIGHTS}, SignatureError, "out"),
    ],
)
def test_errors_come_before_anything_is_computed(
    da: Any, functions: Any, src: Any, weights: Any, keywords: Any, error: type, message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        functions.convolution(forbidden(da, **src), weights, **keywords)
    assert len(str(raised.value)) <= 600


def test_unknown_chunk_sizes_are_refused(da: Any, functions: Any) -> None:
    whole = da.ones((8, 9, 3), chunks=(2, 9, 3), dtype=np.float32)
    unknown = whole[whole[:, 0, 0] > 0]
    for call in (
        lambda: functions.convolution(unknown, WEIGHTS),
        lambda: functions.convolution_backward_weights(whole, unknown, WEIGHTS.shape),
    ):
        with pytest.raises(ShapeError, match="chunks are unknown; compute_chunk_sizes"):
            call()
    unknown.compute_chunk_sizes()
    assert functions.convolution(unknown, WEIGHTS).shape == (8, 7, 4)


def test_chunks_of_other_types_are_refused(da: Any, functions: Any) -> None:
    masked = da.ma.masked_array(da.ones((2, 9, 3), dtype=np.float32))
    with pytest.raises(DTypeError, match="chunks that are numpy.ndarray, got numpy.ma"):
        functions.convolution(masked, WEIGHTS)
    delayed = importlib.import_module("dask").delayed(WEIGHTS)
    with pytest.raises(DTypeError, match="weights: expected a dask array, got dask.delayed"):
        functions.convolution(forbidden(da, (2, 9, 3)), delayed)
    spec = onednn_py.TensorSpec(WEIGHTS.shape, np.float32)
    with pytest.raises(DTypeError, match="weights: a TensorSpec has no data"):
        functions.convolution(forbidden(da, (2, 9, 3)), spec)


def masked_chunk() -> Any:
    return np.ma.masked_equal(np.ones((1, 4, 2), np.float32), 1)


@pytest.mark.parametrize("chunks", [(1, 4, 2), (1, 2, 2), (1, 4, 1)])
def test_masks_that_no_meta_tells_are_refused(da: Any, functions: Any, chunks: Any) -> None:
    """A chunk may be taken whole, in parts, joined with others, or summed."""
    delayed = importlib.import_module("dask").delayed(masked_chunk)()
    array = da.from_delayed(delayed, (1, 4, 2), np.float32)
    if chunks != array.chunksize:
        plain = da.ones((1, 4, 2), chunks=chunks, dtype=np.float32)
        array = plain.map_blocks(np.ma.masked_equal, 1, dtype=np.float32, meta=plain._meta)
    weights = np.ones((3, 2, 2), np.float32)
    bias = da.from_delayed(
        importlib.import_module("dask").delayed(np.ma.masked_equal)(np.ones(2, "f4"), 1), (2,), "f4"
    )
    summed = da.ones((1, 4, 2), chunks=(1, 4, 1), dtype=np.float32)
    results = [
        functions.convolution(da.ones((1, 4, 2), dtype=np.float32), weights, bias),
        functions.convolution(summed, weights, bias),
        functions.convolution(summed[..., :0], weights[:, :0], bias),
        functions.convolution(array, weights),
        *functions.convolution_backward_weights(
            np.ones((1, 6, 2), np.float32), array, weights.shape, bias=True
        ),
    ]
    for result in results:
        with pytest.raises(DTypeError, match="mask"):
            result.compute(scheduler="synchronous")


def test_dask_arrays_as_attributes_are_refused(da: Any, functions: Any) -> None:
    two = forbidden(da, (2,), np.int64)
    with pytest.raises(AttributeValueError, match="strides: expected no dask array"):
        functions.convolution(forbidden(da, (2, 9, 9, 3)), np.ones((3, 3, 3, 4)), strides=two)
    with pytest.raises(AttributeValueError, match="dst_shape: expected no dask array"):
        functions.convolution_backward_data(forbidden(da, (2, 9, 4)), WEIGHTS, two)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
def test_the_meta_is_known_without_computing(da: Any, functions: Any, dtype: Any) -> None:
    src = forbidden(da, (2, 9, 3), dtype, (1, 4, 3))
    diff_dst = forbidden(da, (2, 7, 4), dtype, (2, 3, 2))
    weights = WEIGHTS.astype(dtype)
    results = [
        functions.convolution(src, weights),
        functions.convolution_backward_data(diff_dst, weights),
        *functions.convolution_backward_weights(src, diff_dst, weights.shape, bias=True),
    ]
    for result in results:
        assert type(result._meta) is np.ndarray
        assert result.dtype == result._meta.dtype == dtype
        assert result._meta.shape == (0,) * result.ndim


def test_settings_are_those_of_the_call(da: Any, functions: Any) -> None:
    src = da.ones((2, 9, 3), chunks=(1, 9, 3), dtype=np.float32)

    def settings(**keywords: Any) -> Any:
        array = functions.convolution(src, WEIGHTS, **keywords)
        call = array.dask.layers[array.name]._tasks.call
        return call.attributes["backend"], call.attributes["fpmath_mode"], call.threads

    assert settings() == (None, None, 1)
    assert settings(backend="NumPy", fpmath_mode="bf16", threads_per_block=3) == (
        "numpy",
        "bf16",
        3,
    )
    with onednn_py.use_backend("numpy"), onednn_py.use_fpmath_mode("tf32"):
        assert settings() == ("numpy", "tf32", 1)
        assert settings(backend="auto", fpmath_mode="strict") == ("auto", "strict", 1)


def test_blocks_run_on_as_many_threads_as_asked(
    da: Any, functions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    convolution = onednn_py.convolution

    def noted(*arguments: Any, **keywords: Any) -> Any:
        found.append(onednn_py.get_num_threads())
        return convolution(*arguments, **keywords)

    monkeypatch.setattr(onednn_py, "convolution", noted)
    src = da.ones((2, 9, 3), chunks=(1, 9, 3), dtype=np.float32)
    before = onednn_py.get_num_threads()
    for threads in (1, 2):
        found.clear()
        result = functions.convolution(src, WEIGHTS, threads_per_block=threads)
        assert (result.compute(scheduler="synchronous") == 9).all()
        assert found == [threads] * 2
    assert onednn_py.get_num_threads() == before


def test_empty_arrays(da: Any, functions: Any) -> None:
    none = da.zeros((0, 9, 3), dtype=np.float32)
    assert functions.convolution(none, WEIGHTS).compute().shape == (0, 7, 4)
    result = functions.convolution_backward_weights(
        none, da.zeros((0, 7, 4), dtype=np.float32), WEIGHTS.shape, bias=True
    )
    for array, shape in zip(result, (WEIGHTS.shape, (4,)), strict=True):
        assert array.shape == shape
        assert (array.compute() == 0).all()
    no_channels = da.zeros((2, 9, 0), dtype=np.float32)
    bias = np.arange(4, dtype=np.float32)
    dst = functions.convolution(no_channels, np.zeros((3, 0, 4), np.float32), bias).compute()
    assert (dst == bias).all()
    assert dst.shape == (2, 7, 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_groups_without_channels(da: Any, functions: Any, dtype: Any) -> None:
    src, weights = np.zeros((1, 4, 0), dtype), np.zeros((3, 0, 4), dtype)
    bias = np.arange(4).astype(dtype)
    chunked = da.from_array(src, chunks=(1, 2, 1))
    for biases in ((), (bias,)):
        expected = onednn_py.convolution(src, weights, *biases, groups=2)
        found = functions.convolution(chunked, weights, *biases, groups=2).compute()
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == dtype
    weights = np.zeros((3, 2, 0), dtype)
    expected = onednn_py.convolution_backward_data(src, weights, groups=2)
    found = functions.convolution_backward_data(chunked, weights, groups=2).compute()
    np.testing.assert_array_equal(found, expected)


def test_arrays_of_other_byte_order_and_of_zero_chunks(da: Any, functions: Any) -> None:
    numbers = np.arange(2 * 12 * 3, dtype=np.float32).reshape(2, 12, 3) % 7
    swapped = da.from_array(numbers.astype(">f4"), chunks=((1, 0, 1), (5, 0, 7), 3))
    expected = onednn_py.convolution(numbers, WEIGHTS)
    actual = functions.convolution(swapped, WEIGHTS).compute()
    assert actual.dtype == np.float32
    assert actual.dtype.isnative
    assert (actual == expected).all()


def test_expressions_of_arrays_are_refused_at_import() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "import onednn_py.dask"],
        env={**os.environ, "DASK_ARRAY__QUERY_PLANNING": "True"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    import dask.array

    knows = hasattr(dask.array, "array_expr_enabled")
    assert ("leave its setting array.query-planning" in done.stderr) == knows, done.stderr


def test_without_dask_the_command_is_named() -> None:
    code = """
import sys
sys.modules["dask"] = None
try:
    import onednn_py.dask
except ImportError as error:
    assert 'pip install --upgrade "onednn_py[dask]"' in str(error), error
else:
    raise AssertionError
import onednn_py.overlap
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
