"""Both gradients in one call: equal to the single functions, with what they share done once."""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

import onednn_py
from onednn_py import Gradients, TensorSpec
from onednn_py.backends import numpy as numpy_backend
from onednn_py.backends.base import Plan
from onednn_py.backends.onednn import backend as onednn_backend
from onednn_py.backends.onednn import machine_here
from onednn_py.backends.onednn.binding.engine import Engine
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection import select
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.preference import Preference
from onednn_py.backends.onednn.selection.select import candidate_of, candidates
from onednn_py.backends.onednn.wisdom import store
from onednn_py.backends.onednn.wisdom.entry import Entry
from onednn_py.problem.call_spec import call_spec
from onednn_py.problem.problem import Problem
from tests.support.candidate_runs import plan_problem, plan_sub_problems, sub_problems
from tests.support.cases import CURATED, Case, Tensors, case
from tests.support.memory_layouts import crop, gaps, misaligned
from tests.support.reference import assert_exact
from tests.support.requirements import needs_onednn

FAMILIES = ("convolution", "conv_transpose")
FORMATS = {"NCX": True, "NXC": False}
KEYS = ("src", "weights", "bias")
SUBSETS = [wrt for count in (1, 2, 3) for wrt in combinations(KEYS, count)]
SHARED = {
    "2d": case((20, 20), 3, pads=1, minibatch=4, inputs=32, outputs=32),
    "strided": case((20, 20), 3, 2, pads=1, minibatch=4, inputs=32, outputs=32),
    "1x1": case((20, 20), 1, minibatch=4, inputs=64, outputs=32),
    "1x1 strided": case((20, 20), 1, 2, minibatch=4, inputs=64, outputs=32),
    "grouped": case((20, 20), 3, pads=1, minibatch=4, groups=2, inputs=64, outputs=32),
    "depthwise": case((20, 20), 3, pads=1, minibatch=4, groups=32, inputs=32, outputs=32),
    "3d": case((8, 9, 10), 3, pads=1, inputs=16, outputs=32),
}

pytestmark = pytest.mark.usefixtures("fresh_cache")


def takes_planes(plan: Plan) -> bool:
    assert isinstance(plan, OneDNNPlan)
    return any(candidate.formulation.takes_planes for candidate in plan.candidates)


def chunks_of(plan: Plan) -> int:
    """Return the number of chunks in which a plan of one problem computes it."""
    assert isinstance(plan, OneDNNPlan)
    return len(plan.candidates[0].formulation.chunks)


class Joint:
    """A geometry's call of both gradients: tensors, attributes, and what must come out."""

    def __init__(self, tensors: Tensors, family: str, data_format: str = "NXC") -> None:
        weights_first = FORMATS[data_format]
        forward, self.keywords = tensors.arguments(family, data_format, weights_first)
        single, _ = tensors.arguments(f"{family}_backward_weights", data_format, weights_first)
        self.arguments = (forward[0], forward[1], single[1])
        self.function = getattr(onednn_py, f"{family}_backward")
        self.dtype = tensors.dtype
        self._tensors, self._family = tensors, family
        self._format = data_format, weights_first, "native"

    def pairs(self, found: Gradients) -> list[tuple[np.ndarray, np.ndarray]]:
        """What there is of a result, with what the oracle says."""
        pairs = []
        if found.diff_src is not None:
            name = f"{self._family}_backward_data"
            pairs += self._tensors.results(name, found.diff_src, *self._format)
        # What was not asked for is made up, and left out again.
        _, weights, bias = found
        weights = np.zeros_like(self.arguments[1]) if weights is None else weights
        bias = np.zeros_like(self.arguments[2]) if bias is None else bias
        name = f"{self._family}_backward_weights"
        results = self._tensors.results(name, (weights, bias), *self._format)
        pairs += results[:1] if found.diff_weights is not None else []
        pairs += results[1:] if found.diff_bias is not None else []
        return pairs

    def check(self, found: Gradients, wrt: Any) -> None:
        assert [gradient is not None for gradient in found] == [key in wrt for key in KEYS]
        for actual, expected in self.pairs(found):
            assert_exact(actual, expected, self.dtype)

    def sub_problems(self, wrt: Any) -> Any:
        return sub_problems(self.function, *self.arguments, **self.keywords, wrt=wrt)


