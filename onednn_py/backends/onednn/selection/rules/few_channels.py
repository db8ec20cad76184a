"""Rules of the first and last layers of networks, on CPUs with AVX-512 but not AMX.

A first layer reads at most 4 channels in steps of more than 1; a last layer, a head, writes at most
12. Blocks of 16 channels, on which most implementations work, would be mostly empty.

Fitted on 1,760 problems, drawn apart from the survey, on two cores of an AMD EPYC. Of two sets of
problems drawn afterwards, the first narrowed some rules; figures are of the second, times by the
rule over those of the rules behind it, in geometric mean and at worst, of the problems whose choice
the rule changes.
"""

from __future__ import annotations

from .rule import BRGEMM_AVX2, GEMM, JIT_AVX2, JIT_BF16, Rule, Shape, never

__all__ = ["FEW_CHANNELS"]


def _is_first_layer(shape: Shape) -> bool:
    return (
        shape.dense
        and shape.strided
        and shape.inputs <= 4
        and shape.outputs >= 8
        and shape.positions > 1
        and not (shape.transposed or shape.volume or shape.in_patches)
    )


def _is_head(shape: Shape) -> bool:
    return (
        shape.dense
        and shape.inputs >= 16
        and shape.outputs <= 12
        and not (shape.transposed or shape.strided)
    )


FIRST_LAYERS = (
    Rule(
        lambda s: _is_first_layer(s) and s.weights and s.dense_first and s.bf16 and s.flops > 5e5,
        "any",
        JIT_BF16,
        "0.91, 1.34 of 12; 1 -> 32, 63 x 49, 7x7/2, minibatch 16: 0.63; 1 -> 32, 80 x 80, 5x5/2,"
        " with bias, minibatch 6: 1.34",
    ),
    Rule(
        lambda s: (
            _is_first_layer(s)
            and s.data
            and s.dense_last
            and s.bf16
            and s.inputs <= 3
            and s.outputs > 15 * s.inputs
            and not s.line
        ),
        "any",
        GEMM,
        "0.65, 0.96 of 5; 1 -> 56, 217 x 217, 7x7/2, minibatch 8: 0.37; in suites, 3 -> 64, 224"
        " x 224, 7x7/2: 0.53; 3 -> 128, 64 x 64, 4x4/2: 0.46",
    ),
    Rule(
        lambda s: (
            _is_first_layer(s) and s.data and s.dense_first and s.bf16 and s.weights_size <= 864
        ),
        "any",
        GEMM,
        "0.53, 1.13 of 3; 1 -> 16, 264 x 264, 5x5/2, minibatch 2: 0.34; 3 -> 16, 178 x 178,"
        " 3x3/2: 1.13",
    ),
)

HEADS = (
    Rule(
        lambda s: (
            _is_head(s)
            and s.forward
            and s.dense_first
            and not s.bf16
            and s.outputs <= 6
            and s.positions > 1
            and s.pixels >= 16
        ),
        "nxc",
        BRGEMM_AVX2,
        "0.71, 1.06 of 15; 20 -> 3, 42 x 42, 3x3, minibatch 16: 0.43; 16 -> 3, 8 x 8, 3x3,"
        " minibatch 8: 1.06; of one pixel, 1024 -> 1, 4 x 4, 4x4: 1.15; full width 0.85 of 17,"
        " others 1.07 of 30",
        on_full_width=lambda s: s.volume,
    ),
    Rule(
        lambda s: (
            _is_head(s)
            and s.data
            and s.dense_first
            and not s.bf16
            and s.inputs > 48
            and s.outputs <= 4
            and s.positions > 1
            and s.pixels > 2500
        ),
        "any",
        GEMM,
        "0.92 twice; of an earlier set, 200 -> 1, 49 x 66, 3x3, minibatch 2: 0.31; of more"
        " outputs, 64 -> 12, 91 x 59, 3x3, minibatch 4: 1.56",
        formulation="flipped",
    ),
    Rule(
        lambda s: (
            _is_head(s)
            and s.data
            and s.dense_first
            and not s.bf16
            and s.inputs >= 32
            and s.outputs <= 6
            and s.inputs * s.positions > 288
            and s.pixels > 576
        ),
        "any",
        JIT_AVX2,
        "0.78, 0.96 of 4; 160 -> 6, 1218, 3, minibatch 8: 0.54; of fewer inputs, 16 -> 10, 31 x"
        " 31, 7x7: 2.3; full width 1.28 of 9",
        formulation="flipped",
        on_full_width=never,
    ),
    Rule(
        lambda s: (
            _is_head(s)
            and s.weights
            and s.dense_first
            and not s.bf16
            and s.outputs <= 6
            and s.positions > 1
            and s.inputs * s.positions > 85
        ),
        "any",
        JIT_AVX2,
        "0.60, 0.79 of 5; 16 -> 4, 40 x 40, 5x5, with bias: 0.39; full width 1.06 of 30",
        on_full_width=never,
    ),
    # A matrix by a vector.
    Rule(
        lambda s: (
            _is_head(s)
            and s.is_product
            and s.outputs == 1
            and ((s.forward and (s.bf16 or s.dense_last)) or (s.weights and s.dense_last))
            and not (s.weights and s.bf16)
        ),
        "given",
        GEMM,
        "16 -> 1, 24 x 24 x 24, weights, minibatch 4: 0.44; of an earlier set 0.39, 1.07 of 12;"
        " of 2 to 4 outputs, forward in bfloat16: 1.76",
        formulation="matmul",
    ),
)

FEW_CHANNELS = (*FIRST_LAYERS, *HEADS)
