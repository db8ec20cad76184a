"""A small convolutional network in NumPy, with the convolutions of this package.

Two convolutions, each followed by ReLU, and a dense layer; softmax cross-entropy; Adam.
Activations are (N, H, W, C) and filters (kh, kw, I, O), the package's default formats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import onednn_py
from onednn_py.api.types import Wrt

__all__ = [
    "CONVOLUTIONS",
    "IMAGE_SIZE",
    "Adam",
    "ConvolutionLayer",
    "Network",
    "dense",
    "dense_backward",
    "relu",
    "relu_backward",
    "softmax_cross_entropy",
]

Array = NDArray[Any]

IMAGE_SIZE = 8
CLASSES = 10
# Gradients become too small for float16 as the network learns. A power of two scales exactly.
GRADIENT_SCALE = 1024


def relu(src: Array) -> Array:
    """Return ``max(src, 0)``, elementwise."""
    dst: Array = np.maximum(src, src.dtype.type(0))
    return dst


def relu_backward(dst: Array, diff_dst: Array) -> Array:
    """Return diff_src of `relu`, whose result was ``dst``; all three have one shape."""
    diff_src: Array = diff_dst * (dst > 0).astype(diff_dst.dtype)
    return diff_src


def dense(src: Array, weights: Array, bias: Array) -> Array:
    """Return ``src @ weights + bias``, (N, O), of (N, I), (I, O) and (O,) arrays."""
    dst: Array = src @ weights + bias
    return dst


def dense_backward(src: Array, weights: Array, diff_dst: Array) -> tuple[Array, Array, Array]:
    """Return diff_src, diff_weights and diff_bias of `dense` for diff_dst, (N, O)."""
    return diff_dst @ weights.T, src.T @ diff_dst, diff_dst.sum(axis=0)


def softmax_cross_entropy(logits: Array, labels: Array) -> tuple[float, Array]:
    """Return the mean cross-entropy of ``softmax(logits)`` and its gradient, diff_logits.

    Both logits and diff_logits are (N, classes); labels are (N,) integers.
    """
    # softmax is invariant to this shift, which keeps exp() from overflowing.
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    images = np.arange(len(labels))
    diff_logits = np.exp(log_probabilities)
    diff_logits[images, labels] -= 1
    return -float(log_probabilities[images, labels].mean()), diff_logits / len(labels)


@dataclass(frozen=True)
class ConvolutionLayer:
    """A square convolution of the network: its geometry and its calls.

    Attributes
    ----------
    name : str
    in_channels, out_channels : int
    kernel, stride, pad : int
        Along both spatial axes, in elements.
    """

    name: str
    in_channels: int
    out_channels: int
    kernel: int
    stride: int
    pad: int

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the convolution and of its gradients."""
        return {"strides": self.stride, "pads_begin": self.pad, "pads_end": self.pad}

    @property
    def weights_shape(self) -> tuple[int, int, int, int]:
        """(kh, kw, I, O)."""
        return (self.kernel, self.kernel, self.in_channels, self.out_channels)

    def output_size(self, size: int) -> int:
        """Return the spatial size of dst, given that of src."""
        return (size + 2 * self.pad - self.kernel) // self.stride + 1

    def forward(self, src: Array, weights: Array, bias: Array, dtype: np.dtype[Any]) -> Array:
        """Return dst, (N, H', W', O), of src, (N, H, W, I), computed in ``dtype``."""
        tensors = (tensor.astype(dtype) for tensor in (src, weights, bias))
        return onednn_py.convolution(*tensors, **self.attributes).astype(src.dtype)

    def backward(
        self, src: Array, weights: Array, diff_dst: Array, dtype: np.dtype[Any], wrt: Sequence[Wrt]
    ) -> tuple[Any, ...]:
        """Return diff_src, diff_weights and diff_bias; None for those not in ``wrt``."""
        tensors = (tensor.astype(dtype) for tensor in (src, weights, diff_dst * GRADIENT_SCALE))
        gradients = onednn_py.convolution_backward(*tensors, wrt=wrt, **self.attributes)
        return tuple(
            None if scaled is None else scaled.astype(src.dtype) / GRADIENT_SCALE
            for scaled in gradients
        )


CONVOLUTIONS = (
    ConvolutionLayer("convolution 1", in_channels=1, out_channels=32, kernel=5, stride=1, pad=2),
    ConvolutionLayer("convolution 2", in_channels=32, out_channels=64, kernel=3, stride=2, pad=1),
)


