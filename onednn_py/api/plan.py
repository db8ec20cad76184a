"""Plans by hand: check and build once, call with arrays many times."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from onednn_py import api as ops
from onednn_py.backends.onednn.execution.packing import NativePacked, execute_packed, pack
from onednn_py.backends.onednn.execution.plan import NativePlan
from onednn_py.dispatch import planner as dispatch
from onednn_py.dispatch.bound_call import Array, Bound, Pick, Settings, Task, run, settings
from onednn_py.dispatch.call_cache import forget_kinds
from onednn_py.dispatch.plan_cache import CacheInfo
from onednn_py.dispatch.planner import native_state
from onednn_py.errors import AttributeValueError, DTypeError, ShapeError
from onednn_py.problem.arrays import DTYPES, TensorSpec, dtype_name, readable, spec_of
from onednn_py.problem.formats import TensorView, dense_strides
from onednn_py.problem.operations import OPERATIONS
from onednn_py.problem.recipe import recipe
from onednn_py.system.memory_pool import pool

__all__ = ["PackedTensor", "Plan", "cache_clear", "cache_info", "plan", "set_cache_limit"]

FUNCTIONS: dict[Callable[..., Any], str] = {getattr(ops, name): name for name in OPERATIONS}
JOINT: dict[Callable[..., Any], str] = {
    ops.convolution_backward: "convolution_backward",
    ops.conv_transpose_backward: "conv_transpose_backward",
}

_DENSE_ALIGNED = 0x1 | 0x100

ndarray = np.ndarray


class PackedTensor:
    """A tensor in a plan's own layout, made by `Plan.pack`; calls of that plan take it.

    Attributes
    ----------
    name : str
        The tensor's name in the plan's function.
    shape : tuple of int
    nbytes : int
    """

    def __init__(
        self, name: str, view: TensorView, array: Array, native: NativePacked | None
    ) -> None:
        self.name, self.shape = name, array.shape
        self.nbytes = array.nbytes if native is None else native.nbytes
        self._view, self._dtype = view, array.dtype
        # Without a layout of its own, the tensor is a plain copy.
        self._array = array if native is None else None
        self._native = native

    def __repr__(self) -> str:
        return f"PackedTensor({self.name}, shape {self.shape}, {self.nbytes} bytes)"


class Plan:
    """One function with its shapes and attributes, to be called with the tensors alone.

    A plan holds shapes and primitives, never the caller's arrays. It may be called from
    any thread, and from several at once.
    """

    def __init__(self, task: Task, names: Sequence[str], chosen: Settings) -> None:
        self._task = task
        self._names = tuple(names)
        self._chosen = chosen
        strides = {name: dense_strides(view.shape) for name, view in task.inputs.items()}
        self._bound = Bound(task, strides, chosen.fpmath_mode)
        self._dtype = DTYPES[task.dtype]
        self._shapes = [view.shape for view in task.inputs.values()]
        # In one tuple, so that threads never see parts of two.
        self._held: tuple[Any, Any, Pick] = (None, None, tuple)
        self._current()

    def _current(self) -> tuple[Any, Any, Pick]:
        """Return what a plan depends on, the plan, and what picks its operands."""
        state = native_state(self._chosen.backend)
        held = self._held
        if held[1] is None or held[0] != state:
            self._held = held = (state, *self._bound.plan(self._chosen))
        return held

    @property
    def backend(self) -> str:
        """``"onednn"`` or ``"numpy"``: what runs dense arrays."""
        return str(self._current()[1].backend)

    @property
    def implementation(self) -> str:
        """Name of oneDNN's implementation that runs dense arrays, or ``"numpy"``."""
        return str(self._current()[1].implementation)

    def __repr__(self) -> str:
        return repr(self._current()[1])

    def __call__(self, *tensors: Any, out: Any = None) -> Any:
        """Compute the result from tensors of the planned shapes and dtype.

        Parameters
        ----------
        *tensors : ndarray or PackedTensor
            In the function's order.
        out : as of the function, optional

        Raises
        ------
        ShapeError, DTypeError
            If a tensor is not what was planned.
        AttributeValueError
            If a packed tensor belongs to a plan of another layout.
        """
        shapes = self._shapes
        if len(tensors) != len(shapes):
            return self._call_the_long_way(tensors, out)
        dtype = self._dtype
        for tensor, shape in zip(tensors, shapes):  # noqa: B905 - compared above
            if (
                type(tensor) is not ndarray
                or tensor.shape != shape
                or tensor.dtype is not dtype
                or tensor.flags.num & _DENSE_ALIGNED != _DENSE_ALIGNED
            ):
                return self._call_the_long_way(tensors, out)
        _, plan, pick = self._current()
        if out is None:
            outs = self._bound.new_results()
        elif type(out) is ndarray and self._bound.run_into(plan, pick, (*tensors, out)):
            return out
        else:
            outs = self._task.outs(out)
            if not self._bound.takes(tensors, outs):
                return self._call_the_long_way(tensors, out)
        self._bound.run(plan, pick, (*tensors, *outs))
        return self._task.returned(outs)

    def _call_the_long_way(self, tensors: Sequence[Any], out: Any) -> Any:
        operation = self._task.operation
        if len(tensors) != len(self._names):
            raise ShapeError(
                f"{operation}: planned for {len(self._names)} tensors"
                f" ({', '.join(self._names)}), got {len(tensors)}"
            )
        named: dict[str, Any] = {}
        packed: list[NativePacked] = []
        for label, name, tensor in zip(self._names, self._task.inputs, tensors, strict=True):
            if isinstance(tensor, PackedTensor):
                tensor = self._unpacked(label, tensor, packed)
                if tensor is None:
                    continue
            self._check(label, tensor, self._task.inputs[name].shape)
            named[name] = tensor
        outs = self._task.outs(out)
        execute = None
        if packed:
            execute = partial(execute_packed, self._current()[1], packed[0])
        return self._task.returned(run(self._task, named, outs, self._chosen, execute))

    def _check(self, name: str, tensor: Any, shape: tuple[int, ...]) -> None:
        where = f"{self._task.operation}: {name}"
        spec = spec_of(where, tensor)
        if spec.shape != shape:
            raise ShapeError(f"{where}: planned for shape {shape}, got {spec.shape}")
        if dtype_name(where, spec.dtype) != self._task.dtype:
            raise DTypeError(f"{where}: planned for {self._task.dtype}, got {spec.dtype}")

    def pack(self, name: str, tensor: Array) -> PackedTensor:
        """Return a tensor in the plan's own layout, for many calls with the same one.

        Parameters
        ----------
        name : {"weights"}
            The weights' name in the plan's function (``filter`` in
            `convolution_backprop_data`).
        tensor : ndarray
            Of the planned shape and dtype. It is copied.

        Returns
        -------
        PackedTensor
            Taken by calls of this plan in place of the tensor.

        Raises
        ------
        AttributeValueError
            If the plan has no such tensor, or another name is given than that of weights.
        ShapeError, DTypeError
            If the tensor is not what was planned.

        Examples
        --------
        >>> import numpy as np, onednn_py
        >>> weights = np.ones((2, 1, 1), np.float32)
        >>> diff_dst = np.ones((1, 2, 1), np.float32)
        >>> p = onednn_py.plan(onednn_py.convolution_backward_data, diff_dst, weights)
        >>> p(diff_dst, p.pack("weights", weights)).ravel().tolist()
        [1.0, 2.0, 1.0]
        """
        operand = dict(zip(self._names, self._task.inputs, strict=True)).get(name)
        if operand != "weights":
            accepted = [
                n for n, o in zip(self._names, self._task.inputs, strict=True) if o == "weights"
            ]
            expected = f"expected {accepted[0]!r}" if accepted else "the plan takes no weights"
            raise AttributeValueError(f"{self._task.operation}: pack: {expected}; got {name!r}")
        view = self._task.inputs["weights"]
        self._check(name, tensor, view.shape)
        if isinstance(tensor, TensorSpec):
            raise DTypeError(f"{self._task.operation}: pack: a TensorSpec has no data")
        dense = np.array(readable(tensor)[0], order="C")
        plan = self._current()[1]
        if not isinstance(plan, NativePlan) or "weights" not in plan.operands:
            return PackedTensor(name, view, dense, None)
        return PackedTensor(name, view, dense, pack(plan, "weights", view.canonical(dense)))

    def _unpacked(
        self, label: str, tensor: PackedTensor, packed: list[NativePacked]
    ) -> Array | None:
        """Return the array to go on with, None if it stays packed and is noted down."""
        where = f"{self._task.operation}: {label}"
        # Of the same axes in the same order: a layout alone does not tell what they mean.
        meant = (tensor.name, tensor._view, tensor._dtype)
        if meant != (label, self._task.inputs.get("weights"), self._dtype):
            raise AttributeValueError(f"{where}: {tensor!r} was packed for another plan")
        plan = self._current()[1]
        native = tensor._native
        if native is None:
            return tensor._array
        if not isinstance(plan, NativePlan) or not native.fits(plan):
            raise AttributeValueError(
                f"{where}: {tensor!r} has another layout than this plan takes: pack it again"
            )
        packed.append(native)
        return None


