"""Rules of channels last on CPUs with AVX-512 but not AMX: kernels that read them in place.

oneDNN's first implementations copy activations into blocks of 16 channels. Kernels that read the
caller's own layout need no copy, which gains most where a problem is small. In float32, large
layers of the suites lost by that, so that those rules have limits.

Fitted on 3,000 recorded problems and 3,900 pairs of choices that differ, drawn by
`benchmarks/survey.py`, on two cores of an AMD EPYC of family 26. Figures are times by the rule over
those of the rules behind it, in geometric mean and at worst, of problems that were drawn afterwards
and whose choice the rule changes.
"""

from __future__ import annotations

from .rule import BRGEMM_1X1, DEPTHWISE, JIT, JIT_BF16, JIT_BF16_1X1, Rule, Shape

__all__ = ["LAST_WITHOUT_AMX"]

# Floating-point operations up to which copies of activations cost more than they gain.
MOST_WEIGHTS = 1.5e9
MOST_STRIDED_WEIGHTS = 3e8
MOST_STRIDED_DATA = 2e9

# Floating-point operations from which on brgemm computes 1x1 kernels in groups faster.
LEAST_GROUPED_1X1 = 5e6


def _is_convolution(shape: Shape) -> bool:
    return shape.dense_last and shape.larger_kernel and not shape.transposed


def _weights(shape: Shape) -> bool:
    return shape.weights and _is_convolution(shape)


def _f32_weights(shape: Shape) -> bool:
    is_float32 = not shape.bf16 and shape.group_channels >= 16
    return is_float32 and _weights(shape) and not shape.line


def _strided_data(shape: Shape) -> bool:
    is_strided = shape.data and shape.strided and shape.group_channels >= 16
    return is_strided and _is_convolution(shape)


def _gains_from_blocks(shape: Shape) -> bool:
    """Whether bfloat16's strided brgemm is as fast: many outputs, kernels of 3x3 to 4x4."""
    return shape.outputs > 250 and 9 <= shape.positions <= 16


LAST_WITHOUT_AMX = (
    Rule(
        lambda s: s.bf16 and _weights(s) and s.inputs > 2,
        "given",
        JIT_BF16,
        "0.82, 1.04 of 60; 48 -> 64, 4801, 3/2, minibatch 1: 0.82; 192 -> 512, 133 x 133, 3x3/4,"
        " minibatch 2: 1.04",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.weights
            and s.dense_last
            and s.is_product
            and not s.transposed
            and s.small
            and s.outputs <= s.inputs
        ),
        "given",
        JIT_BF16_1X1,
        "0.53, 1.16 of 44; 26 -> 9, 13 x 9, 1x1, minibatch 8: 0.53; 88 -> 32, 16 x 16, 1x1,"
        " minibatch 1: 1.16",
    ),
    Rule(
        lambda s: _f32_weights(s) and not s.strided and not s.is_split and s.flops <= MOST_WEIGHTS,
        "given",
        JIT,
        "0.78, 1.13 of 12; 128 -> 16, 49 x 76, 3x3, minibatch 4: 0.78; 128 -> 48, 75 x 75, 3x3,"
        " with bias, minibatch 1: 1.13",
    ),
    Rule(
        lambda s: (
            _f32_weights(s) and s.strided and not s.volume and s.flops <= MOST_STRIDED_WEIGHTS
        ),
        "given",
        JIT,
        "0.80, 1.10 of 41; 95 -> 116, 7 x 8, 3x3/2, with bias, minibatch 16: 0.80; 192 -> 100, 72"
        " x 72, 4x4/4, with bias, minibatch 1: 1.10",
    ),
    Rule(
        lambda s: s.bf16 and _strided_data(s) and not _gains_from_blocks(s),
        "given",
        JIT_BF16,
        "0.80, 1.42 of 60; 464 -> 48, 24 x 24, 3x3/2, minibatch 16: 0.80; 128 -> 512, 100 x 100,"
        " 7x7/4, minibatch 1: 1.42",
    ),
    Rule(
        lambda s: not s.bf16 and _strided_data(s) and s.flops <= MOST_STRIDED_DATA,
        "given",
        JIT,
        "0.73, 0.88 of 9; 24 -> 32, 111 x 111, 4x4/2, minibatch 16: 0.74; 48 -> 400, 61 x 61,"
        " 3x3/2, minibatch 6: 0.88",
    ),
    # Data gradients of transposed convolutions, which are forward passes.
    Rule(
        lambda s: s.bf16 and s.forward and s.dense_last and s.transposed and s.is_1x1 and s.strided,
        "given",
        JIT_BF16,
        "0.63, 1.53 of 42; transposed 392 -> 64, 931, 1/2, minibatch 16: 0.66; transposed 304 ->"
        " 200, 7 x 7 x 7, 1x1x1/2, minibatch 16: 1.53",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.forward
            and s.depthwise
            and s.channels_last
            and s.transposed
            and not (s.strided or s.line or s.is_1x1)
        ),
        "given",
        DEPTHWISE,
        "0.74, 1.57 of 60; transposed depthwise 256, 10 x 10, 3x3, minibatch 1: 0.74; bf16"
        " transposed depthwise 192, 65 x 65, 3x3, minibatch 16: 1.57",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.data
            and s.in_groups
            and s.channels_last
            and s.is_1x1
            and not (s.transposed or s.strided)
            and s.flops >= LEAST_GROUPED_1X1
        ),
        "given",
        BRGEMM_1X1,
        "0.60, 0.97 of 12; 4 groups of 8 -> 16, 121 x 121, 1x1, minibatch 4: 0.62; 4 groups of 16"
        " -> 16, 14 x 14, 1x1, minibatch 16: 0.97",
    ),
)
