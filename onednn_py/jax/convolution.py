"""`conv_general_dilated`: what ``lax`` makes of the arguments, as a problem of the primitives.

``lax`` itself reads and checks the arguments, so that they mean what they mean there, and fail with
its errors. What remains are its canonical parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.sharding import AxisType

from onednn_py.config import backend_setting, effort_setting, fpmath_mode_setting
from onednn_py.problem.geometry import axis_from_size, effective_kernel

from .folding import fold, unfold
from .geometry import Geometry, Settings, merged
from .primitives import backward_data_p, forward_p

__all__ = ["conv_general_dilated"]

_DTYPES = ("float32", "float16", "bfloat16")


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> jax.Array:
    """Return ``jax.lax.conv_general_dilated`` of the same arguments, computed by oneDNN.

    Parameters
    ----------
    lhs : jax.Array, n + 2 axes
        src; float32, float16 or bfloat16, and one to three spatial axes, to be computed here.
    rhs : jax.Array, n + 2 axes
        weights.
    window_strides : sequence of int
    padding : {"SAME", "SAME_LOWER", "VALID"} or sequence of (int, int)
        Negative pads cut.
    lhs_dilation : sequence of int, optional
        The strides of a transposed convolution.
    rhs_dilation : sequence of int, optional
        The kernel's dilations.
    dimension_numbers : tuple of str or jax.lax.ConvDimensionNumbers, optional
        Axes that are in another order than oneDNN's are read as views, without a copy.
    feature_group_count : int
    batch_group_count : int
        Left to ``lax`` if not 1.
    precision : optional
        On the CPU all of ``lax.Precision`` mean the type's own arithmetic; algorithms by name are
        left to ``lax``.
    preferred_element_type : dtype, optional
        The type of lhs, or float32, to which narrower operands are then converted.
    out_sharding : optional
        Left to ``lax``.

    Returns
    -------
    jax.Array
        With jit, grad, jvp, vmap, scan and checkpoint as ``lax`` has them.

    Raises
    ------
    TypeError, ValueError
        As ``lax`` raises them, before anything is computed.
    jax.errors.JaxRuntimeError
        With the message of ours in it, where computing fails.

    Notes
    -----
    `use_backend`, `use_effort` and `use_fpmath_mode` count at the time of tracing: a compiled
    function keeps what was in force. Other platforms, other types, empty arrays, symbolic shapes,
    programs that XLA divides among devices, arrays on a mesh of explicit axes, exported programs,
    and what JAX computes faster by itself are left to ``lax``.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from onednn_py.jax import conv_general_dilated
    >>> src, weights = jnp.ones((1, 1, 3, 3)), jnp.ones((1, 1, 2, 2))
    >>> loss = lambda weights: conv_general_dilated(src, weights, (1, 1), "VALID").sum()
    >>> jax.jit(jax.grad(loss))(weights)[0, 0].tolist()
    [[4.0, 4.0], [4.0, 4.0]]
    """
    options: dict[str, Any] = {
        "window_strides": window_strides,
        "padding": padding,
        "lhs_dilation": lhs_dilation,
        "rhs_dilation": rhs_dilation,
        "dimension_numbers": dimension_numbers,
        "feature_group_count": feature_group_count,
        "batch_group_count": batch_group_count,
        "precision": precision,
        "preferred_element_type": preferred_element_type,
    }
    constants = {name: _constant(value) for name, value in options.items()}
    if out_sharding is not None:
        options["out_sharding"] = out_sharding
    elif _may_be_computed(lhs, rhs) and _is_constant(constants):
        settings = Settings(
            backend_setting.current(), effort_setting.current(), fpmath_mode_setting.current()
        )
        result: jax.Array = _convolution(
            lhs, rhs, options=tuple(constants.items()), settings=settings
        )
        return result
    return lax.conv_general_dilated(lhs, rhs, **options)


def _constant(value: Any) -> Any:
    """Return lists and their entries as tuples, everything else as it is."""
    if type(value) in (list, tuple):
        return tuple(map(_constant, value))
    return value


def _is_constant(options: dict[str, Any]) -> bool:
    """Return whether a call may be cached by its options.

    Padding that is no list of pairs is for ``lax`` to refuse, in words that have it as it came.
    Floats are for ``lax`` to refuse, too: a cache would take 1.0 for 1.
    """
    padding = options["padding"]
    if type(padding) is tuple and any(
        type(pair) is not tuple or len(pair) != 2 for pair in padding
    ):
        return False
    if any(map(_has_floats, options.values())):
        return False
    try:
        hash(tuple(options.values()))
    except TypeError:
        return False
    return True


def _has_floats(value: Any) -> bool:
    if type(value) is tuple:
        return any(map(_has_floats, value))
    return isinstance(value, (float, np.floating))


def _may_be_computed(lhs: Any, rhs: Any) -> bool:
    """Return whether operands are arrays of the right kinds, without looking at attributes."""
    for operand in (lhs, rhs):
        shape = getattr(operand, "shape", ())
        if str(getattr(operand, "dtype", "")) not in _DTYPES or not 3 <= len(shape) <= 5:
            return False
        # Symbolic extents are not int.
        if not all(type(extent) is int and extent > 0 for extent in shape):
            return False
        sharding = getattr(jax.typeof(operand), "sharding", None)
        if any(axes is not None for axes in getattr(sharding, "spec", ())):
            return False
        # Inside vmap, the spec lacks the axis that is mapped, along which an array may be divided.
        mesh = getattr(sharding, "mesh", None)
        if AxisType.Explicit in (getattr(mesh, "axis_types", None) or ()):
            return False
    return True


# Inlined, jit is a cache of what was traced: without it, each call outside of jit would be traced
# anew.
@partial(jax.jit, static_argnames=("options", "settings"), inline=True)
def _convolution(lhs: Any, rhs: Any, *, options: Any, settings: Settings) -> Any:
    function = partial(lax.conv_general_dilated, **dict(options))
    jaxpr = jax.make_jaxpr(function)(lhs, rhs).jaxpr
    if not jaxpr.eqns or jaxpr.eqns[-1].primitive.name != "conv_general_dilated":
        return function(lhs, rhs)
    *casts, equation = jaxpr.eqns
    parameters = equation.params
    operands = _cast_operands(jaxpr, casts, equation, (lhs, rhs))
    if operands is None:
        return function(lhs, rhs)
    lhs, rhs = operands
    if not _is_supported(parameters, lhs, rhs, equation.outvars[0].aval):
        return function(lhs, rhs)
    result_type = parameters["preferred_element_type"]
    if result_type is not None:
        lhs, rhs = lhs.astype(result_type), rhs.astype(result_type)
    return _computed(lhs, rhs, parameters, settings)


def _cast_operands(jaxpr: Any, casts: Any, equation: Any, operands: Any) -> Any:
    """Return the operands of an equation, cast as the equations before it cast them.

    Inside ``shard_map``, ``lax`` makes both operands vary along the same axes of the mesh.
    """
    values = dict(zip(jaxpr.invars, operands, strict=True))
    try:
        for cast in casts:
            inputs = [values[variable] for variable in cast.invars]
            values[cast.outvars[0]] = cast.primitive.bind(*inputs, **cast.params)
        return tuple(values[variable] for variable in equation.invars)
    except (KeyError, TypeError):
        return None


def _is_supported(parameters: Any, lhs: Any, rhs: Any, result: Any) -> bool:
    precision = parameters["precision"]
    levels = precision if isinstance(precision, tuple) else (precision,)
    result_type = parameters["preferred_element_type"]
    return (
        lhs.dtype == rhs.dtype
        and (result_type is None or result_type in (lhs.dtype, jnp.dtype("float32")))
        and parameters["batch_group_count"] == 1
        and all(level is None or isinstance(level, lax.Precision) for level in levels)
        and 0 not in result.shape
        and not result.weak_type
        and min(*parameters["window_strides"], *parameters["lhs_dilation"]) > 0
        and min(parameters["rhs_dilation"]) > 0
    )


def _computed(lhs: Any, rhs: Any, parameters: Any, settings: Settings) -> Any:
    """Return a convolution with the parameters that ``lax`` gave it."""
    numbers = parameters["dimension_numbers"]
    strides, dilation = parameters["window_strides"], parameters["lhs_dilation"]
    pads = merged(parameters["padding"])
    common = {
        "dilations": tuple(parameters["rhs_dilation"]),
        "groups": parameters["feature_group_count"],
        "precision": parameters["precision"],
        "settings": settings,
        "kernel": tuple(rhs.shape[axis] for axis in numbers.rhs_spec[2:]),
    }
    if max(dilation) > 1 and max(strides) == 1:
        result = _transposed(lhs, rhs, numbers, dilation, pads, common)
        if result is not None:
            return result
    lhs, pads = _without_dilation(lhs, numbers.lhs_spec[2:], dilation, pads)
    geometry = Geometry(
        size=tuple(lhs.shape[axis] for axis in numbers.lhs_spec[2:]),
        strides=tuple(strides),
        pads=pads,
        src_spec=tuple(numbers.lhs_spec),
        weights_spec=tuple(numbers.rhs_spec),
        dst_spec=tuple(numbers.out_spec),
        **common,
    )
    return forward_p.bind(lhs, rhs, geometry=geometry)


def _without_dilation(lhs: Any, spatial: Any, dilation: Any, pads: Any) -> tuple[Any, Any]:
    """Return lhs with the elements that dilation inserts and negative pads applied, and the pads.

    Pads that leave nothing of lhs are applied on both sides.
    """
    config, remaining = [(0, 0, 0)] * lhs.ndim, []
    for axis, (low, high), step in zip(spatial, pads, dilation, strict=True):
        kept = (lhs.shape[axis] - 1) * step + 1 + min(low, 0) + min(high, 0)
        applied = (min(low, 0), min(high, 0)) if kept > 0 else (low, high)
        config[axis] = (*applied, step - 1)
        remaining.append((low - applied[0], high - applied[1]))
    if any(map(any, config)):
        lhs = lax.pad(lhs, jnp.zeros((), lhs.dtype), config)
    return lhs, merged(remaining)


def _transposed(
    lhs: Any, rhs: Any, numbers: Any, strides: Any, pads: Any, common: dict[str, Any]
) -> Any:
    """Return a convolution of dilated lhs as backward data with turned weights.

    Its pads are what the kernel's extent leaves of ``pads``. Where they are negative, dst has
    elements that no window reaches: zeros are put around the result. Where nothing is between them,
    the result is None.
    """
    outputs, inputs, *kernel_axes = numbers.rhs_spec
    groups = common["groups"]
    weights = lax.rev(rhs, kernel_axes)
    if groups > 1:
        weights = fold(unfold(weights, outputs, groups), 0, inputs)
    config = [(0, 0, 0)] * lhs.ndim
    sizes, inner_pads = [], []
    axes = (numbers.lhs_spec[2:], numbers.out_spec[2:], pads, strides, common["kernel"])
    for (lhs_axis, out_axis, (low, high), stride, kernel), dilation in zip(
        zip(*axes, strict=True), common["dilations"], strict=True
    ):
        extent = effective_kernel(kernel, dilation)
        begin, end = extent - 1 - low, extent - 1 - high
        inner = max(begin, 0), max(end, 0)
        size = axis_from_size(lhs.shape[lhs_axis], extent, stride, sum(inner), 0)
        if size <= 0:
            return None
        sizes.append(size)
        inner_pads.append(inner)
        config[out_axis] = (max(-begin, 0), max(-end, 0), 0)
    geometry = Geometry(
        size=tuple(sizes),
        strides=tuple(strides),
        pads=merged(inner_pads),
        src_spec=tuple(numbers.out_spec),
        weights_spec=(inputs, outputs, *kernel_axes),
        dst_spec=tuple(numbers.lhs_spec),
        **common,
    )
    result = backward_data_p.bind(lhs, weights, geometry=geometry)
    if any(map(any, config)):
        result = lax.pad(result, jnp.zeros((), result.dtype), config)
    return result
