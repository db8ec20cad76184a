"""Arguments of operators: which tensor is fixed, names in messages, settings, missing SciPy."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import onednn_py
from tests.support.paths import ROOT

pytestmark = pytest.mark.frameworks

SRC, WEIGHTS = np.ones((1, 5, 2), np.float32), np.ones((3, 2, 4), np.float32)
GIVEN = {
    "src_shape": SRC.shape, "weights": WEIGHTS, "src": SRC, "weights_shape": WEIGHTS.shape,
}  # fmt: skip


@pytest.fixture(params=["convolution", "conv_transpose"])
def make(request: pytest.FixtureRequest) -> Any:
    from onednn_py import scipy as operators

    return getattr(operators, f"{request.param}_operator")


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["src_shape"],
        ["weights"],
        ["src_shape", "weights_shape"],
        ["weights", "src"],
        ["src_shape", "weights", "src"],
        ["src_shape", "weights", "weights_shape"],
        ["src_shape", "weights", "src", "weights_shape"],
    ],
)
def test_one_tensor_and_the_shape_of_the_other(make: Any, names: list[str]) -> None:
    with pytest.raises(onednn_py.AttributeValueError, match="expected src_shape and weights") as e:
        make(**{name: GIVEN[name] for name in names})
    assert str(e.value).endswith(f"got {', '.join(names) or 'neither'}")


def call(**changes: Any) -> Any:
    from onednn_py.scipy import convolution_operator

    arguments = {"src_shape": SRC.shape, "weights": WEIGHTS, **changes}
    return convolution_operator(**{k: v for k, v in arguments.items() if v is not None})


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"src_shape": (1, 5, 3)}, "ShapeError", r"weights: expected \(\*kernel, 3, O\)"),
        ({"src_shape": (1, 5, 5, 2)}, "ShapeError", "src_shape 4, weights 3"),
        ({"src_shape": (1, -5, 2)}, "ShapeError", "src_shape: expected non-negative"),
        ({"src_shape": 5}, "AttributeValueError", "src_shape: expected a list of integers"),
        ({"src_shape": (1, 1, 2)}, "ShapeError", "src with its pads has only 1"),
        ({"weights": [1, 2]}, "DTypeError", "weights: expected a numpy.ndarray"),
        ({"weights": WEIGHTS.astype(complex)}, "DTypeError", "weights: "),
        ({"weights": WEIGHTS.astype(int)}, "DTypeError", "weights: "),
        ({"weights": onednn_py.TensorSpec((3, 2, 4), "f4")}, "DTypeError", "which has no data"),
        ({"groups": 3}, "ShapeError", "src_shape has 2 channels"),
        ({"strides": 0}, "AttributeValueError", r"strides: expected an integer from 1"),
        ({"weights_format": "IOX"}, "AttributeValueError", "no format of convolution"),
        ({"output_padding": 1}, "AttributeValueError", "output_padding"),
        ({"padding": 1}, "AttributeValueError", "pads_begin and pads_end"),
        ({"backend": "cuda"}, "AttributeValueError", "cuda"),
    ],
)
def test_messages_name_the_callers_arguments(
    changes: dict[str, Any], error: str, said: str
) -> None:
    with pytest.raises(getattr(onednn_py, error), match=said) as raised:
        call(**changes)
    if "backend" not in changes:
        assert str(raised.value).startswith("convolution_operator")


def test_messages_of_operators_on_weights(make: Any) -> None:
    with pytest.raises(onednn_py.ShapeError, match="_operator: weights_shape: expected"):
        make(src=SRC, weights_shape=(3, 7, 7))


def test_formats_that_fit_are_suggested() -> None:
    with pytest.raises(onednn_py.ShapeError, match="did you mean weights_format='OIX'"):
        call(src_shape=(1, 5, 5, 2), weights=np.ones((4, 2, 3, 3), np.float32))


def test_settings_are_those_of_the_time_when_it_was_made() -> None:
    with onednn_py.use_backend("numpy"):
        operator = call()
    operator @ np.ones(operator.shape[1])
    assert operator._spec.chosen.backend == "numpy"
    assert operator._plans.forward(1)._plan.backend == "numpy"


def test_arrays_of_any_strides_and_byte_order_are_taken() -> None:
    swapped = WEIGHTS.astype(WEIGHTS.dtype.newbyteorder())
    expected = call() @ np.ones(10)
    for weights in (swapped, np.asfortranarray(WEIGHTS), np.repeat(WEIGHTS, 2, 0)[::2]):
        operator = call(weights=weights)
        assert operator.dtype == np.float32
        assert np.array_equal(operator @ np.ones(10), expected)


def test_vectors_with_a_mask_are_refused() -> None:
    operator = call()
    for method in ("matvec", "rmatvec", "matmat", "rmatmat"):
        shape = (operator.shape[0 if method.startswith("r") else 1],)
        vector = np.ma.masked_array(np.ones(shape if "vec" in method else (*shape, 2)))
        with pytest.raises(onednn_py.DTypeError, match=f"{method}: .* without a mask"):
            getattr(operator, method)(vector)
    rows, columns = (np.ma.masked_array(np.ones(size)) for size in operator.shape)
    for product in (
        lambda: operator @ columns,
        lambda: operator.dot(columns),
        lambda: operator.H @ rows,
        lambda: operator.T @ rows,
        lambda: operator.H.matvec(rows),
        lambda: rows @ operator,
        lambda: columns @ operator.H,
    ):
        with pytest.raises(onednn_py.DTypeError, match="without a mask"):
            product()


def test_the_adjoint_of_the_adjoint_is_the_operator() -> None:
    operator = call()
    assert operator.H.H is operator
    assert operator.T.T is operator
    assert operator.H.shape == operator.shape[::-1]
    vector = np.arange(operator.shape[0], dtype=np.float32)
    assert np.array_equal(operator.H @ vector, operator.rmatvec(vector))
    assert np.array_equal(pickle.loads(pickle.dumps(operator.H)) @ vector, operator.H @ vector)
    with pytest.raises(onednn_py.ShapeError, match="expected shape"):
        operator.H @ vector[1:]


def test_missing_scipy_is_named_with_the_command() -> None:
    code = """
import sys
sys.modules["scipy"] = None
sys.modules["scipy.sparse.linalg"] = None
import onednn_py
try:
    import onednn_py.scipy
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT,
        timeout=60,
    )  # fmt: skip
    assert 'pip install "onednn_py[scipy]"' in done.stdout
