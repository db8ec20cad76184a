"""Runs the operations of a graph file, and compares their results with other backends'."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.config import backend_setting
from onednn_py.errors import AttributeValueError, LibraryNotFoundError, OneDNNPyError
from onednn_py.problem.arrays import TensorSpec
from onednn_py.problem.dtypes import DTYPES
from onednn_py.tools.benchdnn.filling import integers
from onednn_py.tools.native_programs import (
    ComparisonUnavailableError,
    known_defect,
    native_program,
    run_program,
)

from .agreement import Comparison, Tolerance
from .calls import Call, UnsupportedOperationError, call_of
from .parsing import GraphOperation, LogicalTensor
from .tensors import allocate, check_memory, fillings

__all__ = ["COMPARABLE", "OperationReport", "Replay", "Runner"]

Array = npt.NDArray[Any]

COMPARABLE = ("numpy", "native", "auto")

# The timing of an operation ends at the first of these limits.
MOST_EXECUTIONS = 5
ENOUGH_SECONDS = 0.2

# Computes a call from its inputs, or says why it cannot.
Reference = Callable[[Call, Mapping[str, Array]], Array | str]


@dataclass(frozen=True, slots=True)
class OperationReport:
    """The outcome of one operation.

    Attributes
    ----------
    operation : GraphOperation
    status : {"ok", "differs", "failed", "unsupported"}
    notes : tuple of str
        Why the operation did not run, how results differ, and which inputs are random because
        the operations that compute them did not run.
    shapes : dict of str to tuple of int
        Shapes of the inputs and, last, of the result, by their documented names.
    dtype, backend, implementation : str
        Empty if the operation did not run.
    milliseconds : float or None
        The fastest of a few executions with an existing plan.
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
    """The outcome of a graph file's operations.

    Attributes
    ----------
    operations : tuple of OperationReport
        In the order in which they were run.
    results : dict of int to ndarray
        Results by tensor id, with the strides of the file.
    inputs : dict of int to ndarray
        The given and the random tensors.
    """

    operations: tuple[OperationReport, ...]
    results: dict[int, Array]
    inputs: dict[int, Array]

    @property
    def ok(self) -> bool:
        """Whether something ran, nothing failed, and no comparison found a difference."""
        statuses = {report.status for report in self.operations}
        return "ok" in statuses and not statuses & {"failed", "differs"}


def _references(compare: Sequence[str]) -> dict[str, Reference]:
    for name in compare:
        if name not in COMPARABLE:
            raise AttributeValueError(
                f"compare: expected some of {', '.join(COMPARABLE)}; got {name!r}"
            )
    references: dict[str, Reference] = {}
    if {"numpy", "auto"} & set(compare):
        references["numpy"] = lambda call, arrays: call.execute(arrays, None, "numpy")
    if {"native", "auto"} & set(compare):
        try:
            references["native"] = partial(_run_native, native_program("graph"))
        except ComparisonUnavailableError:
            if "native" in compare:
                raise
    return references


def _run_native(program: Path, call: Call, arrays: Mapping[str, Array]) -> Array | str:
    """Run a call on native oneDNN, in a process of its own because it may crash."""
    defect = known_defect(call.recipe.problem({}))
    if defect:
        return f"known defect, {defect}"
    try:
        (outcome,) = run_program(program, [call.request(arrays)])
    except ComparisonUnavailableError as error:
        return str(error)
    if outcome.status != "success":
        return f"{outcome.status} {outcome.detail}".strip()
    return outcome.arrays[0]


def _milliseconds(execute: Callable[[], object]) -> float:
    """Return the time of the fastest execution, since the first may also start threads."""
    times: list[float] = []
    while len(times) < MOST_EXECUTIONS and sum(times) < ENOUGH_SECONDS:
        start = time.perf_counter()
        execute()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


