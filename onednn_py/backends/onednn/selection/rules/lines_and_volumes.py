"""Rules of convolutions along one axis, and over three, on CPUs with AVX-512 but not AMX.

Lines are sounds and other series of thousands of elements, with 16 channels or more.

Fitted on 1,228 problems, drawn apart from the survey, on two cores of an AMD EPYC. Of two sets of
problems drawn afterwards, the first narrowed some rules; figures are of the second, times by the
rule over those of the rules behind it, in geometric mean and at worst, of the problems whose choice
the rule changes.
"""

from __future__ import annotations

from .rule import BRGEMM, GEMM, JIT_BF16, MATMUL, Rule, Shape

__all__ = ["DILATED_VOLUMES", "LINES_AND_VOLUMES"]


def _is_long_line(shape: Shape) -> bool:
    return (
        shape.dense_first
        and shape.line
        and shape.positions > 1
        and shape.channels >= 16
        and shape.pixels >= 2000
        and not (shape.transposed or shape.strided)
    )


def _is_volume(shape: Shape) -> bool:
    return shape.dense_first and shape.volume and not shape.transposed


def _is_dilated_volume(shape: Shape) -> bool:
    return (
        shape.channels_last and shape.weights and shape.volume and shape.strided and shape.dilated
    )


LINES = (
    Rule(
        lambda s: _is_long_line(s) and s.forward and s.bf16 and s.positions > 3,
        "nxc",
        BRGEMM,
        "0.73, 1.32 of 25; 24 -> 32, 8000, 7 dilated by 512, minibatch 6: 0.34; 16 -> 208,"
        " 3081, 5 dilated by 64: 1.32; half width 0.92 of 29, of more inputs 1.17 of 20",
        on_half_width=lambda s: s.inputs < 60,
    ),
    Rule(
        lambda s: (
            _is_long_line(s)
            and s.weights
            and s.bf16
            and s.positions <= 5
            and s.outputs > 1.15 * s.inputs
            and s.flops <= 1.5e9
        ),
        "any",
        GEMM,
        "0.78, 1.30 of 21; 22 -> 120, 4096, 3 dilated by 2, minibatch 2: 0.35; 47 -> 80, 11211,"
        " 3: 1.30; in a suite, of more work, 32 -> 64, 16000, 2: 1.26",
    ),
)

VOLUMES = (
    Rule(
        lambda s: (
            _is_volume(s)
            and s.data
            and s.positions > 1
            and s.outputs > 8 * s.inputs
            and (s.bf16 or s.outputs * s.positions > 64)
        ),
        "any",
        GEMM,
        "0.62, 0.85 of 3; 2 -> 41, 14 x 9 x 17, 3x3x3/2: 0.36; 1 -> 16, 7 x 8 x 3, 5x5x5/2,"
        " minibatch 2: 0.85; half width 0.59 of 87, of more channels 1.37 of 29",
        on_half_width=lambda s: s.channels < 10,
    ),
    Rule(
        lambda s: (
            _is_volume(s)
            and s.forward
            and s.bf16
            and s.inputs * s.positions > 125
            and 2e8 < s.flops <= 5e9
        ),
        "nxc",
        JIT_BF16,
        "0.86, 1.03 of 9; 20 -> 31, 25 x 25 x 25, 3x3x3: 0.58; in a suite, of more work: 1.02 to"
        " 1.09; full width 0.90 of 4, of more inputs 1.06 of 55;"
        " half width 0.93 of 64, of more inputs 1.22 of 50",
        on_full_width=lambda s: s.inputs < 16,
        on_half_width=lambda s: s.inputs < 48,
    ),
)

LINES_AND_VOLUMES = (*LINES, *VOLUMES)

# Only gemm has weights gradients of dilated strided volumes. It gathers patches of bfloat16 with
# channels last from copies of all of src, which takes up to 25 times as long as both reorders.
DILATED_VOLUMES = (
    Rule(
        lambda s: (
            _is_dilated_volume(s)
            and s.dense
            and not s.transposed
            and s.inputs >= 48
            and s.outputs >= 16
        ),
        "given",
        MATMUL,
        "full width: float32 0.34, 1.12 of 13; bfloat16 0.13, 0.50 of 9; half width: float32 0.63,"
        " 1.36 of 12; bfloat16 0.56, 0.94 of 17; fewer than 16 outputs up to 2.02",
        formulation="im2col",
    ),
    Rule(
        lambda s: (
            _is_dilated_volume(s) and (s.bf16 or (s.dense and not s.transposed and s.outputs < 64))
        ),
        "any",
        GEMM,
        "full width: float32 0.60, 1.35 of 34; bfloat16 0.22, 1.00 of 54; half width: float32 0.55,"
        " 0.91 of 14, 64 outputs and more 0.98 to 1.98; bfloat16 0.22, 2.14 of 20",
    ),
)
