"""The short way of a call that was checked before: its arrays' addresses, and its plan.

`run` in `general_call` is the way of arrays that a plan cannot read or write as they are.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.backends.base import Plan
from onednn_py.errors import DTypeError
from onednn_py.problem.arrays import WRITTEN_IN_PLACE, is_mapped
from onednn_py.problem.call_spec import CallSpec
from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.foreign import as_output
from onednn_py.problem.formats import TensorView
from onednn_py.system.memory_pool import pool

from .planner import plan_cache, plan_call, prepared_backend
from .settings import Settings

__all__ = ["BoundCall", "Pick"]

Array = npt.NDArray[Any]

ndarray, may_share_memory = np.ndarray, np.may_share_memory
Pick = Callable[[Sequence[Array]], Sequence[Array]]

# How often a bound call uses its plan before the cache hears of it: the cache's lock and
# its order take a microsecond.
USES_PER_CACHE_HIT = 64


def _no_plan() -> None:
    return None


class BoundCall:
    """A call whose shapes, strides and types are known, so that only addresses are left to bind.

    `plan` finds the plan. A call without outputs makes its results by `new_results`, any other one
    asks `memory_of` whether its outputs can be written; `run` then executes the plan. For a single
    output, `run_into` does both.

    Parameters
    ----------
    spec : CallSpec
    strides : mapping
        In elements, of inputs and of results; tensors that it does not have are dense. Where a
        result has strides, only `plan` and `run` may be used, with an array of these strides: the
        other methods are for dense results.
    fpmath_mode : str

    Attributes
    ----------
    inputs : int
        How many tensors are given.
    """

    def __init__(
        self, spec: CallSpec, strides: Mapping[str, tuple[int, ...]], fpmath_mode: str
    ) -> None:
        self.spec = spec
        self.sub_problems = spec.sub_problems(strides, fpmath_mode)
        self.inputs = len(spec.inputs)
        self._dtype = DTYPES[spec.dtype]
        self._shapes = [view.shape for view in spec.results.values()]
        # Of a call that returns an array, not `Gradients`.
        is_single = len(self._shapes) == 1 and not spec.is_joint
        self._only_shape = self._shapes[0] if is_single else None
        self._makers = [pool.maker(shape, self._dtype) for shape in self._shapes]
        self._names = (*spec.inputs, *spec.results)
        self._views = (*spec.inputs.values(), *spec.results.values())
        # A single tuple, which a thread reads or replaces as a whole.
        self._last: tuple[Any, Callable[[], Plan | None], Pick] = (None, _no_plan, tuple)
        self._uses = 0

    def plan(self, chosen: Settings) -> tuple[Plan, Pick]:
        """Return the plan, and the function that picks its operands from the tensors.

        The last plan is held weakly: the cache alone decides how long plans live, and is
        told now and then that this plan is in use.
        """
        backend, prepared = prepared_backend(chosen.backend)
        state = (chosen, backend, prepared)
        last, reference, pick = self._last
        self._uses += 1
        if last == state and self._uses % USES_PER_CACHE_HIT:
            plan = reference()
            if plan is not None:
                plan_cache.count_hit()
                return plan, pick
        plan = plan_call(self.sub_problems, backend, prepared, chosen.effort)
        runner = plan.address_runner
        operands = self._names if runner is None else runner.operands
        pick = itemgetter(*(self._names.index(name) for name in operands))
        self._last = (state, weakref.ref(plan), pick)
        return plan, pick

    def new_results(self) -> list[Array]:
        return [make() for make in self._makers]

    def _is_written_in_place(self, out: Any, shape: tuple[int, ...] | None) -> bool:
        """Whether an output is an array of this shape that oneDNN can write."""
        return (
            type(out) is ndarray
            and (out.base is None or not is_mapped(out))
            and out.shape == shape
            and out.dtype is self._dtype
            and out.flags.num & WRITTEN_IN_PLACE == WRITTEN_IN_PLACE
        )

    def _accepts(self, arrays: Sequence[Array], outs: Sequence[Any]) -> bool:
        """Whether these outputs can be written as they are while these inputs are read."""
        if not all(map(self._is_written_in_place, outs, self._shapes)):
            return False
        tensors = list(arrays)
        for out in outs:
            for other in tensors:
                if may_share_memory(out, other):
                    return False
            tensors.append(out)
        return True

    def memory_of(self, arrays: Sequence[Array], outs: list[Any]) -> list[Array] | None:
        """Return the arrays to write for these outputs, None if they need `general_call.run`.

        They are the outputs themselves, or NumPy arrays on the memory of another library's.
        """
        if self._accepts(arrays, outs):
            return outs
        try:
            written = [as_output("out", out) for out in outs]
        except DTypeError:  # which `general_call.run` raises in the caller's words
            return None
        return written if self._accepts(arrays, written) else None

    def run_into(self, plan: Plan, pick: Pick, tensors: Sequence[Any]) -> bool:
        """Run a plan into the last of ``tensors``, the call's output; False if that cannot be.

        Whether tensors overlap follows from their addresses alone, since their layouts are
        known: addresses that were good once are good again.
        """
        out, runner = tensors[-1], plan.address_runner
        if runner is None or not self._is_written_in_place(out, self._only_shape):
            return False
        pointers = runner.pointers(pick(tensors))
        if not runner.run_again(pointers):
            if any(may_share_memory(out, other) for other in tensors[:-1]):
                return False
            runner.run(pointers)
        return True

    def run(self, plan: Plan, pick: Pick, tensors: Sequence[Array]) -> None:
        """Run a plan that `plan` returned."""
        runner = plan.address_runner
        if runner is None:
            canonical = map(TensorView.canonical, self._views, tensors)
            plan.execute(dict(zip(self._names, canonical, strict=True)))
        else:
            runner.run(runner.pointers(pick(tensors)))
