"""The number of threads: set, applied on the calling thread, restored."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import threadpoolctl

import onednn_py
from onednn_py import AttributeValueError, config
from onednn_py.backends.onednn.binding import runtime
from onednn_py.backends.onednn.binding.library import library
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.system import blas_threads, parallel
from tests.support.forks import needs_fork
from tests.support.requirements import HAS_ONEDNN, needs_onednn
from tests.support.threads import on_another_thread

USES_OPENMP = HAS_ONEDNN and library().uses_openmp
needs_openmp = pytest.mark.skipif(not USES_OPENMP, reason="no oneDNN library with OpenMP here")

SRC = np.arange(2 * 9 * 9 * 8, dtype=np.float32).reshape(2, 9, 9, 8) % 7
WEIGHTS = np.arange(3 * 3 * 8 * 16, dtype=np.float32).reshape(3, 3, 8, 16) % 5


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No number is set when a test begins, nor when it has ended."""
    monkeypatch.setattr(config, "_process_threads", None)
    monkeypatch.setattr(blas_threads, "_process_limit", None)
    apply_settings()
    yield
    monkeypatch.undo()
    apply_settings()


def apply_settings() -> None:
    """Apply the numbers in force to NumPy's BLAS and to OpenMP."""
    with blas_threads.limited(1):
        pass
    onednn_py.get_num_threads()


def convolve(backend: str | None = None) -> np.ndarray[Any, Any]:
    result: np.ndarray[Any, Any] = onednn_py.convolution(SRC, WEIGHTS, backend=backend)
    return result


def omp_threads() -> int:
    """Return OpenMP's number on the calling thread, read without the package's own code."""
    return int(library().lib.omp_get_max_threads())


def numpy_pool_threads() -> set[int]:
    """Return the numbers of NumPy's own BLAS, read without the package's own code."""
    found = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    package = os.path.dirname(np.__file__)
    # In NumPy's folder or in numpy.libs beside it; a NumPy without its own uses the system's.
    own = [pool for pool in found if pool["filepath"].startswith(package)]
    return {pool["num_threads"] for pool in own or found} - {None}