def test_the_description_of_a_call_is_freed_at_once() -> None:
    """No cycle of references is left to the garbage collector by each new shape."""
    shapes = {"src": (1, 5, 5, 2), "weights": (3, 3, 2, 4), "diff_dst": (1, 3, 3, 4)}
    tensors = {name: TensorSpec(shape, np.float32) for name, shape in shapes.items()}
    gc.disable()
    try:
        spec = call_spec("convolution_backward", {**tensors, "wrt": ("src", "bias")})
        returned = spec.returned([np.ones(1), np.ones(2)])
        assert [gradient is None for gradient in returned] == [False, True, False]
        alive = weakref.ref(spec)
        del spec
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("wrt", SUBSETS, ids="+".join)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_subset(family: str, wrt: tuple[str, ...], backend: str) -> None:
    for name in ("2d_strided_dilated", "2d_groups_16", "1d_strided", "3d_groups", "2d_1x1_strided"):
        for dtype in ("f32", "f16", "bf16"):
            for data_format in FORMATS:
                joint = Joint(CURATED[name].integers(dtype), family, data_format)
                for _ in range(2):
                    found = joint.function(
                        *joint.arguments, **joint.keywords, wrt=wrt, backend=backend
                    )
                    joint.check(found, wrt)


@pytest.mark.parametrize("name", CURATED)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_geometry(family: str, name: str, backend: str) -> None:
    for dtype, data_format in (("f32", "NXC"), ("f32", "NCX"), ("bf16", "NXC"), ("f16", "NCX")):
        joint = Joint(CURATED[name].integers(dtype), family, data_format)
        found = joint.function(*joint.arguments, **joint.keywords, wrt=KEYS, backend=backend)
        joint.check(found, KEYS)


@pytest.mark.parametrize("family", FAMILIES)
def test_float64(family: str, backend: str) -> None:
    joint = Joint(CURATED["2d_groups"].integers("f64"), family)
    found = joint.function(*joint.arguments, **joint.keywords, wrt=KEYS, backend=backend)
    joint.check(found, KEYS)


@pytest.mark.parametrize("form", [gaps, crop, misaligned, np.asfortranarray])
@pytest.mark.parametrize("family", FAMILIES)
def test_strided_inputs_and_outputs(family: str, form: Any, backend: str) -> None:
    for dtype in ("f32", "f16"):
        joint = Joint(CURATED["2d_groups_16"].integers(dtype), family)
        inputs = [form(array) for array in joint.arguments]
        dense = joint.function(*joint.arguments, **joint.keywords, wrt=KEYS, backend="numpy")
        outs = [form(np.full_like(array, 9)) for array in dense]
        for _ in range(2):
            found = joint.function(*inputs, **joint.keywords, wrt=KEYS, out=outs, backend=backend)
            joint.check(found, KEYS)
            assert all(gradient is out for gradient, out in zip(found, outs, strict=True))
        found = joint.function(
            *inputs, **joint.keywords, out=(None, outs[1], outs[2]), backend=backend
        )
        assert found.diff_weights is outs[1]
        joint.check(found, ("src", "weights"))


@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_that_are_inputs(family: str, backend: str) -> None:
    """Each gradient over any of the tensors that it fits, while the other is still to come."""
    joint = Joint(case(6, 3, pads=1, inputs=3, outputs=3, minibatch=3).integers("f32"), family)
    expected = joint.function(*joint.arguments, **joint.keywords, wrt=KEYS, backend=backend)
    for source in (0, 2):
        for _ in range(2):
            inputs = [array.copy() for array in joint.arguments]
            out = Gradients(inputs[source], inputs[1], None)
            found = joint.function(*inputs, **joint.keywords, wrt=KEYS, out=out, backend=backend)
            assert found.diff_src is inputs[source]
            np.testing.assert_equal(tuple(found), tuple(expected))


@pytest.mark.parametrize("family", FAMILIES)
def test_planned(family: str, backend: str) -> None:
    for name, dtype in (("2d_blocked_channels", "f32"), ("2d_groups_16", "f16")):
        joint = Joint(CURATED[name].integers(dtype), family)
        specs = [TensorSpec(array.shape, array.dtype) for array in joint.arguments]
        for wrt in SUBSETS:
            planned = onednn_py.plan(
                joint.function, *specs, **joint.keywords, wrt=wrt, backend=backend
            )
            for _ in range(2):
                found = planned(*joint.arguments)
                assert isinstance(found, Gradients)
                joint.check(found, wrt)
            again = planned(*map(gaps, joint.arguments), out=found)
            assert all(one is other for one, other in zip(again, found, strict=True))
            joint.check(again, wrt)
            (gradient, *_) = [one for one in found if one is not None]
            with pytest.raises(onednn_py.AttributeValueError, match="out"):
                planned(*joint.arguments, out=gradient)


