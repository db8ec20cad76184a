"""Rules of strided 1x1 kernels on CPUs with AVX-512 but not AMX.

The shortcuts of residual networks are such layers. A plan that copies the elements of src which the
kernel visits (formulation strided_1x1) has a product of matrices left. The weights gradient by gemm
on channels-last volumes as they are took up to 470 times as long as the fastest way.

Fitted on 1,264 problems, drawn apart from the survey, on two cores of an AMD EPYC. Figures are of
problems drawn afterwards whose choice the rule changes: times by the rule over those of the rules
behind it, in geometric mean and at worst. The problems of weights gradients, and those of float32
data gradients with channels last, are a second set, since a first one had narrowed their rules.
"""

from __future__ import annotations

from .rule import DEPTHWISE, GEMM, JIT, JIT_BF16_1X1, Rule, Shape, is_strided_1x1

__all__ = ["STRIDED_1X1"]


def _is_gradient(shape: Shape) -> bool:
    return shape.weights and is_strided_1x1(shape)


FORWARD = (
    Rule(
        lambda s: (
            is_strided_1x1(s) and s.forward and s.dense_first and not (s.bf16 or s.whole_blocks)
        ),
        "any",
        GEMM,
        "0.59, 2.01 of 32; 8 -> 1, 60 x 32, minibatch 16: 0.09; 292 -> 560, 6 x 6, minibatch"
        " 32: 2.01",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: (
            is_strided_1x1(s)
            and s.forward
            and s.dense_first
            and s.bf16
            and s.inputs > 25
            and s.channels <= 112
            and not s.whole_blocks
        ),
        "any",
        JIT_BF16_1X1,
        "0.49, 1.53 of 13; 128 -> 4, 8 x 8 x 8, minibatch 32: 0.17; 32 -> 440, 10 x 10, with"
        " bias, minibatch 2: 1.53; full width 0.93 of 16, of fewer pixels 1.16 of 7",
        formulation="strided_1x1",
        on_full_width=lambda s: s.all_pixels >= 4000,
    ),
    Rule(
        lambda s: (
            is_strided_1x1(s)
            and s.forward
            and s.dense_first
            and s.bf16
            and s.dst_size <= 2**17
            and not s.whole_blocks
        ),
        "any",
        GEMM,
        "0.78, 1.15 of 8; 16 -> 4, 336, minibatch 16: 0.39; 18 -> 128, 56 x 41: 1.15",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: (
            is_strided_1x1(s)
            and s.forward
            and s.dense_last
            and not s.bf16
            and s.weights_size <= 2**16
            and 13 * s.outputs > s.inputs
            and s.pixels <= 1800
            and s.dst_size > 4600
            and not s.line
        ),
        "given",
        JIT,
        "0.85, 1.86 of 23; 10 -> 80, 9 x 9 x 9, minibatch 32: 0.42; 15 -> 848, 28 x 28,"
        " minibatch 16: 1.86",
    ),
)

DATA = (
    Rule(
        lambda s: (
            is_strided_1x1(s)
            and s.data
            and s.dense_last
            and not s.bf16
            and s.inputs > 1
            and s.weights_size <= 2**16
            and s.pixels > 4
            and s.all_pixels > 16
        ),
        "given",
        JIT,
        "0.65, 2.39 of 52; 64 -> 1, 146, minibatch 16: 0.13; 96 -> 107, 64 x 64, minibatch 8:"
        " 2.39; of larger weights, 200 -> 576, 14 x 17 x 9, minibatch 8: 2.30; half width of more"
        " outputs 1.08 of 26",
        on_half_width=lambda s: s.outputs < 128,
    ),
    Rule(
        lambda s: (
            is_strided_1x1(s)
            and s.data
            and s.dense_first
            and not s.bf16
            and 3 * s.outputs > s.inputs
            and s.weights_size <= 200_000
        ),
        "any",
        GEMM,
        "0.60, 1.13 of 12; 1 -> 3, 56 x 56, minibatch 16: 0.23; 64 -> 159, 14 x 12, minibatch"
        " 32: 1.13",
    ),
)

