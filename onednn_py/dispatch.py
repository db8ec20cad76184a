"""Dispatch: a Recipe and arrays to a backend's plan, run; the only fallback policy."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import DTYPES, TensorSpec, checked_output, element_strides, readable, share_memory
from .config import current_backend
from .errors import AttributeValueError, DTypeError, LibraryNotFoundError, OneDNNError
from .formats import TensorView
from .native.library import find_library
from .native.plan import NativePlan
from .native.runtime import generation, runtime, threads
from .native.selection import build_plan
from .normalise import Recipe
from .numpy_backend import NumpyPlan
from .plancache import PlanCache
from .problem import Direction, Problem

__all__ = ["BackendPlan", "execute", "plan_cache", "plan_problem"]

_log = logging.getLogger("onednn_py")

Array = npt.NDArray[Any]
BackendPlan = NativePlan | NumpyPlan

plan_cache: PlanCache[BackendPlan] = PlanCache()

# oneDNN's kernels keep offsets into an image in 32 bits, padding included, and crash where
# it makes them overflow. Nobody pads like that; NumPy does it right.
NATIVE_REACH = 2**31
LARGEST_STEP = 2**15
BYTES_PER_ELEMENT = 4

_warned_lock = threading.Lock()
_warned = False


def execute(recipe: Recipe, tensors: Mapping[str, Array], out: Any, backend: str | None) -> Any:
    """Compute a call: bind its arrays, find the plan, run it.

    Parameters
    ----------
    recipe : Recipe
    tensors : mapping
        The caller's input arrays by role (src, weights, dst, bias).
    out : array, pair of arrays, or None
    backend : str or None

    Returns
    -------
    array, or (diff_weights, diff_bias) where the recipe asks for the bias gradient
    """
    name = current_backend(backend)
    for role, tensor in tensors.items():
        if isinstance(tensor, TensorSpec):
            raise DTypeError(
                f"{recipe.operation.name}: {role}: a TensorSpec has no data; only plan takes it"
            )
    results = _results(recipe, tensors, out)
    arrays: dict[str, Array] = {}
    strides: dict[str, tuple[int, ...]] = {}
    for role in recipe.views:
        array = results[role].computed if role in results else tensors[role]
        arrays[role], strides[role] = readable(array)
    problem = recipe.problem(strides)
    views = {role: view.canonical(arrays[role]) for role, view in recipe.views.items()}
    plan_problem(problem, name).execute(views)
    for result in results.values():
        result.finish()
    returned = [result.returned for result in results.values()]
    return returned[0] if len(returned) == 1 else tuple(returned)


class _Result:
    """Where a result is computed, and where the caller wants it."""

    def __init__(self, view: TensorView, dtype: str, out: Array | None, inputs: list[Array]):
        self.returned = np.empty(view.shape, DTYPES[dtype]) if out is None else out
        # An output that oneDNN cannot address, or that may share memory with an input,
        # is computed elsewhere and copied.
        apart = out is not None and (
            element_strides(out) is None or any(np.may_share_memory(out, i) for i in inputs)
        )
        self.computed = np.empty(view.shape, DTYPES[dtype]) if apart else self.returned

    def finish(self) -> None:
        if self.computed is not self.returned:
            self.returned[...] = self.computed


def _results(recipe: Recipe, tensors: Mapping[str, Array], out: Any) -> dict[str, _Result]:
    """Results by role, in the order in which they are returned."""
    operation = recipe.operation
    roles = [operation.result_role]
    names = [operation.result]
    if operation.direction is Direction.BACKWARD_WEIGHTS and "bias" in recipe.views:
        roles.append("bias")
        names.append("diff_bias")
    if len(roles) > 1 and isinstance(out, (tuple, list)):
        if len(out) != len(roles):
            raise AttributeValueError(
                f"{operation.name}: out: expected ({', '.join(names)}), got {len(out)} entries"
            )
        given = list(out)
    else:
        given = [out] + [None] * (len(roles) - 1)
    results: dict[str, _Result] = {}
    inputs = list(tensors.values())
    for role, name, wanted in zip(roles, names, given, strict=True):
        view = recipe.views[role]
        if wanted is not None:
            where = f"{operation.name}: out ({name})"
            wanted = checked_output(where, wanted, view.shape, recipe.dtype)
            for other in results.values():
                if share_memory(wanted, other.returned):
                    raise AttributeValueError(f"{where}: shares memory with the other output")
        results[role] = _Result(view, recipe.dtype, wanted, inputs)
    return results


def plan_problem(problem: Problem, backend: str) -> BackendPlan:
    """Return the cached plan of a problem on a backend, building it if needed.

    NumPy takes over where oneDNN has no implementation for the problem, and for what
    oneDNN does not do at all: float64, empty tensors, sizes beyond its integers. It never
    hides any other status.
    """
    if backend == "numpy":
        return _numpy_plan(problem, "")
    opened = find_library() if backend == "auto" else runtime().library
    if opened is None:
        _warn_once()
        return _numpy_plan(problem, "no oneDNN library")
    unfit = _unfit(problem)
    if unfit:
        return _numpy_plan(problem, unfit)
    key = (problem, "onednn", threads(opened), generation())
    return plan_cache.get_or_build(key, lambda: _native_plan(problem))


def _native_plan(problem: Problem) -> BackendPlan:
    try:
        return build_plan(runtime(), problem)
    except OneDNNError as error:
        if error.status != "unimplemented":
            raise
        _log.debug("%s runs on NumPy: %s", problem.operation, error)
        return NumpyPlan(problem, "oneDNN has no implementation")


def _numpy_plan(problem: Problem, reason: str) -> BackendPlan:
    key = (problem, "numpy", reason)
    return plan_cache.get_or_build(key, lambda: NumpyPlan(problem, reason))


def _unfit(problem: Problem) -> str:
    """Return why oneDNN cannot take the problem at all, an empty string if it can."""
    if problem.dtype == "f64":
        return "oneDNN has no float64 convolution"
    if problem.is_empty:
        return "empty tensors"
    if max(*problem.strides, *problem.dilations) >= LARGEST_STEP:
        return "strides or dilations beyond what oneDNN's kernels count"
    stepped = problem.dst if problem.transposed else problem.src
    sizes = stepped.shape[2:]
    if any(-end >= size for size, end in zip(sizes, problem.pads_end, strict=True)):
        return "no window meets the tensor"
    padded = [
        size + begin + max(end, 0)
        for size, begin, end in zip(sizes, problem.pads_begin, problem.pads_end, strict=True)
    ]
    image_bytes = prod(padded) * stepped.shape[1] * BYTES_PER_ELEMENT
    mostly_padding = prod(padded) > 4 * prod(sizes)
    if mostly_padding and (image_bytes >= NATIVE_REACH or max(padded) >= LARGEST_STEP):
        return "padding beyond what oneDNN's kernels count"
    return ""


def _warn_once() -> None:
    global _warned
    with _warned_lock:
        if _warned:
            return
        _warned = True
    try:
        runtime()
    except LibraryNotFoundError as error:
        warnings.warn(
            f"computing on NumPy: {error}", RuntimeWarning, stacklevel=_outside_the_package()
        )


def _outside_the_package() -> int:
    """Stack level of the caller's own line, as ``warnings.warn`` counts it."""
    folder = os.path.dirname(__file__)
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(folder):
        frame, level = frame.f_back, level + 1
    return level


def _after_fork_in_child() -> None:
    global _warned_lock
    _warned_lock = threading.Lock()
    plan_cache.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