@needs_onednn
class TestSharing:
    """What oneDNN's plan of both gradients does once."""

    @pytest.mark.parametrize("family", FAMILIES)
    def test_one_reorder_where_both_want_the_same(self, family: str) -> None:
        shared = 0
        for geometry, data_format in product(SHARED.values(), FORMATS):
            joint = Joint(geometry.integers("f32"), family, data_format)
            problems = joint.sub_problems(KEYS)
            plan = plan_sub_problems(problems)
            alone = [plan_problem(one.problem) for one in problems]
            if any(takes_planes(one) for one in alone) or len(set(map(chunks_of, alone))) > 1:
                assert not isinstance(plan, OneDNNPlan)  # the chunks of one gradient alone
                continue
            assert isinstance(plan, OneDNNPlan)
            wanted = [one.layouts["dst"] for one in alone if "dst" in one.reorders]
            steps = [step.name for step in plan.program.steps]
            assert steps.count("reorder of diff_dst") == len(set(wanted))
            shared += len(wanted) > len(set(wanted))
            # A bias gradient may be summed beside the products of the weights gradient.
            names = [step for step in steps if not step.startswith(("reorder", "sum of"))]
            assert names == [one.implementation for one in alone]
            assert "diff_dst" in repr(plan)
        if not shared:
            pytest.skip("no problem here whose gradients want the same other layout")

    @pytest.mark.parametrize("family", FAMILIES)
    @pytest.mark.usefixtures("cast_float16")
    def test_one_conversion(self, family: str) -> None:
        """Even where the two want it in different layouts."""
        converted = 0
        for geometry, data_format in product(SHARED.values(), FORMATS):
            joint = Joint(geometry.integers("f16"), family, data_format)
            plan = plan_sub_problems(joint.sub_problems(KEYS))
            names = [one.name for one in plan.casts] if isinstance(plan, OneDNNPlan) else []
            assert len(names) == len(set(names))
            converted += "diff_dst" in names
        assert converted

    @pytest.mark.parametrize("family", FAMILIES)
    def test_the_workspace_is_not_that_of_two(self, family: str) -> None:
        problems = Joint(SHARED["2d"].integers("f32"), family, "NCX").sub_problems(KEYS)
        plan = plan_sub_problems(problems)
        alone = [plan_problem(one.problem) for one in problems]
        assert plan.workspace_bytes <= sum(one.workspace_bytes for one in alone)


