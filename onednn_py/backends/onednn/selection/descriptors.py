"""Primitive descriptors of problems: the only module that knows how oneDNN writes a problem.

oneDNN writes "no dilation" as 0, and keeps weights without a group axis where there are no groups.
No convolution reads the forward descriptor that backward ones may have as a hint (v3.0 to v3.13;
oneDNN's own benchdnn gives none), and making it takes as long as making theirs. Its matmul wants
matrices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from onednn_py.backends.onednn.binding.engine import Engine, Handle
from onednn_py.errors import OneDNNError
from onednn_py.problem.problem import Direction, Problem, TensorLayout

from .chunks import Addend
from .defects import forbidden
from .im2col import PatchProduct
from .matmul import Product

__all__ = [
    "bias_desc",
    "execution_arguments",
    "implementations",
    "ones_addition_desc",
    "ones_product_desc",
    "queries",
    "user_desc",
]

# The matmul that sums in the same order on any number of threads.
_GEMM = re.compile("^gemm")

# For each direction: the execution argument and the query of each role.
_EXECUTION_ARGUMENTS = {
    Direction.FORWARD: {"src": "SRC", "weights": "WEIGHTS", "dst": "DST", "bias": "BIAS"},
    Direction.BACKWARD_DATA: {"src": "DIFF_SRC", "weights": "WEIGHTS", "dst": "DIFF_DST"},
    Direction.BACKWARD_WEIGHTS: {
        "src": "SRC",
        "weights": "DIFF_WEIGHTS",
        "dst": "DIFF_DST",
        "bias": "DIFF_BIAS",
    },
}
_QUERIES = {
    Direction.FORWARD: {"src": "src", "weights": "weights", "dst": "dst"},
    Direction.BACKWARD_DATA: {"src": "diff_src", "weights": "weights", "dst": "diff_dst"},
    Direction.BACKWARD_WEIGHTS: {
        "src": "src",
        "weights": "diff_weights",
        "dst": "diff_dst",
    },
}


def execution_arguments(problem: Problem) -> Mapping[str, str]:
    """Return the name of each role's execution argument, a bias included."""
    if isinstance(problem, Product):
        first, second = problem.factors
        return {first: "SRC", second: "WEIGHTS", problem.result_role: "DST", "bias": "BIAS"}
    return _EXECUTION_ARGUMENTS[problem.direction]


def queries(problem: Problem) -> Mapping[str, str]:
    """Return the name of each role's query for the memory descriptor that a primitive takes."""
    if isinstance(problem, Product):
        first, second = problem.factors
        return {first: "src", second: "weights", problem.result_role: "dst"}
    return _QUERIES[problem.direction]


def _weights_axes(problem: Problem, numbers: tuple[int, ...]) -> tuple[int, ...]:
    return numbers if problem.groups > 1 else numbers[1:]