WEIGHTS = (
    Rule(
        lambda s: (
            _is_gradient(s)
            and s.dense_first
            and not s.bf16
            and s.inputs >= 16
            and s.pixels > 16
            and s.images <= 32
            and s.weights_size <= 2**16
        ),
        "any",
        GEMM,
        "0.72, 1.48 of 26; 28 -> 8, 98 x 98, with bias, minibatch 6: 0.18; 61 -> 413, 6 x 6 x"
        " 6, with bias, minibatch 8: 1.48; of more weights, 256 -> 512, 56 x 56: 1.05",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: (
            _is_gradient(s)
            and s.dense_first
            and s.bf16
            and s.weights_size > 100
            and 10 * s.outputs > s.inputs
            and not (s.outputs <= 32 and s.pixels > 1000)
        ),
        "any",
        GEMM,
        "0.89, 1.99 of 34; 192 -> 80, 28 x 28, minibatch 16: 0.61; 4 -> 344, 32, with bias,"
        " minibatch 8: 1.99; of few outputs, 140 -> 32, 62 x 105, minibatch 2: 2.77; in suites"
        " 0.92 to 0.96",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: (
            _is_gradient(s) and s.dense_last and s.bf16 and s.outputs <= 64 and s.pixels > 256
        ),
        "given",
        JIT_BF16_1X1,
        "asked before the next rule, whose choice takes longer: 544 -> 16, 48 x 48: 1.53; 144 ->"
        " 11, 32 x 44, with bias, minibatch 6: 1.06",
    ),
    Rule(
        lambda s: (
            _is_gradient(s)
            and s.dense_last
            and s.bf16
            and s.inputs >= 4
            and 1 < s.outputs <= 256
            and s.outputs <= 4 * s.inputs
        ),
        "nxc",
        JIT_BF16_1X1,
        "0.81, 1.47 of 24; 96 -> 12, 14 x 14, with bias, minibatch 32: 0.28; 792 -> 204, 7 x 7:"
        " 1.47",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: _is_gradient(s) and s.dense_last and s.bf16 and s.volume,
        "nxc",
        GEMM,
        "asked before the next rule, whose choice takes longer: 256 -> 8, 16 x 16 x 16 in dst,"
        " with bias, minibatch 2: 12; full width 0.62 of 19, of fewer flops 1.70 of 26",
        formulation="strided_1x1",
        on_full_width=lambda s: s.flops >= 2e6,
    ),
    Rule(
        lambda s: (
            _is_gradient(s) and s.dense_last and s.bf16 and (s.volume or 1 < s.outputs <= 128)
        ),
        "given",
        JIT,
        "0.35, 1.36 of 20; 15 -> 1, 23 x 23 x 23, minibatch 8: 0.01; 2 -> 112, 112 x 78,"
        " minibatch 6: 1.36; of more outputs, 976 -> 656, 4 x 3, minibatch 16: 2.0",
    ),
    Rule(
        lambda s: (
            _is_gradient(s)
            and s.dense_last
            and not s.bf16
            and s.outputs <= 9 * s.inputs
            and s.all_pixels > 100
            and s.weights_size <= 2**16
        ),
        "given",
        JIT,
        "0.72, 1.35 of 22; 384 -> 24, 5 x 5 x 5, minibatch 6: 0.17; 80 -> 19, 952, minibatch 2:"
        " 1.35; of more weights, 256 -> 512, 56 x 56: 1.24",
    ),
)


def _is_strided_depthwise(shape: Shape) -> bool:
    return shape.depthwise and shape.is_1x1 and shape.strided and not shape.volume


def _is_depthwise_gradient(shape: Shape) -> bool:
    """Of planes and short lines: on long ones, forward convolutions with diff_dst are faster."""
    is_long = shape.line and shape.pixels >= 400
    return shape.weights and _is_strided_depthwise(shape) and not is_long


OF_DEPTHWISE = (
    Rule(
        lambda s: _is_depthwise_gradient(s) and s.channels_last and (s.images > 1 or not s.bf16),
        "nxc",
        DEPTHWISE,
        "0.32, 1.61 of 90; one image in float32 0.50, 1.39 of 23, in bfloat16 0.98 of 28",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: _is_depthwise_gradient(s) and not s.channels_last,
        "any",
        DEPTHWISE,
        "0.35, 1.32 of 90",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: s.forward and _is_strided_depthwise(s) and not s.channels_last,
        "any",
        DEPTHWISE,
        "0.60, 1.06 of 50; channels last 2.1 of 50; data gradients 2.9 of 100",
        formulation="strided_1x1",
    ),
)

STRIDED_1X1 = (*FORWARD, *DATA, *WEIGHTS, *OF_DEPTHWISE)
