"""Rules of forward convolutions, and of data gradients of transposed ones."""

from __future__ import annotations

from .rule import AMX_1X1, AMX_JIT, AMX_MATMUL, BRDGMM, BRGEMM, DEPTHWISE, GEMM, JIT, JIT_1X1, Rule

__all__ = ["FORWARD"]

FORWARD = (
    Rule(
        lambda s: s.depthwise and s.channels_last and not s.bf16 and not s.line,
        "given",
        DEPTHWISE,
        "depthwise 96, 9 x 9, 3x3: 2.0 times as fast as brdgmm; 32, 8 x 8, 5x5: 1.9; 64, 14 x 8,"
        " 7x7: 1.4; 424, 27 x 29, 4x4: 1.1; 80, 105 x 105, 7x7: 0.97",
    ),
    Rule(
        lambda s: s.depthwise and not s.channels_last and not s.bf16 and not s.line,
        "any",
        DEPTHWISE,
        "oneDNN's own choice, in blocks of 16 or of 8 channels, where that fits the memory limit",
    ),
    Rule(
        lambda s: s.depthwise and not s.channels_last and not s.bf16 and not s.line,
        "any",
        DEPTHWISE,
        "in chunks, gemm takes, depthwise 40, 91 x 91, 7x7 dilated by 7, with bias: 12 times as"
        " long; 20, 91 x 91, 7x7: 7.9; 20, 112 x 112, 3x3: 2.4",
        splits=True,
    ),
    Rule(
        lambda s: (
            not s.dense
            and not s.depthwise
            and not s.channels_last
            and s.is_1x1
            and not s.strided
            and not (s.bf16 and s.group_products <= 64)
        ),
        "any",
        GEMM,
        "2 groups of 8 -> 8, 36 x 36, 1x1: 1.9; bf16 2 groups of 32 -> 64, 8 x 8: 1.35; f32, 122"
        " problems: 2.1 in geometric mean; bf16 1.1 to 1.8, groups of 4 -> 16 and fewer 0.5 to 0.7",
    ),
    Rule(
        lambda s: s.transposed and s.dense_first and s.is_1x1 and s.strided and not s.bf16,
        "any",
        GEMM,
        "transposed 46 -> 96, 1001, 1/2, backward data: 1.7; 128 -> 64, 32 x 32: 1.5; 28 -> 14, 13"
        " x 13 x 13: 1.2",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: (
            s.depthwise
            and s.line
            and not s.channels_last
            and (s.positions > 9 or (s.inputs % 16 != 0 and s.inputs < 64))
        ),
        "nxc",
        BRDGMM,
        "depthwise 136, 1392, 15: 4.5 times as fast as gemm; 104, 24848, 15: 4.1 in bf16; 8, 400,"
        " 3: 2.9 times as fast as in blocks of 16 channels; 40, 7444, 9: 1.7 in bf16",
    ),
    Rule(
        lambda s: s.transposed and s.bf16 and s.dense_last and s.is_1x1 and s.strided,
        "any",
        JIT_1X1,
        "transposed 20 -> 64, 63 x 63 to 126 x 126, 1x1/2, backward data: 9.4 times as fast as"
        " exchanged",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: s.transposed and s.bf16 and s.dense_first and s.is_1x1 and s.strided,
        "any",
        GEMM,
        "transposed 432 -> 77, 13 x 14, 1x1/2, backward data: 2.3 times as fast as jit_1x1",
        formulation="as_convolution",
    ),
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
        " 105 x 105, 9x9: 1.3; 35 -> 1, 19 x 19, 5x5: 0.6",
    ),
    # Where the reorder of the weights would take as long as the primitive.
    Rule(
        lambda s: (
            (s.small or (s.all_pixels < 500 and s.channels < 128 and not s.is_1x1))
            and s.dense_last
            and not s.transposed
            and not s.bf16
            and s.inputs > 4
        ),
        "given",
        BRGEMM,
        "96 -> 248, 5 x 5, 3x3/2: 4.3; 32 -> 208, 7 x 11, 3x1: 1.7; 20 problems of few pixels: 1.27"
        " in geometric mean, 0.88 at worst; 256, 14 x 14: 0.77;"
        " 13 -> 2, 16 x 16, 3x3: 1.2; 26 -> 7, 9 x 9, 3x3: 1.4; 24 -> 19, 7 x 6, 5x5/2: 1.7",
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
    Rule(
        lambda s: (
            s.dense_first
            and s.is_1x1
            and s.strided
            and s.transposed
            and not s.bf16
            and s.channels <= 32
        ),
        "any",
        GEMM,
        "transposed 21 -> 256, 576, 1/2: 2.3",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: not s.bf16 and s.transposed and s.dense_first and s.strided and s.pixels <= 16,
        "any",
        GEMM,
        "transposed 1024 -> 512, 4 x 4 to 8 x 8, 4x4/2, backward data: 1.28",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16 and s.transposed and s.dense_first and s.in_patches and s.channels >= 64
        ),
        "any",
        GEMM,
        "transposed 128, 24 x 24 x 24, 2x2x2/2, backward data: 2.0; 1024 -> 512, 28 x 28, 2x2/2:"
        " 1.2; 128 -> 64, 196 x 196: 1.05",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: not s.bf16 and s.transposed and s.dense_first and s.strided and s.channels >= 128,
        "nxc",
        BRGEMM,
        "transposed 512 -> 256, 8 x 8 to 16 x 16, 4x4/2, backward data: 1.11",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: s.dense_last and s.transposed and s.strided and s.pixels <= 16,
        "any",
        JIT,
        "transposed 1024 -> 512, 4 x 4 to 8 x 8, 4x4/2, backward data: 1.29",
    ),
)