class Network:
    """The network: parameters in float32, convolutions in ``dtype``.

    Parameters
    ----------
    dtype : data type
        Of the tensors of the convolutions.
    seed : int
        Of the initial weights.

    Attributes
    ----------
    parameters : dict of str to array
        Named "convolution 1 weights", "dense bias" and so on.
    """

    def __init__(self, dtype: np.typing.DTypeLike, seed: int) -> None:
        self.dtype = np.dtype(dtype)
        self.parameters: dict[str, Array] = {}
        random = np.random.default_rng(seed)
        size = IMAGE_SIZE
        for layer in CONVOLUTIONS:
            self._add(layer.name, layer.weights_shape, random)
            size = layer.output_size(size)
        self._add("dense", (size * size * CONVOLUTIONS[-1].out_channels, CLASSES), random)

    def _add(self, layer: str, shape: tuple[int, ...], random: np.random.Generator) -> None:
        # He et al. 2015: the variance of the activations stays the same from layer to layer.
        deviation = np.sqrt(2 / np.prod(shape[:-1]))
        weights = random.normal(0, deviation, shape).astype(np.float32)
        self.parameters[f"{layer} weights"] = weights
        self.parameters[f"{layer} bias"] = np.zeros(shape[-1], np.float32)

    def _of(self, layer: str) -> tuple[Array, Array]:
        return self.parameters[f"{layer} weights"], self.parameters[f"{layer} bias"]

    def logits(self, images: Array) -> Array:
        """Return (N, classes) scores of (N, 8, 8, 1) images."""
        return self._forward(images)[1]

    def gradients(self, images: Array, labels: Array) -> tuple[float, int, dict[str, Array]]:
        """Return the loss, the number of correctly classified images, and the gradients.

        Images are (N, 8, 8, 1), labels (N,) integers, and the gradients have the names and
        shapes of ``parameters``.
        """
        activations, logits = self._forward(images)
        loss, diff_logits = softmax_cross_entropy(logits, labels)
        correct = int((logits.argmax(axis=1) == labels).sum())

        features = activations[-1].reshape(len(images), -1)
        weights, _ = self._of("dense")
        diff_features, diff_weights, diff_bias = dense_backward(features, weights, diff_logits)
        gradients = {"dense weights": diff_weights, "dense bias": diff_bias}
        diff_dst = diff_features.reshape(activations[-1].shape)
        for index in reversed(range(len(CONVOLUTIONS))):
            layer = CONVOLUTIONS[index]
            src, dst = activations[index : index + 2]
            weights, _ = self._of(layer.name)
            # The gradient of the images is not needed.
            wrt: tuple[Wrt, ...] = ("src", "weights", "bias") if index else ("weights", "bias")
            diff_dst = relu_backward(dst, diff_dst)
            diff_dst, diff_weights, diff_bias = layer.backward(
                src, weights, diff_dst, self.dtype, wrt
            )
            gradients[f"{layer.name} weights"] = diff_weights
            gradients[f"{layer.name} bias"] = diff_bias
        return loss, correct, gradients

    def _forward(self, images: Array) -> tuple[list[Array], Array]:
        """Return the input of each convolution and of the dense layer, and the logits."""
        activations = [images]
        for layer in CONVOLUTIONS:
            dst = layer.forward(activations[-1], *self._of(layer.name), self.dtype)
            activations.append(relu(dst))
        features = activations[-1].reshape(len(images), -1)
        return activations, dense(features, *self._of("dense"))


class Adam:
    """The optimiser of Kingma and Ba, 2015: steps scaled by running moments of the gradient.

    Parameters
    ----------
    parameters : dict of str to array
        Updated in place.
    """

    DECAY_MEAN = 0.9
    DECAY_SQUARE = 0.999
    EPSILON = 1e-8

    def __init__(self, parameters: dict[str, Array]) -> None:
        self._parameters = parameters
        self._means = {name: np.zeros_like(value) for name, value in parameters.items()}
        self._squares = {name: np.zeros_like(value) for name, value in parameters.items()}
        self._steps = 0

    def step(self, gradients: Mapping[str, Array], learning_rate: float) -> None:
        """Move each parameter against its gradient."""
        self._steps += 1
        # Both moments start at zero and are biased towards it.
        unbiased_mean = 1 - self.DECAY_MEAN**self._steps
        unbiased_square = 1 - self.DECAY_SQUARE**self._steps
        rate = learning_rate * np.sqrt(unbiased_square) / unbiased_mean
        for name, gradient in gradients.items():
            mean, square = self._means[name], self._squares[name]
            mean += (1 - self.DECAY_MEAN) * (gradient - mean)
            square += (1 - self.DECAY_SQUARE) * (gradient * gradient - square)
            self._parameters[name] -= rate * mean / (np.sqrt(square) + self.EPSILON)
