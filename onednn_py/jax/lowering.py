"""How the primitives are lowered: a callback on the CPU, ``lax`` wherever a callback is no use."""

from __future__ import annotations

import atexit
import logging
import os
import time
from contextlib import suppress
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.buffer_callback import buffer_callback
from jax.interpreters import mlir

from . import reference
from .callbacks import into_buffers, wait_for_callbacks
from .geometry import Geometry
from .rules import is_left_to_lax

__all__ = ["lower", "lower_to_lax"]


_log = logging.getLogger("onednn_py")

# Seconds that a program waits at its end for computations of JAX that are under way: one that never
# ends, such as a loop without end, must not keep the program.
LONGEST_WAIT = 60.0

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
    _finish_at_exit()
    callback = buffer_callback(into_buffers(name, geometry), struct)
    return mlir.lower_fun(callback, multiple_results=False)(context, first, second)


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


def _computed_on(device: jax.Device) -> jax.Array:
    """Return a small result that a device has been told to compute."""
    with jax.transfer_guard("allow"):
        return jax.jit(jnp.negative)(jax.device_put(np.float32(0), device))


@cache
def _finish_at_exit() -> None:
    """Let callbacks that are under way end while the interpreter is whole."""
    atexit.register(_finish, os.getpid())


def _finish(process: int, longest: float = LONGEST_WAIT) -> None:
    if os.getpid() != process:
        # A forked child has none of the threads that would end what is under way.
        return
    latest = time.monotonic() + longest
    # Results that the program has dropped are not among the live arrays. What a thread computes on
    # a device is computed in order, so that one more result of each device comes after them.
    last: list[jax.Array] = []
    with suppress(Exception):
        last += [_computed_on(device) for device in jax.local_devices(backend="cpu")]
    for array in (*last, *jax.live_arrays("cpu")):
        # A deleted array, or the error that its computation ended with.
        with suppress(Exception):
            while not array.is_ready() and time.monotonic() < latest:
                time.sleep(1e-3)
    if time.monotonic() >= latest:
        _log.warning("JAX still computes %g s after the end of the program", longest)
    wait_for_callbacks(max(0.0, latest - time.monotonic()))
