"""The plans of an operator: the forward operation and its gradient, for so many columns at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy.typing as npt

from onednn_py import AttributeValueError, Plan, TensorSpec, plan

from .arguments import OperatorSpec
from .columns import joined_shapes

__all__ = ["OperatorPlans"]

Array = npt.NDArray[Any]

# How many numbers of columns plans are kept for. Solvers use a single one, methods with blocks of
# vectors a few.
MOST_PLANS = 4

# From how many bytes on weights are packed. A call with packed weights takes some 30 microseconds
# more besides the primitive, which is what reordering half a megabyte takes. 1x1 kernels are mostly
# computed as products of matrices, which read weights as they are.
PACKED_FROM = 1 << 20


class OperatorPlans:
    """Plans of an operator by direction and number of columns, built when they are first used.

    They hold no reference to the operator, so that it is freed with its last name.
    """

    def __init__(self, spec: OperatorSpec) -> None:
        # Bounded and thread-safe; two threads that miss at once build equal plans.
        self.forward = lru_cache(MOST_PLANS)(partial(_forward, spec))
        self.adjoint = lru_cache(MOST_PLANS)(partial(_adjoint, spec))


class _Shapes(NamedTuple):
    """Shapes and weights format of a call that computes several columns."""

    src: tuple[int, ...]
    weights: tuple[int, ...]
    dst: tuple[int, ...]
    weights_format: str


def _shapes(spec: OperatorSpec, columns: int) -> _Shapes:
    src, weights, dst = (spec.shape(role) for role in ("src", "weights", "dst"))
    if spec.of == "weights":
        joined, weights_format, joined_dst = joined_shapes(spec, columns)
        return _Shapes(src, joined, joined_dst, weights_format)
    # The columns are images of one minibatch.
    src, dst = (columns * src[0], *src[1:]), (columns * dst[0], *dst[1:])
    return _Shapes(src, weights, dst, spec.attributes["weights_format"])


def _planned(
    spec: OperatorSpec, shapes: _Shapes, function: str, *tensors: TensorSpec, **keywords: Any
) -> Plan[Array]:
    attributes = {**spec.attributes, "weights_format": shapes.weights_format}
    return plan(function, *tensors, **attributes, **spec.chosen._asdict(), **keywords)


def _forward(spec: OperatorSpec, columns: int) -> Callable[[Array], Array]:
    shapes = _shapes(spec, columns)
    tensors = [TensorSpec(shape, spec.dtype) for shape in (shapes.src, shapes.weights)]
    made = _planned(spec, shapes, spec.operation, *tensors)
    if spec.of == "src":
        return _FixedWeights(made, spec)
    return partial(made, spec.fixed)


def _adjoint(spec: OperatorSpec, columns: int) -> Callable[[Array], Array]:
    shapes = _shapes(spec, columns)
    src, weights, dst = (
        TensorSpec(shape, spec.dtype) for shape in (shapes.src, shapes.weights, shapes.dst)
    )
    if spec.of == "weights":
        function = f"{spec.operation}_backward_weights"
        made = _planned(spec, shapes, function, src, dst, weights_shape=shapes.weights)
        return partial(made, spec.fixed)
    given = {} if spec.is_transposed else {"dst_shape": shapes.src}
    function = f"{spec.operation}_backward_data"
    made = _planned(spec, shapes, function, dst, weights, **given)
    return _FixedWeights(made, spec)


class _FixedWeights:
    """A plan with its weights, packed where they are large."""

    def __init__(self, plan: Plan[Array], spec: OperatorSpec) -> None:
        self._plan = plan
        self._weights = spec.fixed
        kernel = spec.views["weights"].canonical_shape[3:]
        self._is_packed = (
            self._weights.nbytes >= PACKED_FROM and prod(kernel) > 1 and plan.backend != "numpy"
        )
        self._given: Any = self._pack() if self._is_packed else self._weights

    def _pack(self) -> Any:
        return self._plan.pack("weights", self._weights)

    def __call__(self, tensor: Array) -> Array:
        if not self._is_packed:
            return self._plan(tensor, self._weights)
        try:
            return self._plan(tensor, self._given)
        except AttributeValueError:
            # For another number of threads, and in a forked child, the plan was built again, and
            # may read weights of another layout.
            self._given = self._pack()
            return self._plan(tensor, self._weights)
