"""Rules: which choice to prefer for which problems, each with the measurement that justifies it.

Ratios are of oneDNN v3.2 on two cores with AVX-512, float32, minibatch 16, reorders included:
how much longer oneDNN's own preference (layout any, first implementation) takes than the rule's
choice, on arrays that begin where NumPy puts them, 16 bytes behind a cache line. The command tune
measures again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from onednn_py.problem.problem import Direction, Problem

from .thresholds import is_small, minibatch_chunks

__all__ = ["ANY_NAME", "RULES", "Rule", "Shape"]

# Families of implementations by their names, of any instruction set.
GEMM = re.compile(r"(^|:|\+)gemm")
JIT_1X1 = re.compile(r"(^|\+)jit(_\w+)?_1x1")
JIT = re.compile(r"(^|\+)jit(_bf16)?:")
DEPTHWISE = re.compile(r"jit_dw")
BRGEMM = re.compile(r"brgconv:|brgemm")
ANY_NAME = re.compile("")


@dataclass(frozen=True, slots=True)
class Rule:
    """A choice to prefer for the problems that it applies to.

    Attributes
    ----------
    applies : callable
        Whether the rule is for a `Shape`.
    activations, family
        As in `Choice` and `Preference`.
    measured : str
        The measurements that justify it.
    formulation : str
        As in `Choice`.
    """

    applies: Callable[[Shape], bool]
    activations: str
    family: re.Pattern[str]
    measured: str
    formulation: str = "direct"


class Shape:
    """The sizes of a problem that rules look at, in the roles of a convolution.

    A problem without groups is ``dense_last`` where channels are the innermost axis, otherwise
    ``dense_first``. ``positions`` is the number of kernel positions, ``channels`` the smaller
    number of channels, ``pixels`` that of dst. Windows that neither overlap nor leave elements out
    are ``in_patches``.
    """

    def __init__(self, problem: Problem, compute_dtype: str) -> None:
        inner = problem.as_convolution()
        self.data = inner.direction is Direction.BACKWARD_DATA
        self.weights = inner.direction is Direction.BACKWARD_WEIGHTS
        self.forward = inner.direction is Direction.FORWARD
        self.transposed = problem.transposed
        groups, outputs, inputs, *kernel = inner.weights.shape
        self.inputs, self.outputs = inputs * groups, outputs * groups
        self.channels = min(self.inputs, self.outputs)
        self.positions = prod(kernel)
        self.is_1x1 = self.positions == 1 and not any(inner.pads_begin)
        self.strided = any(stride > 1 for stride in inner.strides)
        self.in_patches = (
            self.strided and tuple(kernel) == inner.strides and not any(inner.pads_begin)
        )
        self.pixels = prod(inner.dst.shape[2:])
        self.depthwise = groups > 1 and inputs == 1 and outputs == 1
        self.channels_last = _is_channels_last(problem)
        self.dense = groups == 1
        self.dense_last = self.dense and self.channels_last
        self.dense_first = self.dense and not self.channels_last
        self.small = is_small(problem)
        self.is_split = minibatch_chunks(problem, compute_dtype) > 1
        self.bf16 = compute_dtype == "bf16"
        self.whole_blocks = inputs % 16 == 0 and outputs % 16 == 0


def _is_channels_last(problem: Problem) -> bool:
    """Whether channels are the innermost axis of both activations."""
    return all(
        layout.strides[1] == 1 and (layout.shape[1] > 1 or max(layout.shape[2:]) == 1)
        for layout in (problem.src, problem.dst)
        if layout.shape[1] > 1
    ) and (problem.src.shape[1] > 1 or problem.dst.shape[1] > 1)


RULES = (
    Rule(
        lambda s: s.small and s.dense_first and not s.is_1x1 and not s.whole_blocks,
        "nxc",
        JIT,
        "8 -> 8, 8 x 8, 3x3 on one thread: 3.7 us, 4.3 with blocks of 16 channels",
    ),
    Rule(
        lambda s: s.small and s.dense_last and s.data and not s.is_1x1 and s.inputs > 4,
        "given",
        JIT,
        "16 -> 16, 8 x 8, 3x3 on one thread: 3.1 us, 3.9 by the first in this layout",
    ),
    # Few input channels, backward data.
    Rule(
        lambda s: s.data and s.dense_first and s.inputs <= 4,
        "any",
        GEMM,
        "3 -> 64, 224 x 224, 7x7/2: 3.2; 1 -> 64, 570 x 570, 3x3: 3.9",
    ),
    Rule(
        lambda s: (
            s.data and s.dense_last and s.inputs <= 4 and (s.positions >= 16 or not s.strided)
        ),
        "given",
        GEMM,
        "3 -> 64, 224 x 224, 7x7/2: 2.1; 3 -> 128, 64 x 64, 4x4/2: 3.0; 1 -> 64: 4.0",
    ),
    Rule(
        lambda s: s.data and s.dense_last and s.inputs <= 4,
        "given",
        JIT,
        "3 -> 32, 224 x 224, 3x3/2: 1.2",
    ),
    # 1x1, backward data.
    Rule(
        lambda s: s.data and s.dense_first and s.is_1x1 and s.pixels >= 400,
        "any",
        GEMM,
        "64 -> 64, 56 x 56: 2.7; 256 -> 128: 1.4; 28 x 28: 1.2 to 1.6; with stride 2: 1.5",
    ),
    Rule(
        lambda s: (
            s.data
            and s.dense_first
            and s.is_1x1
            and s.pixels >= 100
            and (s.strided or s.inputs < s.outputs)
        ),
        "any",
        GEMM,
        "256 -> 1024, 14 x 14: 1.17; 512 -> 1024, 28 x 28 with stride 2: 1.5",
    ),
    Rule(
        lambda s: s.data and s.dense_first and s.is_1x1 and s.strided,
        "any",
        JIT_1X1,
        "1024 -> 2048, 14 x 14 with stride 2: 1.46, where gemm has 1.1",
    ),
    Rule(
        lambda s: s.data and s.dense_last and s.is_1x1 and s.strided,
        "given",
        JIT_1X1,
        "256 -> 512, 56 x 56 with stride 2: 1.07; 1024 -> 2048, 14 x 14: 1.2",
    ),
    Rule(
        lambda s: s.data and s.dense_last and s.is_1x1 and s.pixels >= 10_000,
        "given",
        GEMM,
        "32 -> 64, 112 x 112: 4.4, the first in this layout 3.6",
    ),
    Rule(
        lambda s: s.data and s.dense_last and s.is_1x1 and s.pixels < 100,
        "any",
        JIT_1X1,
        "512 -> 2048, 7 x 7: 1.0, where the caller's layout has 0.9",
    ),
    # bfloat16, where oneDNN's own order is not that of float32.
    Rule(
        lambda s: s.bf16 and s.data and s.depthwise and not s.channels_last,
        "any",
        DEPTHWISE,
        "512, 14 x 14, 3x3/2: 36; 64, 112 x 112, 3x3/2: 10",
    ),
    Rule(
        lambda s: s.bf16 and s.weights and s.dense_first and s.is_1x1,
        "any",
        GEMM,
        "256 -> 1024, 14 x 14: 1.3 to 1.5; 512 -> 1024, 7 x 7: 1.3 to 1.6",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.data
            and s.dense_first
            and s.strided
            and (s.positions >= 16 or s.pixels >= 100)
        ),
        "any",
        JIT,
        "128, 56 x 56, 3x3/2: 1.05; 256, 16 x 16, 4x4/2: 1.2; 512, 14 x 14, 3x3/2 loses",
    ),
    # 1x1, backward weights.
    Rule(
        lambda s: s.weights and s.dense and s.is_1x1 and s.strided and s.pixels < 100,
        "any",
        JIT_1X1,
        "1024 -> 2048, 14 x 14 with stride 2: 1.11 NCX, 1.08 NXC",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.dense_first
            and s.is_1x1
            and (s.strided or s.pixels >= 784)
            and max(s.inputs, s.outputs) > 32
        ),
        "any",
        GEMM,
        "64 -> 64, 56 x 56: 1.4; 64 -> 256: 1.3; 256 -> 512, 56 x 56 with stride 2: 1.4; 64 -> 2,"
        " 388 x 388: 10; for 32 -> 32 the matrices are too small: 0.7 to 1.0",
    ),
    Rule(
        lambda s: s.weights and s.dense_last and s.is_1x1 and s.strided,
        "nxc",
        GEMM,
        "256 -> 512, 56 x 56 with stride 2: 1.5; 512 -> 1024, 28 x 28: 1.3",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: s.weights and s.dense_last and s.is_1x1 and s.inputs > s.outputs >= 16,
        "given",
        JIT_1X1,
        "256 -> 128, 56 x 56: 1.5; 256 -> 64: 1.4; 512 -> 128, 28 x 28: 1.2; gemm has 0.9 of"
        " these where the caller's memory is not aligned as oneDNN's",
    ),
    Rule(
        lambda s: s.weights and s.dense_last and s.is_1x1,
        "given",
        GEMM,
        "64 -> 64, 56 x 56: 1.7 to 2.1; 64 -> 256: 2.1; 512 -> 128, 28 x 28: 1.5",
    ),
    # Larger kernels, channels first: with many channels, channels last is worth the reorders.
    Rule(
        lambda s: (
            s.data
            and s.dense_first
            and not s.is_1x1
            and not s.strided
            and not s.is_split
            and (
                (s.channels >= 256 and s.pixels <= 4500) or (s.positions >= 27 and s.channels >= 32)
            )
        ),
        "nxc",
        BRGEMM,
        "256, 14 x 14, 3x3: 1.05 to 1.11; 512, 7 x 7: 1.10; 256 -> 512, 68 x 68: 1.14; 256, 138"
        " x 138: 0.93 to 0.96; 64, 48 x 48 x 48, 3x3x3: 1.2; 64 -> 128, 24 x 24 x 24:"
        " 1.11",
    ),
    Rule(
        lambda s: (
            s.data
            and s.dense_first
            and not s.bf16
            and s.strided
            and s.channels >= 512
            and s.positions >= 16
            and s.pixels <= 16
        ),
        "nxc",
        JIT,
        "512 -> 1024, 8 x 8, 4x4/2: 1.5; 256 -> 512, 16 x 16: 1.05",
    ),
    Rule(
        lambda s: (
            s.weights and s.dense_first and s.inputs == 1 and not s.strided and s.pixels >= 10_000
        ),
        "any",
        GEMM,
        "1 -> 64, 572 x 572, 3x3: 1.06 to 1.26",
    ),
    Rule(
        lambda s: (
            s.data
            and s.dense_first
            and not s.bf16
            and s.strided
            and s.channels >= 256
            and 1 < s.positions < 16
        ),
        "nxc",
        JIT,
        "256, 28 x 28, 3x3/2: 1.04 to 1.07; 512, 14 x 14: 1.0; 4x4/2 loses",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.dense_first
            and not s.bf16
            and not s.is_1x1
            and not s.strided
            and s.channels >= 256
            and s.pixels <= 256
        ),
        "nxc",
        JIT,
        "256, 14 x 14, 3x3: 1.06; 512, 7 x 7: 1.03 to 1.11",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.forward
            and s.transposed
            and s.dense_first
            and s.strided
            and s.pixels <= 16
        ),
        "any",
        GEMM,
        "transposed 1024 -> 512, 4 x 4 to 8 x 8, 4x4/2, backward data: 1.28",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: not s.bf16 and s.forward and s.transposed and s.dense_first and s.in_patches,
        "any",
        GEMM,
        "transposed 128, 24 x 24 x 24, 2x2x2/2, backward data: 2.0; 1024 -> 512, 28 x 28, 2x2/2:"
        " 1.2; 128 -> 64, 196 x 196: 1.05",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.forward
            and s.transposed
            and s.dense_first
            and s.strided
            and s.channels >= 128
        ),
        "nxc",
        BRGEMM,
        "transposed 512 -> 256, 8 x 8 to 16 x 16, 4x4/2, backward data: 1.11",
        formulation="as_convolution",
    ),
    # Channels last: the caller's layout, but for these problems.
    Rule(
        lambda s: s.dense_last and s.forward and s.transposed and s.strided and s.pixels <= 16,
        "any",
        JIT,
        "transposed 1024 -> 512, 4 x 4 to 8 x 8, 4x4/2, backward data: 1.29",
    ),
    Rule(
        lambda s: s.dense_last and s.data and s.strided and s.positions >= 16 and s.pixels <= 16,
        "given",
        JIT,
        "512 -> 1024, 8 x 8, 4x4/2: 1.2",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.strided
            and s.inputs > 4
            and (s.weights or (s.data and not s.transposed))
        ),
        "any",
        ANY_NAME,
        "128, 56 x 56, 3x3/2: its own layouts beat the caller's by 1.05 (data), 1.5 (weights);"
        " transposed 256 -> 128, 4x4/2, weights: 1.13",
    ),
    Rule(
        lambda s: s.dense_last and s.weights and s.inputs == 1 and s.pixels >= 10_000,
        "given",
        GEMM,
        "1 -> 64, 572 x 572, 3x3: 1.3",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.weights
            and s.pixels >= 2500
            and 4 <= s.positions < 27
            and s.inputs > 4
            and max(s.inputs, s.outputs) >= 128
        ),
        "any",
        ANY_NAME,
        "128, 282 x 282, 3x3: the caller's layout takes 1.15 times as long; 256 -> 128, 200 x 200:"
        " 1.3; 1024 -> 512, 56 x 56: 1.4; 64, 390 x 390: 0.8; 3-D, 64, 48 x 48 x 48: 0.9",
    ),
    Rule(
        lambda s: s.channels_last,
        "given",
        ANY_NAME,
        "depthwise 64, 56 x 56: 4.3 (data), 3.1 (weights); 64, 56 x 56, 3x3: 1.26; 32 groups"
        " of 4: 1.3 to 1.6; 1-D, 32 -> 64: 3.9; 3-D, 32, 32 x 32 x 32: 1.2",
    ),
)
