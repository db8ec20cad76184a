"""Operations run by any candidate of oneDNN, and compared with the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from onednn_py.backends.base import Plan
from onednn_py.backends.onednn.binding.engine import Engine
from onednn_py.backends.onednn.binding.runtime import current_engine
from onednn_py.backends.onednn.execution import lowering
from onednn_py.backends.onednn.execution.plan import OneDNNPlan
from onednn_py.backends.onednn.selection.candidate import Candidate
from onednn_py.backends.onednn.selection.choice import Choice
from onednn_py.backends.onednn.selection.descriptors import queries
from onednn_py.backends.onednn.selection.preference import Preference
from onednn_py.backends.onednn.selection.rules import NOT_GEMM
from onednn_py.backends.onednn.selection.select import candidate_of, candidates
from onednn_py.dispatch.general_call import run
from onednn_py.dispatch.planner import plan_call, prepared_backend
from onednn_py.dispatch.settings import settings
from onednn_py.errors import OneDNNError
from onednn_py.problem.arrays import element_strides
from onednn_py.problem.call_spec import SubProblem, call_spec
from onednn_py.problem.problem import Problem
from onednn_py.system.memory_pool import Block, pool
from tests.support.cases import CURATED, OPERATIONS, Case, Tensors, arguments_by_name, case
from tests.support.reference import assert_exact

__all__ = [
    "FORMATS",
    "GEOMETRIES",
    "NETWORKS",
    "CandidateRun",
    "StridedCandidateRun",
    "assert_apart",
    "computes_products",
    "format_in_turn",
    "of_images",
    "plan_problem",
    "plan_sub_problems",
    "sub_problems",
    "used_workspaces",
    "without_matmul",
]

# A small problem of each kind in the suites; the first few are large enough for threads.
NETWORKS = {
    "first_layer": case((36, 36), 7, 2, pads=3, inputs=3, outputs=64),
    "3x3": case((28, 28), 3, pads=1, inputs=32, outputs=32),
    "3x3_stride": case((28, 28), 3, 2, pads=1, inputs=32, outputs=48),
    "1x1": case((20, 20), 1, minibatch=3, inputs=64, outputs=32),
    "1x1_stride": case((20, 20), 1, 2, minibatch=3, inputs=32, outputs=64),
    "1x1_stride_tail": case((15, 14), 1, 2, inputs=16, outputs=32),
    "depthwise": case((24, 24), 3, pads=1, groups=32, inputs=32, outputs=32),
    "depthwise_stride": case((24, 24), 3, 2, pads=1, groups=32, inputs=32, outputs=32),
    "thin_groups": case((10, 10), 3, pads=1, groups=8, inputs=32, outputs=32),
    "1d_dilated": case(90, 2, dilations=16, inputs=32, outputs=64),
    "3d": case((9, 8, 10), 3, pads=1, inputs=16, outputs=32),
    "3d_depthwise": case((8, 7, 8), 3, pads=1, groups=16, inputs=16, outputs=16),
    "3d_stride": case((8, 8, 8), 2, 2, inputs=32, outputs=16),
    "upsampling": case((16, 16), 4, 2, pads=1, inputs=32, outputs=48),
    "upconv": case((16, 16), 2, 2, inputs=16, outputs=32),
    "classes": case((16, 16), 1, inputs=64, outputs=2),
    "whole_image": case((4, 4), 4, minibatch=4, inputs=64, outputs=1),
    "stride_and_tail": case((11, 11), 2, 3, pads=(0, 1), inputs=16, outputs=16),
    "dilation_beyond_stride": case((13, 12), 3, (2, 1), (3, 2), pads=(2, 3), inputs=16, outputs=8),
}
FORMATS = {"NCX": True, "NXC": False}

GEOMETRIES = {
    **NETWORKS,
    **{name: CURATED[name] for name in ("2d_groups_16", "2d_depthwise", "2d_channel_tail")},
}


def format_in_turn(name: str, operation: str) -> str:
    """Return the format in which a geometry is tested with an operation.

    Each geometry and each operation has both, in half of the time that all pairs take.
    """
    turn = list(GEOMETRIES).index(name) + OPERATIONS.index(operation)
    return tuple(FORMATS)[turn % len(FORMATS)]


def of_images(geometry: Case, images: int) -> Case:
    return replace(geometry, minibatch=images)


def computes_products() -> bool:
    """Whether the library has oneDNN's matmul, which a minimal build of before lacks."""
    engine = current_engine()
    matrix = engine.strided_desc((2, 2), "f32", (2, 1))
    try:
        engine.matmul_desc((matrix, matrix), None, matrix, adds=False, fpmath_mode="strict")
    except OneDNNError:
        return False
    return True


