"""Rules of weights gradients."""

from __future__ import annotations

from .rule import ANY_NAME, BRGEMM_WEIGHTS, DEPTHWISE, GEMM, JIT, JIT_1X1, JIT_AVX2, JIT_BF16, Rule

__all__ = ["WEIGHTS"]

LARGE_DEPTHWISE = (
    "the rules below take, depthwise 480, 14 x 14, 5x5: 20 times as long; 96, 56 x 56, 7x7: 4.8;"
    " 768, 7 x 7, 7x7: 19; 242 problems drawn after the rule: 3.4 in geometric mean, 0.50 at worst:"
    " 44, 16 x 16, 13x1/2, minibatch 16; of fewer channels, 7, 95, 4, minibatch 16: 0.2"
)

WEIGHTS = (
    Rule(
        lambda s: (
            not s.dense and not s.depthwise and not s.channels_last and s.is_1x1 and not s.strided
        ),
        "any",
        GEMM,
        "2 groups of 4 -> 4, 21 x 21, 1x1: 5.5; bf16 64 groups of 8 -> 16, 48 x 50: 3.8",
    ),
    Rule(
        lambda s: (
            s.transposed
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
        " 0.8; 1024 -> 512, 28 x 28, 2x2/2: 0.5",
        formulation="as_convolution",
    ),
    # The deconvolution sums the bias gradient with plain loops.
    Rule(
        lambda s: (
            s.transposed
            and s.dense_last
            and s.bf16
            and s.has_bias_gradient
            and s.dst_size >= 100_000
        ),
        "any",
        BRGEMM_WEIGHTS,
        "transposed 448 -> 32, 8 x 14 x 10, 1x1x1/2, with bias: 8.2; 96 -> 64, 28 x 28, 2x2/2, with"
        " bias: 3.9; 80 -> 12, 8 x 8, 3x3/2, with bias: 0.9",
        formulation="as_convolution",
    ),
    # Of so few pixels, blocks of channels do not pay for their reorders. The scratchpad holds
    # several copies of the weights.
    Rule(
        lambda s: (
            s.is_product
            and s.dense_first
            and not s.bf16
            and s.pixels < 784
            and s.inputs * s.outputs <= 2**18
        ),
        "any",
        GEMM,
        "2 -> 37, 17 x 17: 2.4; 16 -> 24, 13 x 14: 1.5; 40 -> 320, 8 x 8: 1.5; 120 -> 715, 7 x 7:"
        " 1.3; 22 problems: 1.27 in geometric mean, 0.99 at worst; 512 -> 2048, 7 x 7: 0.93",
    ),
    Rule(
        lambda s: s.bf16 and s.transposed and s.dense_first and s.is_1x1 and s.strided,
        "any",
        GEMM,
        "transposed 56 -> 16, 48 x 48 x 48, 1x1x1/2: 6.3",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: s.bf16 and s.thin_groups and not s.depthwise and not s.channels_last,
        "any",
        JIT,
        "64 groups of 4 -> 8, 49 x 49, 3x3: 5.5 times as fast as brgconv_bwd_w",
    ),
    Rule(
        lambda s: not s.bf16 and s.dense_last and s.is_1x1 and s.strided and s.channels <= 16,
        "given",
        JIT,
        "28 -> 8, 77 x 77, 1x1/2: 8.7",
    ),
    # Depthwise kernels larger than 3x3 have no weights gradient of their own.
    Rule(
        lambda s: (
            s.depthwise and s.line and not s.channels_last and s.channels > 88 and s.pixels >= 900
        ),
        "any",
        DEPTHWISE,
        "depthwise 144, 14874, 2: 2.5 times as fast as the kernel of weights gradients; 336, 4290,"
        " 2: 1.4; 94, 12662, 2: 1.25; 76, 14363, 2: 1.06; 69, 5060, 3: 0.9",
        formulation="dst_as_weights",
    ),
    Rule(
        lambda s: s.depthwise and s.line and not s.channels_last,
        "nxc",
        DEPTHWISE,
        "depthwise 13, 4734, 3: 2.8; 8, 17800, 2: 5.0; bf16 8, 1500, 3: 2.5; 96, 208, 3: 1.0;"
        " larger kernels have no such implementation",
    ),
    Rule(
        lambda s: s.depthwise and s.channels_last,
        "given",
        DEPTHWISE,
        "3x3: oneDNN's own choice; 64, 56 x 56: 3.1 of what blocks of channels take",
    ),
    Rule(
        lambda s: s.depthwise and not s.channels_last,
        "any",
        DEPTHWISE,
        "3x3: oneDNN's own choice; larger kernels have no such implementation",
    ),
    Rule(
        lambda s: s.large_depthwise and (s.channels_last or s.channels <= 32),
        "nxc",
        DEPTHWISE,
        LARGE_DEPTHWISE,
        formulation="dst_as_weights",
    ),
    Rule(
        lambda s: s.large_depthwise,
        "any",
        DEPTHWISE,
        LARGE_DEPTHWISE,
        formulation="dst_as_weights",
    ),
    Rule(
        lambda s: s.depthwise and s.bf16 and not s.line,
        "nxc",
        JIT,
        "depthwise 192, 105 x 105, 7x7: 1.6",
        compute_dtype="f32",
    ),
    # Its weights are blocks of 16 x 16 channels, most of them zeros, which take much memory.
    Rule(
        lambda s: (
            s.depthwise
            and not s.line
            and (s.channels_last or s.positions > 25 or (s.positions > 16 and s.pixels < 10_000))
        ),
        "nxc",
        JIT,
        "gemm takes, depthwise 240, 28 x 28, 5x5: 2.8 times as long; 64, 12 x 13, 6x6: 1.6; 94, 45"
        " x 76, 7x7/2: 2.6; in chunks along the channels, 96, 56 x 56, 7x7: 3.2; 672, 14 x 14, 5x5:"
        " 2.0; 155 problems in chunks: 2.1 in geometric mean, channels last 1.5 to 7.7",
        splits=True,
    ),
    Rule(
        lambda s: s.depthwise and not s.line,
        "nxc",
        JIT,
        "within the limit, gemm takes longer; in chunks, 512, 56 x 56, 4x4: 0.8; 320, 112 x 112,"
        " 5x5: 0.6",
    ),
    # Along a line, where some have only a matrix product.
    Rule(
        lambda s: s.depthwise and s.bf16 and s.positions <= 8 and s.channels_last,
        "given",
        JIT,
        "depthwise 64, 1299, 3: 1.9",
        compute_dtype="f32",
    ),
    Rule(
        lambda s: s.depthwise and s.bf16,
        "any",
        GEMM,
        "depthwise 112, 25900, 25: 4.7 times as fast as in the caller's layout",
    ),
    Rule(
        lambda s: s.thin_groups and not s.channels_last and not s.bf16,
        "any",
        JIT,
        "32 groups of 8 -> 8, 56 x 56, 3x3/2: 3.3; 4 groups of 8 -> 8, 32 x 32, 3x3: 3.4",
    ),
    Rule(
        lambda s: s.thin_groups and not s.channels_last and not s.bf16,
        "nxc",
        JIT,
        "16 groups of 4, 42 x 42, 5x5: 3.6, where only gemm takes other layouts",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense
            and s.inputs == 1
            and (s.outputs <= 16 or s.pixels <= 50_000)
            and not s.line
            and (s.channels_last or not s.is_1x1)
        ),
        "nxc",
        JIT_BF16,
        "1 -> 3, 791 x 791, 7x7: 1; 1 -> 8, 32 x 63 x 61, 1x3x3: 1.4; 1 -> 48, 7 x 7 x 7, 5x5x5:"
        " 2.5",
    ),
    Rule(
        lambda s: s.thin and s.inputs in (1, 4) and s.dense_first and not s.is_1x1,
        "nxc",
        JIT_AVX2,
        "1 -> 3, 441 x 441, 5x5: 1.3; 1 -> 1, 264 x 264, 11x11: 2.0; 4 -> 4, 232 x 120, 5x5: 4.2",
    ),
    Rule(
        lambda s: s.thin and s.inputs in (1, 4) and s.dense_first and not s.is_1x1,
        "nxc",
        JIT,
        "where that one must not run: 1 -> 2, 584 x 584, 5x5: 1.8; 1 -> 3, 441 x 441, 5x5: 1.6",
    ),
    Rule(
        lambda s: s.thin and s.dense_last and not s.is_1x1 and not s.strided,
        "given",
        JIT_AVX2,
        "4 -> 2, 603 x 603, 9x9: 1.3; 2 -> 2, 70 x 70, 7x7: 1.8; 4 -> 1, 56 x 56, 7x7: 2.4",
    ),
    Rule(
        lambda s: s.thin and s.dense_last and not s.is_1x1 and not s.strided and not s.bf16,
        "given",
        JIT,
        "where that one must not run: 1, 264 x 264, 11x11: 2.7",
    ),
    Rule(
        lambda s: (
            s.thin_groups
            and s.channels_last
            and not s.depthwise
            and not s.bf16
            and s.group_channels <= 4
            and not s.is_single
            and not s.small
        ),
        "given",
        JIT_AVX2,
        "64 groups of 4 -> 8, 25 x 25, 3x3: 4.8; 32 groups of 4 -> 4, 12 x 12, 1x1: 2.8",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.in_patches
            and not s.line
            and s.inputs <= 6
            and not s.transposed
        ),
        "any",
        JIT_BF16,
        "3 -> 16, 238 x 238, 4x4/4: 2.4 times as fast as brgconv_bwd_w; 6 -> 32, 168 x 168: 1.3; 6"
        " -> 32, 328 x 573: 1.2",
    ),
    Rule(
        lambda s: s.bf16 and s.line and s.dense_first and s.inputs <= 8,
        "any",
        GEMM,
        "1 -> 64, 5872, 3/2: 3.5",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and not s.bf16
            and not s.whole_blocks
            and not s.is_1x1
            and not s.transposed
            and s.inputs > 4
            and max(s.inputs, s.outputs) <= 48
        ),
        "nxc",
        JIT,
        "40 -> 32, 22 x 24, 1x7: 1.2; 45 -> 24, 35 x 35, 3x3: 1.3; 6 -> 48, 178 x 105, 7x7/2: 1.3",
    ),
    Rule(
        lambda s: s.bf16 and s.transposed and s.dense_first and not s.is_1x1 and not s.small,
        "any",
        BRGEMM_WEIGHTS,
        "transposed 32 -> 160, 102 x 96, 2x2/2: 1; transposed 8 -> 128, 14 x 14 x 14, 4x4x4/2:"
        " 1; transposed 12 -> 16, 28 x 28 x 28, 3x3x3/2: 3.9",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: s.dense_last and s.is_1x1 and not s.bf16 and s.channels <= 32,
        "given",
        JIT_1X1,
        "32 -> 64, 32 x 32: 2.6; 8 -> 672, 6 x 6: 3.8; 1 -> 32, 29 x 29 x 29: 7.7",
    ),
    Rule(
        lambda s: s.bf16 and s.dense_last and s.is_1x1 and (s.strided or s.pixels < 100),
        "any",
        BRGEMM_WEIGHTS,
        "16 -> 598, 6 x 6: 16 times as fast as gemm",
    ),
    Rule(
        lambda s: s.bf16 and s.dense_first and s.is_1x1,
        "any",
        GEMM,
        "256 -> 1024, 14 x 14: 1.3 to 1.5; 512 -> 1024, 7 x 7: 1.3 to 1.6",
    ),
    Rule(
        lambda s: s.dense and s.is_1x1 and s.strided and s.pixels < 100 and not s.bf16,
        "any",
        JIT_1X1,
        "1024 -> 2048, 14 x 14 with stride 2: 1.11 NCX, 1.08 NXC",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: (
            s.dense_first
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
        lambda s: s.dense_last and s.is_1x1 and s.strided,
        "nxc",
        GEMM,
        "256 -> 512, 56 x 56 with stride 2: 1.5; 512 -> 1024, 28 x 28: 1.3",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: s.dense_last and s.is_1x1 and s.inputs > s.outputs >= 16 and not s.bf16,
        "given",
        JIT_1X1,
        "256 -> 128, 56 x 56: 1.5; 256 -> 64: 1.4; 512 -> 128, 28 x 28: 1.2; gemm has 0.9 of"
        " these where the caller's memory is not aligned as oneDNN's",
    ),
    Rule(
        lambda s: s.dense_last and s.is_1x1,
        "given",
        GEMM,
        "64 -> 64, 56 x 56: 1.7 to 2.1; 64 -> 256: 2.1; 512 -> 128, 28 x 28: 1.5",
    ),
    Rule(
        lambda s: s.dense_first and s.inputs == 1 and not s.strided and s.pixels >= 10_000,
        "any",
        GEMM,
        "1 -> 64, 572 x 572, 3x3: 1.06 to 1.26",
    ),
    Rule(
        lambda s: (
            s.dense_first
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
        lambda s: s.dense_last and s.inputs == 1 and s.pixels >= 10_000,
        "given",
        GEMM,
        "1 -> 64, 572 x 572, 3x3: 1.3",
    ),
    Rule(
        lambda s: (
            s.dense_last
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
)
