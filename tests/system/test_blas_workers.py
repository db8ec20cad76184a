"""The workers of BLAS libraries, by stand-ins: which can be told to sleep early, and how."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from onednn_py.system import blas_workers
from onednn_py.system.blas_workers import BLOCKTIME, Workers, find_workers, shorten


class IntelOpenMP:
    """The functions of Intel's OpenMP runtime."""

    def __init__(self, blocktime: int = 200) -> None:
        self.blocktime = blocktime

    def kmp_get_blocktime(self) -> int:
        return self.blocktime

    def kmp_set_blocktime(self, milliseconds: int) -> None:
        self.blocktime = milliseconds


class OpenBLAS:
    """The functions of OpenBLAS that its workers depend on."""

    def __init__(self, timeout: int = 0) -> None:
        self.timeout = timeout
        self.ended = 0

    def openblas_thread_timeout(self) -> int:
        return self.timeout

    def openblas_read_env(self) -> None:
        self.timeout += 1

    def blas_thread_shutdown_(self) -> int:
        self.ended += 1
        return 0


def controller(api: str, layer: str, threads: int = 2, **more: Any) -> Any:
    described = {"version": "1.2", "filepath": f"/lib/{api}.so", "prefix": f"lib{api}", **more}
    return SimpleNamespace(
        internal_api=api, threading_layer=layer, num_threads=threads, **described
    )


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENBLAS_THREAD_TIMEOUT", "KMP_BLOCKTIME", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Libraries that threadpoolctl finds."""
    controllers: list[Any] = []
    found = SimpleNamespace(lib_controllers=controllers)
    monkeypatch.setattr(blas_workers, "ThreadpoolController", lambda: found)
    return controllers


def mkl(openmp: IntelOpenMP, layer: str = "intel") -> list[Any]:
    runtime = controller("openmp", "", prefix="libiomp", dynlib=openmp)
    return [controller("mkl", layer), runtime]


def test_mkl_is_told_by_its_own_runtime(loaded: list[Any]) -> None:
    openmp = IntelOpenMP()
    loaded += mkl(openmp)
    (workers,) = find_workers("/lib/gomp.so")
    assert (workers.name, workers.reason) == ("MKL 1.2", None)
    assert shorten([workers]) is None
    assert openmp.blocktime == BLOCKTIME


@pytest.mark.parametrize(
    ("blocktime", "layer", "own", "variable", "reason"),
    [
        (200, "gnu", "/lib/gomp.so", "", "its threads are those of gnu"),
        (200, "intel", "/lib/openmp.so", "", "its threads are those of oneDNN"),
        (0, "intel", "/lib/gomp.so", "", "its threads sleep early"),
        (200, "intel", "/lib/gomp.so", "KMP_BLOCKTIME", "KMP_BLOCKTIME is set"),
    ],
)
def test_mkl_that_stays_as_it_is(
    blocktime: int,
    layer: str,
    own: str,
    variable: str,
    reason: str,
    loaded: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if variable:
        monkeypatch.setenv(variable, "10")
    loaded += mkl(IntelOpenMP(blocktime), layer)
    (workers,) = find_workers(own)
    assert workers.reason == reason
    assert workers.openmp is None


@pytest.mark.parametrize(
    ("functions", "layer", "threads", "variable", "reason"),
    [
        (OpenBLAS(), "pthreads", 2, "", None),
        (OpenBLAS(), "openmp", 2, "", "its threads are those of openmp"),
        (OpenBLAS(), "pthreads", 1, "", "one thread"),
        (OpenBLAS(20), "pthreads", 2, "", "OPENBLAS_THREAD_TIMEOUT is set"),
        (OpenBLAS(), "pthreads", 2, "20", "OPENBLAS_THREAD_TIMEOUT is set"),
        (IntelOpenMP(), "pthreads", 2, "", "it has no functions that end its workers"),
    ],
)
def test_openblas(
    functions: Any,
    layer: str,
    threads: int,
    variable: str,
    reason: str | None,
    loaded: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blas_workers, "HAS_C_ENVIRONMENT", True)
    monkeypatch.setattr(blas_workers, "_functions", lambda path: functions)
    if variable:
        monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", variable)
    loaded.append(controller("openblas", layer, threads))
    (workers,) = find_workers()
    assert workers.reason == reason


def test_a_thread_that_begins_to_work_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers stay, and OpenBLAS reads the environment again as the user left it."""
    monkeypatch.setattr(blas_workers, "first_at_work", lambda: None)
    monkeypatch.setattr(blas_workers, "call_while_others_wait", lambda functions: False)
    library: Any = OpenBLAS()
    workers = Workers("OpenBLAS", "/lib/openblas.so", 2, None, openblas=library)
    assert shorten([workers]) == "another thread was at work"
    assert (library.timeout, library.ended) == (2, 0)
