"""The linear operator: vectors to tensors and back, all columns of a matrix in one call."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.ma import MaskedArray

from onednn_py import DTypeError, ShapeError
from onednn_py.errors import brief
from onednn_py.problem.foreign import type_name

from ._scipy import LinearOperator, issparse
from .arguments import OperatorSpec
from .columns import join_weights, joined_shapes, split_dst, split_weights
from .plans import OperatorPlans

__all__ = ["ConvolutionOperator"]

Array = npt.NDArray[Any]


class ConvolutionOperator(LinearOperator):  # type: ignore[misc]
    """Convolution, or transposed convolution, as a linear map of src or of weights.

    Made by `convolution_operator` and `conv_transpose_operator`. It may be used from several
    threads at once, pickled and copied.

    Attributes
    ----------
    shape : (int, int)
        Elements of dst, and of the tensor that the operator is applied to.
    dtype : numpy.dtype
        Of the fixed tensor. Vectors are cast to it, and results have it.
    src_shape, weights_shape, dst_shape : tuple of int
        Of the tensors, in the formats that the operator was made with.
    """

    def __init__(self, spec: OperatorSpec) -> None:
        elements = {role: prod(spec.shape(role)) for role in ("dst", spec.of)}
        super().__init__(spec.dtype, (elements["dst"], elements[spec.of]))
        self._spec = spec
        self._plans = OperatorPlans(spec)

    @property
    def src_shape(self) -> tuple[int, ...]:
        return self._spec.shape("src")

    @property
    def weights_shape(self) -> tuple[int, ...]:
        return self._spec.shape("weights")

    @property
    def dst_shape(self) -> tuple[int, ...]:
        return self._spec.shape("dst")

    def __repr__(self) -> str:
        spec = self._spec
        shapes = ", ".join(f"{role} {spec.shape(role)}" for role in ("src", "weights", "dst"))
        rows, columns = self.shape
        return f"<{rows}x{columns} {spec.name} on {spec.of}: {shapes}, {spec.dtype}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # Plans are built again where the operator arrives, with the library found there.
        return type(self), (self._spec,)

    def dot(self, x: Any) -> Any:
        self._refuse_mask("dot", x)  # which SciPy drops
        return super().dot(x)

    def matvec(self, x: Any) -> Any:
        return super().matvec(self._checked("matvec", x, 1))

    def rmatvec(self, x: Any) -> Any:
        return super().rmatvec(self._checked("rmatvec", x, 0))

    def matmat(self, X: Any) -> Any:  # noqa: N803 - SciPy's name
        return super().matmat(self._checked("matmat", X, 1))

    def rmatmat(self, X: Any) -> Any:  # noqa: N803
        return super().rmatmat(self._checked("rmatmat", X, 0))

    def _checked(self, method: str, given: Any, side: int) -> Any:
        """Return the argument of a method as an array of the right shape.

        SciPy's own check says no more than that dimensions differ.
        """
        if issparse(given):
            raise DTypeError(
                f"{self._spec.name}: {method}: expected a dense array, got"
                f" {type_name(given)}; toarray() makes one"
            )
        self._refuse_mask(method, given)
        array, elements = np.asanyarray(given), self.shape[side]
        accepted = [f"({elements}, columns)"]
        fits = array.ndim == 2 and array.shape[0] == elements
        if method.endswith("vec"):
            accepted = [f"({elements},)", f"({elements}, 1)"]
            fits = array.shape in ((elements,), (elements, 1))
        if not fits:
            role = self._spec.of if side else "dst"
            raise ShapeError(
                f"{self._spec.name}: {method}: expected shape {' or '.join(accepted)}, {role} of"
                f" shape {brief(self._spec.shape(role))} as a vector; got {brief(array)}"
            )
        return array

    def _refuse_mask(self, method: str, given: Any) -> None:
        if isinstance(given, MaskedArray):
            raise DTypeError(
                f"{self._spec.name}: {method}: expected an array without a mask; fill it first"
            )

    def __rmul__(self, x: Any) -> Any:
        self._refuse_mask("dot", x)  # of x @ A, which ends here, too
        return super().__rmul__(x)

    def _adjoint(self) -> Any:
        return _Adjoint(self)

    def _transpose(self) -> Any:
        return self.H

    def _matvec(self, x: Any) -> Array:
        result: Array = self._matmat(x.reshape(-1, 1))
        return result[:, 0]

    def _rmatvec(self, x: Any) -> Array:
        result: Array = self._rmatmat(x.reshape(-1, 1))
        return result[:, 0]

    def _matmat(self, X: Any) -> Array:  # noqa: N803
        return self._forward(self._rows(X)).T

    def _rmatmat(self, X: Any) -> Array:  # noqa: N803
        return self._backward(self._rows(X)).T

    def _rows(self, matrix: Any) -> Array:
        """Return the columns of a matrix as rows that follow one another, in the operator's dtype.

        Raises
        ------
        DTypeError
            If the elements are no real numbers.
        """
        array = np.asarray(matrix)
        if not np.can_cast(array.dtype, np.float64, "same_kind"):
            hint = ""
            if array.dtype.kind == "c":
                hint = "; the operator is real: apply it to the real and to the imaginary part"
            raise DTypeError(
                f"{self._spec.name}: expected real numbers, got dtype {array.dtype!s:.60}{hint}"
            )
        return np.ascontiguousarray(array.T, self.dtype)

    def _forward(self, rows: Array) -> Array:
        """Return dst of every row, a tensor of the kind that the operator is applied to."""
        spec, columns = self._spec, len(rows)
        if rows.size == 0:
            return np.zeros((columns, self.shape[0]), self.dtype)
        call = self._plans.forward(columns)
        if spec.of == "src":
            src = rows.reshape(columns * self.src_shape[0], *self.src_shape[1:])
            return call(src).reshape(columns, -1)
        dst = call(join_weights(spec, rows))
        return np.ascontiguousarray(split_dst(spec, dst, columns)).reshape(columns, -1)

    def _backward(self, rows: Array) -> Array:
        """Return the gradient for every row, a diff_dst."""
        spec, columns = self._spec, len(rows)
        if rows.size == 0:
            return np.zeros((columns, self.shape[1]), self.dtype)
        call = self._plans.adjoint(columns)
        if spec.of == "src":
            diff_dst = rows.reshape(columns * self.dst_shape[0], *self.dst_shape[1:])
            return call(diff_dst).reshape(columns, -1)
        _, _, shape = joined_shapes(spec, columns)
        diff_dst = np.empty(shape, self.dtype)
        written = split_dst(spec, diff_dst, columns)
        written[...] = rows.reshape(written.shape)
        return split_weights(spec, call(diff_dst), columns)


class _Adjoint(LinearOperator):  # type: ignore[misc]
    """The adjoint of an operator, with the operator's own checks, which SciPy's adjoint lacks."""

    def __init__(self, of: ConvolutionOperator) -> None:
        super().__init__(of.dtype, of.shape[::-1])
        self._of = of

    def dot(self, x: Any) -> Any:
        self._of._refuse_mask("dot", x)
        return super().dot(x)

    def __rmul__(self, x: Any) -> Any:
        self._of._refuse_mask("dot", x)
        return super().__rmul__(x)

    def matvec(self, x: Any) -> Any:
        return self._of.rmatvec(x)

    def rmatvec(self, x: Any) -> Any:
        return self._of.matvec(x)

    def matmat(self, X: Any) -> Any:  # noqa: N803
        return self._of.rmatmat(X)

    def rmatmat(self, X: Any) -> Any:  # noqa: N803
        return self._of.matmat(X)

    # SciPy's sums and products of operators call these names.
    _matvec, _rmatvec, _matmat, _rmatmat = matvec, rmatvec, matmat, rmatmat

    def _adjoint(self) -> Any:
        return self._of

    _transpose = _adjoint
