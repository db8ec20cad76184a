"""Plans by hand: check and build once, call with arrays many times."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from typing import Any

from . import dispatch, ops
from .arrays import dtype_name, spec_of
from .config import current_backend
from .errors import AttributeValueError, DTypeError, ShapeError
from .memory import pool
from .normalise import Recipe, recipe
from .operations import OPERATIONS
from .plancache import CacheInfo

__all__ = ["Plan", "cache_clear", "cache_info", "plan", "set_cache_limit"]

FUNCTIONS: dict[Callable[..., Any], str] = {getattr(ops, name): name for name in OPERATIONS}


class Plan:
    """One function with its shapes and attributes, to be called with the tensors alone.

    A plan holds shapes and primitives, never the caller's arrays. It may be called from
    any thread, and from several at once.
    """

    def __init__(self, made: Recipe, names: list[str], backend: str) -> None:
        self._recipe = made
        self._names = names
        self._backend = backend
        self._problem = made.problem(made.dense_strides())
        self._backend_plan()

    def _backend_plan(self) -> dispatch.BackendPlan:
        return dispatch.plan_problem(self._problem, self._backend)

    @property
    def backend(self) -> str:
        """``"onednn"`` or ``"numpy"``: what runs dense arrays."""
        return self._backend_plan().backend

    @property
    def implementation(self) -> str:
        """Name of oneDNN's implementation that runs dense arrays, or ``"numpy"``."""
        return self._backend_plan().implementation

    def __repr__(self) -> str:
        return repr(self._backend_plan())

    def __call__(self, *tensors: Any, out: Any = None) -> Any:
        """Compute the result from tensors of the planned shapes and dtype.

        Raises
        ------
        ShapeError, DTypeError
            If a tensor is not what was planned.
        """
        operation = self._recipe.operation
        if len(tensors) != len(self._names):
            raise ShapeError(
                f"{operation.name}: planned for {len(self._names)} tensors"
                f" ({', '.join(self._names)}), got {len(tensors)}"
            )
        by_role = {}
        for name, tensor in zip(self._names, tensors, strict=True):
            role = operation.tensors[name]
            self._check(name, tensor, self._recipe.views[role].shape)
            by_role[role] = tensor
        return dispatch.execute(self._recipe, by_role, out, self._backend)

    def _check(self, name: str, tensor: Any, shape: tuple[int, ...]) -> None:
        where = f"{self._recipe.operation.name}: {name}"
        spec = spec_of(where, tensor)
        if spec.shape != shape:
            raise ShapeError(f"{where}: planned for shape {shape}, got {spec.shape}")
        if dtype_name(where, spec.dtype) != self._recipe.dtype:
            raise DTypeError(f"{where}: planned for {self._recipe.dtype}, got {spec.dtype}")


def plan(function: Callable[..., Any], *arguments: Any, **attributes: Any) -> Plan:
    """Plan a call of ``function`` with its own signature.

    Parameters
    ----------
    function : callable
        One of the package's single-result functions, such as `convolution_backward_data`.
    *arguments, **attributes
        As for the function; a tensor may be an array or a `TensorSpec`.

    Returns
    -------
    Plan
        Called like the function with the tensors alone.

    Raises
    ------
    AttributeValueError
        If ``function`` is none of them or the arguments do not fit its signature.
    ShapeError, DTypeError
        As the function itself raises.

    Examples
    --------
    >>> import numpy as np, onednn_py
    >>> spec = onednn_py.TensorSpec((1, 2, 1), np.float32)
    >>> weights = np.ones((2, 1, 1), np.float32)
    >>> p = onednn_py.plan(onednn_py.convolution_backward_data, spec, weights)
    >>> p(np.ones((1, 2, 1), np.float32), weights).ravel().tolist()
    [1.0, 2.0, 1.0]
    """
    name = FUNCTIONS.get(function) if isinstance(function, Hashable) else None
    if name is None:
        accepted = ", ".join(FUNCTIONS.values())
        raise AttributeValueError(f"plan: expected one of {accepted}; got {function!r}")
    try:
        bound = inspect.signature(function).bind(*arguments, **attributes)
    except TypeError as error:
        raise AttributeValueError(f"plan: {name}: {error}") from None
    bound.apply_defaults()
    values = dict(bound.arguments)
    if values.pop("out") is not None:
        raise AttributeValueError("plan: out is given when the plan is called")
    backend = current_backend(values.pop("backend"))
    tensors = {tensor: values.pop(tensor) for tensor in OPERATIONS[name].tensors}
    # What is left of that name is the flag of the weights gradients, no tensor.
    bias = values.pop("bias", False)
    made = recipe(name, tensors, values, bias=bias)
    names = [tensor for tensor, value in tensors.items() if value is not None]
    return Plan(made, names, backend)


def cache_info() -> CacheInfo:
    """Return hits, misses, size and bytes of the plan cache, and its limits."""
    return dispatch.plan_cache.info()


def cache_clear() -> None:
    """Drop all cached plans and the idle workspaces."""
    dispatch.plan_cache.clear()
    pool.clear()


def set_cache_limit(*, entries: int | None = None, bytes: int | None = None) -> None:  # noqa: A002
    """Bound the plan cache.

    Parameters
    ----------
    entries : int, optional
        Plans kept at the most.
    bytes : int, optional
        Bytes that the kept plans may hold together.

    Raises
    ------
    AttributeValueError
        If a limit is no positive integer.
    """
    for label, limit in (("entries", entries), ("bytes", bytes)):
        if limit is not None and not (type(limit) is int and limit > 0):
            raise AttributeValueError(
                f"set_cache_limit: {label}: expected a positive integer, got {limit!r}"
            )
    dispatch.plan_cache.set_limit(entries, bytes)
