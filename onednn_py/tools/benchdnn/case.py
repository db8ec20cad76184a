"""A benchdnn problem with direction, data type and format, as a call of `onednn_py`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

import onednn_py
from onednn_py.problem.dtypes import DTYPES
from onednn_py.problem.operations import DOCUMENTED, Operation
from onednn_py.problem.problem import Direction, Problem
from onednn_py.problem.recipe import recipe

from .descriptor import Descriptor, parse_descriptor
from .filling import fill_integers

__all__ = ["CASE_FUNCTIONS", "DATA_FORMATS", "DIRECTIONS", "TAGS", "Case", "row"]

Array = npt.NDArray[Any]

# By benchdnn's name: the package's direction, and whether there is a bias.
DIRECTIONS = {
    "FWD_D": (Direction.FORWARD, False),
    "FWD_B": (Direction.FORWARD, True),
    "BWD_D": (Direction.BACKWARD_DATA, False),
    "BWD_W": (Direction.BACKWARD_WEIGHTS, False),
    "BWD_WB": (Direction.BACKWARD_WEIGHTS, True),
}
# By data format, benchdnn's tag of src and dst.
TAGS = {"NCX": "abx", "NXC": "axb"}
DATA_FORMATS = tuple(TAGS)
# By data format; the second of each is that of transposed convolutions.
WEIGHTS_FORMATS = {"NCX": ("OIX", "IOX"), "NXC": ("XIO", "XOI")}

# By whether they are transposed, and by direction. Of two documented
# names, the newer.
_OPERATIONS = {
    (operation.transposed, operation.direction): operation
    for operation in reversed(DOCUMENTED.values())
}
# The functions that compute cases.
CASE_FUNCTIONS = tuple(operation.name for operation in reversed(_OPERATIONS.values()))


@dataclass(frozen=True, repr=False)
class Case:
    """A problem of benchdnn with direction, data type and format: one call of a function.

    ``str(case)`` is its ``id``. A case is a frozen value: it can be compared, hashed and pickled.

    Attributes
    ----------
    descriptor : Descriptor
        The sizes and attributes, as benchdnn's descriptor states them.
    direction : {"FWD_D", "FWD_B", "BWD_D", "BWD_W", "BWD_WB"}
        As benchdnn names it; ``B`` is with bias.
    dtype : {"f32", "bf16", "f16"}
    data_format : {"NCX", "NXC"}
        The weights are OIX (IOX if transposed) with NCX, XIO (XOI) with NXC.

    Examples
    --------
    >>> from onednn_py.testing import cases
    >>> (case,) = cases("ic16ih7oc24kh3ph1", directions="BWD_D")
    >>> case.function, [tensor.shape for tensor in case.tensors()]
    ('convolution_backward_data', [(2, 24, 7, 7), (24, 16, 3, 3)])
    >>> case.attributes["strides"], case.attributes["weights_format"]
    ((1, 1), 'OIX')
    >>> print(case)
    --conv --dir=BWD_D --dt=f32 --stag=abx --dtag=abx mb2ic16ih7oc24oh7kh3ph1
    """

    descriptor: Descriptor
    direction: str
    dtype: str
    data_format: str

    @property
    def id(self) -> str:
        """benchdnn's command line for this case, which `onednn_py.testing.cases` reads again."""
        d = self.descriptor
        tag = TAGS[self.data_format]
        return (
            f"--{d.operation} --dir={self.direction} --dt={self.dtype} --stag={tag} --dtag={tag}"
            f" {shlex.quote(str(d))}"
        )

    @property
    def __name__(self) -> str:
        """The ``id``: of a parameter that has a name, pytest shows the name."""
        return self.id

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"cases({self.id!r})[0]"

    @property
    def function(self) -> str:
        """Name of the function of ``onednn_py`` that computes the case."""
        return self.operation.name

    @property
    def attributes(self) -> dict[str, Any]:
        """Keyword arguments of the function: a new dictionary at each access.

        Lists of one entry per spatial axis are tuples; a shape argument, such as
        ``weights_shape``, is among them.
        """
        return dict(self.keywords)

    def tensors(self, seed: int = 0) -> tuple[Array, ...]:
        """Return the function's tensors, in its order, as new arrays filled with integers.

        The integers have the ranges and densities of benchdnn's: the data type holds every sum of
        products exactly, and every order of summation gives the same bits.

        Parameters
        ----------
        seed : int
            Of the integers. The arrays depend on case and seed alone.
        """
        return fill_integers(self, seed)

    @cached_property
    def operation(self) -> Operation:
        return _OPERATIONS[self.descriptor.transposed, DIRECTIONS[self.direction][0]]

    @property
    def is_forward(self) -> bool:
        return self.operation.direction is Direction.FORWARD

    @property
    def has_bias(self) -> bool:
        return DIRECTIONS[self.direction][1]

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        return DTYPES[self.dtype]

    @property
    def weights_format(self) -> str:
        return WEIGHTS_FORMATS[self.data_format][self.descriptor.transposed]

    @property
    def input_roles(self) -> tuple[str, ...]:
        """Roles (src, weights, bias, dst) of the inputs, in the function's order."""
        roles = self.operation.tensors.values()
        return tuple(role for role in roles if role != "bias" or self.has_bias)

    @property
    def result_roles(self) -> tuple[str, ...]:
        role = self.operation.result_role
        return (role, "bias") if self.has_bias and role == "weights" else (role,)

    def label(self, role: str) -> str:
        """Name of a tensor in this direction, such as ``diff_dst``."""
        is_gradient = role == "dst" or role in self.result_roles
        return f"diff_{role}" if is_gradient and not self.is_forward else role

    def shape(self, role: str) -> tuple[int, ...]:
        """Shape of a tensor in the case's formats."""
        d, channels_first = self.descriptor, self.data_format == "NCX"
        if role == "bias":
            return (d.outputs,)
        if role == "weights":
            # Transposed weights have src's channels outside; only inner channels are per group.
            outer, inner = (d.inputs, d.outputs) if d.transposed else (d.outputs, d.inputs)
            inner //= d.groups
            return (outer, inner, *d.kernel) if channels_first else (*d.kernel, inner, outer)
        channels, spatial = (d.inputs, d.src) if role == "src" else (d.outputs, d.dst)
        if channels_first:
            return (d.minibatch, channels, *spatial)
        return (d.minibatch, *spatial, channels)

    @property
    def elements(self) -> int:
        """Total elements of all inputs and results."""
        return sum(prod(self.shape(role)) for role in {*self.input_roles, *self.result_roles})

    @property
    def nbytes(self) -> int:
        """Bytes of all inputs and results."""
        return self.elements * self.numpy_dtype.itemsize

    @property
    def terms(self) -> int:
        """Products summed for one element of the result, as benchdnn counts them."""
        d = self.descriptor
        if self.operation.direction is Direction.BACKWARD_WEIGHTS:
            return d.minibatch * prod(d.dst)
        channels = d.inputs if self.is_forward else d.outputs
        return prod(d.kernel) * channels // d.groups

    @property
    def options(self) -> str:
        """Options of ``python -m onednn_py verify`` that select this case alone."""
        d = self.descriptor
        return (
            f"--dir={self.direction} --dt={self.dtype} --format={self.data_format}"
            f" --{d.operation} {shlex.quote(str(d))}"
        )

    def to_json(self) -> dict[str, str]:
        d = self.descriptor
        return {
            "operation": d.operation,
            "descriptor": str(d),
            "name": d.name,
            "direction": self.direction,
            "dtype": self.dtype,
            "format": self.data_format,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, str]) -> Case:
        """Return the case of a mapping that has at least the items of ``to_json``."""
        transposed = values["operation"] == "deconv"
        descriptor = parse_descriptor(values["descriptor"], transposed=transposed)
        return cls(descriptor, values["direction"], values["dtype"], values["format"])

    def with_minibatch(self, minibatch: int) -> Case:
        return replace(self, descriptor=self.descriptor.with_minibatch(minibatch))

    def call(self, inputs: Sequence[Array], backend: str) -> tuple[Array, ...]:
        """Return the results, in the order of ``result_roles``.

        The inputs, in the order of ``input_roles``, have the case's data type or are all float64.
        """
        function = getattr(onednn_py, self.operation.name)
        results = function(*inputs, **self.keywords, backend=backend)
        return results if isinstance(results, tuple) else (results,)

    def plan(self, backend: str) -> onednn_py.Plan[Any]:
        function = getattr(onednn_py, self.operation.name)
        specs = map(self._spec, self.input_roles)
        return onednn_py.plan(function, *specs, **self.keywords, backend=backend)

    def _spec(self, role: str) -> onednn_py.TensorSpec:
        return onednn_py.TensorSpec(self.shape(role), self.numpy_dtype)

    def problem(self) -> Problem:
        """Return the Problem of the case's call with dense tensors."""
        operation = self.operation
        tensors = {
            name: self._spec(role) if role in self.input_roles else None
            for name, role in operation.tensors.items()
        }
        return recipe(operation, {**tensors, **self.keywords}).problem({})

    @cached_property
    def keywords(self) -> dict[str, Any]:
        """Keyword arguments of the function's call, except ``backend``."""
        d = self.descriptor
        keywords: dict[str, Any] = {
            "strides": d.strides,
            "dilations": d.dilations,
            "pads_begin": d.pads_begin,
            "pads_end": tuple(max(pad, 0) for pad in d.pads_end),
            "groups": d.groups,
            "data_format": self.data_format,
            "weights_format": self.weights_format,
        }
        if d.transposed:
            keywords["output_padding"] = tuple(max(-pad, 0) for pad in d.pads_end)
        if self.operation.shape_argument:
            keywords[self.operation.shape_argument] = self.shape(self.operation.result_role)
        if self.operation.direction is Direction.BACKWARD_WEIGHTS:
            keywords["bias"] = self.has_bias
        return keywords


def row(outcome: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, with `Case.to_json` in place of the field ``case``."""
    names = (field.name for field in fields(outcome) if field.name != "case")
    return {**outcome.case.to_json(), **{name: getattr(outcome, name) for name in names}}
