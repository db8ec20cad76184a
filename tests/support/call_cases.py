"""One small call of every function, for tests of how calls are made."""

from __future__ import annotations

from typing import Any

import numpy as np

import onednn_py


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


SRC, WEIGHTS, DST, BIAS = numbers(2, 6, 7, 4), numbers(3, 3, 4, 4), numbers(2, 4, 5, 4), numbers(4)

# Every function with tensors that fit: (function, tensors, attributes).
CALLS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "convolution": (onednn_py.convolution, (SRC, WEIGHTS), {}),
    "convolution, bias": (onednn_py.convolution, (SRC, WEIGHTS, BIAS), {}),
    "backward_data": (onednn_py.convolution_backward_data, (DST, WEIGHTS), {}),
    "backprop_data": (onednn_py.convolution_backprop_data, (DST, WEIGHTS), {}),
    "backward_weights": (
        onednn_py.convolution_backward_weights,
        (SRC, DST),
        {"weights_shape": WEIGHTS.shape},
    ),
    "backward_weights, bias": (
        onednn_py.convolution_backward_weights,
        (SRC, DST),
        {"weights_shape": WEIGHTS.shape, "bias": True},
    ),
    "conv_transpose": (onednn_py.conv_transpose, (DST, WEIGHTS, BIAS), {}),
    "transpose_backward_data": (onednn_py.conv_transpose_backward_data, (SRC, WEIGHTS), {}),
    "transpose_backward_weights": (
        onednn_py.conv_transpose_backward_weights,
        (DST, SRC),
        {"weights_shape": WEIGHTS.shape, "bias": True},
    ),
    "convolution_backward": (onednn_py.convolution_backward, (SRC, WEIGHTS, DST), {}),
    "conv_transpose_backward": (
        onednn_py.conv_transpose_backward,
        (DST, WEIGHTS, SRC),
        {"wrt": ("src", "weights", "bias")},
    ),
}


def data_gradient(*arguments: Any, **attributes: Any) -> np.ndarray:
    return onednn_py.convolution_backward_data(*(arguments or (DST, WEIGHTS)), **attributes)


def arrays_of(result: Any) -> list[np.ndarray]:
    results = result if isinstance(result, tuple) else (result,)
    return [array for array in results if array is not None]
