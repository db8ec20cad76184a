"""The NumPy backend's ways of computing, each forced on small problems, and its memory."""

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
class Way:
    """Limits of the backend's modules that send small problems one way."""

    limits: tuple[tuple[object, str, int], ...]
    threads: int = 1

    def force(self, patch: pytest.MonkeyPatch) -> None:
        for module, name, value in self.limits:
            patch.setattr(module, name, value)


def tiles_of(nbytes: int, threads: int = 1) -> Way:
    """Tiles of hardly a pixel, channels shared out as far as they go."""
    return Way(
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


WAYS = {
    "tiles of a pixel": tiles_of(4),
    "tiles of some pixels": tiles_of(2000, threads=3),
    "tiles of rows": tiles_of(20_000, threads=2),
    "one tile a thread": Way((), threads=3),
    "channels apart": Way(((windows, "CONFLICT", 1),), threads=2),
    "windows picked": Way(((windows, "SPARSE", 0),)),
    "windows by rows": Way(((products, "CHANNEL_RUN", 10**6),)),
    "windows by channels": Way(((products, "CHANNEL_RUN", 0),)),
    "products shifted": Way(((products, "SHIFT_COST", 0),), threads=2),
    "products gathered": Way(((products, "SHIFT_COST", 10**6),)),
    "never thin": Way(((channelwise, "THIN_GROUP", 0),)),
    "thin, pixels apart": Way(((channelwise, "SHORT_LOOP", 0),)),
}


def check(geometry: Case, operation: str, way: Way, dtype: str = "f32", seed: int = 0) -> None:
    tensors = geometry.integers(dtype, seed)
    with pytest.MonkeyPatch.context() as patch, onednn_py.num_threads(way.threads):
        way.force(patch)
        for data_format in ("NCX", "NXC"):
            for weights_first in (True, False):
                tensors.check(
                    operation, "numpy", data_format=data_format, weights_first=weights_first
                )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", CURATED)
def test_every_way_is_exact(name: str, operation: str, way: str) -> None:
    check(CURATED[name], operation, WAYS[way])


@given(
    geometry=geometries(),
    operation=st.sampled_from(OPERATIONS),
    way=st.sampled_from(list(WAYS)),
    dtype=st.sampled_from(["f32", "bf16", "f16"]),
    seed=st.integers(0, 10),
)
@settings(max_examples=50)
def test_every_way_is_exact_for_any_geometry(
    geometry: Case, operation: str, way: str, dtype: str, seed: int
) -> None:
    check(geometry, operation, WAYS[way], dtype, seed)


@pytest.mark.slow
@given(
    geometry=geometries(),
    operation=st.sampled_from(OPERATIONS),
    way=st.sampled_from(list(WAYS)),
    dtype=st.sampled_from(["f32", "bf16", "f16"]),
)
@settings(max_examples=3000)
def test_long_sweep_of_every_way(geometry: Case, operation: str, way: str, dtype: str) -> None:
    check(geometry, operation, WAYS[way], dtype)


# Many taps, many channels, large images: what a gathered copy of everything would take is
# far beyond the limit.
LARGE = {
    "many_taps": case(4000, 1000, minibatch=1, inputs=16, outputs=8),
    "many_channels": case((9, 9), 3, pads=1, minibatch=2, inputs=1500, outputs=16),
    "large_image": case((600, 600), 5, pads=2, minibatch=1, inputs=6, outputs=4),
    "thin": case((200, 300), 5, pads=2, minibatch=2, groups=64, inputs=64, outputs=64),
    "long_rows": case(40_000, 31, pads=15, minibatch=1, groups=24, inputs=24, outputs=24),
    "few_outputs": case((150, 150), 5, pads=2, minibatch=2, inputs=2, outputs=64),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("name", LARGE)
def test_buffers_are_bounded(
    name: str, data_format: str, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = LARGE[name].normals("f32")
    sizes: list[int] = []

    def record(owner: type, method: str) -> None:
        plain = getattr(owner, method)

        def recorded(*arguments: object) -> np.ndarray:
            array: np.ndarray = plain(*arguments)
            sizes.append(array.nbytes)
            return array

        monkeypatch.setattr(owner, method, recorded)

    record(Workspace, "empty")
    record(Workspace, "shared")
    positional, keywords = tensors.arguments(operation, data_format, data_format == "NCX")
    getattr(onednn_py, operation)(*positional, **keywords, backend="numpy")
    assert max(sizes, default=0) <= products.MOST_TILE_BYTES


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_same_bits_every_time(operation: str, threads: int) -> None:
    """Whichever thread does what: sums are always made in the same order."""
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
