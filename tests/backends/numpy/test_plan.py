"""The NumPy plan: every code path forced on small problems, bounded memory, repeatable bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onednn_py
from onednn_py.backends.numpy import channelwise, gradient, products, windows
from onednn_py.backends.numpy.workspace import Workspace
from tests.support.cases import CURATED, OPERATIONS, Case, case
from tests.support.strategies import geometries


@dataclass(frozen=True)
class CodePath:
    """Limits of the backend's modules that force small problems onto one code path."""

    limits: tuple[tuple[object, str, int], ...]
    threads: int = 1

    def force(self, patch: pytest.MonkeyPatch) -> None:
        for module, name, value in self.limits:
            patch.setattr(module, name, value)


def tiles_of(nbytes: int, threads: int = 1) -> CodePath:
    """Tiles of about ``nbytes``, and gradients split along their channels."""
    return CodePath(
        (
            (products, "TILE_BYTES", nbytes),
            (products, "MOST_TILE_BYTES", nbytes),
            (products, "LEAST_PIXELS", 1),
            (gradient, "TILE_BYTES", nbytes),
            (gradient, "CHANNEL_SPLIT_BYTES", 1),
            (gradient, "LEAST_CHANNELS", 1),
        ),
        threads,
    )


CODE_PATHS = {
    "tiles of a pixel": tiles_of(4),
    "tiles of some pixels": tiles_of(2000, threads=3),
    "tiles of rows": tiles_of(20_000, threads=2),
    "one tile a thread": CodePath((), threads=3),
    "cache conflicts avoided": CodePath(((windows, "CONFLICT", 1),), threads=2),
    "windows copied by index": CodePath(((windows, "SPARSE", 0),)),
    "channels first": CodePath(((products, "CHANNEL_RUN", 10**6),)),
    "channels last": CodePath(((products, "CHANNEL_RUN", 0),)),
    "kn2row": CodePath(((products, "SHIFT_COST", 0),), threads=2),
    "im2col": CodePath(((products, "SHIFT_COST", 10**6),)),
    "no channelwise": CodePath(((channelwise, "THIN_GROUP", 0),)),
    "channelwise, rows not merged": CodePath(((channelwise, "SHORT_LOOP", 0),)),
}


def check(
    geometry: Case, operation: str, path: CodePath, dtype: str = "f32", seed: int = 0
) -> None:
    tensors = geometry.integers(dtype, seed)
    with pytest.MonkeyPatch.context() as patch, onednn_py.num_threads(path.threads):
        path.force(patch)
        for data_format in ("NCX", "NXC"):
            for weights_first in (True, False):
                tensors.check(
                    operation, "numpy", data_format=data_format, weights_first=weights_first
                )


@pytest.mark.parametrize("path", CODE_PATHS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", CURATED)
def test_every_path_is_exact(name: str, operation: str, path: str) -> None:
    check(CURATED[name], operation, CODE_PATHS[path])


@given(
    geometry=geometries(),
    operation=st.sampled_from(OPERATIONS),
    path=st.sampled_from(list(CODE_PATHS)),
    dtype=st.sampled_from(["f32", "bf16", "f16"]),
    seed=st.integers(0, 10),
)
@settings(max_examples=50)
def test_every_path_is_exact_for_any_geometry(
    geometry: Case, operation: str, path: str, dtype: str, seed: int
) -> None:
    check(geometry, operation, CODE_PATHS[path], dtype, seed)


@pytest.mark.slow
@given(
    geometry=geometries(),
    operation=st.sampled_from(OPERATIONS),
    path=st.sampled_from(list(CODE_PATHS)),
    dtype=st.sampled_from(["f32", "bf16", "f16"]),
)
@settings(max_examples=3000)
def test_long_sweep_of_every_path(geometry: Case, operation: str, path: str, dtype: str) -> None:
    check(geometry, operation, CODE_PATHS[path], dtype)


# An im2col of all pixels at once would be far larger than the limit.
LARGE = {
    "large_kernel": case(4000, 1000, minibatch=1, inputs=16, outputs=8),
    "many_channels": case((9, 9), 3, pads=1, minibatch=2, inputs=1500, outputs=16),
    "large_image": case((600, 600), 5, pads=2, minibatch=1, inputs=6, outputs=4),
    "channelwise": case((200, 300), 5, pads=2, minibatch=2, groups=64, inputs=64, outputs=64),
    "long_rows": case(40_000, 31, pads=15, minibatch=1, groups=24, inputs=24, outputs=24),
    "few_outputs": case((150, 150), 5, pads=2, minibatch=2, inputs=2, outputs=64),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("name", LARGE)
def test_temporary_arrays_are_bounded(
    name: str, data_format: str, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = LARGE[name].normals("f32")
    sizes: list[int] = []

    def record(method: str) -> None:
        plain = getattr(Workspace, method)

        def recorded(*arguments: object) -> np.ndarray:
            array: np.ndarray = plain(*arguments)
            sizes.append(array.nbytes)
            return array

        monkeypatch.setattr(Workspace, method, recorded)

    record("empty")
    record("shared")
    positional, keywords = tensors.arguments(operation, data_format, data_format == "NCX")
    getattr(onednn_py, operation)(*positional, **keywords, backend="numpy")
    assert max(sizes, default=0) <= products.MOST_TILE_BYTES


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_same_bits_every_time(operation: str, threads: int) -> None:
    """Sums are added in the same order, whichever thread computes which of them."""
    tensors = case((40, 41), 3, 2, pads=1, minibatch=5, inputs=24, outputs=17).normals("f32")
    positional, keywords = tensors.arguments(operation, "NXC", False)
    with onednn_py.num_threads(threads):
        results = [
            getattr(onednn_py, operation)(*positional, **keywords, backend="numpy")
            for _ in range(5)
        ]
    for result in results:
        for first, other in zip(results[0], result, strict=True):
            np.testing.assert_array_equal(first, other)