@contextmanager
def without_matmul() -> Iterator[None]:
    """Have oneDNN refuse every product of matrices, as a library without matmul does."""

    def refused(*_: Any, **__: Any) -> Any:
        raise OneDNNError("dnnl_matmul_primitive_desc_create", "unimplemented", "")

    with mock.patch.object(Engine, "matmul_desc", refused):
        yield


def plan_sub_problems(
    sub_problems: tuple[SubProblem, ...], backend: str = "onednn", effort: str = "heuristic"
) -> Plan:
    """Return the cached plan of a call's problems, as calls get it."""
    return plan_call(sub_problems, *prepared_backend(backend), effort)


def plan_problem(problem: Problem, backend: str = "onednn", effort: str = "heuristic") -> Plan:
    """Return the cached plan of one problem, as calls get it."""
    return plan_sub_problems((SubProblem(problem),), backend, effort)


def sub_problems(function: Any, *positional: Any, **keywords: Any) -> tuple[SubProblem, ...]:
    """Return the problems of a call of a public function, on dense tensors."""
    name = function.__name__
    mode = keywords.pop("fpmath_mode", None) or "strict"
    keywords.pop("backend", None)
    arguments = arguments_by_name(name, list(positional), keywords)
    return call_spec(name, arguments).sub_problems({}, mode)


@contextmanager
def used_workspaces() -> Iterator[None]:
    """Have workspaces hold what is not a number in any type, as used memory may."""

    def filling(take: Callable[[int], Block]) -> Callable[[int], Block]:
        def taken(nbytes: int) -> Block:
            block = take(nbytes)
            block.fill(0xFF)
            return block

        return taken

    with (
        mock.patch.object(pool, "borrow", filling(pool.borrow)),
        mock.patch.object(pool, "acquire", filling(pool.acquire)),
    ):
        yield


class CandidateRun:
    """An operation on dense tensors of a geometry, that any candidate may compute."""

    def __init__(self, tensors: Tensors, operation: str, data_format: str) -> None:
        positional, keywords = tensors.arguments(operation, data_format, FORMATS[data_format])
        self._spec = call_spec(operation, arguments_by_name(operation, positional, keywords))
        arrays = [array for array in positional if isinstance(array, np.ndarray)]
        self._inputs = dict(zip(self._spec.inputs, arrays, strict=True))
        self._case = tensors, operation, data_format
        (sub_problem,) = self._spec.sub_problems({})
        self.problem: Problem = sub_problem.problem

    def candidates(self) -> Iterator[Candidate]:
        """Yield every candidate; a problem without any would make the caller's loop empty."""
        has_any = False
        for candidate in candidates(current_engine(), self.problem):
            has_any = True
            yield candidate
        assert has_any, f"no candidate for {self.problem.name}"

    def check(self, plan: OneDNNPlan) -> None:
        """Run a plan twice, into memory that holds something else, and compare every bit."""
        assert_apart(plan)
        dtype = next(iter(self._inputs.values())).dtype
        outs = [np.full(view.shape, 77, dtype) for view in self._spec.results.values()]
        with used_workspaces():
            for _ in range(2):
                results = run(self._spec, self._inputs, outs, settings(), plan.execute)
        self._compare(plan, results)

    def check_formulation(self, name: str, activations: str = "any") -> None:
        """Check a formulation in float32, by a kernel other than gemm where there is one.

        gemm takes any problem, and would hide what is wrong in other kernels.
        """
        preference = Preference(Choice("f32", name, activations))
        other = replace(preference, family=NOT_GEMM)
        engine = current_engine()
        found = candidate_of(engine, self.problem, other)
        found = found or candidate_of(engine, self.problem, preference)
        assert found is not None
        self.check(OneDNNPlan(engine, found))

    def _compare(self, plan: OneDNNPlan, results: list[np.ndarray]) -> None:
        tensors, operation, data_format = self._case
        returned = self._spec.returned(results)
        pairs = tensors.results(operation, returned, data_format, FORMATS[data_format], "native")
        for actual, expected in pairs:
            try:
                assert_exact(actual, expected, tensors.dtype)
            except AssertionError as error:
                raise AssertionError(f"{plan.choice} on {self.problem.name}: {error}") from None