@pytest.mark.parametrize("family", FAMILIES)
class TestTheBiasAlone:
    """It is a sum, for which no gradient of the weights is computed."""

    def plan(self, family: str, wrt: tuple[str, ...], backend: str) -> Any:
        problems = Joint(CURATED["2d_groups"].integers("f32"), family).sub_problems(wrt)
        return plan_sub_problems(problems, backend)

    def test_without_other_gradients(self, family: str, backend: str) -> None:
        assert repr(self.plan(family, ("bias",), backend)) == "bias: numpy, the sum of diff_dst"

    def test_with_the_data_gradient(self, family: str, backend: str) -> None:
        plan = self.plan(family, ("src", "bias"), backend)
        assert f"{family}_backward_data" in repr(plan)
        assert "backward_weights" not in repr(plan)
        assert plan.implementation.endswith(" and numpy sum")

    def test_with_the_weights_gradient(self, family: str, backend: str) -> None:
        plan = self.plan(family, ("weights", "bias"), backend)
        assert f"{family}_backward_weights" in repr(plan)
        assert "numpy sum" not in plan.implementation

    def test_nothing_of_the_weights_is_planned(
        self, family: str, backend: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        planned = []
        for module, name in ((onednn_backend, "decide"), (numpy_backend, "NumPyPlan")):
            build = getattr(module, name)

            def noted(*arguments: Any, build: Any = build) -> Any:
                planned.extend(one.operation for one in arguments if isinstance(one, Problem))
                return build(*arguments)

            monkeypatch.setattr(module, name, noted)
        self.plan(family, ("src", "bias"), backend)
        assert set(planned) == {f"{family}_backward_data"}


@needs_onednn
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_on_different_numbers_of_threads(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A primitive must run on as many threads as its descriptor was made for."""
    monkeypatch.setattr(store, "_known", OrderedDict())
    joint = Joint(CURATED["2d_blocked_channels"].integers("f32"), family, "NCX")
    for numbers in ((0, 1), (1, 0), (1, 1), (0, 0)):
        problems = joint.sub_problems(KEYS)
        for sub_problem, number in zip(problems, numbers, strict=True):
            problem = sub_problem.problem
            found = candidates(current_engine(), problem)
            choice = next(
                candidate.choice for candidate in found if candidate.choice.threads == number
            )
            entry = Entry(choice.as_dict(), 1.0, 1.0)
            store.remember(machine_here(), problem.name, entry)
        onednn_py.cache_clear()
        plan = plan_sub_problems(problems)
        assert isinstance(plan, OneDNNPlan) == (len(set(numbers)) == 1)
        for _ in range(3):
            joint.check(joint.function(*joint.arguments, **joint.keywords, wrt=KEYS), KEYS)


@needs_onednn
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("one_thread_is_enough", [True, False])
def test_gradients_to_which_rules_give_different_numbers_of_threads(
    family: str, one_thread_is_enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One plan runs both on the threads that fit them together."""

    def decided(engine: Engine, problem: Problem, choice: Choice | None = None) -> Candidate:
        choice = Choice("f32", threads=int(problem.result_role == "src"))
        found = candidate_of(engine, problem, Preference(choice))
        assert found is not None
        return found

    monkeypatch.setattr(store, "_known", OrderedDict())
    monkeypatch.setattr(onednn_backend, "decide", decided)
    monkeypatch.setattr(select, "one_thread_is_enough", lambda problems: one_thread_is_enough)
    joint = Joint(case((9, 8), 3, pads=1, inputs=16, outputs=16).integers("f32"), family)
    plan = plan_sub_problems(joint.sub_problems(KEYS))
    assert isinstance(plan, OneDNNPlan)
    assert [one.choice.threads for one in plan.candidates] == 2 * [int(one_thread_is_enough)]
    for _ in range(3):
        joint.check(joint.function(*joint.arguments, **joint.keywords, wrt=KEYS), KEYS)


@needs_onednn
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize(("kernel", "pads"), [(1, 1), (3, 3), (3, 2), (3, 1)])
def test_a_flipped_data_gradient(
    kernel: int, pads: int, data_format: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With wide pads it reads a part of diff_dst, where the weights gradient needs the whole."""
    monkeypatch.setattr(store, "_known", OrderedDict())
    geometry = case((12, 13), kernel, pads=pads, inputs=16, outputs=24)
    joint = Joint(geometry.integers(dtype), "convolution", data_format)
    for sub_problem in joint.sub_problems(KEYS):
        problem = sub_problem.problem
        wanted = "flipped" if problem.result_role == "src" else "direct"
        choice = next(
            candidate.choice
            for candidate in candidates(current_engine(), problem)
            if (candidate.choice.formulation, candidate.choice.compute_dtype) == (wanted, "f32")
            and not candidate.choice.threads
        )
        store.remember(machine_here(), problem.name, Entry(choice.as_dict(), 1.0, 1.0))
    onednn_py.cache_clear()
    joint.check(joint.function(*joint.arguments, **joint.keywords, wrt=KEYS), KEYS)


@needs_onednn
def test_measured_together() -> None:
    """Each gradient is measured alone; the timings of both are told.

    Whether one plan runs both depends on what measuring finds, numbers of threads included.
    """
    joint = Joint(SHARED["1x1"].integers("f32"), "convolution", "NCX")
    with onednn_py.use_effort("measure"):
        found = joint.function(*joint.arguments, **joint.keywords, wrt=KEYS)
        planned = onednn_py.plan(joint.function, *joint.arguments, **joint.keywords, wrt=KEYS)
    joint.check(found, KEYS)
    joint.check(planned(*joint.arguments), KEYS)
    text = repr(planned)
    gradients = ("convolution_backward_data: ", "convolution_backward_weights: ")
    assert text.count("measured:") == 2 or all(f"us  {gradient}" in text for gradient in gradients)
    onednn_py.wisdom.forget()


@pytest.mark.slow
@pytest.mark.parametrize("geometry", [*CURATED.values(), *SHARED.values()])
@pytest.mark.parametrize("family", FAMILIES)
def test_everything(family: str, geometry: Case, backend: str) -> None:
    for dtype in ("f32", "bf16", "f16"):
        for data_format in FORMATS:
            joint = Joint(geometry.integers(dtype), family, data_format)
            for wrt in SUBSETS:
                keywords = {**joint.keywords, "wrt": wrt, "backend": backend}
                found = joint.function(*joint.arguments, **keywords)
                joint.check(found, wrt)
                joint.check(joint.function(*map(gaps, joint.arguments), **keywords), wrt)
