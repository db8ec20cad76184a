"""Operators: exact on integers in both directions, column by column and all columns at once."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import onednn_py
from tests.support.cases import CURATED, Case
from tests.support.operator_cases import check_operator, columns_of, dot, operator_of
from tests.support.paths import ROOT
from tests.support.reproduction import reproduction
from tests.support.requirements import HAS_ONEDNN
from tests.support.strategies import geometries

pytestmark = pytest.mark.frameworks

OPERATIONS = ("convolution", "conv_transpose")
OF = ("src", "weights")
BACKENDS = ("onednn", "numpy") if HAS_ONEDNN else ("numpy",)


def curated(name: str, operation: str = "convolution", of: str = "src", **options: Any) -> Any:
    drawn = columns_of(CURATED[name], options.pop("dtype", "f32"), operation, of, 1)
    return operator_of(drawn[0], operation, of, **options)


class TestEveryGeometry:
    @settings(max_examples=60)
    @given(
        geometry=geometries(),
        dtype=st.sampled_from(["f32", "f64", "bf16", "f16"]),
        operation=st.sampled_from(OPERATIONS),
        of=st.sampled_from(OF),
        backend=st.sampled_from(BACKENDS),
        columns=st.integers(1, 4),
        data_format=st.sampled_from(["NXC", "NCX"]),
        weights_first=st.booleans(),
        form=st.sampled_from(["native", "documented"]),
    )
    def test_operators_are_exact_and_their_adjoints_too(
        self, geometry: Case, **options: Any
    ) -> None:
        listed = ", ".join(f"{name}={value!r}" for name, value in options.items())
        note(reproduction(__name__, f"check_operator({geometry}, {listed})"))
        check_operator(geometry, **options)

    @pytest.mark.parametrize("name", CURATED)
    @pytest.mark.parametrize("of", OF)
    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_kinds_of_geometry(self, operation: str, of: str, name: str, backend: str) -> None:
        check_operator(CURATED[name], "f32", operation, of, backend, columns=3)

    @pytest.mark.parametrize("of", OF)
    def test_the_check_finds_another_gradient(
        self, of: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from onednn_py.scipy.operator import ConvolutionOperator

        backward = ConvolutionOperator._backward

        def reversed_columns(self: Any, rows: np.ndarray) -> np.ndarray:
            return backward(self, rows)[::-1]

        monkeypatch.setattr(ConvolutionOperator, "_backward", reversed_columns)
        with pytest.raises(AssertionError):
            check_operator(CURATED["2d"], "f32", "convolution", of, "numpy")


class TestAutoPad:
    @pytest.mark.parametrize("auto_pad", ["valid", "same_upper", "same_lower"])
    @pytest.mark.parametrize("of", OF)
    @pytest.mark.parametrize("operation", OPERATIONS)
    @pytest.mark.parametrize(("kernel", "strides"), [(4, 1), (3, 2), (2, 3)])
    def test_the_operator_is_the_function(
        self, operation: str, of: str, auto_pad: str, kernel: int, strides: int
    ) -> None:
        from onednn_py import scipy as operators

        rng = np.random.default_rng(0)
        src = rng.integers(-3, 4, (2, 7, 8, 3)).astype(np.float32)
        weights = rng.integers(-3, 4, (kernel, kernel, 3, 3)).astype(np.float32)
        attributes: dict[str, Any] = {"strides": strides, "auto_pad": auto_pad}
        make = getattr(operators, f"{operation}_operator")
        if of == "src":
            operator, x = make(src.shape, weights, **attributes), src.ravel()
        else:
            operator, x = make(src=src, weights_shape=weights.shape, **attributes), weights.ravel()
        expected = getattr(onednn_py, operation)(src, weights, **attributes)
        assert operator.dst_shape == expected.shape
        assert np.array_equal(operator @ x, expected.ravel())
        diff_dst = rng.integers(-3, 4, expected.size)
        assert dot(operator @ x, diff_dst) == dot(x, operator.H @ diff_dst)


class TestVectors:
    def test_shapes_and_dtype(self) -> None:
        operator = curated("2d")
        assert operator.shape == (np.prod(operator.dst_shape), np.prod(operator.src_shape))
        assert operator.src_shape == (2, 7, 6, 3)
        assert operator.weights_shape == (3, 3, 3, 4)
        assert operator.dst_shape == (2, 7, 6, 4)
        assert operator.dtype == np.float32
        for part in ("convolution_operator on src", "(3, 3, 3, 4)", "float32"):
            assert part in repr(operator)

    @pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
    @pytest.mark.parametrize("given", [np.int8, np.float64, np.float16, ml_dtypes.bfloat16, bool])
    def test_vectors_are_cast(self, dtype: str, given: Any) -> None:
        operator = curated("1d", dtype=dtype)
        x = np.ones(operator.shape[1])
        result = operator @ x.astype(given)
        assert result.dtype == operator.dtype
        assert np.array_equal(result, operator @ x)

    def test_columns_views_and_matrices_are_taken(self) -> None:
        operator = curated("2d")
        x = np.arange(operator.shape[1], dtype=np.float32) % 5
        expected = operator @ x
        doubled = np.repeat(x, 2)
        assert np.array_equal(operator @ doubled[::2], expected)
        assert np.array_equal(operator @ x[:, None], expected[:, None])
        both = np.asfortranarray(np.stack([x, 2 * x], 1))
        assert np.array_equal(operator @ both, np.stack([expected, 2 * expected], 1))
        with pytest.warns(PendingDeprecationWarning):
            matrix = np.asmatrix(x).T
        assert isinstance(operator.matvec(matrix), np.matrix)
        assert np.array_equal(operator.matvec(matrix), expected[:, None])

    @pytest.mark.parametrize("of", OF)
    def test_no_columns(self, of: str) -> None:
        operator = curated("2d", of=of)
        assert (operator @ np.empty((operator.shape[1], 0))).shape == (operator.shape[0], 0)
        assert operator.rmatmat(np.empty((operator.shape[0], 0))).shape == (operator.shape[1], 0)

    def test_an_empty_minibatch(self) -> None:
        from onednn_py.scipy import convolution_operator

        operator = convolution_operator((0, 5, 1), np.ones((2, 1, 1)))
        assert operator.shape == (0, 0)
        assert (operator @ np.empty(0)).shape == (0,)
        operator = convolution_operator(src=np.ones((0, 5, 1)), weights_shape=(2, 1, 1))
        assert (operator.H @ np.empty(0)).tolist() == [0, 0]

    def test_expressions(self) -> None:
        operator = curated("2d", dtype="bf16")
        x = np.ones(operator.shape[0])
        assert np.array_equal(operator.T @ x, operator.H @ x)
        assert np.array_equal((operator.H @ operator) @ np.ones(operator.shape[1]),
                              operator.H @ (operator @ np.ones(operator.shape[1])))  # fmt: skip
        assert np.array_equal((2.0 * operator).H @ x, 2 * (operator.H @ x))

    def test_sparse_matrices_are_refused(self) -> None:
        operator = curated("1d")
        sparse = pytest.importorskip("scipy.sparse").csr_array(np.eye(operator.shape[1]))
        for call in (operator.matmat, operator.matvec, operator.__matmul__):
            with pytest.raises(
                onednn_py.DTypeError, match="a dense array, got .*csr_array; toarray"
            ):
                call(sparse)

    @pytest.mark.parametrize("method", ["matvec", "rmatvec", "matmat", "rmatmat"])
    def test_other_shapes_are_refused(self, method: str) -> None:
        operator = curated("1d")
        rows = operator.shape[method in ("matvec", "matmat")]
        role = "dst" if method.startswith("r") else "src"
        for shape in ((rows + 1,), (rows + 1, 2), (1, rows), (rows, 1, 1), ()):
            with pytest.raises(onednn_py.ShapeError, match=rf"{method}: .*\({rows}.*{role} of"):
                getattr(operator, method)(np.ones(shape))

    @pytest.mark.parametrize(
        ("given", "said"),
        [(1j, "imaginary part"), ("1", "real numbers"), (None, "real numbers")],
    )
    def test_other_numbers_are_refused(self, given: Any, said: str) -> None:
        operator = curated("1d")
        for method, elements in (("matvec", operator.shape[1]), ("rmatmat", operator.shape[0])):
            x = np.full((elements, 1), given)
            with pytest.raises(onednn_py.DTypeError, match=said):
                getattr(operator, method)(x)


class TestCopies:
    @pytest.mark.parametrize("dtype", ["f32", "bf16"])
    @pytest.mark.parametrize("of", OF)
    def test_pickles_and_copies_compute_the_same(self, of: str, dtype: str) -> None:
        operator = curated("2d_groups", "conv_transpose", of, dtype=dtype)
        given = np.arange(2 * operator.shape[1]).reshape(-1, 2) % 3
        expected = operator @ given
        for other in (pickle.loads(pickle.dumps(operator)), copy.deepcopy(operator)):
            assert np.array_equal(other @ given, expected)
            assert repr(other) == repr(operator)

    def test_pickles_cross_processes(self) -> None:
        operator = curated("2d")
        code = """
