"""The arguments of an operator, checked once: the fixed tensor, shapes, attributes and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from onednn_py import AttributeValueError, DTypeError, TensorSpec
from onednn_py.dispatch.settings import Settings, settings
from onednn_py.errors import brief
from onednn_py.problem.arrays import spec_of
from onednn_py.problem.attributes import parse_shape
from onednn_py.problem.foreign import as_array
from onednn_py.problem.formats import TensorView
from onednn_py.problem.keywords import refuse_keywords
from onednn_py.problem.operations import OPERATIONS, Operation
from onednn_py.problem.recipe import recipe

__all__ = ["OperatorSpec", "operator_spec"]

Array = npt.NDArray[Any]

_TENSORS = ("src_shape", "weights", "src", "weights_shape")
_SETTINGS = ("backend", "fpmath_mode", "effort")


class _Form(NamedTuple):
    """Which arguments describe an operator on one of the two tensors."""

    of: str
    shape: str
    fixed: str


_FORMS = (_Form("src", "src_shape", "weights"), _Form("weights", "weights_shape", "src"))


@dataclass(frozen=True, eq=False)
class OperatorSpec:
    """A forward operation with one of its two tensors fixed.

    Attributes
    ----------
    operation : str
        The forward operation's name: ``"convolution"`` or ``"conv_transpose"``.
    of : {"src", "weights"}
        The tensor that the operator is applied to.
    fixed : ndarray
        The other tensor: a copy that cannot be written.
    views : dict
        For ``"src"``, ``"weights"`` and ``"dst"``, the caller's shape and its canonical order.
    attributes : dict
        Keywords of the operation and its gradients, with one entry per spatial axis.
    chosen : Settings
        In force when the operator was made, so that plans which are made later keep to them.
    """

    operation: str
    of: str
    fixed: Array
    views: dict[str, TensorView]
    attributes: dict[str, Any]
    chosen: Settings

    @property
    def name(self) -> str:
        return f"{self.operation}_operator"

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.fixed.dtype

    @property
    def is_transposed(self) -> bool:
        return self.operation == "conv_transpose"

    def shape(self, role: str) -> tuple[int, ...]:
        return self.views[role].shape


def operator_spec(operation: str, arguments: Mapping[str, Any]) -> OperatorSpec:
    """Check the arguments of `convolution_operator` or `conv_transpose_operator`.

    Parameters
    ----------
    operation : {"convolution", "conv_transpose"}
    arguments : mapping
        By the function's names; its keywords that it does not know under ``"unknown"``.

    Raises
    ------
    AttributeValueError
        If not exactly one of the tensors and the shape of the other are given.
    ShapeError, DTypeError, AttributeValueError
        As the operation raises, with the operator's names.
    """
    name = f"{operation}_operator"
    attributes = dict(arguments)
    if unknown := attributes.pop("unknown"):
        refuse_keywords(name, sorted(unknown), attributes)
    backend, fpmath_mode, effort = (attributes.pop(setting) for setting in _SETTINGS)
    chosen = settings(backend, fpmath_mode, effort, name)
    tensors = {key: attributes.pop(key) for key in _TENSORS}
    form = _form_of(name, tensors)
    fixed = _frozen(f"{name}: {form.fixed}", tensors[form.fixed])
    variable = TensorSpec(parse_shape(name, form.shape, tensors[form.shape]), fixed.dtype)
    forward = _forward(operation, form)
    single = recipe(forward, {**attributes, form.shape: variable, form.fixed: fixed})
    parsed = {key: getattr(single.attributes, key) for key in attributes}
    return OperatorSpec(operation, form.of, fixed, single.views, parsed, chosen)


def _form_of(name: str, tensors: Mapping[str, Any]) -> _Form:
    given = [key for key, value in tensors.items() if value is not None]
    for form in _FORMS:
        if set(given) == {form.shape, form.fixed}:
            return form
    raise AttributeValueError(
        f"{name}: expected src_shape and weights, for an operator on src, or src and"
        f" weights_shape, for an operator on weights; got {', '.join(given) or 'neither'}"
    )


def _forward(operation: str, form: _Form) -> Operation:
    """Return the operation with the operator's names, so that messages have them."""
    found = OPERATIONS[operation]
    assert isinstance(found, Operation)
    labels = {form.of: form.shape, form.fixed: form.fixed}
    tensors = {labels[role]: role for role in ("src", "weights")}
    return replace(found, name=f"{operation}_operator", tensors=tensors)


def _frozen(where: str, tensor: Any) -> Array:
    """Return a dense copy that nobody writes, in the machine's byte order.

    Raises
    ------
    DTypeError
        If it is no array, has no data, or another type than tensors have.
    """
    found = spec_of(where, tensor)
    if isinstance(tensor, TensorSpec):
        raise DTypeError(f"{where}: expected an array, got {brief(tensor)}, which has no data")
    native = np.dtype(np.dtype(found.dtype).type)
    copy: Array = np.array(as_array(where, tensor), native, order="C", subok=False)
    copy.flags.writeable = False
    return copy