def plan(
    function: Callable[..., Any], *arguments: Any, effort: str | None = None, **attributes: Any
) -> Plan:
    """Plan a call of ``function`` with its own signature.

    Parameters
    ----------
    function : callable
        One of the package's operations, such as `convolution_backward_data`.
    *arguments, **attributes
        As for the function; a tensor may be an array or a `TensorSpec`.
    effort : {"heuristic", "measure"}, optional
        ``"measure"`` times the candidates, keeps the fastest and remembers it as wisdom.

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
    hashable = isinstance(function, Hashable)
    name = FUNCTIONS.get(function) if hashable else None
    joint = JOINT.get(function) if hashable else None
    if name is None and joint is None:
        accepted = ", ".join((*FUNCTIONS.values(), *JOINT.values()))
        raise AttributeValueError(f"plan: expected one of {accepted}; got {function!r}")
    try:
        bound = inspect.signature(function).bind(*arguments, **attributes)
    except TypeError as error:
        raise AttributeValueError(f"plan: {name or joint}: {error}") from None
    bound.apply_defaults()
    values = dict(bound.arguments)
    if values.pop("out") is not None:
        raise AttributeValueError("plan: out is given when the plan is called")
    chosen = settings(values.pop("backend"), values.pop("fpmath_mode"), effort)
    if joint is not None:
        tensors = {tensor: values.pop(tensor) for tensor in ("src", "weights", "diff_dst")}
        return Plan(ops.joint_task(joint, tensors, values), tuple(tensors), chosen)
    assert name is not None
    tensors = {tensor: values.pop(tensor) for tensor in OPERATIONS[name].tensors}
    # What is left of that name is the flag of the weights gradients, no tensor.
    bias = values.pop("bias", False)
    task = Task.of(recipe(name, tensors, values, bias=bias))
    names = [tensor for tensor, value in tensors.items() if value is not None]
    return Plan(task, names, chosen)


def cache_info() -> CacheInfo:
    """Return hits, misses, size and bytes of the plan cache, and its limits.

    ``bytes`` counts what the plans keep alive and the idle blocks of memory.
    """
    found = dispatch.plan_cache.info()
    return found._replace(bytes=found.bytes + pool.idle_bytes)


def cache_clear() -> None:
    """Drop all cached plans, what is known of calls, and the idle memory."""
    forget_kinds()
    dispatch.plan_cache.clear()
    pool.reserve(0)
    pool.clear()


def set_cache_limit(*, entries: int | None = None, bytes: int | None = None) -> None:  # noqa: A002
    """Bound the plan cache.

    Parameters
    ----------
    entries : int, optional
        Plans kept at the most.
    bytes : int, optional
        Bytes that the kept plans and idle blocks of memory may hold together.

    Raises
    ------
    AttributeValueError
        If a limit is no positive integer.
    """
    plans, memory = _checked_limit("entries", entries), _checked_limit("bytes", bytes)
    dispatch.plan_cache.set_limit(plans, memory)
    if memory is not None:
        pool.set_limit(memory)
    pool.reserve(dispatch.plan_cache.info().bytes)


def _checked_limit(label: str, limit: Any) -> int | None:
    if limit is None:
        return None
    try:
        # True is a flag that went astray, not a number.
        checked = 0 if isinstance(limit, bool) else operator.index(limit)
    except TypeError:
        checked = 0
    if checked <= 0:
        raise AttributeValueError(
            f"set_cache_limit: {label}: expected a positive integer, got {limit!r}"
        )
    return checked
