"""Plans by hand: check and build once, call with arrays many times."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from types import FunctionType
from typing import Any, Generic, NoReturn, TypeVar, overload

import numpy as np

from onednn_py.dispatch.bound_call import BoundCall, Pick
from onednn_py.dispatch.general_call import run
from onednn_py.dispatch.planner import prepared_backend, recount
from onednn_py.dispatch.settings import Settings, settings
from onednn_py.errors import AttributeValueError, DTypeError, ShapeError, SignatureError, brief
from onednn_py.problem.arrays import READ_IN_PLACE, TensorSpec, readable, spec_of
from onednn_py.problem.call_spec import CallSpec, call_spec
from onednn_py.problem.dtypes import DTYPES, dtype_name
from onednn_py.problem.foreign import as_array, is_foreign_array
from onednn_py.problem.keywords import refuse_keywords
from onednn_py.problem.operations import DOCUMENTED, OPERATIONS

from . import FUNCTIONS
from .packed import PackedTensor, operand_of, plain_copy_of
from .run_op import VERSIONED
from .types import AnyArray, Effort

__all__ = ["Plan", "plan"]

# The functions' names by what `plan` takes: functions, their names, and the documented names.
_NAMES: dict[Hashable, str] = {
    **{function: name for name, function in FUNCTIONS.items()},
    **{name: name for name in FUNCTIONS},
    **{documented: operation.name for documented, operation in DOCUMENTED.items()},
    **{version: DOCUMENTED[documented].name for version, documented in VERSIONED.items()},
}

ndarray = np.ndarray

Result = TypeVar("Result")


class Plan(Generic[Result]):
    """A function with its shapes and attributes, to be called with the tensors alone.

    A plan holds shapes and primitives, never the caller's arrays, and keeps the primitives alive
    even where the cache has dropped them. It may be called from any thread, and from several at
    once.
    """

    def __init__(self, spec: CallSpec, names: Sequence[str], chosen: Settings) -> None:
        self._spec = spec
        self._names = tuple(names)
        self._chosen = chosen
        self._bound = BoundCall(spec, {}, chosen.fpmath_mode)
        self._dtype = DTYPES[spec.dtype]
        self._shapes = [view.shape for view in spec.inputs.values()]
        # A single tuple, which a thread reads or replaces as a whole.
        self._held: tuple[Any, Any, Pick] = (None, None, tuple)
        self._current()

    def _current(self) -> tuple[Any, Any, Pick]:
        """Return the backend's state, its plan, and the function that picks the plan's operands."""
        state = prepared_backend(self._chosen.backend)
        held = self._held
        if held[1] is None or held[0] != state:
            self._held = held = (state, *self._bound.plan(self._chosen))
        return held

    @property
    def backend(self) -> str:
        """Name of the backend that computes dense arrays, such as ``"onednn"``."""
        return str(self._current()[1].backend)

    @property
    def implementation(self) -> str:
        """Name of oneDNN's implementation that computes dense arrays, or ``"numpy"``."""
        return str(self._current()[1].implementation)

    def __repr__(self) -> str:
        return repr(self._current()[1])

    def __copy__(self) -> Plan[Result]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Plan[Result]:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Plan holds primitives of this process: send the arguments of onednn_py.plan, and"
            " make the plan there"
        )

    def __call__(self, *tensors: AnyArray | PackedTensor, out: Any = None) -> Result:
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
            return self._call_any(tensors, out)
        dtype = self._dtype
        for tensor, shape in zip(tensors, shapes):  # noqa: B905 - compared above
            if (
                type(tensor) is not ndarray
                or tensor.shape != shape
                or tensor.dtype is not dtype
                or tensor.flags.num & READ_IN_PLACE != READ_IN_PLACE
            ):
                return self._call_any(tensors, out)
        arrays: Any = tensors  # for type checkers: none of them is packed
        _, plan, pick = self._current()
        if out is None:
            written = outs = self._bound.new_results()
        elif self._bound.run_into(plan, pick, (*arrays, out)):
            return out  # type: ignore[no-any-return]
        else:
            outs = self._spec.outs(out)
            memory = self._bound.memory_of(arrays, outs)
            if memory is None:
                return self._call_any(tensors, out)
            written = memory
        self._bound.run(plan, pick, (*arrays, *written))
        return self._spec.returned(outs)  # type: ignore[no-any-return]

    def _call_any(self, tensors: Sequence[Any], out: Any) -> Result:
        """Compute the result from any arrays of the planned shapes, or raise the error."""
        operation = self._spec.operation
        if len(tensors) != len(self._names):
            raise ShapeError(
                f"{operation}: planned for {len(self._names)} tensors"
                f" ({', '.join(self._names)}), got {len(tensors)}"
            )
        if any(map(is_foreign_array, tensors)):
            labels = [f"{operation}: {name}" for name in self._names]
            return self(*map(as_array, labels, tensors), out=out)
        named: dict[str, Any] = {}
        execute = None
        for label, name, tensor in zip(self._names, self._spec.inputs, tensors, strict=True):
            if isinstance(tensor, PackedTensor):
                execute = self._execute_packed(label, tensor)
                if execute is None:
                    plain: Any = plain_copy_of(tensor)
                    return self(*(plain if t is tensor else t for t in tensors), out=out)
                continue
            self._check(label, tensor, self._spec.inputs[name].shape)
            named[name] = tensor
        results = run(self._spec, named, self._spec.outs(out), self._chosen, execute)
        return self._spec.returned(results)  # type: ignore[no-any-return]

    def _check(self, name: str, tensor: Any, shape: tuple[int, ...]) -> None:
        where = f"{self._spec.operation}: {name}"
        spec = spec_of(where, tensor)
        if spec.shape != shape:
            raise ShapeError(f"{where}: planned for shape {shape}, got {spec.shape}")
        if dtype_name(where, spec.dtype) != self._spec.dtype:
            raise DTypeError(f"{where}: planned for {self._spec.dtype}, got {spec.dtype}")

    def pack(self, name: str, tensor: AnyArray) -> PackedTensor:
        """Return a copy of a tensor in the plan's own layout, for many calls with that tensor.

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
        accepted = [
            label
            for label, tensor_name in zip(self._names, self._spec.inputs, strict=True)
            if tensor_name == "weights"
        ]
        if not isinstance(name, str) or name not in accepted:
            expected = f"expected {accepted[0]!r}" if accepted else "the plan takes no weights"
            raise AttributeValueError(
                f"{self._spec.operation}: pack: {expected}; got {brief(name)}"
            )
        view = self._spec.inputs["weights"]
        array = as_array(f"{self._spec.operation}: pack: {name}", tensor)
        self._check(name, array, view.shape)
        if isinstance(array, TensorSpec):
            raise DTypeError(f"{self._spec.operation}: pack: a TensorSpec has no data")
        dense = np.array(readable(array)[0], order="C")
        plan = self._current()[1]
        operand = plan.pack("weights", view.canonical(dense))
        recount(plan)
        return PackedTensor(name, view, dense, operand)

    def _execute_packed(self, label: str, tensor: PackedTensor) -> Callable[..., None] | None:
        """Return the execution with a packed tensor, None where the tensor is a plain copy."""
        where = f"{self._spec.operation}: {label}"
        view = self._spec.inputs.get("weights")
        operand = operand_of(tensor, where, label, view, self._dtype)
        if operand is None:
            return None
        plan = self._current()[1]
        if not plan.accepts(operand):
            raise AttributeValueError(
                f"{where}: {tensor!r} has another layout than this plan takes: pack it again"
            )
        return partial(plan.execute, packed=operand)


@overload
def plan(
    function: Callable[..., Result],
    *arguments: Any,
    effort: Effort | None = None,
    **attributes: Any,
) -> Plan[Result]: ...


@overload
def plan(
    function: str,
    *arguments: Any,
    effort: Effort | None = None,
    **attributes: Any,
) -> Plan[Any]: ...


def plan(
    function: Callable[..., Any] | str,
    *arguments: Any,
    effort: Effort | None = None,
    **attributes: Any,
) -> Plan[Any]:
    """Plan a call of ``function`` with its own signature.

    Parameters
    ----------
    function : callable or str
        One of the package's operations, such as `convolution_backward_data`, its name, or its name
        in the oneDNN Graph documents.
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
        If ``function`` is no operation, or the arguments do not fit its signature, which is a
        TypeError too.
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
    name = _NAMES.get(function) if isinstance(function, (str, FunctionType)) else None
    if name is None:
        listed = ", ".join(FUNCTIONS)
        raise AttributeValueError(f"plan: expected one of {listed}; got {brief(function)}")
    signature = inspect.signature(FUNCTIONS[name])
    unknown = attributes.keys() - signature.parameters.keys()
    if unknown:
        refuse_keywords(f"plan: {name}", sorted(unknown), signature.parameters)
    try:
        bound = signature.bind(*arguments, **attributes)
    except TypeError as error:
        raise SignatureError(f"plan: {name}: {error}") from None
    values = dict(bound.arguments)
    if values.pop("out", None) is not None:
        raise AttributeValueError("plan: out is given when the plan is called")
    backend, fpmath_mode = values.pop("backend", None), values.pop("fpmath_mode", None)
    chosen = settings(backend, fpmath_mode, effort, f"plan: {name}")
    spec = call_spec(name, values)
    names = [tensor for tensor in OPERATIONS[name].tensors if values.get(tensor) is not None]
    return Plan(spec, names, chosen)
