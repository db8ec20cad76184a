"""Plans and their cache: built once, explained, bounded, atomic."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from collections.abc import Iterable
from functools import partial
from operator import getitem

import numpy as np
import pytest

import onednn_py
from onednn_py import AttributeValueError, DTypeError, ShapeError, TensorSpec
from onednn_py.dispatch import plan_cache
from onednn_py.dispatch.plan_cache import PlanCache, _Build
from tests.support.cases import CURATED, OPERATIONS
from tests.support.interruptions import every_interruption


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_plan_is_called_with_the_tensors_alone(operation: str, backend: str) -> None:
    tensors = CURATED["2d_groups"].integers("f32")
    positional, keywords = tensors.arguments(operation, "NXC", False)
    function = getattr(onednn_py, operation)
    expected = function(*positional, **keywords, backend=backend)
    specs = [TensorSpec(x.shape, x.dtype) if isinstance(x, np.ndarray) else x for x in positional]
    arrays = [x for x in positional if isinstance(x, np.ndarray)]
    planned = onednn_py.plan(function, *specs, **keywords, backend=backend)
    actual = planned(*arrays)
    np.testing.assert_equal(actual, expected)
    if not isinstance(expected, tuple):
        out = np.empty_like(expected)
        assert planned(*arrays, out=out) is out
        np.testing.assert_array_equal(out, expected)
    assert planned.backend == backend
    assert operation in repr(planned)
    assert planned.implementation in repr(planned)


def test_a_plan_refuses_other_tensors() -> None:
    src, weights = np.ones((1, 5, 2), np.float32), np.ones((3, 2, 4), np.float32)
    planned = onednn_py.plan(onednn_py.convolution, src, weights)
    with pytest.raises(ShapeError, match=r"src: planned for shape \(1, 5, 2\)"):
        planned(src[:, :4], weights)
    with pytest.raises(DTypeError, match="planned for f32"):
        planned(src.astype(np.float16), weights)
    with pytest.raises(DTypeError, match="TensorSpec"):
        planned(TensorSpec((1, 5, 2), np.float32), weights)
    with pytest.raises(ShapeError, match="planned for 2 tensors"):
        planned(src)


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (onednn_py.convolution_backward, (), "plan: convolution_backward: missing a required"),
        (np.convolve, (), "plan: expected one of convolution"),
        ("convolve", (), "plan: expected one of convolution"),
        ("convolution", (), "plan: convolution: missing a required argument"),
        (onednn_py.convolution, (), "plan: convolution: missing a required argument"),
    ],
)
def test_plan_refuses(function, arguments, message: str) -> None:
    with pytest.raises(AttributeValueError, match=message):
        onednn_py.plan(function, *arguments)


def test_a_shape_is_no_array_and_no_spec() -> None:
    shapes = (2, 4, 9, 8), [6, 4, 3, 3]
    for given in (shapes, (onednn_py.TensorSpec(shapes[0], np.float32), shapes[1])):
        with pytest.raises(DTypeError, match="of length 4; .* plan takes a TensorSpec of a shape"):
            onednn_py.plan(onednn_py.convolution, *given)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_equal_calls_build_one_plan(operation: str, backend: str, fresh_cache) -> None:
    tensors = CURATED["2d_strided_dilated"].integers("f32")
    positional, keywords = tensors.arguments(operation, "NCX", True)
    for _ in range(4):
        getattr(onednn_py, operation)(*positional, **keywords, backend=backend)
    info = onednn_py.cache_info()
    assert (info.misses, info.hits, info.size) == (1, 3, 1)
    assert info.bytes > 0
    keywords["pads_end"] = tuple(
        p + s for p, s in zip(keywords["pads_end"], keywords["strides"], strict=True)
    )
    if operation in ("convolution", "conv_transpose"):
        getattr(onednn_py, operation)(*positional, **keywords, backend=backend)
        assert onednn_py.cache_info().misses == 2


def test_the_cache_is_bounded(fresh_cache) -> None:
    onednn_py.set_cache_limit(entries=3)
    weights = np.ones((3, 2, 4), np.float32)
    for size in range(5, 15):
        onednn_py.convolution(np.ones((1, size, 2), np.float32), weights)
    assert onednn_py.cache_info().size == 3
    onednn_py.convolution(np.ones((1, 14, 2), np.float32), weights)
    assert onednn_py.cache_info().misses == 10
    onednn_py.set_cache_limit(entries=np.int64(100), bytes=1)
    assert onednn_py.cache_info().entries_limit == 100
    assert onednn_py.cache_info().size == 1
    onednn_py.set_cache_limit(bytes=12345)
    assert onednn_py.cache_info().bytes_limit == 12345
    for wrong in (0, -1, 1.5, True, "1"):
        with pytest.raises(AttributeValueError, match="set_cache_limit: bytes"):
            onednn_py.set_cache_limit(bytes=wrong)


class _Item:
    nbytes = 10


def test_a_plan_that_grows_is_counted_again() -> None:
    """What was counted is taken back, not what the plan has grown to since."""
    cache: PlanCache[_Item] = PlanCache(bytes=100)
    growing, other = _Item(), _Item()
    cache.get_or_build("growing", lambda: growing)
    growing.nbytes = 40
    cache.recount(growing)
    assert cache.info().bytes == 40
    cache.recount(_Item())
    assert cache.info().bytes == 40
    growing.nbytes = 90
    cache.get_or_build("other", lambda: other)
    cache.set_limit(entries=1)
    assert cache.info().bytes == 10
    other.nbytes = 200
    cache.recount(other)
    assert cache.info().size == 1
    cache.clear()
    cache.get_or_build("other", _Item)
    assert cache.info().bytes == 10


def test_a_plan_is_built_once_by_many_threads() -> None:
    cache: PlanCache[_Item] = PlanCache()
    built = []

    def build() -> _Item:
        time.sleep(0.05)
        built.append(threading.get_ident())
        return _Item()

    results = []
    threads = [
        threading.Thread(target=lambda: results.append(cache.get_or_build("key", build)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert len({id(result) for result in results}) == 1
    assert (cache.info().misses, cache.info().hits) == (1, 7)


def test_a_failed_build_is_not_kept_and_wakes_the_waiting() -> None:
    cache: PlanCache[_Item] = PlanCache()

    def fail() -> _Item:
        raise RuntimeError("first")

    with pytest.raises(RuntimeError, match="first"):
        cache.get_or_build("key", fail)
    assert isinstance(cache.get_or_build("key", _Item), _Item)


def test_a_call_that_interrupts_its_own_build() -> None:
    """A signal handler computes the same on the thread that builds the plan."""
    cache: PlanCache[_Item] = PlanCache()
    found: list[_Item] = []

    def interrupted() -> _Item:
        found.append(cache.get_or_build("key", _Item))
        with cache._lock:
            found.append(cache.get_or_build("other", _Item))
        return _Item()

    def work() -> None:
        found.append(cache.get_or_build("key", interrupted))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert len({id(item) for item in found}) == 3
    assert cache.get_or_build("key", _Item) is found[2]
    assert cache.info().bytes == sum(kept.plan.nbytes for kept in cache._plans.values())


class _Key:
    """A key that is hashed and compared in Python, as problems are."""

    def __init__(self, name: int) -> None:
        self.name = name

    def __hash__(self) -> int:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.name == other.name


@pytest.mark.parametrize("clears", [False, True], ids=["adds", "clears"])
def test_a_handler_adds_and_drops_plans_between_any_two_steps(clears: bool) -> None:
    """Signal handlers run between lines, also between the lines that compare two keys."""
    cache: PlanCache[_Item] = PlanCache(entries=4)
    items = [_Item() for _ in range(12)]

    def use(names: Iterable[int]) -> None:
        for name in names:
            assert cache.get_or_build(_Key(name), partial(getitem, items, name)) is items[name]

    def work() -> None:
        use((0, 1, 0, 2, 3, 4, 0, 5))
        cache.recount(items[5])
        cache.set_limit(entries=3)
        cache.set_limit(entries=4)
        info = cache.info()
        assert info.size <= 4
        assert info.bytes == 10 * info.size

    def interrupt() -> None:
        use(range(6, 12))
        if clears:
            cache.clear()

    assert every_interruption(work, interrupt, (plan_cache.__file__, __file__)) > 100
    assert not cache._building


def test_least_recently_used_goes_first() -> None:
    cache: PlanCache[_Item] = PlanCache(entries=2)
    for key in ("a", "b", "a", "c", "a"):
        cache.get_or_build(key, _Item)
    info = cache.info()
    assert (info.misses, info.hits, info.bytes) == (3, 2, 20)
    cache.get_or_build("b", _Item)
    assert cache.info().misses == 4


def test_an_interrupted_build_leaves_nothing_to_wait_for() -> None:
    cache: PlanCache[_Item] = PlanCache()

    def interrupt() -> _Item:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.get_or_build("key", interrupt)
    assert isinstance(cache.get_or_build("key", _Item), _Item)
    # Interrupted between setting the event and forgetting the build.
    stale = cache._building["other"] = _Build()
    stale.done.set()
    assert isinstance(cache.get_or_build("other", _Item), _Item)


def test_the_documented_name_with_its_version() -> None:
    specs = [TensorSpec(shape, np.float32) for shape in ((1, 3, 2), (2, 4, 2))]
    planned = onednn_py.plan("ConvolutionBackpropData-1", *specs)
    assert repr(planned) == repr(onednn_py.plan("ConvolutionBackpropData", *specs))


def test_copies_are_the_object_and_other_processes_are_refused(backend: str) -> None:
    tensors = np.ones((1, 5, 2), np.float32), np.ones((3, 2, 4), np.float32)
    plan = onednn_py.plan("convolution", *tensors, backend=backend)
    for one, what in ((plan, "a Plan holds"), (plan.pack("weights", tensors[1]), "a PackedTensor")):
        assert copy.copy(one) is one
        assert copy.deepcopy([one])[0] is one
        with pytest.raises(TypeError, match=what):
            pickle.dumps(one)
