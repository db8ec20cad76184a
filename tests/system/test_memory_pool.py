"""The pool: memory is reused, and never while an object still refers to it."""

from __future__ import annotations

import gc
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from onednn_py.system import memory_pool
from onednn_py.system.memory_pool import ALIGNMENT, HUGE_PAGE, SMALLEST_LEASE, Pool

F32 = np.dtype(np.float32)
BYTES = np.dtype(np.uint8)

LARGE = 2 * HUGE_PAGE


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


class Cycle:
    """A reference cycle that holds an array until the garbage collector runs."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.itself = self


# Objects that keep an array's memory: a function of the array that makes the object, and a
# function that reads the object's bytes.
KEEPERS = {
    "array": (lambda array: array, np.asarray),
    "slice": (lambda array: array[1:, ::3], np.asarray),
    "last element": (lambda array: array[-1:, -1:], np.asarray),
    "reshaped": (lambda array: array.reshape(-1), np.asarray),
    "transposed": (lambda array: array.T, np.asarray),
    "another dtype": (lambda array: array.view(np.uint32), np.asarray),
    "view of a view": (lambda array: array[2:].view(np.uint16)[:, 1:], np.asarray),
    "subclass": (lambda array: array.view(np.recarray), np.asarray),
    "memoryview": (memoryview, np.asarray),
    "memoryview of a slice": (lambda array: memoryview(array)[3:5], np.asarray),
    "array of a memoryview": (lambda array: np.frombuffer(array[1:], np.uint8), np.asarray),
    "base": (lambda array: array.base, np.asarray),
    "iterator": (lambda array: array.flat, lambda flat: flat.base),
    "bound method": (lambda array: array.tobytes, lambda method: np.frombuffer(method(), np.uint8)),
    "object array": (lambda array: np.array([array, None], object), lambda array: array[0]),
    "another library's": (lambda array: np.from_dlpack(array), np.asarray),
    "cycle": (Cycle, lambda cycle: cycle.array),
}


class PoolMachine(RuleBasedStateMachine):
    """Arrays are made and dropped; each keeps its values while an object refers to it."""

    limit = 2**20

    def __init__(self) -> None:
        super().__init__()
        self.pool = Pool(self.limit)
        self.number = 0
        # By an array's number: the (name, object) that keep it, and its address range.
        self.keepers: dict[int, list[tuple[str, Any]]] = {}
        self.ranges: dict[int, tuple[int, int]] = {}

    @rule(
        rows=st.integers(8, 12),
        exponent=st.integers(13, 15),
        names=st.lists(st.sampled_from(sorted(KEEPERS)), min_size=1, max_size=3),
    )
    def allocate(self, rows: int, exponent: int, names: list[str]) -> None:
        array = self.pool.empty((rows, 2**exponent), BYTES)
        begin = address(array)
        assert begin % ALIGNMENT == 0
        for other_begin, other_end in self.ranges.values():
            assert begin + array.nbytes <= other_begin or begin >= other_end
        self.number += 1
        array.fill(self.number % 251)
        self.ranges[self.number] = begin, begin + array.nbytes
        self.keepers[self.number] = [(name, KEEPERS[name][0](array)) for name in names]

    @precondition(lambda self: self.keepers)
    @rule(array=st.integers(0, 10**6), keeper=st.integers(0, 10**6))
    def drop(self, array: int, keeper: int) -> None:
        number = sorted(self.keepers)[array % len(self.keepers)]
        held = self.keepers[number]
        del held[keeper % len(held)]
        if not held:
            del self.keepers[number], self.ranges[number]

    @rule()
    def collect(self) -> None:
        gc.collect(0)

    @rule()
    def clear(self) -> None:
        self.pool.clear()
        assert self.pool.idle_bytes == 0

    @rule(limit=st.sampled_from([1, 2**17, 2**20]))
    def set_limit(self, limit: int) -> None:
        self.pool.set_limit(limit)
        self.limit = limit

    @invariant()
    def contents_are_what_was_written(self) -> None:
        for number, held in self.keepers.items():
            for name, keeper in held:
                found = np.ascontiguousarray(KEEPERS[name][1](keeper)).view(np.uint8)
                assert (found == number % 251).all(), name

    @invariant()
    def idle_memory_is_bounded(self) -> None:
        assert self.pool.idle_bytes <= self.limit


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


class TestPool:
    @pytest.mark.parametrize("name", KEEPERS)
    def test_memory_is_kept_by_every_object_and_then_reused(self, name: str) -> None:
        pool = Pool()
        array = pool.empty((8, 2**14), BYTES)
        kept = address(array)
        keeper = KEEPERS[name][0](array)
        del array
        other = pool.empty((8, 2**14), BYTES)
        assert address(other) != kept
        assert pool.idle_bytes == 0
        del keeper
        gc.collect()
        assert pool.idle_bytes == 2**17
        again = pool.empty((2**15,), F32)
        assert address(again) == kept
        assert pool.idle_bytes == 0

    @pytest.mark.parametrize(
        ("shape", "dtype"), [((1000, 1000), F32), ((2**17,), BYTES), ((3, LARGE // 4 + 5), F32)]
    )
    def test_alignment(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        pool = Pool()
        array = pool.empty(shape, dtype)
        assert array.shape == shape
        assert array.dtype == dtype
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.flags.aligned
        assert address(array) % (HUGE_PAGE if array.nbytes >= HUGE_PAGE else ALIGNMENT) == 0

    def test_small_arrays_are_numpys_own(self) -> None:
        pool = Pool()
        array = pool.empty((SMALLEST_LEASE // 4 - 1,), F32)
        assert array.flags.owndata
        assert pool.maker((3,), F32)().flags.owndata
        del array
        assert pool.idle_bytes == 0

    @pytest.mark.parametrize("take", [Pool.acquire, Pool.borrow])
    def test_idle_blocks_make_room(self, take: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def allocate(nbytes: int) -> memory_pool.Block:
            if pool.idle_bytes or is_full:
                raise MemoryError
            return allocated(nbytes)

        pool, is_full, allocated = Pool(), False, memory_pool._allocate
        pool.release(pool.acquire(LARGE))
        pool.give_back(pool.borrow(LARGE))
        monkeypatch.setattr(memory_pool, "_allocate", allocate)
        assert take(pool, 2 * LARGE).nbytes >= 2 * LARGE
        is_full = True
        with pytest.raises(MemoryError):
            take(pool, 4 * LARGE)

    def test_similar_sizes_share_a_block(self) -> None:
        pool = Pool()
        for size in range(100_000, 106_000, 1000):
            pool.empty((size,), F32)
        assert pool.idle_bytes < 2.5 * 106_000 * 4

    def test_the_longest_unused_are_freed_first(self) -> None:
        pool = Pool()
        blocks = [pool.acquire(size) for size in (2**16, 2**17, 2**18)]
        for block in blocks:
            pool.release(block)
        pool.set_limit(2**17 + 2**18)
        assert pool.idle_bytes == 2**17 + 2**18
        assert pool.acquire(2**18) is blocks[2]
        assert pool.acquire(2**17) is blocks[1]
        assert pool.acquire(2**16) is not blocks[0]

    def test_the_last_that_came_back_is_taken_first(self) -> None:
        pool = Pool()
        blocks = [pool.acquire(2**16) for _ in range(3)]
        for block in blocks:
            pool.release(block)
        for block in reversed(blocks):
            assert pool.acquire(2**16) is block

    def test_destructors_that_run_while_blocks_are_counted(self) -> None:
        """Until Python 3.11, the garbage collector may run wherever an object is made."""
        hoarded = [tuple([number] * size) for size in range(1, 19) for number in range(4000)]
        pool, wrong = Pool(2**26), []
        before = gc.get_threshold()
        try:
            for allocations in range(1, 40):
                gc.disable()
                pool.clear()
                kept = pool.empty((2**17,), BYTES), pool.empty((2**18,), BYTES)
                Cycle(pool.empty((2**16,), BYTES))
                del kept
                hoarded += [tuple([size] * size) for size in range(1, 19) for _ in range(60)]
                gc.set_threshold(gc.get_count()[0] + allocations, 1000, 1000)
                gc.enable()
                try:
                    pool._trim()
                except RuntimeError as error:
                    wrong.append(error)
        finally:
            gc.set_threshold(*before)
            gc.enable()
        assert not wrong

    def test_the_limit_includes_reserved_bytes(self) -> None:
        pool = Pool(2**20)
        pool.release(pool.acquire(2**19))
        pool.reserve(2**19)
        assert pool.idle_bytes == 2**19
        pool.reserve(2**19 + 1)
        assert pool.idle_bytes == 0

    def test_many_threads(self) -> None:
        pool = Pool(2**21)

        def work(number: int) -> None:
            order = random.Random(number)
            kept: list[tuple[int, np.ndarray]] = []
            for step in range(150):
                mark = (37 * number + step) % 251
                array = pool.empty((8, 2 ** order.randint(13, 15)), BYTES)
                array.fill(mark)
                kept.append((mark, array[1:, ::5] if order.random() < 0.5 else array))
                del array
                if len(kept) > 3:
                    value, view = kept.pop(order.randrange(4))
                    assert (view == value).all()

        with ThreadPoolExecutor(8) as executor:
            for future in [executor.submit(work, number) for number in range(8)]:
                future.result()
        assert 0 < pool.idle_bytes <= 2**21

    def test_an_array_may_be_destroyed_on_another_thread(self) -> None:
        pool = Pool()
        held = [pool.empty((2**17,), BYTES)]
        before = address(held[0])
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()
        assert address(pool.empty((2**17,), BYTES)) == before


class TestRecentBlocks:
    """Blocks that came back last are taken again without a search."""

    def test_a_block_comes_and_goes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pool = Pool()
        block = pool.acquire(2**20)
        monkeypatch.delattr(memory_pool, "_allocate")
        for _ in range(3):
            pool.release(block)
            assert pool.acquire(2**20) is block

    def test_they_count_as_idle(self) -> None:
        pool = Pool()
        for block in [pool.acquire(size) for size in (2**16, 2**17)]:
            pool.release(block)
        assert pool.idle_bytes == 2**16 + 2**17
        pool.clear()
        assert pool.idle_bytes == 0

    def test_two_of_a_size_are_both_used_again(self) -> None:
        pool = Pool()
        blocks = [pool.acquire(2**17) for _ in range(2)]
        for block in blocks:
            pool.release(block)
        assert {id(pool.acquire(2**17)) for _ in blocks} == set(map(id, blocks))

    def test_they_never_exceed_the_limit(self) -> None:
        """All that is referred to by the pool alone, whether it was counted yet or not."""
        limit = 2**20
        pool = Pool(limit)
        sizes = [2**exponent for exponent in range(13, 21)]
        for size in (*sizes, *reversed(sizes)):
            pool.release(pool.acquire(size))
            assert pool._counted() <= limit
        pool.reserve(limit)
        pool.release(pool.acquire(2**13))
        assert pool.idle_bytes == 0


class TestSharedWorkspaces:
    """Executions that follow each other share one block, results have their own size."""

    def test_a_smaller_workspace_takes_an_idle_block_that_is_large_enough(self) -> None:
        pool = Pool()
        small, large = blocks = [pool.borrow(mebi << 20) for mebi in (1, 16)]
        for block in reversed(blocks):
            pool.give_back(block)
        assert pool.borrow(3 << 20) is large
        assert pool.borrow(1 << 20) is small

    def test_layers_of_growing_and_shrinking_size_keep_one_block(self) -> None:
        pool = Pool()
        for mebi in (4, *range(1, 16), *range(15, 0, -1)):
            block = pool.borrow(mebi << 20)
            assert block.nbytes >= mebi << 20
            pool.give_back(block)
        assert pool.idle_bytes == 15 << 20

    def test_executions_at_the_same_time_have_one_each(self) -> None:
        pool = Pool()
        blocks = [pool.borrow(1 << 20) for _ in range(3)]
        assert len(set(map(id, blocks))) == 3
        for block in blocks:
            pool.give_back(block)
        assert {id(pool.borrow(1 << 20)) for _ in range(3)} == set(map(id, blocks))

    def test_they_count_as_idle_and_never_exceed_the_limit(self) -> None:
        limit = 4 << 20
        pool = Pool(limit)
        blocks = [pool.borrow(1 << 20) for _ in range(6)]
        for block in blocks:
            pool.give_back(block)
            assert pool.idle_bytes <= limit
        assert pool.idle_bytes == limit
        pool.release(pool.acquire(2 << 20))
        assert pool.idle_bytes <= limit
        pool.reserve(limit)
        assert pool.idle_bytes == 0
        pool.reserve(0)
        pool.give_back(pool.borrow(2 << 20))
        pool.clear()
        assert pool.idle_bytes == 0

    @pytest.mark.parametrize("shrink", [0, 1])
    def test_many_at_a_time_do_not_exceed_the_limit(self, shrink: int) -> None:
        """As many threads leave them behind: of one size, or each smaller than the one before."""
        limit = 2**26
        pool = Pool(limit)
        pool.release(pool.acquire(limit // 16))
        sizes = [limit // (4 + 4 * shrink * step) for step in range(64)]
        for block in [pool.borrow(size) for size in sizes]:
            pool.give_back(block)
            assert pool._counted() <= limit

    def test_threads_never_have_the_same_block(self) -> None:
        pool = Pool()
        wrong = []

        def work(seed: int) -> None:
            draw = np.random.default_rng(seed)
            for nbytes in draw.integers(1, 1 << 18, 400).tolist():
                block = pool.borrow(nbytes)
                block[:nbytes] = seed
                time.sleep(0)
                if block.nbytes < nbytes or (block[:nbytes] != seed).any():
                    wrong.append((seed, nbytes))
                pool.give_back(block)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert pool.idle_bytes <= 2 * len(threads) << 18

    def test_a_result_takes_no_larger_block(self) -> None:
        pool = Pool()
        pool.release(pool.acquire(16 << 20))
        result = pool.empty((1 << 20,), BYTES)
        assert pool.idle_bytes >= 16 << 20
        assert result.nbytes == 1 << 20

    def test_a_block_that_is_kept_is_no_larger_than_asked_for(self) -> None:
        pool = Pool()
        pool.release(pool.acquire(16 << 20))
        assert pool.acquire(1 << 20).nbytes == 1 << 20