class Runner:
    """Runs operations, as `Graph.run` documents, and keeps the arrays that exist so far.

    ``given`` has tensors by id, which take precedence over results of operations, and
    ``given_shapes`` the values of inputs that are shapes.
    """

    def __init__(
        self,
        operations: Sequence[GraphOperation],
        given: Mapping[int, Array],
        given_shapes: Mapping[int, tuple[int, ...]],
        seed: int,
        backend: str | None,
        compare: Sequence[str],
    ) -> None:
        self.inputs = dict(given)
        self.results: dict[int, Array] = {}
        self._given = given
        self._seed = seed
        if backend is not None:
            backend_setting.current(backend)  # raises the error of a wrong name
        self._backend = backend
        self._references = _references(compare)
        # Calls by operation id, or the errors that their checks raised.
        self._calls: dict[int, Call | OneDNNPyError] = {}
        # The largest magnitude and the share of nonzeros of random tensors, by their ids.
        self._fillings: dict[int, tuple[int, float]] = {}
        # The operations that failed to compute a result, by its tensor id.
        self._not_computed: dict[int, GraphOperation] = {}
        self._check(operations, given_shapes)

    def _check(
        self, operations: Sequence[GraphOperation], given_shapes: Mapping[int, tuple[int, ...]]
    ) -> None:
        """Turn operations into calls, and choose the values of random tensors."""
        specs = {id_: TensorSpec(array.shape, array.dtype) for id_, array in self._given.items()}
        tensors: dict[int, LogicalTensor] = {}
        for operation in operations:
            try:
                call = call_of(operation, specs, given_shapes)
            except OneDNNPyError as error:
                self._calls[operation.id] = error
                continue
            self._calls[operation.id] = call
            of_call = (*call.inputs.values(), call.result)
            for tensor, shape in zip(of_call, call.shapes.values(), strict=True):
                specs.setdefault(tensor.id, TensorSpec(shape, DTYPES[tensor.dtype]))
                tensors.setdefault(tensor.id, tensor)
            for id_, (limit, share) in fillings(call).items():
                # A tensor that two operations read gets what is safe for both.
                other_limit, other_share = self._fillings.get(id_, (limit, share))
                self._fillings[id_] = min(limit, other_limit), min(share, other_share)
        check_memory((tensor, specs[id_].shape) for id_, tensor in tensors.items())

    def report(self, operation: GraphOperation) -> OperationReport:
        """Run an operation; its errors become its report, but a missing library is raised."""
        call = self._calls[operation.id]
        try:
            if isinstance(call, OneDNNPyError):
                raise call
            return self._executed(call)
        except LibraryNotFoundError:
            raise
        except UnsupportedOperationError as error:
            status, note = "unsupported", str(error)
        except (OneDNNPyError, MemoryError) as error:
            status, note = "failed", f"{type(error).__name__}: {error}"
        self._not_computed |= {tensor.id: operation for tensor in operation.outputs}
        return OperationReport(operation, status, (note,))

    def _executed(self, call: Call) -> OperationReport:
        notes = [
            f"tensor {tensor.id} is random: {self._not_computed[tensor.id]}, which computes it, did"
            " not run"
            for tensor in call.inputs.values()
            if tensor.id in self._not_computed and tensor.id not in self._given
        ]
        arrays = {role: self._tensor(call, role) for role in call.inputs}
        out = allocate(call.result, call.recipe.result_shape)
        plan = call.plan({**arrays, call.result_role: out}, self._backend)
        milliseconds = _milliseconds(lambda: call.execute(arrays, out, self._backend))
        comparisons = self._comparisons(call, arrays, out, plan.backend)
        self.results[call.result.id] = out
        return OperationReport(
            call.operation,
            "differs" if any(c.status == "differs" for c in comparisons) else "ok",
            (*notes, *(f"{c.other}: {c.detail}" for c in comparisons if c.detail)),
            call.shapes,
            call.spec.dtype,
            plan.backend,
            plan.implementation,
            milliseconds,
            comparisons,
        )

    def _tensor(self, call: Call, role: str) -> Array:
        tensor = call.inputs[role]
        for arrays in (self.inputs, self.results):
            if tensor.id in arrays:
                return arrays[tensor.id]
        array = allocate(tensor, call.spec.inputs[role].shape)
        # A seed of its own: a tensor must not depend on which others are given.
        rng = np.random.default_rng([self._seed, tensor.id])
        array[...] = integers(rng, array.shape, call.spec.dtype, *self._fillings[tensor.id])
        self.inputs[tensor.id] = array
        return array

    def _comparisons(
        self, call: Call, arrays: Mapping[str, Array], ours: Array, backend: str
    ) -> tuple[Comparison, ...]:
        if not self._references:
            return ()
        tolerance = Tolerance(call.spec.dtype, arrays, call.terms)
        comparisons = []
        for name, compute in self._references.items():
            theirs = "it computed the result itself" if name == backend else compute(call, arrays)
            if isinstance(theirs, str):
                comparisons.append(Comparison(name, "not compared", detail=theirs))
            else:
                comparisons.append(tolerance.compare(name, ours, theirs))
        return tuple(comparisons)
