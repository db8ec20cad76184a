"""A call on any arrays: what a plan cannot read is copied, and results go where they are wanted.

The call is planned for the arrays' strides. `BoundCall` is the short way of a call that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_py.backends.base import Plan
from onednn_py.errors import AttributeValueError, DTypeError
from onednn_py.problem.arrays import (
    TensorSpec,
    checked_output,
    element_strides,
    map_one_file,
    readable,
    share_memory,
)
from onednn_py.problem.call_spec import CallSpec
from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.formats import TensorView
from onednn_py.system.memory_pool import pool

from .planner import plan_call, prepared_backend
from .settings import Settings

__all__ = ["call_plan", "run"]

Array = npt.NDArray[Any]


def run(
    spec: CallSpec,
    tensors: Mapping[str, Array],
    outs: Sequence[Any],
    chosen: Settings,
    execute: Callable[[Mapping[str, Array]], None] | None = None,
) -> list[Array]:
    """Compute a call on any arrays that are tensors, into any outputs that can be written.

    Parameters
    ----------
    spec : CallSpec
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
                f"{spec.operation}: {name}: a TensorSpec has no data; only plan takes it"
            )
    dense = execute is not None
    results = _results(spec, tensors, outs, dense)
    given = {**tensors, **{name: result.computed for name, result in results.items()}}
    canonical: dict[str, Array] = {}
    strides: dict[str, tuple[int, ...]] = {}
    for name, view in {**spec.inputs, **spec.results}.items():
        if name in given:
            array = np.ascontiguousarray(given[name]) if dense else given[name]
            array, strides[name] = readable(array)
            canonical[name] = view.canonical(array)
    if execute is None:
        execute = call_plan(spec, strides, chosen).execute
    execute(canonical)
    for result in results.values():
        result.finish()
    return [result.returned for result in results.values()]


def call_plan(spec: CallSpec, strides: Mapping[str, tuple[int, ...]], chosen: Settings) -> Plan:
    """Return the plan of a call on tensors of these strides, building it if needed."""
    sub_problems = spec.sub_problems(strides, chosen.fpmath_mode)
    return plan_call(sub_problems, *prepared_backend(chosen.backend), chosen.effort)


class _Result:
    """Where a result is computed, and where the caller wants it."""

    def __init__(
        self,
        view: TensorView,
        dtype: str,
        given: Any,
        out: Array | None,
        inputs: list[Array],
        dense: bool,
    ) -> None:
        self.written = pool.empty(view.shape, DTYPES[dtype]) if out is None else out
        # The caller's own object, which another library's array remains.
        self.returned = self.written if out is None else given
        # An output that oneDNN cannot address, or that may share memory with an input,
        # is computed elsewhere and copied.
        apart = out is not None and (
            element_strides(out) is None
            or (dense and not out.flags.c_contiguous)
            or any(np.may_share_memory(out, i) or map_one_file(out, i) for i in inputs)
        )
        self.computed = pool.empty(view.shape, DTYPES[dtype]) if apart else self.written

    def finish(self) -> None:
        if self.computed is not self.written:
            self.written[...] = self.computed


def _results(
    spec: CallSpec, tensors: Mapping[str, Array], outs: Sequence[Any], dense: bool
) -> dict[str, _Result]:
    """Return results by name, in the order in which they are returned."""
    results: dict[str, _Result] = {}
    inputs = list(tensors.values())
    for (name, view), given in zip(spec.results.items(), outs, strict=True):
        out = None
        if given is not None:
            where = f"{spec.operation}: out ({spec.label(name)})"
            out = checked_output(where, given, view.shape, spec.dtype)
            for other in results.values():
                if share_memory(out, other.written):
                    raise AttributeValueError(f"{where}: shares memory with the other output")
        results[name] = _Result(view, spec.dtype, given, out, inputs, dense)
    return results
