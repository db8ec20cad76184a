"""The primitives' work on the host: XLA's buffers in, XLA's buffers out, and no call of JAX.

A call of JAX inside a callback may wait for the thread that it runs on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py import (
    convolution,
    convolution_backward_data,
    convolution_backward_weights,
    use_effort,
)

from .geometry import Geometry

__all__ = ["into_buffers", "wait_for_callbacks"]

Array = npt.NDArray[Any]

# Seconds without a callback after which none is expected.
SECONDS_WITHOUT_CALLBACK = 0.05

# The threads inside a callback, and when the last callback has ended.
_running: dict[int, None] = {}
_finished = [float("-inf")]


def into_buffers(name: str, geometry: Geometry) -> Callable[[Any, Any, Any, Any], None]:
    """Return a primitive's work as `jax.experimental.buffer_callback` calls it.

    Parameters
    ----------
    name : {"forward", "backward_data", "backward_weights"}
    geometry : Geometry
    """
    compute = _host_function(name, geometry)

    def callback(context: Any, out: Any, first: Any, second: Any) -> None:
        thread = threading.get_ident()
        _running[thread] = None
        try:
            operands = np.asarray(first), np.asarray(second)
            for operand in operands:
                # The buffers of operands are XLA's to use again, and other operations read them.
                operand.flags.writeable = False
            compute(*operands, np.asarray(out))
        finally:
            _running.pop(thread, None)
            _finished[0] = time.monotonic()

    return callback


def wait_for_callbacks(longest: float) -> None:
    """Wait until no callback has run for a moment, at most ``longest`` seconds.

    A callback that runs when the interpreter ends would abort the process.
    """
    begin = time.monotonic()
    if _finished[0] > float("-inf"):
        _finished[0] = begin  # a callback may be about to begin
    latest = begin + longest
    while time.monotonic() < latest and (
        _running or time.monotonic() - _finished[0] < SECONDS_WITHOUT_CALLBACK
    ):
        time.sleep(1e-3)


def _host_function(name: str, geometry: Geometry) -> Callable[[Array, Array, Array], None]:
    """Return the function that computes a primitive of two arrays into a third array."""
    data_format, src_axes, dst_axes = _data_layout(geometry)
    weights_format, weights_axes = _weights_layout(geometry.weights_spec)
    settings = geometry.settings
    attributes: dict[str, Any] = {
        "strides": geometry.strides,
        "pads_begin": tuple(low for low, _ in geometry.pads),
        "pads_end": tuple(high for _, high in geometry.pads),
        "dilations": geometry.dilations,
        "groups": geometry.groups,
        "data_format": data_format,
        "weights_format": weights_format,
        "backend": settings.backend,
        "fpmath_mode": settings.fpmath_mode,
    }

    def forward(src: Array, weights: Array, dst: Array) -> None:
        src, weights = src.transpose(src_axes), weights.transpose(weights_axes)
        convolution(src, weights, out=dst.transpose(dst_axes), **attributes)

    def backward_data(diff_dst: Array, weights: Array, diff_src: Array) -> None:
        diff_dst, weights = diff_dst.transpose(dst_axes), weights.transpose(weights_axes)
        out = diff_src.transpose(src_axes)
        convolution_backward_data(diff_dst, weights, out.shape, out=out, **attributes)

    def backward_weights(src: Array, diff_dst: Array, diff_weights: Array) -> None:
        src, diff_dst = src.transpose(src_axes), diff_dst.transpose(dst_axes)
        out = diff_weights.transpose(weights_axes)
        convolution_backward_weights(src, diff_dst, out.shape, out=out, **attributes)

    compute = {
        "forward": forward,
        "backward_data": backward_data,
        "backward_weights": backward_weights,
    }[name]

    def measured(first: Array, second: Array, result: Array) -> None:
        # Callbacks run on threads of XLA, which do not have the context of the caller.
        with use_effort(settings.effort):
            compute(first, second, result)

    return compute if settings.effort == "heuristic" else measured


def _data_layout(geometry: Geometry) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Return the format of src and dst, and the axes by which views of them have this format."""
    src, dst = geometry.src_spec, geometry.dst_spec
    if _is_channels_last(src) or (_is_channels_last(dst) and not _is_in_order(src)):
        return "NXC", _channels_last(src), _channels_last(dst)
    return "NCX", src, dst


def _weights_layout(spec: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    outputs, inputs, *spatial = spec
    if _is_in_order((*spatial, inputs, outputs)):
        return "XIO", tuple(range(len(spec)))
    return "OIX", spec


def _channels_last(spec: tuple[int, ...]) -> tuple[int, ...]:
    minibatch, channels, *spatial = spec
    return (minibatch, *spatial, channels)


def _is_channels_last(spec: tuple[int, ...]) -> bool:
    return _is_in_order(_channels_last(spec))


def _is_in_order(axes: Sequence[int]) -> bool:
    return list(axes) == sorted(axes)