@needs_openmp
class TestOpenMP:
    def test_a_call_leaves_the_number_alone_if_none_is_set(self) -> None:
        before = omp_threads()
        assert onednn_py.get_num_threads() == before
        convolve()
        assert omp_threads() == before
        assert not current_engine().openmp.is_applied

    def test_a_number_applies_to_every_calling_thread(self) -> None:
        start = on_another_thread(omp_threads)
        onednn_py.set_num_threads(3)
        assert onednn_py.get_num_threads() == 3
        assert omp_threads() == 3

        def work() -> tuple[int, int]:
            before = omp_threads()
            convolve()
            return before, omp_threads()

        assert on_another_thread(work) == (start, 3)

    def test_blocks_nest(self) -> None:
        before = omp_threads()
        with onednn_py.num_threads(5):
            convolve()
            assert omp_threads() == 5
            with onednn_py.num_threads(3):
                assert onednn_py.get_num_threads() == 3
                assert omp_threads() == 3
            assert omp_threads() == 5
        assert omp_threads() == before

    def test_a_block_overrides_the_number_of_the_process(self) -> None:
        onednn_py.set_num_threads(4)
        with onednn_py.num_threads(3):
            onednn_py.set_num_threads(5)
            assert onednn_py.get_num_threads() == 3
        assert onednn_py.get_num_threads() == 5

    def test_an_exception_ends_a_block(self) -> None:
        before = omp_threads()

        def fail() -> None:
            with onednn_py.num_threads(before + 1):
                convolve()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert omp_threads() == before

    def test_a_block_applies_to_its_own_thread_only(self) -> None:
        start = on_another_thread(omp_threads)
        with onednn_py.num_threads(start + 2):
            assert onednn_py.get_num_threads() == start + 2
            assert on_another_thread(onednn_py.get_num_threads) == start

    def test_two_threads_with_blocks_of_their_own(self) -> None:
        barrier = threading.Barrier(2, timeout=60)
        seen: dict[int, list[int]] = {}

        def work(number: int) -> None:
            seen[number] = []
            with onednn_py.num_threads(number):
                for _ in range(5):
                    barrier.wait()
                    convolve()
                    seen[number].append(omp_threads())

        threads = [threading.Thread(target=work, args=(number,)) for number in (1, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == {1: [1] * 5, 3: [3] * 5}

    def test_a_block_restores_the_number_of_the_thread(self) -> None:
        def work() -> list[int]:
            library().lib.omp_set_num_threads(7)
            seen = [onednn_py.get_num_threads()]
            with onednn_py.num_threads(3):
                seen.append(onednn_py.get_num_threads())
            return [*seen, omp_threads()]

        assert on_another_thread(work) == [7, 3, 7]

    def test_a_number_that_others_set_inside_a_block_stays(self) -> None:
        def work() -> list[int]:
            with onednn_py.num_threads(3):
                seen = [onednn_py.get_num_threads()]
                library().lib.omp_set_num_threads(6)
                seen.append(onednn_py.get_num_threads())
            return [*seen, omp_threads()]

        assert on_another_thread(work) == [3, 3, 6]

    def test_threadpoolctl_is_followed(self) -> None:
        before = omp_threads()
        with threadpoolctl.threadpool_limits(before + 1, user_api="openmp"):
            assert onednn_py.get_num_threads() == before + 1
            assert parallel.current_threads() == before + 1
        assert onednn_py.get_num_threads() == before
        assert parallel.current_threads() == before

    def test_plans_are_built_for_a_number(self) -> None:
        """A primitive is built for a number of threads."""
        expected = convolve()
        planned = onednn_py.plan(onednn_py.convolution, SRC, WEIGHTS)
        onednn_py.cache_clear()
        for misses, number in enumerate((3, 4, 5), start=1):
            with onednn_py.num_threads(number):
                np.testing.assert_array_equal(convolve(), expected)
                np.testing.assert_array_equal(planned(SRC, WEIGHTS), expected)
                assert onednn_py.cache_info().misses == misses
        with onednn_py.num_threads(3):
            convolve()
        assert onednn_py.cache_info().misses == 3

    def test_libdnnl_starts_that_number_of_threads(self) -> None:
        """Counts the threads of the process: OpenMP keeps the threads that it has started."""
        if not os.path.isdir("/proc/self/task"):
            pytest.skip("no /proc here")
        assert grown_threads("") == "4 child computed\n"

    def test_of_two_runtimes_the_number_is_set_in_that_of_libdnnl(self, tmp_path: Path) -> None:
        """PyTorch loads a libgomp of its own into the global scope."""
        if sys.platform != "linux":
            pytest.skip("for the loader of Linux")
        found = threadpoolctl.ThreadpoolController().select(prefix="libgomp").info()
        if not found:
            pytest.skip("libdnnl does not use libgomp")
        # Under another name inside the file, the loader loads it as another library.
        content = Path(found[0]["filepath"]).read_bytes()
        other = tmp_path / "libgomq.so.1"
        other.write_bytes(content.replace(b"libgomp.so.1\0", b"libgomq.so.1\0"))
        for mode in ("RTLD_LOCAL", "RTLD_GLOBAL"):
            load = f"import ctypes; ctypes.CDLL({str(other)!r}, mode=ctypes.{mode})"
            assert grown_threads(load) == "4 child computed\n"


def grown_threads(preparation: str) -> str:
    """Return how many threads a convolution on five starts, and whether a child computes, too."""
    code = f"""
{preparation}
import os
import numpy as np, onednn_py
from onednn_py.system import blas_threads
blas_threads.set_limit(5)
onednn_py.info()
count = lambda: len(os.listdir("/proc/self/task"))
src, weights = np.ones((2, 16, 64, 64), np.float32), np.ones((16, 16, 3, 3), np.float32)
def multiply():
    np.ones((500, 500)) @ np.ones((500, 500))
multiply()
before = count()
def convolve():
    onednn_py.convolution(src, weights, data_format="NCX", weights_format="OIX")
with onednn_py.num_threads(5):
    convolve()
    multiply()  # the first convolution ended the workers of BLAS
print(count() - before, end=" ", flush=True)
if os.fork() == 0:
    convolve()
    print("child computed", flush=True)
    os._exit(0)
os.wait()
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.stdout + done.stderr


@needs_fork
@pytest.mark.parametrize("inside", [False, True])
def test_a_forked_child_has_one_thread(inside: bool) -> None:
    code = f"""
import contextlib, os
import numpy as np, onednn_py
from onednn_py.system import parallel
def numbers():
    onednn_py.convolution(np.ones((1, 9, 2), np.float32), np.ones((3, 2, 4), np.float32))
    return onednn_py.get_num_threads(), parallel.current_threads()
onednn_py.set_num_threads(3)
numbers()
with onednn_py.num_threads(4) if {inside} else contextlib.nullcontext():
    numbers()
    pid = os.fork()
    if pid == 0:
        with onednn_py.num_threads(5):
            inner = numbers()
        onednn_py.set_num_threads(2)
        os._exit(0 if inner == numbers() == (1, 1) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert numbers()[1] == 3
"""
    subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code], check=True, timeout=60
    )


class TestNumPy:
    def test_work_is_split_over_as_many(self, backend: str) -> None:
        before = parallel.current_threads()
        with onednn_py.num_threads(3):
            assert parallel.current_threads() == 3
            convolve(backend)
            assert parallel.current_threads() == 3
        assert parallel.current_threads() == before
        onednn_py.set_num_threads(5)
        assert parallel.current_threads() == 5

    def test_the_blas_of_numpy_follows(self) -> None:
        if not numpy_pool_threads():
            pytest.skip("NumPy's BLAS has no pool that threadpoolctl knows")
        before = numpy_pool_threads()
        with onednn_py.num_threads(1):
            assert numpy_pool_threads() == {1}
            with onednn_py.num_threads(2):
                assert numpy_pool_threads() == {2}
            assert numpy_pool_threads() == {1}
        assert numpy_pool_threads() == before

    def test_blocks_that_overlap_on_two_threads_restore_the_blas(self) -> None:
        """If each block restored the number it found, that of the other would stay for ever."""
        before = numpy_pool_threads()
        entered, left = threading.Event(), threading.Event()

        def work() -> None:
            with onednn_py.num_threads(2):
                entered.set()
                left.wait(60)

        thread = threading.Thread(target=work)
        with onednn_py.num_threads(1):
            thread.start()
            assert entered.wait(60)
        left.set()
        thread.join()
        assert numpy_pool_threads() == before

    def test_results_do_not_depend_on_the_number(self, backend: str) -> None:
        expected = convolve(backend)
        for number in (1, 2, 3):
            with onednn_py.num_threads(number):
                np.testing.assert_array_equal(convolve(backend), expected)


@pytest.mark.parametrize("wrong", [0, -1, 1025, True, False, 1.0, 2.5, "2", None, [2], 2**70])
def test_a_wrong_number_is_refused(wrong: Any) -> None:
    for name in ("set_num_threads", "num_threads"):
        function = getattr(onednn_py, name)
        with (
            pytest.raises(
                AttributeValueError, match=f"^{name}: expected an integer from 1 to 1024"
            ) as error,
            function(wrong),
        ):
            pass
        assert repr(wrong) in str(error.value)
    assert config.wanted_threads() is None


def test_a_numpy_integer_is_accepted() -> None:
    with onednn_py.num_threads(np.int64(3)):  # type: ignore[arg-type]
        assert type(config.wanted_threads()) is int


def test_without_a_library(tmp_path: Path) -> None:
    """The number applies to NumPy's work, and setting it searches for no library."""
    code = """
import onednn_py
from onednn_py.system import parallel
from onednn_py.backends.onednn.binding import library
onednn_py.set_num_threads(3)
with onednn_py.num_threads(2):
    assert parallel.current_threads() == 2
assert library._failure is None
assert onednn_py.get_num_threads() == 3
assert onednn_py.info()["threads"] == 3
with onednn_py.num_threads(4):
    assert onednn_py.get_num_threads() == 4
"""
    environment = {**os.environ, "ONEDNN_PY_LIBRARY": str(tmp_path / "none.so")}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)


@needs_onednn
def test_a_library_without_threads_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library(), "_runtime", 1)
    monkeypatch.setattr(runtime, "_openmp", None)
    monkeypatch.setattr(runtime, "_openmp_of", None)
    onednn_py.set_num_threads(3)
    assert onednn_py.get_num_threads() == 1
