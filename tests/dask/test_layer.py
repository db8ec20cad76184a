"""Layers: how many tasks, made when they are looked at, the same whichever blocks are asked for."""

from __future__ import annotations

import pickle
import time
from typing import Any

import numpy as np
import pytest

import onednn_py

pytestmark = pytest.mark.frameworks

SAME = {"pads_begin": 1, "pads_end": 1}
WEIGHTS = np.random.default_rng(0).integers(-2, 3, (3, 3, 3, 1, 2)).astype(np.float32)


@pytest.fixture
def da() -> Any:
    return pytest.importorskip("dask.array")


@pytest.fixture
def functions() -> Any:
    from onednn_py import dask

    return dask


def layer_of(array: Any) -> Any:
    return array.dask.layers[array.name]


def huge(da: Any, extent: int, chunk: int) -> Any:
    shape = (1, extent, extent, extent, 1)
    return da.zeros(shape, chunks=(1, chunk, chunk, chunk, 1), dtype=np.float32)


def test_a_graph_over_six_terabytes(
    da: Any, functions: Any, record_property: pytest.RecordProperty
) -> None:
    """The layer is a few kilobytes, and 27 tasks a chunk when it is made."""
    src = huge(da, 11_500, 500)
    assert src.nbytes > 6e12
    start = time.perf_counter()
    dst = functions.convolution(src, WEIGHTS, **SAME)
    record_property("seconds to build the layer", time.perf_counter() - start)
    layer = layer_of(dst)
    assert not layer.is_materialized()
    assert len(pickle.dumps(layer)) < 20_000
    start = time.perf_counter()
    graph = dict(layer)
    record_property("seconds to make its tasks", time.perf_counter() - start)
    record_property("tasks", len(graph))
    blocks = src.npartitions
    assert blocks <= len(graph) <= 27 * blocks


def test_gradients_over_six_terabytes(da: Any, functions: Any) -> None:
    src = huge(da, 11_500, 1000)
    weights = functions.convolution_backward_weights(src, src, (3, 3, 3, 1, 1), bias=True, **SAME)
    for result in weights:
        assert len(pickle.dumps(layer_of(result))) < 20_000
    # A partial result for each block, the 26 slices that it reads, and a tree over all.
    assert len(dict(layer_of(weights[0]))) <= 28.5 * src.npartitions
    assert len(dict(layer_of(weights[1]))) <= 1.5 * src.npartitions
    data = functions.convolution_backward_data(src, WEIGHTS[..., :1], **SAME)
    assert len(dict(layer_of(data))) <= 27 * src.npartitions


def test_a_chunk_that_is_needed_whole_is_not_copied(da: Any, functions: Any) -> None:
    src = da.zeros((6, 9, 9, 3), chunks=(2, 9, 9, 3), dtype=np.float32)
    dst = functions.convolution(src, np.ones((3, 3, 3, 2), np.float32), **SAME)
    assert len(layer_of(dst)) == 3


def test_weights_are_embedded_once(da: Any, functions: Any) -> None:
    src = da.zeros((1, 64, 64, 64, 1), chunks=(1, 8, 8, 8, 1), dtype=np.float32)
    weights = np.zeros((3, 3, 3, 1, 100), np.float32)
    graph = functions.convolution(src, weights, **SAME).dask
    everything = len(pickle.dumps(dict(graph)))
    without = len(pickle.dumps(dict(layer_of(functions.convolution(src, weights, **SAME)))))
    assert weights.nbytes <= everything - without < 2 * weights.nbytes + 200_000


def test_a_slice_takes_the_tasks_of_its_blocks_alone(da: Any, functions: Any) -> None:
    src = huge(da, 11_500, 500)
    dst = functions.convolution(src, WEIGHTS, **SAME)
    corner = dst[:, :10, :10, :10]
    graph = corner.__dask_optimize__(corner.dask, corner.__dask_keys__())
    assert len(graph) < 100
    assert not layer_of(dst).is_materialized()


def test_blocks_have_the_same_tasks_alone_and_together(da: Any, functions: Any) -> None:
    src = da.zeros((2, 20, 30, 4), chunks=(1, 7, 11, 2), dtype=np.float32)
    dst = functions.convolution(src, np.ones((5, 3, 4, 2), np.float32), strides=2)
    layer = layer_of(dst)
    whole = dict(layer)
    for key in layer.get_output_keys():
        alone, dependencies = layer.cull({key}, set())
        for own, task in dict(alone).items():
            assert task == whole[own]
            assert dependencies[own] == set(task.dependencies) == layer.get_dependencies(own, set())


def test_names_are_the_same_for_the_same_call_alone(da: Any, functions: Any) -> None:
    src = da.zeros((2, 20, 4), chunks=(1, 7, 4), dtype=np.float32)
    weights = np.ones((3, 4, 2), np.float32)
    first = functions.convolution(src, weights)
    assert functions.convolution(src, weights.copy()).name == first.name
    others = [
        functions.convolution(src, weights + 1),
        functions.convolution(src, weights, strides=2),
        functions.convolution(src.rechunk(5), weights),
        functions.convolution(src, weights, threads_per_block=2),
        functions.convolution(src, weights, backend="numpy"),
        functions.convolution(src, weights, np.zeros(2, np.float32)),
    ]
    assert len({first.name, *(other.name for other in others)}) == 1 + len(others)


def test_the_same_bits_twice(da: Any, functions: Any) -> None:
    """Dense numbers, whose sums depend on the order of the terms."""
    rng = np.random.default_rng(1)
    src = da.from_array(rng.standard_normal((4, 33, 31, 6), np.float32), chunks=(1, 8, 8, 2))
    diff = da.from_array(rng.standard_normal((4, 31, 29, 4), np.float32), chunks=(1, 8, 8, 4))
    found = []
    for _ in range(3):
        lazy = functions.convolution_backward_weights(src, diff, (3, 3, 6, 4), bias=True)
        found.append([one.compute(scheduler="threads", num_workers=4).tobytes() for one in lazy])
    assert found[0] == found[1] == found[2]
    exact = onednn_py.convolution_backward_weights(
        src.compute().astype(float), diff.compute().astype(float), (3, 3, 6, 4)
    )
    assert np.abs(np.frombuffer(found[0][0], np.float32).reshape(exact.shape) - exact).max() < 1e-3


@pytest.mark.parametrize(("strides", "kernel"), [(1, 3), (2, 3), (2, 4), (3, 3), (2, 5)])
def test_chunks_go_there_and_back(da: Any, functions: Any, strides: int, kernel: int) -> None:
    """With SAME pads, chunks that the stride divides are those of the way back."""
    src = da.zeros((1, 96, 2), chunks=(1, 24, 2), dtype=np.float32)
    weights = np.ones((kernel, 2, 2), np.float32)
    attributes = {"strides": strides, "auto_pad": "same_upper"}
    dst = functions.convolution(src, weights, **attributes)
    assert dst.chunks[1] == (24 // strides,) * 4
    back = functions.convolution_backward_data(dst, weights, src.shape, **attributes)
    assert back.chunks == src.chunks