import pickle, sys
import numpy as np
operator = pickle.loads(sys.stdin.buffer.read())
sys.stdout.buffer.write((operator @ np.ones(operator.shape[1])).tobytes())
"""
        done = subprocess.run(
            [sys.executable, "-c", code], input=pickle.dumps(operator), cwd=ROOT,
            capture_output=True, check=True, timeout=60,
        )  # fmt: skip
        expected = operator @ np.ones(operator.shape[1])
        assert np.array_equal(np.frombuffer(done.stdout, np.float32), expected)

    def test_sixteen_threads(self) -> None:
        operators = [curated("2d_groups", "convolution", of) for of in OF]
        rng = np.random.default_rng(0)
        work = []
        for number in range(160):
            operator = operators[number % 2]
            given = rng.integers(-3, 4, (operator.shape[1], number % 5 + 1)).astype(np.float32)
            work.append((operator, given, operator @ given))

        def run(item: tuple[Any, np.ndarray, np.ndarray]) -> bool:
            operator, given, expected = item
            threads = given.shape[1] % 2 + 1
            with onednn_py.num_threads(threads):
                forward = np.array_equal(operator @ given, expected)
            return forward and dot(operator.rmatmat(expected), given) == dot(expected, expected)

        with ThreadPoolExecutor(16) as pool:
            assert all(pool.map(run, work))

    def test_the_fixed_tensor_is_a_copy(self) -> None:
        from onednn_py.scipy import convolution_operator

        weights = np.ones((3, 1, 1), np.float32)
        operator = convolution_operator((1, 5, 1), weights)
        weights[...] = 0
        assert (operator @ np.ones(5)).tolist() == [3, 3, 3]
        src = np.ones((1, 5, 1), np.float32)
        operator = convolution_operator(src=src, weights_shape=(3, 1, 1))
        src[...] = 0
        assert (operator @ np.ones(3)).tolist() == [3, 3, 3]
