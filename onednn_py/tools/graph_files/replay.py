"""Run the operations of a graph file, compare their results, say what came of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.errors import AttributeValueError, LibraryNotFoundError, OneDNNPyError
from onednn_py.problem.arrays import DTYPES, TensorSpec
from onednn_py.tools.native_programs import (
    ComparisonUnavailableError,
    known_defect,
    native_program,
    run_program,
)

from .agreement import Comparison, Judge, not_compared
from .calls import Call, UnsupportedOperationError, call_of
from .parsing import GraphOperation, LogicalTensor
from .tensors import Filling, allocate, check_memory, fillings

__all__ = ["COMPARABLE", "OperationReport", "Replay", "run_operations"]

Array = npt.NDArray[Any]

COMPARABLE = ("numpy", "native", "auto")

# Seconds for one operation of the native program.
NATIVE_TIMEOUT = 120.0

# An operation is timed until one of these is reached.
MOST_EXECUTIONS = 5
ENOUGH_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class OperationReport:
    """What came of one operation.

    Attributes
    ----------
    operation : GraphOperation
    status : {"ok", "differs", "failed", "unsupported"}
    notes : tuple of str
        Why it did not run, how results differ, which inputs took the place of results of
        operations that did not run.
    shapes : dict of str to tuple of int
        Of the input tensors, by their documented names, and last of the result.
    dtype, backend, implementation : str
        Empty where it did not run.
    milliseconds : float or None
        The fastest of a few executions, without making the plan.
    comparisons : tuple of Comparison
    """

    operation: GraphOperation
    status: str
    notes: tuple[str, ...] = ()
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dtype: str = ""
    backend: str = ""
    implementation: str = ""
    milliseconds: float | None = None
    comparisons: tuple[Comparison, ...] = ()


@dataclass(frozen=True, slots=True)
class Replay:
    """The operations of a graph file, run.

    Attributes
    ----------
    operations : tuple of OperationReport
        In the order in which they were run.
    results : dict of int to ndarray
        Results by tensor id, with the strides of the file.
    inputs : dict of int to ndarray
        The tensors that the operations read and none of them made, given or random.
    """

    operations: tuple[OperationReport, ...]
    results: dict[int, Array]
    inputs: dict[int, Array]

    @property
    def ok(self) -> bool:
        """Whether something ran, nothing failed, and no comparison found a difference."""
        statuses = {report.status for report in self.operations}
        return "ok" in statuses and not statuses & {"failed", "differs"}


def run_operations(
    operations: Sequence[GraphOperation],
    given: Mapping[int, Array],
    extents: Mapping[int, tuple[int, ...]],
    *,
    seed: int,
    backend: str | None,
    compare: Sequence[str],
    on_start: Callable[[GraphOperation], None] | None = None,
) -> Replay:
    """Run operations in their order.

    Parameters
    ----------
    operations : sequence of GraphOperation
    given : mapping of int to ndarray
        Tensors by id; they win over results of operations.
    extents : mapping of int to tuple of int
        Given values of inputs that are shapes.
    seed : int
    backend : str or None
    compare : sequence of {"numpy", "native", "auto"}
    on_start : callable, optional
        Called with each operation that is about to run.

    Raises
    ------
    AttributeValueError
        If ``compare`` names something else.
    ComparisonUnavailableError
        If it names native, and that cannot be run.
    GraphFileError
        If this machine's memory cannot hold the tensors.
    LibraryNotFoundError
        If ``backend`` is onednn and there is none; other errors are reports of operations.
    """
    others = _others(compare)
    prepared = _prepared(operations, given, extents)
    run = _Run(prepared, dict(given), seed, backend, others)
    reports = []
    for operation in operations:
        if on_start is not None:
            on_start(operation)
        reports.append(run.report(operation))
    return Replay(tuple(reports), run.results, run.inputs)


Other = Callable[[Call, Mapping[str, Array]], Array | str]


def _others(compare: Sequence[str]) -> dict[str, Other]:
    """Return what computes each comparison: a result, or why there is none."""
    for name in compare:
        if name not in COMPARABLE:
            raise AttributeValueError(
                f"compare: expected some of {', '.join(COMPARABLE)}; got {name!r}"
            )
    others: dict[str, Other] = {}
    if {"numpy", "auto"} & set(compare):
        others["numpy"] = lambda call, arrays: call.execute(arrays, None, "numpy")
    if {"native", "auto"} & set(compare):
        try:
            others["native"] = _Native(native_program("graph"))
        except ComparisonUnavailableError:
            if "native" in compare:
                raise
    return others


class _Native:
    """Runs calls on native's Graph API, one process a call, so that a crash is its own."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def __call__(self, call: Call, arrays: Mapping[str, Array]) -> Array | str:
        defect = known_defect(call.recipe.problem(call.recipe.dense_strides()))
        if defect:
            return f"known defect, {defect}"
        try:
            (outcome,) = run_program(self._program, [call.request(arrays)], NATIVE_TIMEOUT)
        except ComparisonUnavailableError as error:
            return str(error)
        if outcome.status != "success":
            return f"{outcome.status} {outcome.detail}".strip()
        return outcome.arrays[0]


