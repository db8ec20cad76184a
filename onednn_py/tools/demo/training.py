"""Trains the demo's network on scikit-learn's digits, and times its epochs by backend."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import onednn_py
from onednn_py import TensorSpec, plan
from onednn_py.config import BackendName
from onednn_py.tools.extras import require

from .network import CONVOLUTIONS, IMAGE_SIZE, Adam, Network

__all__ = [
    "GOAL",
    "Digits",
    "Epoch",
    "implementations",
    "load_digits",
    "seconds_per_epoch",
    "train",
]

Array = NDArray[Any]

BATCH = 32
# Timed epochs of each backend, after a first one that also creates the plans.
ROUNDS = 3
# Test accuracy that the network reaches with correct gradients.
GOAL = 0.97
PEAK_LEARNING_RATE = 3e-3
TEST_FRACTION = 0.2
# The split stays the same whatever the seed, so that accuracies can be compared.
SPLIT_SEED = 0
GREY_LEVELS = 16


@dataclass(frozen=True)
class Digits:
    """Images (N, 8, 8, 1) of handwritten digits, float32 in [0, 1], and labels (N,)."""

    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array


@dataclass(frozen=True)
class Epoch:
    """Results of one pass over the training images.

    Loss and training accuracy are averages over the pass, test accuracy is measured after it.
    ``seconds`` excludes the testing.
    """

    epoch: int
    loss: float
    train_accuracy: float
    test_accuracy: float
    seconds: float


def load_digits() -> Digits:
    """Return scikit-learn's bundled digits, split 80 to 20, stratified by label."""
    datasets = require("sklearn.datasets", "scikit-learn", "demo")
    selection = require("sklearn.model_selection", "scikit-learn", "demo")
    images, labels = datasets.load_digits(return_X_y=True)
    images = images.reshape(-1, IMAGE_SIZE, IMAGE_SIZE, 1).astype(np.float32) / GREY_LEVELS
    train_images, test_images, train_labels, test_labels = selection.train_test_split(
        images, labels, test_size=TEST_FRACTION, stratify=labels, random_state=SPLIT_SEED
    )
    return Digits(train_images, train_labels, test_images, test_labels)


def train(network: Network, digits: Digits, epochs: int, seed: int) -> Iterator[Epoch]:
    """Train the network, and yield after each epoch.

    The network is changed in place. Each image is moved by at most one pixel, differently in
    each epoch; the seed is that of these movements and of the images' order. The learning rate
    falls to zero along half a cosine.
    """
    optimiser = Adam(network.parameters)
    random = np.random.default_rng(seed)
    moved = _moved_images(digits.train_images)
    # A smaller last batch would need other plans, so it is dropped.
    batches = len(digits.train_labels) // BATCH
    for epoch in range(1, epochs + 1):
        start = time.perf_counter()
        learning_rate = PEAK_LEARNING_RATE * (1 + np.cos(np.pi * (epoch - 1) / epochs)) / 2
        total_loss, total_correct = 0.0, 0
        order = random.permutation(len(digits.train_labels))
        for batch in order[: batches * BATCH].reshape(-1, BATCH):
            rows, columns = random.integers(0, 3, (2, BATCH))
            images = np.ascontiguousarray(moved[batch, rows, columns])
            loss, correct, gradients = network.gradients(images, digits.train_labels[batch])
            optimiser.step(gradients, learning_rate)
            total_loss += loss
            total_correct += correct
        seconds = time.perf_counter() - start
        recognised = network.logits(digits.test_images).argmax(axis=1) == digits.test_labels
        yield Epoch(
            epoch=epoch,
            loss=total_loss / batches,
            train_accuracy=total_correct / (batches * BATCH),
            test_accuracy=float(recognised.mean()),
            seconds=seconds,
        )


def seconds_per_epoch(network: Network, digits: Digits) -> dict[str, float]:
    """Return the median time of an epoch on NumPy and on oneDNN; the network is not changed.

    The backends take turns, so that a busy or throttled machine slows all of them alike.
    """
    seconds: dict[BackendName, list[float]] = {"numpy": [], "onednn": []}
    for _ in range(1 + ROUNDS):
        for backend, times in seconds.items():
            with onednn_py.use_backend(backend):
                (epoch,) = train(copy.deepcopy(network), digits, epochs=1, seed=0)
            times.append(epoch.seconds)
    return {backend: statistics.median(times[1:]) for backend, times in seconds.items()}


def implementations(network: Network) -> list[dict[str, str]]:
    """Return layer, computation, backend and implementation of each result in a training step."""
    rows = []
    size = IMAGE_SIZE
    for layer in CONVOLUTIONS:
        src = TensorSpec((BATCH, size, size, layer.in_channels), network.dtype)
        weights = TensorSpec(layer.weights_shape, network.dtype)
        bias = TensorSpec((layer.out_channels,), network.dtype)
        size = layer.output_size(size)
        dst = TensorSpec((BATCH, size, size, layer.out_channels), network.dtype)
        attributes = layer.attributes
        found = {"forward": plan(onednn_py.convolution, src, weights, bias, **attributes)}
        # The gradient of the images is not computed.
        if layer is not CONVOLUTIONS[0]:
            backward_data = onednn_py.convolution_backward_data
            found["backward data"] = plan(backward_data, dst, weights, src.shape, **attributes)
        backward_weights = onednn_py.convolution_backward_weights
        found["backward weights"] = plan(
            backward_weights, src, dst, weights.shape, bias=True, **attributes
        )
        for computation, its_plan in found.items():
            names = {"backend": its_plan.backend, "implementation": its_plan.implementation}
            rows.append({"layer": layer.name, "computation": computation, **names})
    return rows


def _moved_images(images: Array) -> Array:
    """Return a view (N, 3, 3, 8, 8, 1): each image moved by -1, 0 or 1 pixel along each axis."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, images.shape[1:3], axis=(1, 2))
    return np.moveaxis(windows, 3, -1)