def _numbers(problem: Problem, role: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of a tensor, as oneDNN counts its axes."""
    if isinstance(problem, Product):
        matrix = problem.matrix(role)
        return matrix.shape, matrix.strides
    layout: TensorLayout = getattr(problem, role)
    if role == "weights":
        return _weights_axes(problem, layout.shape), _weights_axes(problem, layout.strides)
    return layout.shape, layout.strides


def user_desc(engine: Engine, problem: Problem, role: str, dtype: str = "") -> Handle:
    """Return the memory descriptor of a tensor by its strides, in the problem's type or another."""
    shape, strides = _numbers(problem, role)
    return engine.strided_desc(shape, dtype or problem.dtype, strides)


def bias_desc(engine: Engine, problem: Problem, dtype: str = "") -> Handle | None:
    """Return the memory descriptor of the bias that a primitive takes, None if it has none."""
    if problem.bias is None:
        return None
    # Implementations take a dense bias only, whatever the strides of the caller's.
    return user_desc(engine, _with_dense(problem, "bias"), "bias", dtype)


def implementations(
    engine: Engine,
    problem: Problem,
    activations: str = "any",
    weights: str = "any",
    result_dtype: str = "",
) -> Iterator[tuple[Handle, str]]:
    """Yield a primitive descriptor at each implementation that may run, best first.

    The descriptor is one object that moves on to the next implementation with the iteration.

    Parameters
    ----------
    engine : Engine
    problem : Problem
    activations, weights : str
        Memory layouts, as in `Choice`.
    result_dtype : str, optional
        Data type of the result, and of the bias gradient beside it, where it is not the problem's.

    Raises
    ------
    OneDNNError
        With status ``unimplemented`` if there is none at all.
    """
    if isinstance(problem, Product) and activations != "given":
        return
    given = problem
    if isinstance(problem, PatchProduct):
        given = problem.flat or problem
    elif activations == "nxc":
        src, dst = (layout.with_channels("nxc") for layout in (problem.src, problem.dst))
        given = replace(given, src=src, dst=dst)
    elif activations != "given":
        given = _with_dense(given, "src", "dst")
    if weights != "given":
        given = _with_dense(given, "weights")
    if isinstance(problem, Product):
        descriptor = _product_desc(engine, problem, weights, result_dtype)
    else:
        descriptor = _primitive_desc(engine, problem, activations, weights, result_dtype)
    while True:
        name = engine.implementation(descriptor)
        if forbidden(name, given, engine.library.version) is None:
            yield descriptor, name
        if not engine.next_implementation(descriptor):
            break


def _with_dense(problem: Problem, *roles: str) -> Problem:
    dense: dict[str, Any] = {role: problem.layouts[role].dense() for role in roles}
    is_dense = all(problem.layouts[role] == layout for role, layout in dense.items())
    return problem if is_dense else replace(problem, **dense)


def _desc(engine: Engine, problem: Problem, role: str, layout: str, dtype: str = "") -> Handle:
    if layout == "any":
        return engine.any_desc(_numbers(problem, role)[0], dtype or problem.dtype)
    if layout == "given":
        return user_desc(engine, problem, role, dtype)
    tensor: TensorLayout = getattr(problem, role)
    strides = tensor.with_channels(layout).strides
    return engine.strided_desc(tensor.shape, dtype or problem.dtype, strides)


def _product_desc(engine: Engine, product: Product, weights: str, result_dtype: str) -> Handle:
    """Return the primitive descriptor of a matmul, on activations in the caller's layouts."""
    layouts = {"src": "given", "weights": weights, "dst": "given"}
    dtypes = {product.result_role: result_dtype}
    *factors, result = (
        _desc(engine, product, role, layouts[role], dtypes.get(role, ""))
        for role in (*product.factors, product.result_role)
    )
    return engine.matmul_desc(
        factors,
        bias_desc(engine, product),
        result,
        adds=product.adds,
        fpmath_mode=product.fpmath_mode,
    )


def ones_product_desc(engine: Engine, descs: Sequence[Handle]) -> Handle | None:
    """Return the primitive descriptor of a product with ones, None if there is no fit one.

    Parameters
    ----------
    engine : Engine
    descs : sequence of Handle
        Memory descriptors of both factors and of the product.
    """
    try:
        descriptor = engine.matmul_desc(descs[:2], None, descs[2], adds=False, fpmath_mode="strict")
    except OneDNNError as error:
        if error.status != "unimplemented":
            raise
        return None
    while not _GEMM.search(engine.implementation(descriptor)):
        if not engine.next_implementation(descriptor):
            return None
    return descriptor


def ones_addition_desc(engine: Engine, descs: Sequence[Handle], *, adds: bool) -> Handle | None:
    """Return the primitive descriptor of a product whose sums have one term, None without one.

    Parameters
    ----------
    engine : Engine
    descs : sequence of Handle
        As in `ones_product_desc`.
    adds : bool
        Whether the product is added to what the memory holds.
    """
    try:
        return engine.matmul_desc(descs[:2], None, descs[2], adds=adds, fpmath_mode="strict")
    except OneDNNError as error:
        if error.status != "unimplemented":
            raise
        return None


def _primitive_desc(
    engine: Engine, problem: Problem, activations: str, weights: str, result_dtype: str
) -> Handle:
    direction, dtypes = problem.direction, {problem.result_role: result_dtype}
    layouts = {"src": activations, "weights": weights, "dst": activations}
    tensors: list[Handle | None] = [
        _desc(engine, problem, role, layout, dtypes.get(role, ""))
        for role, layout in layouts.items()
    ]
    if direction is not Direction.BACKWARD_DATA:
        tensors.insert(2, bias_desc(engine, problem, dtypes.get("weights", "")))
    geometry = (
        problem.strides,
        [dilation - 1 for dilation in problem.dilations],
        problem.pads_begin,
        problem.pads_end,
    )
    return engine.convolution_desc(
        "deconvolution" if problem.transposed else "convolution",
        direction.value,
        tensors,
        geometry,
        fpmath_mode=problem.fpmath_mode,
        adds=isinstance(problem, Addend) and problem.adds,
    )
