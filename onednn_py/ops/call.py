"""From a function's arguments to a result: normalise, then dispatch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from .. import dispatch
from ..normalise import recipe
from ..operations import OPERATIONS

__all__ = ["Array", "Ints", "call"]

Array = npt.NDArray[Any]
Ints = int | Sequence[int]


def call(
    name: str,
    tensors: Mapping[str, Any],
    arguments: Mapping[str, Any],
    out: Any,
    backend: str | None,
    *,
    bias: bool = False,
) -> Any:
    made = recipe(name, tensors, arguments, bias=bias)
    roles = OPERATIONS[name].tensors
    by_role = {roles[name]: array for name, array in tensors.items() if array is not None}
    return dispatch.execute(made, by_role, out, backend)
