"""Rules of transposed convolutions, in all directions."""

from __future__ import annotations

from .rule import (
    BRGEMM,
    BRGEMM_WEIGHTS,
    DECONVOLUTION,
    GEMM,
    JIT,
    JIT_1X1,
    Rule,
    never,
)

__all__ = ["TRANSPOSED"]

TRANSPOSED = (
    # Transposed 1x1 with strides, forward.
    Rule(
        lambda s: s.data and s.dense_first and s.is_1x1 and s.strided and not s.bf16,
        "any",
        GEMM,
        "transposed 16 -> 304, 14 x 20, 1x1/2: 2.4",
        formulation="as_convolution",
    ),
    # oneDNN's first choice for strides is a strided brgemm.
    Rule(
        lambda s: s.data and s.bf16 and s.dense_first and s.is_1x1 and s.strided and s.inputs <= 32,
        "any",
        GEMM,
        "transposed 128 -> 3, 14 x 14, 1x1/2: 3.5; 16 -> 15, 16 x 16: 2.2; 28 -> 24, 14 x 14: 1.6",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: s.data and s.bf16 and s.dense_first and s.in_patches and s.channels <= 48,
        "any",
        DECONVOLUTION,
        "transposed 124 -> 40, 1699, 2/2: 3.2; 29 -> 16, 17 x 10, 2x2/2: 1.4; 32 -> 96, 640, 2/2:"
        " 1.0; 3x3/2 and 4x4/2 0.5 to 2.5; of more channels, 128 -> 64, 196 x 196, 2x2/2: 0.55",
    ),
    Rule(
        lambda s: (
            s.data
            and s.bf16
            and s.dense_last
            and s.is_1x1
            and s.strided
            and max(s.inputs, s.outputs) <= 64
        ),
        "any",
        DECONVOLUTION,
        "transposed 16 -> 10, 72 x 94, 1x1/2: 12; 24 -> 16, 39 x 39: 1.6; 32 -> 64, 12 x 7: 1.3; 68"
        " -> 64, 42 x 60: 0.5",
    ),
    Rule(
        lambda s: s.data and not s.bf16 and s.dense_last and s.strided and s.channels <= 40,
        "given",
        JIT,
        "transposed 20 -> 2, 5 x 5, 2x2/2: 5.2; 48 -> 30, 21 x 21, 4x4/2: 1.8; 32 -> 144, 4 x 7 x"
        " 3, 1x1x1/2: 0.8; 20 problems: 1.4 in geometric mean; of more channels, 128 -> 64, 196 x"
        " 196, 2x2/2: 0.55; half width, one image of 1000 outputs and more, 1.42 to"
        " 1.75 of 4",
        formulation="as_convolution",
        on_half_width=lambda s: s.images > 1 or s.outputs < 1000,
    ),
    Rule(
        lambda s: (
            s.data
            and not s.bf16
            and s.dense_first
            and s.strided
            and s.inputs <= 10
            and s.outputs >= 10
        ),
        "any",
        GEMM,
        "transposed 48 -> 1, 7 x 6, 4x4/2: 12; 352 -> 2, 11 x 8, 3x3/2: 8.1; 10 -> 5, 14 x 14,"
        " 3x3/2: 1.6",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.data
            and not s.bf16
            and s.dense_first
            and s.strided
            and s.channels <= 80
            and s.outputs % 16 == 0
        ),
        "any",
        JIT,
        "transposed 16 -> 96, 24 x 24, 2x2/2: 3.2; 64 -> 192, 21 x 21, 3x3/2: 1.5; of more"
        " channels, 112 -> 224, 31, 3/2: 1.0; 256 -> 128, 16 x 16, 4x4/2: 0.85",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: s.data and not s.bf16 and s.dense_first and s.strided and s.channels <= 80,
        "nxc",
        JIT,
        "transposed 25 -> 16, 7 x 7 x 7, 3x3x3/2: 2.2; 24 -> 16, 49 x 49, 4x4/2: 1.2; 88 -> 30,"
        " 587, 4/2: 0.93",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.forward
            and s.dense_last
            and not s.bf16
            and s.strided
            and s.inputs > 4
            and s.flops < 2.5e7
        ),
        "given",
        BRGEMM,
        "transposed 188 -> 24, 14, 2/2, backward data: 2.4; 32 -> 64, 5 x 5, 4x4/2: 1.7; 32 -> 10,"
        " 4 x 4, 1x1/2: 1.06; 105 -> 64, 6 x 6, 3x3/2: 2.2; 48 -> 96, 7 x 7, 1x1/2: 0.95; 24"
        " problems: 1.3 in geometric mean",
        formulation="as_convolution",
        weights="given",
    ),
    Rule(
        lambda s: s.forward and s.dense_first and s.is_1x1 and s.strided and not s.bf16,
        "any",
        GEMM,
        "transposed 46 -> 96, 1001, 1/2, backward data: 1.7; 128 -> 64, 32 x 32: 1.5; 28 -> 14, 13"
        " x 13 x 13: 1.2",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: s.forward and s.bf16 and s.dense_last and s.is_1x1 and s.strided,
        "any",
        JIT_1X1,
        "transposed 20 -> 64, 63 x 63 to 126 x 126, 1x1/2, backward data: 9.4 times as fast as"
        " exchanged",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: s.forward and s.bf16 and s.dense_first and s.is_1x1 and s.strided,
        "any",
        GEMM,
        "transposed 432 -> 77, 13 x 14, 1x1/2, backward data: 2.3 times as fast as jit_1x1; full"
        " width 0.45 of 18, of more channels 1.12 of 15",
        formulation="as_convolution",
        on_full_width=lambda s: s.channels < 96,
    ),
    Rule(
        lambda s: s.forward and not s.bf16 and s.dense_first and s.strided and s.pixels <= 16,
        "any",
        GEMM,
        "transposed 1024 -> 512, 4 x 4 to 8 x 8, 4x4/2, backward data: 1.28; half width 1.91 of 67",
        formulation="as_convolution",
        on_half_width=never,
    ),
    Rule(
        lambda s: s.forward and not s.bf16 and s.dense_first and s.in_patches and s.channels >= 64,
        "any",
        GEMM,
        "transposed 128, 24 x 24 x 24, 2x2x2/2, backward data: 2.0; 1024 -> 512, 28 x 28, 2x2/2:"
        " 1.2; 128 -> 64, 196 x 196: 1.05",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: s.forward and not s.bf16 and s.dense_first and s.strided and s.channels >= 128,
        "nxc",
        BRGEMM,
        "transposed 512 -> 256, 8 x 8 to 16 x 16, 4x4/2, backward data: 1.11;"
        " half width 1.16 of 22",
        formulation="as_convolution",
        on_half_width=never,
    ),
    Rule(
        lambda s: s.forward and s.dense_last and s.strided and s.pixels <= 16,
        "any",
        JIT,
        "transposed 1024 -> 512, 4 x 4 to 8 x 8, 4x4/2, backward data: 1.29",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.dense_last
            and not s.bf16
            and not s.is_1x1
            and not s.has_bias_gradient
            and s.channels <= 64
        ),
        "given",
        JIT,
        "transposed 20 -> 19, 24 x 24, 2x2/2: 4.5; 96 -> 9, 5 x 5, 4x4/2: 2.4; 464 -> 25, 72, 2/2:"
        " 2.0; 18 problems: 1.42 in geometric mean, 1.01 at worst; with a bias gradient 0.4 and"
        " 0.8; of more channels, 1024 -> 512, 28 x 28, 2x2/2: 0.5",
        formulation="as_convolution",
    ),
    # The deconvolution sums the bias gradient with plain loops.
    Rule(
        lambda s: (
            s.weights and s.dense_last and s.bf16 and s.has_bias_gradient and s.dst_size >= 20_000
        ),
        "any",
        BRGEMM_WEIGHTS,
        "transposed 448 -> 32, 8 x 14 x 10, 1x1x1/2, with bias: 8.2; 96 -> 64, 28 x 28, 2x2/2, with"
        " bias: 3.9; 48 -> 128, 4 x 4, 3x3/2, with bias: 2.4; 80 -> 12, 8 x 8, 3x3/2, with bias:"
        " 0.9",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.weights
            and not s.bf16
            and s.dense_first
            and s.is_1x1
            and s.strided
            and not s.has_bias_gradient
        ),
        "any",
        GEMM,
        "transposed 56 -> 11, 20 x 20, 1x1/2: 3.9; 416 -> 160, 24 x 24: 1.3; 10 problems: 2.2 in"
        " geometric mean; 400 -> 28, 24 x 24, with bias: 0.12",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: (
            s.weights
            and not s.bf16
            and s.dense_first
            and s.strided
            and not s.is_1x1
            and s.inputs > 3
            and s.inputs % 16 != 0
            and s.outputs >= 64
        ),
        "any",
        GEMM,
        "transposed 160 -> 4, 1654, 4/2: 3.1; 257 -> 24, 16 x 16 x 16, 2x2x2/2: 2.1; 368 -> 4, 5"
        " x 5 x 5, 3x3x3/2: 1.0; 14 problems: 1.5 in geometric mean; left out, 128 -> 3,"
        " 32 x 32, 4x4/2: 0.6",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.bf16
            and s.dense_first
            and s.strided
            and not s.is_1x1
            and not s.volume
            and s.inputs <= 16
            and s.outputs >= 16 * s.inputs
        ),
        "any",
        GEMM,
        "transposed 359 -> 3, 5 x 5, 3x3/2: 4.2; 320 -> 8, 64 x 64, 4x4/2: 1.3; 8 problems: 2.2 in"
        " geometric mean; left out, 72 -> 9, 28 x 28, 4x4/2: 0.6",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: s.weights and s.bf16 and s.dense_first and s.is_1x1 and s.strided,
        "any",
        GEMM,
        "transposed 56 -> 16, 48 x 48 x 48, 1x1x1/2: 6.3",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: s.weights and s.bf16 and s.dense_first and not s.is_1x1 and not s.small,
        "any",
        BRGEMM_WEIGHTS,
        "transposed 32 -> 160, 102 x 96, 2x2/2: 1; transposed 8 -> 128, 14 x 14 x 14, 4x4x4/2:"
        " 1; transposed 12 -> 16, 28 x 28 x 28, 3x3x3/2: 3.9",
        formulation="as_convolution",
    ),
)
