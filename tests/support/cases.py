"""One convolution geometry, and the six operations that live on it.

All tensors are made in the roles of a convolution (src, weights, dst, NCX and OIX); a
transposed convolution is the same geometry read backwards. `Case.check` runs one
operation through the public functions, in any format, and compares with the oracle.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any

import numpy as np

import onednn_py
from tests.support.reference import (
    DTYPES,
    assert_close,
    assert_exact,
    contract,
    from_format,
    sparse_integers,
    to_format,
    transposed_weights,
)

OPERATIONS = (
    "convolution",
    "convolution_backward_data",
    "convolution_backward_weights",
    "conv_transpose",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
)


@dataclass(frozen=True)
class Case:
    """A geometry: ``size`` is src's spatial shape; one entry an axis in every tuple."""

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    minibatch: int = 2
    groups: int = 1
    inputs: int = 3
    outputs: int = 4

    @property
    def axes(self) -> int:
        return len(self.size)

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def counts(self) -> tuple[int, ...]:
        numbers = zip(
            self.size, self.pads_begin, self.pads_end, self.extents, self.strides, strict=True
        )
        return tuple((s + b + e - x) // t + 1 for s, b, e, x, t in numbers)

    @property
    def output_padding(self) -> tuple[int, ...]:
        """What src has beyond the smallest size that gives these counts."""
        numbers = zip(
            self.size, self.counts, self.pads_begin, self.pads_end, self.extents, self.strides,
            strict=True,
        )  # fmt: skip
        return tuple(s - (t * (c - 1) + x - b - e) for s, c, b, e, x, t in numbers)

    def shape(self, role: str) -> tuple[int, ...]:
        return {
            "src": (self.minibatch, self.inputs, *self.size),
            "weights": (self.outputs, self.inputs // self.groups, *self.kernel),
            "dst": (self.minibatch, self.outputs, *self.counts),
        }[role]

    @property
    def terms(self) -> int:
        """Products in the longest sum of any of the operations."""
        per_group = max(self.inputs, self.outputs) // self.groups
        return max(self.minibatch * prod(self.counts), per_group * prod(self.kernel))

    @cache  # noqa: B019 - cases are few and small, and every test asks again
    def integers(self, dtype: str, seed: int = 0) -> Tensors:
        rng = np.random.default_rng(seed)
        return Tensors(
            self,
            dtype,
            {
                role: sparse_integers(
                    rng, self.shape(role), dtype, terms=self.terms, weights=role == "weights"
                )
                for role in ("src", "weights", "dst")
            },
            sparse_integers(rng, (max(self.inputs, self.outputs),), dtype, terms=self.terms),
        )

    @cache  # noqa: B019
    def normals(self, dtype: str, seed: int = 0) -> Tensors:
        rng = np.random.default_rng(seed)
        return Tensors(
            self,
            dtype,
            {
                role: rng.standard_normal(self.shape(role)).astype(DTYPES[dtype])
                for role in ("src", "weights", "dst")
            },
            rng.standard_normal(max(self.inputs, self.outputs)).astype(DTYPES[dtype]),
        )

    def attributes(self) -> dict[str, Any]:
        return {
            "strides": self.strides,
            "pads_begin": self.pads_begin,
            "pads_end": self.pads_end,
            "dilations": self.dilations,
            "groups": self.groups,
        }

    def with_groups(self, groups: int, inputs: int, outputs: int) -> Case:
        return replace(self, groups=groups, inputs=inputs, outputs=outputs)


@dataclass(frozen=True, eq=False)
class Tensors:
    """The three tensors of a case in one data type, and a bias vector."""

    case: Case
    dtype: str
    arrays: dict[str, np.ndarray]
    bias: np.ndarray

    @cache  # noqa: B019
    def expected(self, role: str) -> np.ndarray:
        """A tensor as the contraction of the other two, in float64."""
        case = self.case
        return contract(
            role,
            case.shape(role),
            {name: array for name, array in self.arrays.items() if name != role},
            strides=case.strides,
            pads_begin=case.pads_begin,
            dilations=case.dilations,
            groups=case.groups,
        )

    def arguments(
        self, operation: str, data_format: str, weights_first: bool, form: str = "native"
    ) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments of the public function ``operation``.

        ``weights_first``: OIX or IOX instead of XIO or XOI. ``form``: which grouped
        layout transposed weights have.
        """
        case, groups = self.case, self.case.groups
        transposed = operation.startswith("conv_transpose")
        weights_format = self.weights_format(operation, weights_first)
        weights = self.arrays["weights"]
        if transposed:
            weights = transposed_weights(weights, groups, form)
        weights = np.ascontiguousarray(to_format(weights, weights_format))
        activations = {
            role: np.ascontiguousarray(to_format(self.arrays[role], data_format))
            for role in ("src", "dst")
        }
        keywords = case.attributes() | {
            "data_format": data_format,
            "weights_format": weights_format,
        }
        # A transposed convolution reads the geometry backwards.
        src, dst = ("dst", "src") if transposed else ("src", "dst")
        if transposed:
            keywords["output_padding"] = case.output_padding
        if operation.endswith("backward_weights"):
            positional = [activations[src], activations[dst], weights.shape]
            keywords["bias"] = True
        elif operation.endswith("backward_data"):
            positional = [activations[dst], weights]
            if not transposed:
                positional.append(activations[src].shape)
        else:
            positional = [activations[src], weights, self.bias[: self.outputs(operation)]]
        return positional, keywords

    @staticmethod
    def weights_format(operation: str, weights_first: bool) -> str:
        if operation.startswith("conv_transpose"):
            return "IOX" if weights_first else "XOI"
        return "OIX" if weights_first else "XIO"

    def outputs(self, operation: str) -> int:
        transposed = operation.startswith("conv_transpose")
        return self.case.inputs if transposed else self.case.outputs

    def results(
        self, operation: str, result: Any, data_format: str, weights_first: bool, form: str
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pairs of (actual, expected), in the oracle's axis order."""
        transposed = operation.startswith("conv_transpose")
        axes = tuple(range(2, self.case.axes + 2))
        if operation.endswith("backward_weights"):
            weights_format = self.weights_format(operation, weights_first)
            expected = self.expected("weights")
            if transposed:
                expected = transposed_weights(expected, self.case.groups, form)
            diff_dst = self.arrays["src" if transposed else "dst"].astype(np.float64)
            return [
                (from_format(result[0], weights_format), expected),
                (result[1], diff_dst.sum(axis=(0, *axes))),
            ]
        into_src = operation in ("convolution_backward_data", "conv_transpose")
        expected = self.expected("src" if into_src else "dst")
        if not operation.endswith("backward_data"):
            bias = self.bias[: self.outputs(operation)].astype(np.float64)
            expected = expected + bias.reshape(1, -1, *(1 for _ in axes))
        return [(from_format(result, data_format), expected)]

    def check(
        self,
        operation: str,
        backend: str,
        *,
        data_format: str = "NCX",
        weights_first: bool = True,
        form: str = "native",
        exact: bool = True,
    ) -> None:
        """Run ``operation`` and compare with the oracle, to the last bit if ``exact``."""
        positional, keywords = self.arguments(operation, data_format, weights_first, form)
        result = getattr(onednn_py, operation)(*positional, **keywords, backend=backend)
        for actual, expected in self.results(operation, result, data_format, weights_first, form):
            if exact:
                assert_exact(actual, expected, self.dtype)
            else:
                assert_close(actual, expected, self.dtype, terms=self.case.terms)


def arguments_by_name(
    operation: str, positional: list[Any], keywords: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a public function by its parameters' names."""
    signature = inspect.signature(getattr(onednn_py, operation))
    return dict(signature.bind(*positional, **keywords).arguments)


def case(
    size: Any, kernel: Any, strides: Any = 1, dilations: Any = 1, pads: Any = 0, **channels: int
) -> Case:
    """A `Case` from ints or tuples; ``pads`` may be (begin, end)."""
    size = (size,) if isinstance(size, int) else tuple(size)

    def spread(value: Any) -> tuple[int, ...]:
        return (value,) * len(size) if isinstance(value, int) else tuple(value)

    begin, end = pads if isinstance(pads, tuple) else (pads, pads)
    return Case(
        size, spread(kernel), spread(strides), spread(dilations), spread(begin), spread(end),
        **channels,
    )  # fmt: skip


# A problem of each kind that the attributes can make, small enough to run in every format.
CURATED = {
    "1d": case(9, 3, pads=1),
    "1d_strided": case(11, 3, 2, pads=(1, 0)),
    "2d": case((7, 6), 3, pads=1),
    "2d_1x1": case((5, 4), 1, inputs=16, outputs=8),
    "2d_1x1_strided": case((7, 8), 1, 2, inputs=16, outputs=16),
    "2d_strided_tail": case((8, 9), 3, 2),
    "2d_dilated": case((11, 12), 3, dilations=(2, 3), pads=2),
    "2d_strided_dilated": case((12, 11), (3, 2), (2, 3), (2, 2), ((1, 2), (0, 3))),
    "2d_asymmetric": case((6, 7), (3, 4), pads=((2, 0), (1, 3))),
    "2d_pads_beyond_kernel": case((4, 5), (2, 3), pads=(3, 4)),
    "2d_stride_beyond_kernel": case((10, 11), 2, (3, 4)),
    "2d_kernel_is_input": case((5, 5), 5),
    "2d_groups": case((6, 6), 3, pads=1, groups=2, inputs=6, outputs=4),
    "2d_groups_16": case((6, 5), 3, pads=1, groups=2, inputs=32, outputs=32),
    "2d_depthwise": case((8, 8), 3, 2, pads=1, groups=16, inputs=16, outputs=16),
    "2d_depthwise_odd": case((7, 7), 3, pads=1, groups=5, inputs=5, outputs=5),
    "2d_depth_multiplier": case((6, 7), 3, groups=6, inputs=6, outputs=12),
    "2d_blocked_channels": case((9, 8), 3, pads=1, inputs=32, outputs=48),
    "2d_channel_tail": case((6, 6), 3, pads=1, inputs=17, outputs=19),
    "2d_first_layer": case((12, 12), 7, 2, pads=3, inputs=3, outputs=16),
    "3d": case((4, 5, 6), (2, 3, 3), pads=1),
    "3d_strided_dilated": case((7, 6, 8), (2, 3, 2), (2, 1, 2), (1, 2, 3), (1, 2)),
    "3d_groups": case((4, 4, 5), 3, pads=1, groups=2, inputs=4, outputs=6),
    "one_image": case((6, 6), 3, minibatch=1, inputs=1, outputs=1),
}
