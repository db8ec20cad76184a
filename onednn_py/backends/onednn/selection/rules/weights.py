"""Rules of weights gradients."""

from __future__ import annotations

from .rule import ANY_NAME, BRGEMM_WEIGHTS, GEMM, JIT, JIT_1X1, JIT_AVX2, JIT_BF16, Rule, never

__all__ = ["WEIGHTS"]


WEIGHTS = (
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
        " 1.3; 22 problems: 1.27 in geometric mean, 0.99 at worst; left out, 512 ->"
        " 2048, 7 x 7: 0.93",
    ),
    Rule(
        lambda s: not s.bf16 and s.dense_last and s.is_1x1 and s.strided and s.channels <= 16,
        "given",
        JIT,
        "28 -> 8, 77 x 77, 1x1/2: 8.7",
    ),
    Rule(
        lambda s: s.bf16 and s.dense_first and s.inputs == 1 and s.outputs >= 56 and not s.line,
        "any",
        GEMM,
        "1 -> 64, 264 x 264, 3x3/2: 3.8; 1 -> 64, 24 x 24 x 24, 1x3x3: 1.4; of fewer outputs, 1 ->"
        " 40, 28 x 28 x 28, 3x3x3: 0.46",
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
        lambda s: (
            s.thin
            and not s.bf16
            and s.inputs in (1, 4)
            and s.outputs <= 8
            and s.dense_first
            and not s.is_1x1
            and not s.strided
        ),
        "nxc",
        JIT_AVX2,
        "1 -> 3, 441 x 441, 5x5: 1.3; 1 -> 1, 264 x 264, 11x11: 2.0; 4 -> 4, 232 x 120, 5x5: 4.2;"
        " full width 0.96 of 52, of more pixels 1.15 of 11",
        on_full_width=lambda s: s.pixels < 37_000,
    ),
    Rule(
        lambda s: s.thin and not s.bf16 and s.inputs in (1, 4) and s.dense_first and not s.is_1x1,
        "nxc",
        JIT,
        "where that one must not run: 1 -> 2, 584 x 584, 5x5: 1.8; 1 -> 3, 441 x 441, 5x5: 1.6",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and not s.bf16
            and not s.transposed
            and not s.small
            and s.inputs == 4
            and not s.is_1x1
            and not s.in_patches
        ),
        "nxc",
        JIT,
        "4 -> 32, 176 x 176, 7x7/2: 3.1; 4 -> 80, 71 x 71, 3x3/2: 2.0; 4 -> 24, 80 x 80, 5x5: 3.1;"
        " 4 -> 48, 56 x 56, 3x3: 2.3; 4 -> 120, 16 x 16 x 16, 3x3x3/2: 0.87",
    ),
    Rule(
        lambda s: s.thin and s.outputs <= 8 and s.dense_last and not s.is_1x1 and not s.strided,
        "given",
        JIT_AVX2,
        "4 -> 2, 603 x 603, 9x9: 1.3; 2 -> 2, 70 x 70, 7x7: 1.8; 4 -> 1, 56 x 56, 7x7: 2.4; of"
        " more outputs, 1 -> 16, 91 x 91, 5x5: 0.6; 2 -> 12, 80 x 80, 3x3: 0.64; full width 0.96"
        " of 87, of more pixels 1.11 of 20",
        on_full_width=lambda s: s.pixels < 34_000,
    ),
    Rule(
        lambda s: s.thin and s.dense_last and not s.is_1x1 and not s.strided and not s.bf16,
        "given",
        JIT,
        "where that one must not run: 1, 264 x 264, 11x11: 2.7",
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
        lambda s: (
            s.bf16
            and s.line
            and s.dense_first
            and s.inputs <= 8
            and (s.strided or s.outputs > 16 or s.positions < 7)
        ),
        "any",
        GEMM,
        "1 -> 64, 5872, 3/2: 3.5; 8 -> 10, 21089, 7 dilated by 128: 0.28; half width 1.48 of 89",
        on_half_width=never,
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
        " these where the caller's memory is not aligned as oneDNN's; full width 1.02"
        " of 76 and 0.93 of 8 of suites, of larger weights and fewer flops 1.13 of 22",
        on_full_width=lambda s: s.weights_size < 39_000 or s.flops >= 1.6e9,
    ),
    Rule(
        lambda s: s.dense_last and s.is_1x1,
        "given",
        GEMM,
        "64 -> 64, 56 x 56: 1.7 to 2.1; 64 -> 256: 2.1; 512 -> 128, 28 x 28: 1.5; full width"
        " 0.91 of 90, of fewer flops and weights 1.43 of 63;"
        " half width 0.70 of 28, the others 1.30 of 86",
        on_full_width=lambda s: s.weights_size >= 29_000 or s.flops >= 1.4e7,
        on_half_width=lambda s: (
            (s.inputs < 14 and not s.has_bias_gradient)
            or (s.outputs >= 144 and not s.bf16 and (s.flops >= 1e9 or not s.has_bias_gradient))
        ),
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
        "1 -> 64, 572 x 572, 3x3: 1.3; full width 1.70 of 11",
        on_full_width=never,
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
        "128, 282 x 282, 3x3: the caller's layout takes 1.15 times as long; 256 -> 128, 200 x"
        " 200: 1.3; 1024 -> 512, 56 x 56: 1.4; left out, 64, 390 x 390: 0.8; 3-D, 64, 48 x 48"
        " x 48: 0.9; full width 1.07 of 33 and 0.86 of 66 of suites, of smaller weights 1.37 of"
        " 101; half width of 100 channels and more 0.86 of 8, of fewer 1.13 of 87",
        on_full_width=lambda s: s.weights_size >= 90_000,
        on_half_width=lambda s: s.channels >= 100 or (s.in_patches and s.flops >= 1e9),
    ),
)
