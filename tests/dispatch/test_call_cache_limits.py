"""What calls leave behind: bounded, forgotten when asked, shared by threads, safe in children."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError
from onednn_py.dispatch import bound_call, call_cache, planner
from tests.support.call_cases import BIAS, DST, SRC, WEIGHTS, data_gradient, numbers
from tests.support.forks import child_while_held, needs_fork
from tests.support.memory_layouts import gaps

pytestmark = pytest.mark.usefixtures("fresh_cache")


class TestCache:
    def test_it_is_bounded(self, monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
        monkeypatch.setattr(call_cache, "MOST_CALLS", 4)
        for size in (*range(4, 14), *range(4, 14)):
            result = data_gradient(
                np.ones((1, size, 1), np.float32), np.ones((3, 1, 1), np.float32)
            )
            assert result.sum() == 3 * size
            assert len(call_cache._calls) <= 4

    def test_attributes_are_bounded(self, monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
        monkeypatch.setattr(call_cache, "MOST_CALLS", 4)
        for step in range(1, 13):
            assert data_gradient(strides=(step, 1), backend=backend).shape[1] == 3 * step + 3
            assert len(call_cache._calls) <= 4

    def test_equal_arguments_of_other_objects(self, parsed: list[str], backend: str) -> None:
        for _ in range(2):
            for pads in ([1, int("1")], (1, int("1"))):
                data_gradient(pads_begin=pads, auto_pad="".join(["no", "ne"]), backend=backend)
        assert len(parsed) == 2

    def test_a_list_is_read_anew(self, backend: str) -> None:
        strides, sizes = [1, 1], []
        for step in (1, 2, 1):
            strides[0] = step
            actual = data_gradient(strides=strides, backend=backend)
            expected = data_gradient(strides=(step, 1), backend=backend)
            assert actual.shape == expected.shape
            sizes.append(actual.shape[1])
            np.testing.assert_array_equal(actual, expected)
        assert sizes[0] == sizes[2] < sizes[1]

    def test_cache_clear_forgets(self, parsed: list[str], backend: str) -> None:
        data_gradient(backend=backend)
        onednn_py.cache_clear()
        assert not call_cache._calls
        count = len(parsed)
        data_gradient(backend=backend)
        assert len(parsed) > count

    def test_what_failed_is_not_known(self, parsed: list[str], backend: str) -> None:
        for _ in range(3):
            with pytest.raises(AttributeValueError):
                data_gradient(strides=0, backend=backend)
        assert len(parsed) == 3
        assert not call_cache._calls

    def test_numbers_that_lie_are_asked_each_time(self, backend: str) -> None:
        class Step(int):
            """Equal to all others."""

            def __eq__(self, other: object) -> bool:
                return True

            def __hash__(self) -> int:
                return 0

        for steps in ((1, 2, 1), ((1, 1), (2, 1), (1, 1))):
            sizes = [
                data_gradient(
                    strides=Step(step) if isinstance(step, int) else tuple(map(Step, step)),
                    backend=backend,
                ).shape[1]
                for step in steps
            ]
            assert sizes == [6, 9, 6]

    def test_misses_are_builds(self, backend: str) -> None:
        """And hits all other calls, however they were answered."""
        for _ in range(3 * bound_call.USES_PER_CACHE_HIT):
            data_gradient(backend=backend)
        info = onednn_py.cache_info()
        assert (info.misses, info.hits, info.size) == (1, 3 * bound_call.USES_PER_CACHE_HIT - 1, 1)
        data_gradient(gaps(DST), WEIGHTS, backend=backend)
        assert onednn_py.cache_info().misses == 2
        # A copy is as good as the array itself.
        data_gradient(DST[::-1], WEIGHTS, backend=backend)
        assert onednn_py.cache_info().misses == 2

    def test_evicted_plans_are_gone_and_built_again(self, backend: str) -> None:
        onednn_py.set_cache_limit(entries=1)
        expected = data_gradient(backend=backend)
        (plan,) = (weakref.ref(kept.plan) for kept in planner.plan_cache._plans.values())
        np.testing.assert_array_equal(data_gradient(backend=backend), expected)
        other = onednn_py.convolution(SRC, WEIGHTS, backend=backend)
        gc.collect()
        assert plan() is None
        for misses in (3, 5):
            np.testing.assert_array_equal(data_gradient(backend=backend), expected)
            assert onednn_py.cache_info().misses == misses
            again = onednn_py.convolution(SRC, WEIGHTS, backend=backend)
            np.testing.assert_array_equal(again, other)

    def test_a_plan_in_use_is_not_the_next_to_go(self, backend: str) -> None:
        onednn_py.set_cache_limit(entries=2)
        data_gradient(backend=backend)
        onednn_py.convolution(SRC, WEIGHTS, backend=backend)
        for _ in range(bound_call.USES_PER_CACHE_HIT):
            data_gradient(backend=backend)
        onednn_py.convolution(SRC, WEIGHTS, BIAS, backend=backend)
        misses = onednn_py.cache_info().misses
        data_gradient(backend=backend)
        assert onednn_py.cache_info().misses == misses

    def test_a_plan_by_hand_outlives_its_place_in_the_cache(self, backend: str) -> None:
        onednn_py.set_cache_limit(entries=1)
        planned = onednn_py.plan(onednn_py.convolution_backward_data, DST, WEIGHTS, backend=backend)
        expected = planned(DST, WEIGHTS)
        onednn_py.convolution(SRC, WEIGHTS, backend=backend)
        misses = onednn_py.cache_info().misses
        np.testing.assert_array_equal(planned(DST, WEIGHTS), expected)
        assert onednn_py.cache_info().misses == misses


class TestThreadsAndForks:
    def test_one_kind_on_many_threads(self, backend: str) -> None:
        """The first call of all, and calls of which a tenth write into outputs."""
        sources = [numbers(4, 20, 20, 16, seed=seed) for seed in range(6)]
        weights = numbers(3, 3, 16, 16)
        with onednn_py.use_backend("numpy"):
            expected = [data_gradient(source, weights) for source in sources]
        barrier = threading.Barrier(len(sources))

        def work(number: int) -> None:
            source, right = sources[number], expected[number]
            out = np.empty_like(right)
            barrier.wait()
            for step in range(30):
                given = out if step % 10 == 9 else None
                found = data_gradient(source, weights, out=given, backend=backend)
                assert (found == right).all(), (number, step)

        with ThreadPoolExecutor(len(sources)) as pool:
            for future in [pool.submit(work, number) for number in range(len(sources))]:
                future.result()

    def test_clearing_while_others_call(self, backend: str) -> None:
        expected = data_gradient(backend="numpy")
        stop = threading.Event()

        def clear() -> None:
            while not stop.is_set():
                onednn_py.cache_clear()
                onednn_py.set_cache_limit(entries=1)
                time.sleep(0.001)

        def work(number: int) -> None:
            for _ in range(100):
                assert (data_gradient(backend=backend) == expected).all()
                onednn_py.convolution(SRC[:, :, number:], WEIGHTS, backend=backend)

        clearing = threading.Thread(target=clear)
        clearing.start()
        try:
            with ThreadPoolExecutor(3) as pool:
                for future in [pool.submit(work, number) for number in range(3)]:
                    future.result()
        finally:
            stop.set()
            clearing.join()

    @needs_fork
    def test_a_child_calls_what_its_parent_knew(self, backend: str) -> None:
        """Even if some thread of the parent was about to remember a call."""
        expected = [data_gradient(source, WEIGHTS, backend=backend) for source in (DST, DST[1:])]

        def good() -> bool:
            known = data_gradient(DST, WEIGHTS, backend=backend)
            # Another kind, which is to be remembered.
            other = onednn_py.convolution(SRC, WEIGHTS, backend=backend)
            right = onednn_py.convolution(SRC, WEIGHTS, backend="numpy")
            return bool((known == expected[0]).all() and (other == right).all())

        assert child_while_held(call_cache._lock, good) == 0
        np.testing.assert_array_equal(data_gradient(backend=backend), expected[0])
