"""SciPy's solvers and PyLops on operators: deblurring, against dense linear algebra."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator, cg, eigsh, lsqr

from tests.support.cases import CURATED
from tests.support.operator_cases import columns_of, operator_of

pytestmark = pytest.mark.frameworks

SIZE = 20


@pytest.fixture(scope="module")
def blur() -> Any:
    from onednn_py.scipy import convolution_operator

    line = np.array([1, 4, 6, 4, 1]) / 16
    weights = np.outer(line, line).reshape(5, 5, 1, 1)
    return convolution_operator((1, SIZE, SIZE, 1), weights, pads_begin=2, pads_end=2)


@pytest.fixture(scope="module")
def scene() -> np.ndarray:
    scene = np.zeros((SIZE, SIZE))
    scene[4:9, 5:15], scene[12:17, 3:8], scene[13, 10:18] = 1.0, 0.5, 0.8
    return scene.ravel()


@pytest.fixture(scope="module")
def dense(blur: Any) -> np.ndarray:
    matrix: np.ndarray = blur @ np.eye(SIZE * SIZE)
    return matrix


DAMP = 0.05


@pytest.fixture(scope="module")
def restored(dense: np.ndarray, scene: np.ndarray) -> np.ndarray:
    """The damped solution by dense linear algebra."""
    normal = dense.T @ dense + DAMP**2 * np.eye(len(scene))
    return np.linalg.solve(normal, dense.T @ (dense @ scene))


def test_lsqr(blur: Any, scene: np.ndarray, restored: np.ndarray) -> None:
    blurred = blur @ scene
    found, reason, *_ = lsqr(blur, blurred, damp=DAMP, atol=1e-12, btol=1e-12, iter_lim=2000)
    assert reason in (1, 2)
    np.testing.assert_allclose(found, restored, atol=1e-8)
    assert np.linalg.norm(found - scene) < 0.7 * np.linalg.norm(blurred - scene)


def test_cg(blur: Any, scene: np.ndarray, restored: np.ndarray) -> None:
    normal = blur.H @ blur + DAMP**2 * aslinearoperator(np.eye(len(scene)))
    found, reason = cg(normal, blur.H @ (blur @ scene), rtol=1e-12)
    assert reason == 0
    np.testing.assert_allclose(found, restored, atol=1e-8)


def test_lsqr_in_float32(scene: np.ndarray, restored: np.ndarray, blur: Any) -> None:
    from onednn_py.scipy import convolution_operator

    weights = blur._spec.fixed.astype(np.float32)
    single = convolution_operator(blur.src_shape, weights, pads_begin=2, pads_end=2)
    found = lsqr(single, single @ scene, damp=DAMP, iter_lim=300)[0]
    # The condition number of the damped problem is at most 1 / DAMP.
    np.testing.assert_allclose(found, restored, atol=1e-4)


def test_kernels_are_found_from_pictures(blur: Any, scene: np.ndarray) -> None:
    from onednn_py.scipy import convolution_operator

    picture = np.random.default_rng(0).standard_normal(blur.src_shape)
    of_weights = convolution_operator(
        src=picture, weights_shape=blur.weights_shape, pads_begin=2, pads_end=2
    )
    found = lsqr(of_weights, blur @ picture.ravel(), atol=1e-13, btol=1e-13)[0]
    np.testing.assert_allclose(found, blur._spec.fixed.ravel(), atol=1e-10)


def test_eigenvalues(blur: Any, dense: np.ndarray) -> None:
    largest = eigsh(blur.H @ blur, k=2, return_eigenvectors=False)
    expected = np.linalg.eigvalsh(dense.T @ dense)[-2:]
    np.testing.assert_allclose(np.sort(largest), expected, rtol=1e-8)


@pytest.mark.parametrize("of", ["src", "weights"])
@pytest.mark.parametrize("operation", ["convolution", "conv_transpose"])
@pytest.mark.parametrize("name", CURATED)
def test_pylops_finds_them_adjoint(name: str, operation: str, of: str) -> None:
    pylops = importlib.import_module("pylops")
    drawn = columns_of(CURATED[name], "f64", operation, of, 1)
    wrapped = pylops.aslinearoperator(operator_of(drawn[0], operation, of))
    assert pylops.utils.dottest(wrapped, *wrapped.shape, rtol=1e-9, atol=1e-9)


def test_pylops_composes_and_solves(blur: Any, scene: np.ndarray) -> None:
    pylops = importlib.import_module("pylops")
    wrapped = pylops.aslinearoperator(blur)
    stacked = pylops.VStack([wrapped, DAMP * pylops.Identity(len(scene))])
    data = np.concatenate([blur @ scene, np.zeros_like(scene)])
    found = lsqr(stacked, data, atol=1e-12, btol=1e-12)[0]
    direct = lsqr(blur, blur @ scene, damp=DAMP, atol=1e-12, btol=1e-12)[0]
    np.testing.assert_allclose(found, direct, atol=1e-8)
    both = np.stack([scene, 2 * scene], 1)
    np.testing.assert_array_equal(wrapped @ both, blur @ both)
