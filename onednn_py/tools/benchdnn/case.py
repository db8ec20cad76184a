"""A benchdnn problem in one direction, type and format, as a call of this package's functions."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy.typing as npt

from onednn_py import api as ops
from onednn_py.api.plan import Plan, plan
from onednn_py.problem.arrays import DTYPES, TensorSpec
from onednn_py.problem.operations import OPERATIONS, Operation
from onednn_py.problem.problem import Direction, Problem
from onednn_py.problem.recipe import recipe

from .descriptor import Descriptor

__all__ = ["DIRECTIONS", "Case"]

Array = npt.NDArray[Any]

# benchdnn's names: what is computed, and whether there is a bias.
DIRECTIONS = {
    "FWD_D": (Direction.FORWARD, False),
    "FWD_B": (Direction.FORWARD, True),
    "BWD_D": (Direction.BACKWARD_DATA, False),
    "BWD_W": (Direction.BACKWARD_WEIGHTS, False),
    "BWD_WB": (Direction.BACKWARD_WEIGHTS, True),
}
WEIGHTS_FORMATS = {
    False: {"NCX": "OIX", "NXC": "XIO"},
    True: {"NCX": "IOX", "NXC": "XOI"},
}


@dataclass(frozen=True)
class Case:
    """One computation of a descriptor.

    Attributes
    ----------
    descriptor : Descriptor
    direction : str
        Key of `DIRECTIONS`.
    dtype : {"f32", "bf16", "f16"}
    data_format : {"NCX", "NXC"}
        The weights are OIX (IOX if transposed) with NCX, XIO (XOI) with NXC.
    """

    descriptor: Descriptor
    direction: str
    dtype: str
    data_format: str

    @cached_property
    def operation(self) -> Operation:
        direction, _ = DIRECTIONS[self.direction]
        return next(
            operation
            for operation in OPERATIONS.values()
            if operation.transposed == self.descriptor.transposed
            and operation.direction is direction
        )

    @property
    def has_bias(self) -> bool:
        return DIRECTIONS[self.direction][1]

    @property
    def weights_format(self) -> str:
        return WEIGHTS_FORMATS[self.descriptor.transposed][self.data_format]

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
        """Name of a tensor in this direction, such as diff_dst."""
        backward = self.operation.direction is not Direction.FORWARD
        if backward and (role == "dst" or role in self.result_roles):
            return f"diff_{role}"
        return role

    def shape(self, role: str) -> tuple[int, ...]:
        """Shape of a tensor in the case's formats."""
        d = self.descriptor
        if role == "bias":
            return (d.outputs,)
        if role == "weights":
            # The outer channels are those of src if transposed, and never divided by groups.
            outer, inner = (d.inputs, d.outputs) if d.transposed else (d.outputs, d.inputs)
            inner //= d.groups
            return (outer, inner, *d.kernel) if self._channels_first else (*d.kernel, inner, outer)
        channels, spatial = (d.inputs, d.src) if role == "src" else (d.outputs, d.dst)
        if self._channels_first:
            return (d.minibatch, channels, *spatial)
        return (d.minibatch, *spatial, channels)

    @property
    def _channels_first(self) -> bool:
        return self.data_format == "NCX"

    @property
    def elements(self) -> int:
        """Elements of all inputs and results together."""
        return sum(prod(self.shape(role)) for role in {*self.input_roles, *self.result_roles})

    @property
    def terms(self) -> int:
        """Products that one element of the result sums up, as benchdnn counts them."""
        d = self.descriptor
        direction = self.operation.direction
        if direction is Direction.BACKWARD_WEIGHTS:
            return d.minibatch * prod(d.dst)
        channels = d.inputs if direction is Direction.FORWARD else d.outputs
        return prod(d.kernel) * channels // d.groups

    @property
    def options(self) -> str:
        """The command line's options for this case alone."""
        d = self.descriptor
        return (
            f"--dir={self.direction} --dt={self.dtype} --format={self.data_format}"
            f" --{d.operation} {shlex.quote(str(d))}"
        )

    def with_minibatch(self, minibatch: int) -> Case:
        return replace(self, descriptor=self.descriptor.with_minibatch(minibatch))

    def call(self, inputs: Sequence[Array], backend: str) -> tuple[Array, ...]:
        """Return the results, in the order of ``result_roles``.

        Parameters
        ----------
        inputs : sequence of ndarray
            In the order of ``input_roles``; of the case's dtype, or all float64.
        backend : {"auto", "onednn", "numpy"}
        """
        function = getattr(ops, self.operation.name)
        results = function(*inputs, **self.keywords, backend=backend)
        return results if isinstance(results, tuple) else (results,)

    def plan(self, backend: str) -> Plan:
        specs = (TensorSpec(self.shape(role), DTYPES[self.dtype]) for role in self.input_roles)
        function = getattr(ops, self.operation.name)
        return plan(function, *specs, **self.keywords, backend=backend)

    def problem(self) -> Problem:
        """Return the case as a Problem with dense tensors."""
        operation = self.operation
        tensors: dict[str, TensorSpec | None] = dict.fromkeys(operation.tensors)
        for name, role in operation.tensors.items():
            if role in self.input_roles:
                tensors[name] = TensorSpec(self.shape(role), DTYPES[self.dtype])
        arguments = {**self.keywords, "auto_pad": "none"}
        bias = arguments.pop("bias", False)
        made = recipe(operation.name, tensors, arguments, bias=bias)
        return made.problem(made.dense_strides())

    @cached_property
    def keywords(self) -> dict[str, Any]:
        """Attributes of the function's call, without tensors and backend."""
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
