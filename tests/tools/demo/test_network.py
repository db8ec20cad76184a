"""The gradients of the demo's network agree with finite differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from onednn_py.tools.demo import network

STEP = 1e-6


def numerical_gradient(function: Callable[[], float], at: np.ndarray) -> np.ndarray:
    """Return the gradient of a function that reads ``at``, by central differences."""
    gradient = np.empty_like(at)
    for index in np.ndindex(at.shape):
        value = at[index]
        at[index] = value + STEP
        above = function()
        at[index] = value - STEP
        below = function()
        at[index] = value
        gradient[index] = (above - below) / (2 * STEP)
    return gradient


def random_arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Return float64 arrays of the shapes, with the same values at each call."""
    random = np.random.default_rng(0)
    return [random.normal(size=shape) for shape in shapes]


def test_dense_backward_agrees_with_differences() -> None:
    src, weights, bias, diff_dst = random_arrays((3, 4), (4, 5), (5,), (3, 5))

    def value() -> float:
        return float((network.dense(src, weights, bias) * diff_dst).sum())

    gradients = network.dense_backward(src, weights, diff_dst)
    for gradient, tensor in zip(gradients, (src, weights, bias), strict=True):
        np.testing.assert_allclose(gradient, numerical_gradient(value, tensor), atol=1e-8)


def test_relu_backward_agrees_with_differences() -> None:
    src, diff_dst = random_arrays((3, 4), (3, 4))

    def value() -> float:
        return float((network.relu(src) * diff_dst).sum())

    gradient = network.relu_backward(network.relu(src), diff_dst)
    np.testing.assert_allclose(gradient, numerical_gradient(value, src), atol=1e-8)


def test_softmax_cross_entropy_agrees_with_differences() -> None:
    (logits,) = random_arrays((3, 5))
    labels = np.array([4, 0, 2])
    _, gradient = network.softmax_cross_entropy(logits, labels)
    expected = numerical_gradient(lambda: network.softmax_cross_entropy(logits, labels)[0], logits)
    np.testing.assert_allclose(gradient, expected, atol=1e-8)


def test_softmax_cross_entropy_of_large_logits_is_finite() -> None:
    loss, gradient = network.softmax_cross_entropy(np.array([[1000.0, -1000.0]]), np.array([1]))
    assert loss == 2000
    np.testing.assert_allclose(gradient, [[1, -1]])


def test_network_gradients_agree_with_differences() -> None:
    trained = network.Network(np.float64, seed=0)
    trained.parameters = {
        name: value.astype(np.float64) for name, value in trained.parameters.items()
    }
    images, *directions = random_arrays(
        (2, network.IMAGE_SIZE, network.IMAGE_SIZE, 1),
        *(value.shape for value in trained.parameters.values()),
    )
    labels = np.array([3, 7])
    _, _, gradients = trained.gradients(images, labels)
    assert gradients.keys() == trained.parameters.keys()
    for (name, value), direction in zip(trained.parameters.items(), directions, strict=True):
        distance = np.zeros(1)

        def loss(
            name: str = name,
            start: np.ndarray = value,
            along: np.ndarray = direction,
            distance: np.ndarray = distance,
        ) -> float:
            trained.parameters[name] = start + distance * along
            return trained.gradients(images, labels)[0]

        (expected,) = numerical_gradient(loss, distance)
        trained.parameters[name] = value
        assert (gradients[name] * direction).sum() == pytest.approx(expected, rel=1e-5), name


def test_adam_starts_with_steps_of_the_learning_rate() -> None:
    parameters = {"weights": np.array([1.0, 1.0])}
    network.Adam(parameters).step({"weights": np.array([5.0, -0.01])}, learning_rate=0.1)
    np.testing.assert_allclose(parameters["weights"], [0.9, 1.1], atol=1e-4)
