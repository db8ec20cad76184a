"""Operators of `onednn_py.scipy` on the geometries of `Case`, compared with the float64 oracle."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.cases import Case, Tensors
from tests.support.reference import assert_exact, to_format, transposed_weights

__all__ = ["check_operator", "columns_of", "operator_of"]

# Roles of src, dst in the case by the forward operation: a transposed one reads it backwards.
_ROLES = {"convolution": ("src", "dst"), "conv_transpose": ("dst", "src")}


def columns_of(case: Case, dtype: str, operation: str, of: str, columns: int) -> list[Tensors]:
    """Tensors of so many columns, which share the fixed tensor."""
    fixed = "weights" if of == "src" else _ROLES[operation][0]
    drawn = [case.integers(dtype, seed) for seed in range(columns)]
    shared = {fixed: drawn[0].arrays[fixed]}
    return [Tensors(case, dtype, {**one.arrays, **shared}, one.bias) for one in drawn]


def operator_of(
    tensors: Tensors,
    operation: str,
    of: str,
    *,
    backend: str | None = None,
    data_format: str = "NXC",
    weights_first: bool = False,
    form: str = "native",
) -> Any:
    from onednn_py import scipy as operators

    (src, weights, _), keywords = tensors.arguments(operation, data_format, weights_first, form)
    make = getattr(operators, f"{operation}_operator")
    if of == "src":
        return make(src.shape, weights, **keywords, backend=backend)
    return make(src=src, weights_shape=weights.shape, **keywords, backend=backend)


def check_operator(
    case: Case,
    dtype: str,
    operation: str,
    of: str,
    backend: str,
    columns: int = 2,
    data_format: str = "NXC",
    weights_first: bool = False,
    form: str = "native",
) -> None:
    """Apply an operator and its adjoint to columns and to vectors: exact, and adjoint."""
    drawn = columns_of(case, dtype, operation, of, columns)
    formats: dict[str, Any] = {
        "data_format": data_format, "weights_first": weights_first, "form": form,
    }  # fmt: skip
    operator = operator_of(drawn[0], operation, of, backend=backend, **formats)
    into, out_of = _ROLES[operation][::-1]
    weights_format = Tensors.weights_format(operation, weights_first)

    def matrix(arrays: list[np.ndarray], format_: str) -> np.ndarray:
        return np.stack([to_format(array, format_).ravel() for array in arrays], axis=1)

    def variable(arrays: list[np.ndarray]) -> np.ndarray:
        """Src, or weights, of every column."""
        if of == "src":
            return matrix(arrays, data_format)
        if operation == "conv_transpose":
            arrays = [transposed_weights(array, case.groups, form) for array in arrays]
        return matrix(arrays, weights_format)

    role = out_of if of == "src" else "weights"
    given = variable([one.arrays[role] for one in drawn])
    diff_dst = matrix([one.arrays[into] for one in drawn], data_format)
    forward, gradient = operator @ given, operator.rmatmat(diff_dst)
    assert_exact(forward, matrix([one.expected(into) for one in drawn], data_format), dtype)
    assert_exact(gradient, variable([one.expected(role) for one in drawn]), dtype)
    assert_exact(operator @ given[:, 0], forward[:, 0].astype(np.float64), dtype)
    assert_exact(operator.H @ diff_dst[:, 0], gradient[:, 0].astype(np.float64), dtype)
    if dtype in ("f32", "f64"):  # sums are not rounded there
        assert dot(forward, diff_dst) == dot(given, gradient)


def dot(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.vdot(first.astype(np.float64), second.astype(np.float64)))
