"""Finite differences in float64: the gradients are derivatives, not only adjoints."""

from __future__ import annotations

import numpy as np
import pytest

import onednn_py
from tests.support.cases import CURATED

# A convolution is linear in src and in weights, so that central differences are exact
# but for rounding: about the machine epsilon over the step, times the sums' length.
STEP = 1e-3
TOLERANCE = 1e-9


def central_difference(loss, array: np.ndarray) -> np.ndarray:
    gradient = np.empty_like(array)
    for index in np.ndindex(*array.shape):
        kept = array[index]
        array[index] = kept + STEP
        above = loss()
        array[index] = kept - STEP
        gradient[index] = (above - loss()) / (2 * STEP)
        array[index] = kept
    return gradient


@pytest.mark.parametrize("family", ["convolution", "conv_transpose"])
@pytest.mark.parametrize("name", ["1d_strided", "2d_asymmetric", "2d_groups", "3d_strided_dilated"])
def test_gradients_are_derivatives(name: str, family: str) -> None:
    tensors = CURATED[name].with_groups(CURATED[name].groups, 2, 4).normals("f64")
    (src, weights, bias), keywords = tensors.arguments(family, "NCX", True)
    bias = bias.copy()
    forward = getattr(onednn_py, family)
    factors = np.random.default_rng(2).standard_normal(forward(src, weights, **keywords).shape)

    def loss() -> float:
        return float(np.vdot(forward(src, weights, bias, **keywords), factors))

    gradients = getattr(onednn_py, f"{family}_backward")(
        src, weights, factors, **keywords, wrt=("src", "weights", "bias")
    )
    for tensor, gradient in zip((src, weights, bias), gradients, strict=True):
        np.testing.assert_allclose(central_difference(loss, tensor), gradient, atol=TOLERANCE)


def test_a_wrong_gradient_is_found() -> None:
    weights = np.random.default_rng(0).standard_normal((3, 1, 1))
    src = np.ones((1, 5, 1))
    right = central_difference(lambda: float(onednn_py.convolution(src, weights).sum()), weights)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(right, right * 1.001, atol=TOLERANCE)