class StridedCandidateRun(CandidateRun):
    """The same on activations, result included, that lie in memory as ``form`` puts them."""

    def __init__(
        self, tensors: Tensors, operation: str, data_format: str, form: Callable[[Any], Any]
    ) -> None:
        super().__init__(tensors, operation, data_format)
        self._views = {**self._spec.inputs, **self._spec.results}
        self._arrays = {}
        for name, view in self._views.items():
            array = self._inputs.get(name)
            if array is None:
                array = np.empty(view.shape, next(iter(self._inputs.values())).dtype)
            self._arrays[name] = form(array) if name in ("src", "dst") else array
        strides = {name: element_strides(array) for name, array in self._arrays.items()}
        (sub_problem,) = self._spec.sub_problems(strides)
        self.problem = sub_problem.problem

    def check(self, plan: OneDNNPlan) -> None:
        assert_apart(plan)
        results = [self._arrays[name] for name in self._spec.results]
        for result in results:
            result[...] = 77
        canonical = {name: view.canonical(self._arrays[name]) for name, view in self._views.items()}
        with used_workspaces():
            for _ in range(2):
                plan.execute(canonical)
        self._compare(plan, results)


def _without_images(plan: OneDNNPlan, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans that are not some images of a block that begins before them."""
    engine = plan.engine
    parts = set()
    for one in plan.candidates:
        for chunk in one.formulation.chunks:
            for role, query in queries(chunk.problem).items():
                block, image = chunk.tensors[role].block, chunk.tensors[role].image
                if block is None or not image:
                    continue
                part, whole = (
                    engine.nbytes(engine.desc_of(one.descriptors[problem], query))
                    for problem in (chunk.problem, block.problem)
                )
                begin = image * (whole // getattr(block.problem, role).shape[0])
                parts.add((begin, part, whole))
    inside = {
        (first + begin, part) for first, of in spans for begin, part, whole in parts if of == whole
    }
    return [span for span in spans if span not in inside]


def _with_sums_joined(plan: OneDNNPlan, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans, with those of sums of a bias gradient that overlap as a single one.

    Products write sums behind one another, and the next ones read them in other parts.
    """
    engine, buffers = plan.engine, plan.program.buffers
    of_sums = set()
    for step in plan.program.steps:
        if step.name.startswith("sum of ") and step.name.endswith("bias"):
            used = [buffers[index] for _, index in step.arguments]
            of_sums |= {
                (buffer.offset, engine.nbytes(buffer.desc))
                for buffer in used
                if buffer.operand is None and buffer.constant is None
            }
    joined: list[tuple[int, int]] = []
    for begin, nbytes in sorted(of_sums):
        end = sum(joined[-1]) if joined else 0
        if begin < end:
            first = joined.pop()[0]
            joined.append((first, max(end, begin + nbytes) - first))
        else:
            joined.append((begin, nbytes))
    return [span for span in spans if span not in of_sums] + joined


def _with_whole_reorders(plan: OneDNNPlan) -> OneDNNPlan:
    """Return the plan without reorders in parts, of which each begins inside a buffer of it."""
    reorders = [step.name for step in plan.program.steps if step.name.startswith("reorder of ")]
    if len(reorders) == len(set(reorders)):  # the parts of a reorder have its name
        return plan
    with mock.patch.object(lowering, "parts_around_tail", return_value=()):
        whole = OneDNNPlan(plan.engine, *plan.candidates)
    assert whole.workspace_bytes == plan.workspace_bytes
    spans = [
        (buffer.offset, buffer.offset + plan.engine.nbytes(buffer.desc))
        for buffer in whole.program.buffers
        if buffer.operand is None and buffer.constant is None
    ]
    for buffer in plan.program.buffers:
        if buffer.operand is None and buffer.constant is None and plan.engine.nbytes(buffer.desc):
            assert any(begin <= buffer.offset < end for begin, end in spans)
    return whole


def assert_apart(plan: OneDNNPlan) -> None:
    """Fail if what a plan keeps in its workspace overlaps, or ends behind it."""
    plan = _with_whole_reorders(plan)
    program, engine = plan.program, plan.engine
    spans = [(cast.offset, cast.nbytes) for cast in plan.casts]
    for buffer in program.buffers:
        if buffer.operand is None and buffer.constant is None:
            spans.append((buffer.offset, engine.nbytes(buffer.desc)))
    spans = _with_sums_joined(plan, _without_images(plan, spans))
    # Chunk after chunk uses the same offsets, and all steps the scratchpad behind them.
    ends: dict[int, int] = {}
    for begin, nbytes in sorted(spans):
        ends[begin] = max(ends.get(begin, 0), begin + nbytes)
    assert all(end <= begin for end, begin in zip(ends.values(), list(ends)[1:], strict=False)), (
        ends
    )
    assert max(ends.values(), default=0) <= plan.workspace_bytes
    # Each tensor has an offset of its own.
    tensors = {(cast.name, cast.role) for cast in plan.casts}
    assert len({cast.offset for cast in plan.casts}) == len(tensors)
