"""First calls: what oneDNN makes for shapes that no call had before, by number."""

from __future__ import annotations

import gc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py.backends.onednn.binding.engine import Engine
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.shared_reorders import Made, shared_reorder
from onednn_py.problem import attributes
from onednn_py.problem.recipe import Recipe
from tests.support.requirements import needs_onednn

pytestmark = pytest.mark.usefixtures("fresh_cache")

WEIGHTS = np.ones((3, 3, 16, 32), np.float32)


def both_gradients(size: int, **keywords: Any) -> onednn_py.Gradients:
    src = np.ones((1, size, size, 16), np.float32)
    diff_dst = np.ones((1, size, size, 32), np.float32)
    return onednn_py.convolution_backward(
        src, WEIGHTS, diff_dst, pads_begin=1, pads_end=1, **keywords
    )


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Functions of oneDNN by which objects were made, and how often."""
    counts: Counter[str] = Counter()
    create = Engine._create

    def counting(engine: Engine, kind: str, function: str, *arguments: Any) -> Any:
        counts[function.removeprefix("dnnl_").removesuffix("_create")] += 1
        return create(engine, kind, function, *arguments)

    monkeypatch.setattr(Engine, "_create", counting)
    return counts


@needs_onednn
def test_a_primitive_is_described_once(created: Counter[str]) -> None:
    both_gradients(21)
    described = {name: n for name, n in created.items() if name.endswith("_primitive_desc")}
    assert described.pop("convolution_backward_data_primitive_desc") == 1
    assert described.pop("convolution_backward_weights_primitive_desc") == 1
    assert described.keys() <= {"reorder_primitive_desc"}
    assert created["primitive"] == 2 + described.get("reorder_primitive_desc", 0)


@needs_onednn
def test_reorders_of_weights_are_shared(created: Counter[str]) -> None:
    """Channels last, weights and their gradient are all that is reordered."""
    gc.collect()  # plans of other tests, which the traceback of an error may keep
    expected = both_gradients(21)
    first = created["reorder_primitive_desc"]
    if not first:
        pytest.skip("the primitives take weights as they are")
    both_gradients(23)
    assert created["reorder_primitive_desc"] == first
    assert created["primitive"] == 4 + first
    onednn_py.cache_clear()  # which leaves no plan that has them
    gc.collect()
    again = both_gradients(21)
    assert created["reorder_primitive_desc"] == 2 * first
    np.testing.assert_array_equal(again.diff_src, expected.diff_src)
    np.testing.assert_array_equal(again.diff_weights, expected.diff_weights)


@needs_onednn
def test_plans_that_share_a_reorder_run_at_once() -> None:
    sizes = range(20, 28)
    expected = [both_gradients(size, backend="numpy") for size in sizes]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            for found, right in zip(threads.map(both_gradients, sizes), expected, strict=True):
                np.testing.assert_array_equal(found.diff_src, right.diff_src)
                np.testing.assert_array_equal(found.diff_weights, right.diff_weights)


@needs_onednn
def test_a_tensor_is_described_once(created: Counter[str]) -> None:
    """In its caller's layout, and in that of the primitives."""
    both_gradients(21)
    created.clear()
    both_gradients(23)
    # diff_dst is described for both gradients.
    described = sum(n for name, n in created.items() if name.startswith("memory_desc_create"))
    assert described <= 2 * 6
    scratchpads = created["primitive"]
    assert created["memory_desc_clone"] <= 6 + scratchpads


def test_problems_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    problem = Recipe.problem

    def counting(self: Recipe, *arguments: Any) -> Any:
        made.append(self.operation.name)
        return problem(self, *arguments)

    monkeypatch.setattr(Recipe, "problem", counting)
    for size in (9, 10):
        made.clear()
        both_gradients(size, backend="numpy")
        assert made == ["convolution_backward", "convolution_backward"]


class TestAttributes:
    def test_equal_attributes_are_checked_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        checked = []
        parse = attributes._parse

        def counting(operation: Any, *arguments: Any) -> Any:
            checked.append(operation.name)
            return parse(operation, *arguments)

        monkeypatch.setattr(attributes, "_parse", counting)
        monkeypatch.setattr(attributes, "_parsed", {})
        for size in (9, 10, 11):
            both_gradients(size, backend="numpy", strides=(1, 1))
        assert checked == ["convolution_backward"]
        both_gradients(12, backend="numpy", strides=[1, 1])  # no key of a dict
        assert len(checked) == 3

    def test_few_are_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(attributes, "_parsed", {})
        monkeypatch.setattr(attributes, "MOST_KEPT", 3)
        src = np.ones((1, 30, 1), np.float32)
        for pads in range(8):
            onednn_py.convolution(src, np.ones((2, 1, 1), np.float32), pads_begin=pads)
            assert 0 < len(attributes._parsed) <= 3


@needs_onednn
def test_a_shared_reorder_has_the_same_ends() -> None:
    """Matrices of other products may share the layout of their weights."""
    engine = current_engine()
    rows, columns = (engine.strided_desc((4, 4), "f32", strides) for strides in ((4, 1), (1, 4)))
    made: list[Any] = []

    def make() -> Made:
        made.append(engine.primitive(engine.reorder_desc(rows, columns)))
        return Made(made[-1], None)

    ends = [(rows, columns), (columns, rows), (rows, columns), (rows, rows), (columns, rows)]
    found = [shared_reorder(engine, "weights", *one, make).primitive for one in ends]
    assert len(made) == 3
    assert found[0] is found[2]
    assert found[1] is found[4]
    assert len(set(map(id, found))) == 3
