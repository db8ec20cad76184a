"""Rules of forward convolutions, and of data gradients of transposed ones."""

from __future__ import annotations

from .rule import AMX_1X1, AMX_JIT, AMX_MATMUL, BRGEMM, GEMM, JIT, Rule

__all__ = ["FORWARD"]

FORWARD = (
    Rule(
        lambda s: s.bf16 and s.dense_last and s.is_1x1 and s.strided and s.inputs > 4,
        "any",
        AMX_1X1,
        "256 -> 512, 56 x 56, 1x1/2: 8.1 times as fast as in place; 64 -> 128, 56 x 56: 3.4;"
        " 16 -> 32, 28 x 28: 1.2",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: s.bf16 and s.dense_last and s.is_1x1 and s.strided and s.inputs > 4,
        "given",
        AMX_MATMUL,
        "where that does not exist: 1024 -> 2048, 14 x 14, 1x1/2: 6.6 times as fast as in place;"
        " 512 -> 64, 15 x 15: 2.1; 40 -> 100, 33 x 33: 1.1 to 1.4",
        formulation="matmul",
    ),
    Rule(
        lambda s: s.bf16 and s.dense_first and s.is_1x1 and s.strided and s.channels >= 64,
        "any",
        GEMM,
        "1024 -> 2048, 14 x 14, 1x1/2: 4.8 times as fast as jit_1x1 in place; 512 -> 1024, 28 x 28:"
        " 5.9; 64 -> 128, 56 x 56: 4.2",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: s.bf16 and s.dense_first and s.is_1x1 and s.strided,
        "any",
        GEMM,
        "512 -> 64, 15 x 15, 1x1/2: 2.1 times as fast as jit; 16 -> 32, 28 x 28: 1.3; 3 -> 64,"
        " 56 x 56: 1.1",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_last
            and not (s.transposed or s.volume or s.line)
            and s.strided
            and 4 < s.inputs <= 8
            and s.positions >= 25
        ),
        "any",
        AMX_JIT,
        "6 -> 25, 70 x 129, 7x7/2: 2.1 times as fast as brgconv; 6 -> 40, 60 x 60, 7x7/2: 1.9; 6 ->"
        " 64, 122 x 122, 5x5/2: 2.3; 4 inputs are as fast there",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_last
            and not (s.transposed or s.volume or s.line)
            and not s.strided
            and s.outputs <= 4
            and 8 <= s.inputs <= 16
            and s.positions >= 25
            and s.pixels >= 5000
        ),
        "any",
        AMX_JIT,
        "16 -> 3, 203 x 203, 5x5: 1.4 times as fast as brgconv; 8 -> 2, 98 x 98, 5x5: 1.5; 16 -> 4,"
        " 105 x 105, 9x9: 1.3; left out, 35 -> 1, 19 x 19, 5x5: 0.6",
    ),
    # Where the reorder of the weights would take as long as the primitive.
    Rule(
        lambda s: (
            (
                s.small
                or (s.all_pixels < 500 and s.channels < 128 and not s.is_1x1)
                or (s.flops < 3e7 and s.weights_size < 16_000 and not s.is_1x1)
            )
            and s.dense_last
            and not s.transposed
            and not s.bf16
            and s.inputs > 4
        ),
        "given",
        BRGEMM,
        "96 -> 248, 5 x 5, 3x3/2: 4.3; 32 -> 208, 7 x 11, 3x1: 1.7; 20 problems of few pixels: 1.27"
        " in geometric mean, 0.88 at worst; left out, 256, 14 x 14: 0.77;"
        " 13 -> 2, 16 x 16, 3x3: 1.2; 26 -> 7, 9 x 9, 3x3: 1.4; 24 -> 19, 7 x 6, 5x5/2: 1.7; 32 ->"
        " 40, 14 x 14, 7x1, minibatch 4: 1.2; 28 -> 2, 7 x 12 x 3, 3x3x3, minibatch 8: 1.07",
        weights="given",
    ),
    Rule(
        lambda s: s.dense_last and s.inputs <= 4 and not s.transposed and not s.bf16,
        "given",
        JIT,
        "3 -> 13, 10 x 10, 3x3: 1.1; 2 -> 16, 35 x 46 x 22, 5x5x5/2: 1.3; 3 -> 5, 19 x 14,"
        " 5x5: 1.8",
    ),
    Rule(
        lambda s: (
            s.line
            and s.dense_first
            and not s.bf16
            and s.dilated
            and not s.strided
            and not s.transposed
            and s.positions >= 3
            and s.channels >= 8
            and s.outputs <= 1.5 * s.inputs
        ),
        "nxc",
        BRGEMM,
        "gemm takes, 12 -> 16, 20600, 25 dilated by 64: 2.2; 28 -> 15, 288, 31 dilated by 16: 2.7;"
        " 128 -> 144, 500, 3 dilated by 128: 1.25; of more outputs, 10 -> 64, 19300, 7 dilated by"
        " 16: 0.17; half width 0.82 of 64, the others 1.06 of 50, of 3 positions and"
        " more flops 1.24 of 9",
        on_half_width=lambda s: s.group_products < 3300 and (s.positions > 3 or s.flops < 1e8),
    ),
    Rule(
        lambda s: s.thin and s.dense_first and not s.bf16 and not s.is_1x1 and not s.strided,
        "nxc",
        JIT,
        "2 -> 1, 112 x 112, 9x9: 1.1; 4 -> 3, 693 x 693, 7x7: 1.2; 1 -> 4, 495 x 798, 5x5: 2.2",
    ),
    Rule(
        lambda s: (
            s.dense_first and s.is_1x1 and not s.strided and s.channels <= 32 and s.pixels >= 400
        ),
        "any",
        GEMM,
        "bf16 256 -> 20, 64 x 61: 1.9; bf16 384 -> 24, 25 x 25: 2.3 to 2.8; 8 -> 32, 86 x 86: 4.8",
    ),
)
