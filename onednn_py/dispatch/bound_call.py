"""Calls: bind a call's arrays to its plan, results included, with as little work as possible.

A Task is a call without its memory. The first call of a kind goes the long way, where
every array may be copied, checked for overlaps or computed elsewhere. If nothing of that was
needed it leaves a Bound behind: from then on the same kind of call compares layouts,
takes addresses, and executes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from onednn_py.backends.onednn.execution.plan import NativePlan
from onednn_py.config import (
    BACKENDS,
    EFFORTS,
    FPMATH_MODES,
    current_backend,
    current_effort,
    current_fpmath_mode,
)
from onednn_py.errors import AttributeValueError, DTypeError
from onednn_py.problem.arrays import (
    DTYPES,
    TensorSpec,
    checked_output,
    element_strides,
    readable,
    share_memory,
)
from onednn_py.problem.formats import TensorView, dense_strides
from onednn_py.problem.problem import Direction
from onednn_py.problem.recipe import Recipe
from onednn_py.system.memory_pool import pool

from .planner import Job, native_state, plan_cache, plan_jobs

__all__ = ["Bound", "Settings", "Task", "run", "settings"]

Array = npt.NDArray[Any]

ndarray, may_share_memory = np.ndarray, np.may_share_memory
Strides = Mapping[str, tuple[int, ...]]
Pick = Callable[[Sequence[Array]], Sequence[Array]]

# How often a kind of call uses its plan before the cache hears of it: the cache's lock and
# its order take a microsecond.
USES_UNTOLD = 64

# What NumPy's flags say of an array that oneDNN and this module take as it is.
_DENSE_ALIGNED_WRITEABLE = 0x1 | 0x100 | 0x400


class Settings(NamedTuple):
    """What is in force at a call, besides its arguments."""

    backend: str
    effort: str
    fpmath_mode: str


_SETTINGS = {names: Settings(*names) for names in product(BACKENDS, EFFORTS, FPMATH_MODES)}


def settings(
    backend: str | None = None, fpmath_mode: str | None = None, effort: str | None = None
) -> Settings:
    """Return the settings of a call, those of the context where it gives none itself."""
    return _SETTINGS[
        current_backend(backend), current_effort(effort), current_fpmath_mode(fpmath_mode)
    ]


@dataclass(frozen=True)
class Task:
    """A call without its memory.

    Attributes
    ----------
    operation : str
        For messages.
    dtype : str
    inputs, results : dict
        How each tensor, by the call's name of it, is seen in canonical order.
    jobs : callable
        From the tensors' strides and an fpmath mode to the problems.
    outs : callable
        From the caller's ``out`` to one entry a result, None for a new array.
    returned : callable
        From the results, in their order, to what the caller gets.
    """

    operation: str
    dtype: str
    inputs: dict[str, TensorView]
    results: dict[str, TensorView]
    jobs: Callable[[Strides, str], tuple[Job, ...]]
    outs: Callable[[Any], list[Any]]
    returned: Callable[[Sequence[Array]], Any]

    @staticmethod
    def of(recipe: Recipe) -> Task:
        """Return the task of a single operation; its tensors are named by their roles."""
        operation = recipe.operation
        names = [operation.result_role]
        if operation.direction is Direction.BACKWARD_WEIGHTS and "bias" in recipe.views:
            names.append("bias")
        return Task(
            operation.name,
            recipe.dtype,
            {
                role: recipe.views[role]
                for role in operation.tensors.values()
                if role in recipe.views and role not in names
            },
            {role: recipe.views[role] for role in names},
            lambda strides, mode: (Job(recipe.problem(strides, mode)),),
            partial(_outs, operation.name, [_label(name) for name in names]),
            _only if len(names) == 1 else tuple,
        )


def _only(results: Sequence[Array]) -> Array:
    return results[0]


def _label(name: str) -> str:
    """Name of a result as the caller knows it."""
    return name if name.startswith("diff_") or name == "dst" else f"diff_{name}"


def _outs(operation: str, labels: Sequence[str], out: Any) -> list[Any]:
    if len(labels) > 1 and isinstance(out, (tuple, list)):
        if len(out) != len(labels):
            raise AttributeValueError(
                f"{operation}: out: expected ({', '.join(labels)}), got {len(out)} entries"
            )
        return list(out)
    return [out] + [None] * (len(labels) - 1)


def run(
    task: Task,
    tensors: Mapping[str, Array],
    outs: Sequence[Any],
    chosen: Settings,
    execute: Callable[[Mapping[str, Array]], None] | None = None,
) -> list[Array]:
    """Compute a call the long way: any array that is a tensor, any output that can be written.

    Parameters
    ----------
    task : Task
    tensors : mapping
        The caller's input arrays by name.
    outs : sequence
        One entry a result, None for a new array.
    chosen : Settings
    execute : callable, optional
        Takes canonical views of dense tensors, in place of the plan for these strides.
    """
    for name, tensor in tensors.items():
        if isinstance(tensor, TensorSpec):
            raise DTypeError(
                f"{task.operation}: {name}: a TensorSpec has no data; only plan takes it"
            )
    dense = execute is not None
    results = _results(task, tensors, outs, dense)
    views = {**task.inputs, **task.results}
    canonical: dict[str, Array] = {}
    strides: dict[str, tuple[int, ...]] = {}
    for name, view in views.items():
        if name in results:
            array = results[name].computed
        elif name in tensors:
            array = tensors[name]
        else:
            continue
        array, strides[name] = readable(np.ascontiguousarray(array) if dense else array)
        canonical[name] = view.canonical(array)
    if execute is None:
        jobs = task.jobs(strides, chosen.fpmath_mode)
        execute = plan_jobs(jobs, chosen.backend, chosen.effort).execute
    execute(canonical)
    for result in results.values():
        result.finish()
    return [result.returned for result in results.values()]


class _Result:
    """Where a result is computed, and where the caller wants it."""

    def __init__(
        self, view: TensorView, dtype: str, out: Array | None, inputs: list[Array], dense: bool
    ) -> None:
        self.returned = pool.empty(view.shape, DTYPES[dtype]) if out is None else out
        # An output that oneDNN cannot address, or that may share memory with an input,
        # is computed elsewhere and copied.
        apart = out is not None and (
            element_strides(out) is None
            or (dense and not out.flags.c_contiguous)
            or any(np.may_share_memory(out, i) for i in inputs)
        )
        self.computed = pool.empty(view.shape, DTYPES[dtype]) if apart else self.returned

    def finish(self) -> None:
        if self.computed is not self.returned:
            self.returned[...] = self.computed


def _results(
    task: Task, tensors: Mapping[str, Array], outs: Sequence[Any], dense: bool
) -> dict[str, _Result]:
    """Results by name, in the order in which they are returned."""
    results: dict[str, _Result] = {}
    inputs = list(tensors.values())
    for (name, view), wanted in zip(task.results.items(), outs, strict=True):
        if wanted is not None:
            where = f"{task.operation}: out ({_label(name)})"
            wanted = checked_output(where, wanted, view.shape, task.dtype)
            for other in results.values():
                if share_memory(wanted, other.returned):
                    raise AttributeValueError(f"{where}: shares memory with the other output")
        results[name] = _Result(view, task.dtype, wanted, inputs, dense)
    return results


def _nothing() -> None:
    return None


class Bound:
    """A kind of call: shapes, strides and types are known, only addresses are left to bind.

    Parameters
    ----------
    task : Task
    strides : mapping
        Of the inputs, in elements, as `element_strides` gives them.
    mode : str
        The fpmath mode.
    """

    def __init__(self, task: Task, strides: Strides, mode: str) -> None:
        self.task = task
        self._dtype = DTYPES[task.dtype]
        results = {name: dense_strides(view.shape) for name, view in task.results.items()}
        self.jobs = task.jobs({**strides, **results}, mode)
        self._shapes = [view.shape for view in task.results.values()]
        self._makers = [pool.maker(shape, self._dtype) for shape in self._shapes]
        self._names = (*task.inputs, *task.results)
        self._views = (*task.inputs.values(), *task.results.values())
        # In one tuple, so that threads never see parts of two.
        self._known: tuple[Any, Callable[[], Any], Pick] = (None, _nothing, tuple)
        self._uses = 0
        self._apart: tuple[Pick, list[Any]] = (tuple, [])

    def plan(self, chosen: Settings) -> tuple[Any, Pick]:
        """Return the plan of this kind of call, and what picks its operands from the tensors.

        The last one is held weakly: the cache alone decides how long plans live, and is
        told now and then that this one is in use.
        """
        state = (chosen, native_state(chosen.backend))
        known, reference, pick = self._known
        self._uses += 1
        if known == state and self._uses % USES_UNTOLD:
            plan = reference()
            if plan is not None:
                plan_cache.count_hit()
                return plan, pick
        plan = plan_jobs(self.jobs, chosen.backend, chosen.effort)
        operands = plan.operands if isinstance(plan, NativePlan) else self._names
        pick = itemgetter(*(self._names.index(name) for name in operands))
        self._known = (state, weakref.ref(plan), pick)
        return plan, pick

    def new_results(self) -> list[Array]:
        return [make() for make in self._makers]

    def takes(self, arrays: Sequence[Array], outs: Sequence[Any]) -> bool:
        """Whether these outputs can be written as they are while these inputs are read."""
        dtype = self._dtype
        for out, shape in zip(outs, self._shapes, strict=True):
            if (
                type(out) is not ndarray
                or out.shape != shape
                or out.dtype is not dtype
                or out.flags.num & _DENSE_ALIGNED_WRITEABLE != _DENSE_ALIGNED_WRITEABLE
            ):
                return False
        tensors = list(arrays)
        for out in outs:
            for other in tensors:
                if may_share_memory(out, other):
                    return False
            tensors.append(out)
        return True

    def execute(self, chosen: Settings, tensors: Sequence[Array]) -> None:
        """Run the plan.

        Parameters
        ----------
        chosen : Settings
        tensors : sequence of ndarray
            Inputs and results of the kind that is bound, which overlap nowhere.
        """
        plan, pick = self.plan(chosen)
        self.run(plan, pick, tensors)

    def run_into(self, plan: Any, pick: Pick, tensors: Sequence[Any]) -> bool:
        """Run a plan into the last of ``tensors``, the only result; False if that cannot be.

        Whether tensors overlap follows from their addresses alone, since their layouts are
        known: addresses that were good once are good again.
        """
        out = tensors[-1]
        if (
            plan.needs_arrays
            or len(self._shapes) > 1
            or out.shape != self._shapes[0]
            or out.dtype is not self._dtype
            or out.flags.num & _DENSE_ALIGNED_WRITEABLE != _DENSE_ALIGNED_WRITEABLE
        ):
            return False
        pointers = plan.pointers(pick(tensors))
        # Another plan may take its operands in another order.
        placed = (pick, pointers)
        if placed != self._apart:
            if any(may_share_memory(out, other) for other in tensors[:-1]):
                return False
            self._apart = placed
        plan.run(pointers)
        return True

    def run(self, plan: Any, pick: Pick, tensors: Sequence[Array]) -> None:
        """Run a plan that `plan` returned."""
        if plan.needs_arrays:
            canonical = map(TensorView.canonical, self._views, tensors)
            plan.execute(dict(zip(self._names, canonical, strict=True)))
        else:
            plan.run(plan.pointers(pick(tensors)))
