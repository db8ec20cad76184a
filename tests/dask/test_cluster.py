"""The functions on two worker processes: the same bits, bounded memory, and a worker that dies."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import onednn_py
from tests.support.cases import CURATED
from tests.support.dask_cases import DASK_FUNCTIONS, assert_equal_values, dask_arguments

pytestmark = [
    pytest.mark.frameworks,
    # Of distributed's own sockets and event loops.
    pytest.mark.filterwarnings("default"),
]

# A cluster that does not answer is an error, not a test that hangs.
SECONDS = 60


@pytest.fixture(scope="module")
def functions() -> Any:
    from onednn_py import dask

    return dask


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    import dask
    from distributed import Client, LocalCluster

    with ExitStack() as stack:
        stack.enter_context(
            dask.config.set(
                {
                    "distributed.comm.timeouts.connect": f"{SECONDS}s",
                    "distributed.admin.tick.limit": f"{SECONDS}s",
                    "distributed.scheduler.allowed-failures": 10,
                }
            )
        )
        cluster = stack.enter_context(
            LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
                host="127.0.0.1", memory_limit=None, silence_logs=50,
            )
        )  # fmt: skip
        yield stack.enter_context(Client(cluster, timeout=SECONDS))


def gathered(client: Any, lazy: list[Any]) -> list[Any]:
    """Compute on the workers, and return the results here; workers that hang are an error."""
    from distributed import wait

    futures = client.compute(lazy)
    wait(futures, timeout=5 * SECONDS)
    return client.gather(futures, direct=False)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("function", DASK_FUNCTIONS)
def test_the_same_bits_as_on_numpy_arrays(
    client: Any, functions: Any, function: str, dtype: str
) -> None:
    names = ("2d_strided_dilated", "2d_groups", "3d_strided_dilated", "2d_pads_beyond_kernel")
    lazy, expected = [], []
    for seed, name in enumerate(names):
        tensors = CURATED[name].integers(dtype)
        positional, chunked, keywords = dask_arguments(
            tensors, function, seed, "NXC", False, "native", most=2
        )
        expected.append(getattr(onednn_py, function)(*positional, **keywords))
        lazy.append(getattr(functions, function)(*chunked, **keywords))
    actual = gathered(client, lazy)
    for one, other in zip(actual, expected, strict=True):
        assert_equal_values(one, other)


def slow_chunk(chunk: np.ndarray, seconds: float) -> np.ndarray:
    time.sleep(seconds)
    return chunk


def test_a_worker_that_dies(client: Any, functions: Any) -> None:
    """Its results are computed again, and the result has the same bits."""
    import dask.array as da

    rng = np.random.default_rng(0)
    whole = rng.standard_normal((4, 40, 40, 8), np.float32)
    diff = rng.standard_normal((4, 40, 40, 4), np.float32)
    src, diff_dst = (
        da.from_array(array, chunks=(1, 20, 20, 4)).map_blocks(slow_chunk, 0.1, dtype=array.dtype)
        for array in (whole, diff)
    )
    lazy = functions.convolution_backward_weights(
        src, diff_dst, (3, 3, 8, 4), bias=True, pads_begin=1, pads_end=1
    )
    expected = [array.compute(scheduler="synchronous") for array in lazy]
    before = client.run(os.getpid)
    futures = client.compute(lazy)
    time.sleep(1)
    assert not any(future.done() for future in futures)
    address, process = random.choice(sorted(before.items()))
    os.kill(process, signal.SIGKILL)
    actual = [future.result(timeout=SECONDS) for future in futures]
    for one, other in zip(actual, expected, strict=True):
        assert one.tobytes() == other.tobytes()
    client.wait_for_workers(2, timeout=SECONDS)
    assert process not in client.run(os.getpid).values(), address


def peak_bytes() -> int:
    """Most memory that this process had at any time, since it began."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def made(block_info: Any = None) -> np.ndarray:
    """A block of zeros with ones so far apart that no window sees two."""
    block = np.zeros(block_info[None]["chunk-shape"], np.float32)
    block[:, 8::16, 8::16, 8::16] = 1
    return block


def test_peak_memory_is_bounded_by_chunks(
    client: Any, functions: Any, record_property: pytest.RecordProperty
) -> None:
    """A volume of 201 MB in chunks of 2 MB, from which nothing but sums is left."""
    import dask
    import dask.array as da

    chunks = ((1,), (32,) * 24, (128,) * 4, (128,), (1,))
    src = da.map_blocks(made, chunks=chunks, dtype=np.float32, meta=np.empty((0,) * 5, np.float32))
    weights = np.ones((3, 3, 3, 1, 1), np.float32)
    same = {"pads_begin": 1, "pads_end": 1}
    # Libraries and plans are not what is measured.
    warm = functions.convolution(src[:, :64], weights, **same)
    warm_weights = functions.convolution_backward_weights(
        src[:, :128], src[:, :128], weights.shape, **same
    )
    gathered(client, [warm.sum(), warm_weights])
    before = client.run(peak_bytes)
    dst = functions.convolution(src, weights, **same)
    diff_src = functions.convolution_backward_data(dst, weights, **same)
    diff_weights = functions.convolution_backward_weights(src, dst, weights.shape, **same)
    sums = [diff_src.max(), diff_weights]
    largest, gradient = gathered(client, list(dask.persist(*sums)))
    assert largest == 27
    assert (gradient == src.size // 16**3).all()
    after = client.run(peak_bytes)
    grown = max(after[worker] - before.get(worker, 0) for worker in after)
    record_property("bytes of the volume", src.nbytes)
    record_property("bytes that a worker's peak grew", grown)
    assert grown < src.nbytes / 3
