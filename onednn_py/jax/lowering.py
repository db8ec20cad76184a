"""How the primitives are lowered: a callback on the CPU, ``lax`` wherever a callback is no use."""

from __future__ import annotations

import atexit
from contextlib import suppress
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.interpreters import mlir

from . import reference
from .callbacks import host_function, into_buffers, wait_for_callbacks
from .geometry import Geometry
from .rules import is_left_to_lax

try:
    from jax.experimental.buffer_callback import buffer_callback
except ImportError:  # before JAX 0.6.1
    buffer_callback = None

__all__ = ["lower", "lower_to_lax"]


_SHAPES = {
    "forward": ("src", "weights", "dst"),
    "backward_data": ("dst", "weights", "src"),
    "backward_weights": ("src", "dst", "weights"),
}


def lower(name: str, context: Any, first: Any, second: Any, *, geometry: Geometry) -> Any:
    """Lower a primitive for the CPU."""
    (result,) = context.avals_out
    shapes = zip(_SHAPES[name], (*context.avals_in, result), strict=True)
    named = {tensor: aval.shape for tensor, aval in shapes}
    if needs_lax(context) or is_left_to_lax(name, geometry, **named, dtype=str(result.dtype)):
        return lower_to_lax(name, context, first, second, geometry=geometry)
    struct = jax.ShapeDtypeStruct(result.shape, result.dtype)
    call = _by_buffers if buffer_callback is not None else _by_copies
    return mlir.lower_fun(call(name, geometry, struct), multiple_results=False)(
        context, first, second
    )


def lower_to_lax(name: str, context: Any, first: Any, second: Any, *, geometry: Geometry) -> Any:
    """Lower a primitive as ``lax`` lowers the same operation."""
    operation = getattr(reference, name)
    return mlir.lower_fun(operation, multiple_results=False)(
        context, first, second, geometry=geometry
    )


def needs_lax(context: Any) -> bool:
    """Return whether a program must not have callbacks.

    That is a program that is exported, that is for several platforms, or that XLA divides among
    devices: XLA would gather the whole tensors on every device for a callback.
    """
    module = context.module_context
    parameters = getattr(module, "lowering_parameters", None)
    if getattr(parameters, "for_export", False) or len(module.platforms) > 1:
        return True
    axes = module.axis_context
    manual = getattr(axes, "manual_axes", None)
    if manual is not None:
        return frozenset(manual) != frozenset(axes.mesh.axis_names)
    return getattr(axes, "num_devices", 1) > 1


def _by_buffers(name: str, geometry: Geometry, struct: jax.ShapeDtypeStruct) -> Any:
    _finish_at_exit()
    return buffer_callback(into_buffers(name, geometry), struct)


def _by_copies(name: str, geometry: Geometry, struct: jax.ShapeDtypeStruct) -> Any:
    _finish_at_exit()
    compute = host_function(name, geometry)

    def callback(first: Any, second: Any) -> Any:
        result = np.empty(struct.shape, struct.dtype)
        compute(np.asarray(first), np.asarray(second), result)
        return result

    return lambda first, second: jax.pure_callback(callback, struct, first, second)


@cache
def _finish_at_exit() -> None:
    """Let callbacks that are under way end while the interpreter is whole."""
    atexit.register(_finish)


def _finish() -> None:
    for array in jax.live_arrays("cpu"):
        # A deleted array, or the error that its computation ended with.
        with suppress(Exception):
            array.block_until_ready()
    wait_for_callbacks()
