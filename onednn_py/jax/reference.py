"""The three operations in terms of ``lax``, as ``lax`` itself differentiates its convolution.

They are what other platforms compute, and what is lowered where this package leaves a problem to
JAX.
"""

from __future__ import annotations

from typing import Any

from jax import lax

from .folding import fold, unfold
from .geometry import Geometry

__all__ = ["backward_data", "backward_weights", "forward"]


def forward(src: Any, weights: Any, *, geometry: Geometry) -> Any:
    """Return dst."""
    return lax.conv_general_dilated(
        src,
        weights,
        geometry.strides,
        geometry.pads,
        rhs_dilation=geometry.dilations,
        dimension_numbers=_numbers(geometry.src_spec, geometry.weights_spec, geometry.dst_spec),
        feature_group_count=geometry.groups,
        precision=geometry.precision,
    )


def backward_data(diff_dst: Any, weights: Any, *, geometry: Geometry) -> Any:
    """Return diff_src: diff_dst dilated by the strides, with turned weights."""
    outputs, inputs, *spatial = geometry.weights_spec
    if geometry.groups > 1:
        weights = fold(unfold(weights, outputs, geometry.groups), 0, inputs)
    pads = [
        (extent - 1 - low, size + low - 1 - (dst - 1) * stride)
        for extent, (low, _), size, dst, stride in _axes(geometry)
    ]
    dilation = geometry.strides
    if min(map(min, pads)) < 0:
        # XLA's own cut of negative pads gives wrong values together with turned weights, as
        # `test_negative_pads_of_the_gradient` in tests/jax/test_convolution.py shows.
        config = [(0, 0, 0)] * diff_dst.ndim
        for index, (low, high) in enumerate(pads):
            stride = dilation[index]
            size = (geometry.dst_size[index] - 1) * stride + 1
            cut_low = min(max(-low, 0), size)
            cut_high = min(max(-high, 0), size - cut_low)
            config[geometry.dst_spec[2 + index]] = (-cut_low, -cut_high, stride - 1)
            # Where all of diff_dst is cut away, the cut goes on in the pad on the other side.
            low, high = low + cut_low, high + cut_high
            pads[index] = (max(low + min(high, 0), 0), max(high + min(low, 0), 0))
        diff_dst = lax.pad(diff_dst, lax.full((), 0, diff_dst.dtype), config)
        dilation = (1,) * len(spatial)
    return lax.conv_general_dilated(
        diff_dst,
        lax.rev(weights, spatial),
        (1,) * len(spatial),
        pads,
        lhs_dilation=dilation,
        rhs_dilation=geometry.dilations,
        dimension_numbers=_numbers(
            geometry.dst_spec, (inputs, outputs, *spatial), geometry.src_spec
        ),
        feature_group_count=geometry.groups,
        precision=geometry.precision,
    )


def backward_weights(src: Any, diff_dst: Any, *, geometry: Geometry) -> Any:
    """Return diff_weights: src with diff_dst as a kernel that the strides dilate."""
    src_spec, weights_spec, dst_spec = map(
        _swapped, (geometry.src_spec, geometry.weights_spec, geometry.dst_spec)
    )
    return lax.conv_general_dilated(
        src,
        diff_dst,
        geometry.dilations,
        [
            (low, (dst - 1) * stride + extent - size - low)
            for extent, (low, _), size, dst, stride in _axes(geometry)
        ],
        rhs_dilation=geometry.strides,
        dimension_numbers=_numbers(src_spec, dst_spec, weights_spec),
        batch_group_count=geometry.groups,
        precision=geometry.precision,
    )


def _axes(geometry: Geometry) -> Any:
    return zip(
        geometry.extents,
        geometry.pads,
        geometry.size,
        geometry.dst_size,
        geometry.strides,
        strict=True,
    )


def _numbers(lhs: Any, rhs: Any, out: Any) -> lax.ConvDimensionNumbers:
    return lax.ConvDimensionNumbers(tuple(lhs), tuple(rhs), tuple(out))


def _swapped(spec: Any) -> tuple[int, ...]:
    first, second, *spatial = spec
    return (second, first, *spatial)
