"""Several weights in one call: their output channels side by side, in each group.

The columns of a matrix are weights, or dst, of one src each. A convolution with the output channels
of all of them computes all columns, and reads src once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.problem.formats import TensorView

from .arguments import OperatorSpec

__all__ = ["join_weights", "joined_shapes", "split_dst", "split_weights"]

Array = npt.NDArray[Any]


def joined_shapes(spec: OperatorSpec, columns: int) -> tuple[tuple[int, ...], str, tuple[int, ...]]:
    """Return shape and format of the joined weights, and the shape of their dst."""
    groups, outputs, inputs, *kernel = spec.views["weights"].canonical_shape
    outputs *= columns
    weights = (groups * outputs, inputs, *kernel), "OIX"
    if spec.is_transposed:
        weights = (groups * inputs, outputs, *kernel), "IOX"
    dst = list(spec.shape("dst"))
    dst[_channel_axis(spec)] = groups * outputs
    return *weights, tuple(dst)


def join_weights(spec: OperatorSpec, rows: Array) -> Array:
    """Return the weights of all rows as those of one convolution.

    Parameters
    ----------
    spec : OperatorSpec
    rows : ndarray, shape (columns, elements of the weights)
    """
    columns = len(rows)
    view = _view_of_rows(spec.views["weights"], columns)
    canonical = view.canonical(rows.reshape(view.shape))
    shape, _, _ = joined_shapes(spec, columns)
    return np.ascontiguousarray(canonical.transpose(_joined_axes(spec, canonical))).reshape(shape)


def split_weights(spec: OperatorSpec, joined: Array, columns: int) -> Array:
    """Return joined weights, or their gradient, as rows: the inverse of `join_weights`."""
    view = _view_of_rows(spec.views["weights"], columns)
    rows = np.empty(view.shape, joined.dtype)
    canonical = view.canonical(rows)
    written = canonical.transpose(_joined_axes(spec, canonical))
    written[...] = joined.reshape(written.shape)
    return rows.reshape(columns, -1)


def split_dst(spec: OperatorSpec, dst: Array, columns: int) -> Array:
    """Return a view of the joined weights' dst, shape (columns, ...): a column's in its own order.

    The channels are two axes there, groups and the channels of each.
    """
    groups, outputs, *_ = spec.views["weights"].canonical_shape
    axis = _channel_axis(spec)
    apart = dst.reshape(*dst.shape[:axis], groups, columns, outputs, *dst.shape[axis + 1 :])
    return np.moveaxis(apart, axis + 1, 0)


def _channel_axis(spec: OperatorSpec) -> int:
    return spec.views["dst"].axes[1]


def _view_of_rows(view: TensorView, columns: int) -> TensorView:
    """Return how rows of tensors are seen in canonical order, the rows first."""
    return TensorView(
        (columns, *view.shape),
        (columns, *view.split),
        view.split_axis + 1,
        (0, *(axis + 1 for axis in view.axes)),
    )


def _joined_axes(spec: OperatorSpec, canonical: Array) -> tuple[int, ...]:
    """Order of the axes (columns, groups, outputs, inputs, *kernel) in the joined weights."""
    kernel = range(4, canonical.ndim)
    return (1, 3, 0, 2, *kernel) if spec.is_transposed else (1, 0, 2, 3, *kernel)
