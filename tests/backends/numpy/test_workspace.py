"""The workspace: memory reused by name, separate for every thread, returned to the pool."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from onednn_py.backends.numpy import workspace as module
from onednn_py.backends.numpy.workspace import borrowed_workspace
from onednn_py.system.memory_pool import Pool

F32 = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool:
    fresh = Pool()
    monkeypatch.setattr(module, "pool", fresh)
    return fresh


def test_a_name_has_one_memory() -> None:
    with borrowed_workspace(F32, 1) as workspace:
        first = workspace.empty("a", (100, 3))
        assert first.dtype == F32
        assert np.shares_memory(first, workspace.empty("a", (7,), np.dtype(np.float64)))
        assert not np.shares_memory(first, workspace.empty("b", (100, 3)))
        larger = workspace.empty("a", (10_000, 3))
        assert not np.shares_memory(first, larger)
        assert np.shares_memory(larger, workspace.empty("a", (100, 3)))


def test_threads_have_memory_of_their_own() -> None:
    found = []
    with borrowed_workspace(F32, 2) as workspace:
        thread = threading.Thread(target=lambda: found.append(workspace.empty("a", (100,))))
        thread.start()
        thread.join()
        assert not np.shares_memory(found[0], workspace.empty("a", (100,)))


def test_all_memory_returns_to_the_pool(pool: Pool) -> None:
    with borrowed_workspace(F32, 2) as workspace:
        workspace.empty("a", (1000,))
        workspace.empty("a", (2000,))
        thread = threading.Thread(target=lambda: workspace.empty("a", (3000,)))
        thread.start()
        thread.join()
        assert pool.idle_bytes == 0
    assert pool.idle_bytes >= 4 * 6000


@pytest.mark.parametrize("column_major", [False, True])
def test_matrices_like_others_have_their_order(column_major: bool) -> None:
    matrices = np.empty((2, 5, 3), np.float32).swapaxes(1, 2)
    matrices = matrices if column_major else np.ascontiguousarray(matrices)
    with borrowed_workspace(F32, 1) as workspace:
        found = workspace.empty_like("a", matrices)
    assert (found.shape, found.strides) == (matrices.shape, matrices.strides)
