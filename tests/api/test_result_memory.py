"""Memory of results and workspaces: kept while it is in use, then reused, counted, bounded."""

from __future__ import annotations

import subprocess
import sys
from math import prod

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.system import memory_pool
from onednn_py.system.memory_pool import pool
from onednn_py.tools.benchdnn.batch import read_batch
from onednn_py.tools.benchdnn.case import Case
from onednn_py.tools.benchdnn.suites import suite_files
from tests.support.candidate_runs import plan_problem
from tests.support.forks import exit_code_of_child, needs_fork
from tests.support.requirements import needs_onednn


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


# Above and below 2 MiB: memory from mmap, and from NumPy's allocator.
SIZES = [(1, 16, 224, 224), (1, 8, 64, 64)]


def data_gradient(shape: tuple[int, ...], value: float, backend: str) -> np.ndarray:
    """Return a gradient of ``shape`` whose elements are all ``value``."""
    weights = np.zeros((shape[1], shape[1], 1, 1), np.float32)
    weights[range(shape[1]), range(shape[1])] = 1
    diff_dst = np.full(shape, value, np.float32)
    return onednn_py.convolution_backward_data(
        diff_dst, weights, data_format="NCX", weights_format="OIX", backend=backend
    )


@pytest.mark.parametrize("shape", SIZES)
class TestResults:
    def test_memory_is_kept_while_a_view_lives(
        self, shape: tuple[int, ...], backend: str, fresh_cache: None
    ) -> None:
        kept = []
        for value in range(6):
            result = data_gradient(shape, value, backend)
            kept.append((value, result[:, ::2] if value % 2 else result.reshape(-1)[5:]))
            del result
        for value, view in kept:
            assert (view == value).all()

    def test_memory_is_reused(
        self, shape: tuple[int, ...], backend: str, fresh_cache: None
    ) -> None:
        result = data_gradient(shape, 1, backend)
        before = address(result)
        del result
        result = data_gradient(shape, 2, backend)
        assert address(result) == before
        assert (result == 2).all()

    def test_idle_memory_is_counted_and_freed(
        self, shape: tuple[int, ...], backend: str, fresh_cache: None
    ) -> None:
        result = data_gradient(shape, 1, backend)
        before, nbytes = onednn_py.cache_info().bytes, result.nbytes
        del result
        idle = onednn_py.cache_info().bytes
        assert nbytes <= idle - before <= 1.2 * nbytes
        onednn_py.set_cache_limit(bytes=nbytes // 2)
        # The newest plan is kept, whatever its size; idle blocks are not.
        assert pool.idle_bytes <= nbytes // 2
        onednn_py.set_cache_limit(bytes=2**30)
        result = data_gradient(shape, 1, backend)
        del result
        assert onednn_py.cache_info().bytes >= nbytes
        onednn_py.cache_clear()
        info = onednn_py.cache_info()
        assert (info.bytes, info.size, info.hits, info.misses) == (0, 0, 0, 0)

    def test_results_outlive_the_cache(
        self, shape: tuple[int, ...], backend: str, fresh_cache: None
    ) -> None:
        result = data_gradient(shape, 3, backend)
        onednn_py.cache_clear()
        others = [data_gradient(shape, 4, backend) for _ in range(3)]
        assert (result == 3).all()
        assert all((other == 4).all() for other in others)

    @needs_fork
    def test_a_child_does_not_write_into_results_of_its_parent(
        self, shape: tuple[int, ...], backend: str, fresh_cache: None
    ) -> None:
        """The child computes, writes to inherited arrays and releases them."""
        results = [data_gradient(shape, value, backend) for value in (5, 6)]

        def good() -> bool:
            results.pop()
            kept = results[0]
            is_good = (kept == 5).all()
            for value in range(4):
                result = data_gradient(shape, value, backend)
                is_good = is_good and (result == value).all()
            kept.fill(7)
            return bool(is_good)

        assert exit_code_of_child(good) == 0
        assert (results[0] == 5).all()
        assert (results[1] == 6).all()


@needs_onednn
def test_workspaces_are_reused(fresh_cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls with reorders allocate no new block, and never use that of a result."""
    rng = np.random.default_rng(0)
    src = rng.integers(-2, 3, (2, 48, 40, 40)).astype(np.float32)
    weights = rng.integers(-2, 3, (48, 48, 3, 3)).astype(np.float32)
    attributes = {"pads_begin": 1, "pads_end": 1, "data_format": "NCX", "weights_format": "OIX"}
    results = [onednn_py.convolution(src + step, weights, **attributes) for step in range(4)]
    for step, result in enumerate(results):
        expected = onednn_py.convolution(src + step, weights, **attributes, backend="numpy")
        np.testing.assert_array_equal(result, expected)
    allocated = []
    allocate = memory_pool._allocate

    def counted(nbytes: int) -> memory_pool.Block:
        allocated.append(nbytes)
        return allocate(nbytes)

    monkeypatch.setattr(memory_pool, "_allocate", counted)
    for _ in range(3):
        onednn_py.convolution(src, weights, **attributes, out=result)
    assert not allocated


def test_the_process_does_not_grow() -> None:
    """Hundreds of dropped results of the same size take the memory of a few."""
    pytest.importorskip("resource")
    code = """
import resource
import numpy as np, onednn_py
weights = np.ones((1, 1, 1, 1), np.float32)
diff_dst = np.ones((1, 1024, 1024, 1), np.float32)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(5):
    onednn_py.convolution_backward_data(diff_dst, weights)
before = peak()
for _ in range(200):
    onednn_py.convolution_backward_data(diff_dst, weights)
assert peak() - before < 3 * 4096, (before, peak())
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


def test_the_interpreter_exits_while_results_are_alive() -> None:
    code = """
import numpy as np, onednn_py
class Cycle: pass
kept = Cycle()
kept.itself = kept
weights, diff_dst = np.ones((1, 1, 1), np.float32), np.ones((1, 2**20, 1), np.float32)
kept.result = onednn_py.convolution_backward_data(diff_dst, weights)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


# The most bytes that results and workspace of an execution take, relative to all its tensors.
PEAK = 2.2


@needs_onednn
@pytest.mark.parametrize("suite", ["resnet50", "mobilenet", "unet"])
def test_peak_memory(suite: str) -> None:
    """With reordered copies of all tensors at once it would be 3."""
    ratios = {}
    for operation, path in suite_files(suite):
        for entry in read_batch(path, transposed=operation == "deconv").problems:
            descriptor = entry.descriptor.with_minibatch(entry.minibatch)
            for direction in ("BWD_D", "BWD_W"):
                case = Case(descriptor, direction, "f32", "NCX")
                plan = plan_problem(case.problem())
                assert isinstance(plan, OneDNNPlan)
                roles = (*case.input_roles, *case.result_roles)
                sizes = {role: 4 * prod(case.shape(role)) for role in roles}
                results = sum(sizes[role] for role in case.result_roles)
                ratios[case] = (plan.workspace_bytes + results) / sum(sizes.values())
    assert len(ratios) > 12
    worst = max(ratios, key=ratios.__getitem__)
    assert ratios[worst] <= PEAK, f"{worst.options}: {ratios[worst]:.2f}"