Prepared = dict[int, Call | OneDNNPyError]


def _prepared(
    operations: Sequence[GraphOperation],
    given: Mapping[int, Array],
    extents: Mapping[int, tuple[int, ...]],
) -> Prepared:
    """Return, by operation id, the calls and why others are none; before anything runs."""
    specs = {id_: TensorSpec(array.shape, array.dtype) for id_, array in given.items()}
    prepared: Prepared = {}
    held: dict[int, tuple[LogicalTensor, tuple[int, ...]]] = {}
    for operation in operations:
        try:
            call = call_of(operation, specs, extents)
        except OneDNNPyError as error:
            prepared[operation.id] = error
            continue
        prepared[operation.id] = call
        for role, tensor in (*call.inputs.items(), (call.result_role, call.result)):
            shape = call.recipe.views[role].shape
            specs.setdefault(tensor.id, TensorSpec(shape, DTYPES[call.dtype]))
            held.setdefault(tensor.id, (tensor, shape))
    check_memory(held)
    return prepared


def _fastest(execute: Callable[[], object]) -> float:
    """Return the milliseconds of the fastest execution: the first one starts threads."""
    times: list[float] = []
    while len(times) < MOST_EXECUTIONS and sum(times) < ENOUGH_SECONDS:
        start = time.perf_counter()
        execute()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


class _Run:
    """One pass over the operations: the arrays so far, and the random ones to come."""

    def __init__(
        self,
        prepared: Prepared,
        arrays: dict[int, Array],
        seed: int,
        backend: str | None,
        others: Mapping[str, Other],
    ) -> None:
        self.inputs = arrays
        self.results: dict[int, Array] = {}
        self._given = set(arrays)
        self._prepared = prepared
        self._seed = seed
        self._backend = backend
        self._others = others
        self._fillings: dict[int, Filling] = {}
        self._unmade: dict[int, GraphOperation] = {}
        for call in prepared.values():
            if isinstance(call, Call):
                for id_, filling in fillings(call).items():
                    known = self._fillings.get(id_)
                    self._fillings[id_] = filling if known is None else known | filling

    def report(self, operation: GraphOperation) -> OperationReport:
        call = self._prepared[operation.id]
        try:
            if isinstance(call, Call):
                return self._executed(call)
            problem: Exception = call
        except LibraryNotFoundError:
            raise
        except (OneDNNPyError, MemoryError) as error:
            problem = error
        self._unmade |= {tensor.id: operation for tensor in operation.outputs}
        if isinstance(problem, UnsupportedOperationError):
            return OperationReport(operation, "unsupported", (str(problem),))
        return OperationReport(operation, "failed", (f"{type(problem).__name__}: {problem}",))

    def _executed(self, call: Call) -> OperationReport:
        notes = tuple(
            f"tensor {tensor.id} is random: {self._unmade[tensor.id]} did not make it"
            for tensor in call.inputs.values()
            if tensor.id in self._unmade and tensor.id not in self._given
        )
        arrays = {role: self._tensor(call, role) for role in call.inputs}
        out = allocate(call.result, call.recipe.result_shape)
        plan = call.plan({**arrays, call.result_role: out}, self._backend)
        milliseconds = _fastest(lambda: call.execute(arrays, out, self._backend))
        comparisons = self._comparisons(call, arrays, out, plan.backend)
        self.results[call.result.id] = out
        differing = [c for c in comparisons if c.status == "differs"]
        return OperationReport(
            call.operation,
            "differs" if differing else "ok",
            (*notes, *(f"{c.other}: {c.detail}" for c in comparisons if c.detail)),
            call.shapes,
            call.dtype,
            plan.backend,
            plan.implementation,
            milliseconds,
            comparisons,
        )

    def _tensor(self, call: Call, role: str) -> Array:
        tensor = call.inputs[role]
        if tensor.id in self.inputs:
            return self.inputs[tensor.id]
        if tensor.id in self.results:
            return self.results[tensor.id]
        array = allocate(tensor, call.recipe.views[role].shape)
        # By the id too, so that no tensor depends on which others are given.
        self._fillings[tensor.id].fill(array, np.random.default_rng([self._seed, tensor.id]))
        self.inputs[tensor.id] = array
        return array

    def _comparisons(
        self, call: Call, arrays: Mapping[str, Array], ours: Array, backend: str
    ) -> tuple[Comparison, ...]:
        if not self._others:
            return ()
        judge = Judge(call.dtype, arrays, call.terms)
        comparisons = []
        for name, compute in self._others.items():
            if name == backend:
                comparisons.append(not_compared(name, "it computed the result itself"))
                continue
            theirs = compute(call, arrays)
            if isinstance(theirs, str):
                comparisons.append(not_compared(name, theirs))
            else:
                comparisons.append(judge.compare(name, ours, theirs))
        return tuple(comparisons)
