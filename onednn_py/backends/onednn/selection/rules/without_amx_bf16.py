"""Rules of bfloat16 with AVX-512 but not AMX, asked before those that were fitted with it.

oneDNN's first implementations are those by brgemm, which gain from tiles that these CPUs do not
have; the older kernels with the dot products of AVX512_BF16 mostly take less time.

Fitted on 1723 problems of `benchmarks/survey.py`, on two cores of an AMD EPYC. Figures are times by
the rule over those of the rules behind it, in geometric mean and at worst, of the problems that it
applies to. The heuristic choice took 1.22 times as long as the fastest way without these rules, and
takes 1.09. Where the survey's sizes end, so do some rules: what they gain is lost in large layers
of the suites.
"""

from __future__ import annotations

from .rule import BRGEMM, DEPTHWISE, GEMM, JIT_BF16, JIT_BF16_1X1, MATMUL, Rule

__all__ = ["BF16_WITHOUT_AMX"]


BF16_WITHOUT_AMX = (
    Rule(
        lambda s: (
            s.data
            and s.dense_last
            and not s.transposed
            and s.inputs <= 2
            and s.outputs >= 9
            and s.positions > 9
            and s.dst_size <= 2**22
        ),
        "any",
        GEMM,
        "0.62, 1.36 of 18; 1 -> 32, 304 x 304, 7x7, minibatch 1: 0.63; 2 -> 13, 6 x 6, 5x5,"
        " minibatch 2: 1.36; full width 0.67 of 31, of more pixels 1.34 of 26",
        on_full_width=lambda s: s.pixels < 23_000,
    ),
    Rule(
        lambda s: s.data and s.dense_last and s.is_product and s.all_pixels <= 1000,
        "given",
        MATMUL,
        "0.66, 0.96 of 12; 15 -> 32, 5 x 5, 1x1, minibatch 16: 0.62; 480 -> 896, 23 x 28, 1x1,"
        " minibatch 1: 0.96",
        formulation="matmul",
        weights="given",
    ),
    Rule(
        lambda s: (
            s.data
            and s.dense_last
            and not s.transposed
            and not s.line
            and s.weights_size <= 2**16
            and s.flops <= 1e9
        ),
        "given",
        JIT_BF16,
        "0.73, 1.43 of 161; 32 -> 320, 8 x 8, 1x3, minibatch 1: 0.70; 384 -> 13, 40 x 40, 1x1,"
        " minibatch 16: 1.43",
    ),
    Rule(
        lambda s: (
            s.data
            and s.dense_first
            and not s.transposed
            and s.strided
            and s.inputs <= 16
            and s.outputs > 16
        ),
        "any",
        GEMM,
        "0.75, 1.00 of 27; 3 -> 32, 176 x 176, 7x7/2, minibatch 8: 0.68; 4 -> 40, 203 x 203,"
        " 4x4/4, minibatch 2: 1.00; full width 0.89 of 15, of more inputs 1.25 of 41",
        on_full_width=lambda s: s.inputs < 16,
    ),
    Rule(
        lambda s: (
            s.data
            and s.dense_first
            and not s.transposed
            and s.line
            and s.inputs > 8
            and s.all_pixels > 4000
        ),
        "nxc",
        BRGEMM,
        "0.59, 1.03 of 17; 16 -> 136, 1098, 25 dilated by 64, minibatch 16: 0.51; 168 -> 9,"
        " 2816, 5, minibatch 6: 1.03; half width 0.79 of 56, of more outputs 1.22 of 48",
        on_half_width=lambda s: s.outputs < 50,
    ),
    Rule(
        lambda s: s.data and s.dense_first and s.is_product and s.all_pixels > 1000,
        "given",
        MATMUL,
        "0.87, 1.00 of 22; 97 -> 272, 80 x 80, 1x1, minibatch 1: 0.92; 608 -> 247, 56 x 56,"
        " 1x1, minibatch 6: 1.00",
        formulation="matmul",
    ),
    Rule(
        lambda s: (
            s.data
            and s.dense_first
            and not s.transposed
            and s.positions > 2
            and s.outputs <= 16
            and s.inputs < 128
            and s.flops <= 1e9
        ),
        "nxc",
        JIT_BF16,
        "0.82, 1.57 of 71; 3 -> 4, 251 x 437, 9x9, minibatch 2: 0.74; 3 -> 16, 215 x 400,"
        " 7x7/2, minibatch 1: 1.57",
    ),
    Rule(
        lambda s: s.data and s.dense_last and s.transposed and not s.is_product and s.flops <= 3e9,
        "given",
        JIT_BF16,
        "0.76, 1.00 of 18; transposed 224 -> 196, 8 x 8 x 8, 2x2x2/2, minibatch 4: 0.76;"
        " transposed 64 -> 32, 196, 3/2, minibatch 32: 1.00",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: s.data and s.dense_first and s.transposed and not s.is_1x1,
        "any",
        JIT_BF16,
        "0.72, 1.04 of 10; transposed 29 -> 112, 8 x 14, 2x2/2, minibatch 2: 0.69; transposed"
        " 368 -> 112, 29 x 29, 2x2/2, minibatch 16: 1.04",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: s.data and not s.dense and s.channels_last and s.flops <= 1e8,
        "given",
        DEPTHWISE,
        "0.91, 2.10 of 39; depthwise 52, 12 x 12, 6x6, minibatch 32: 0.88; depthwise 16, 55809,"
        " 31, minibatch 1: 2.10",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.dense_first
            and not s.transposed
            and s.positions > 9
            and s.inputs <= 16
            and s.flops <= 1e9
        ),
        "nxc",
        JIT_BF16,
        "0.63, 1.20 of 64; 3 -> 44, 168 x 168, 7x7/2, minibatch 4: 0.45; 3 -> 16, 241 x 241,"
        " 5x5/2, minibatch 16: 1.20",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.dense_first
            and s.transposed
            and s.in_patches
            and not s.small
            and (s.has_bias_gradient or (s.channels >= 16 and not s.volume))
        ),
        "any",
        GEMM,
        "with a bias gradient 0.26, 1.12 of 104; without 0.89 of 94, of fewer channels and of"
        " volumes up to 2.3; transposed 208 -> 160, 100 x 100, 2x2/2, minibatch 2, with bias: 0.24",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.dense_first
            and s.transposed
            and (s.positions > 4 or (s.has_bias_gradient and not s.is_1x1))
        ),
        "any",
        JIT_BF16,
        "0.81, 1.14 of 15; transposed 80 -> 88, 8 x 5, 3x3/2, minibatch 32: 0.98; transposed 16"
        " -> 20, 7 x 7, 4x4/2, minibatch 2: 1.14; with a bias gradient 3x3/2 0.35, 0.98 of 26,"
        " 4x4/2 0.43, 1.23 of 32; full width 0.98 of 76, of more outputs 1.15 of 30",
        formulation="as_convolution",
        on_full_width=lambda s: s.outputs < 112,
    ),
    Rule(
        lambda s: s.weights and s.dense_last and s.transposed and not s.is_1x1 and s.flops > 3e6,
        "given",
        JIT_BF16,
        "0.76, 0.98 of 14; transposed 256 -> 16, 378, 3/2, minibatch 1: 0.72; transposed 192 ->"
        " 32, 8 x 8 x 8, 4x4x4/2, minibatch 16: 0.98; full width 0.91 of 51, of fewer inputs 1.03"
        " of 30",
        formulation="as_convolution",
        on_full_width=lambda s: s.inputs >= 4,
    ),
    Rule(
        lambda s: s.weights and s.dense_last and s.is_1x1 and s.outputs <= 64 and s.pixels > 256,
        "given",
        JIT_BF16_1X1,
        "0.61, 0.83 of 8; 32 -> 20, 30 x 30, 1x1, minibatch 16: 0.58; 80 -> 56, 40 x 40, 1x1,"
        " minibatch 16: 0.83",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.dense_first
            and s.is_1x1
            and not s.small
            and s.strided
            and s.outputs <= 64
        ),
        "any",
        JIT_BF16_1X1,
        "0.57, 0.99 of 6; 64 -> 26, 14 x 14 x 14, 1x1x1/2, minibatch 4: 0.41; transposed 64 ->"
        " 16, 4 x 4, 1x1/2, minibatch 32: 0.99",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: (
            s.weights and s.dense_first and s.is_product and s.outputs > 16 and s.pixels > 1000
        ),
        "given",
        MATMUL,
        "0.72, 1.13 of 10; 44 -> 56, 72 x 72, 1x1, minibatch 8: 0.69; 96 -> 209, 49 x 49, 1x1,"
        " minibatch 1: 1.13",
        formulation="matmul",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.thin_groups
            and not s.channels_last
            and not s.depthwise
            and s.positions == 1
        ),
        "any",
        GEMM,
        "0.37, 1.06 of 13; 4 groups of 2 -> 32, 281, 1, minibatch 16: 0.43; 8 groups of 8 -> 16,"
        " 28 x 28, 1x1, minibatch 1: 1.06; of larger kernels, 8 groups of 8 -> 2, 23, 5: 4.6",
    ),
    Rule(
        lambda s: (
            s.weights
            and s.thin_groups
            and not s.channels_last
            and not s.depthwise
            and (s.has_bias_gradient or (s.images > 2 and s.weights_size > 4000))
        ),
        "nxc",
        JIT_BF16,
        "0.48, 0.99 of 14; 16 groups of 8 -> 8, 57 x 57, 5x5/2, minibatch 2: 0.35; 64 groups of"
        " 8 -> 8, 16 x 16, 3x3/2, minibatch 4: 0.99",
    ),
    Rule(
        lambda s: (
            s.forward and s.dense_last and not s.transposed and not s.is_product and s.flops <= 1e9
        ),
        "given",
        JIT_BF16,
        "0.86, 1.09 of 88; 224 -> 35, 20 x 26, 1x1/2, minibatch 1: 0.84; 672 -> 16, 72 x 72,"
        " 1x1/2, minibatch 8: 1.09",
    ),
    Rule(
        lambda s: (
            s.forward
            and s.dense_last
            and s.transposed
            and s.weights_size <= 2**18
            and s.flops <= 1e8
        ),
        "given",
        JIT_BF16,
        "0.69, 1.72 of 24; transposed 96 -> 224, 9 x 9, 1x1/2, minibatch 1: 0.61; transposed"
        " 412 -> 25, 6 x 6, 3x3/2, minibatch 1: 1.72",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: s.forward and s.dense_first and s.is_1x1 and s.strided and s.whole_blocks,
        "any",
        JIT_BF16,
        "0.60, 1.31 of 8; 800 -> 16, 16 x 28, 1x1/2, minibatch 6: 0.40; transposed 336 -> 16,"
        " 312, 1/2, minibatch 2: 1.31; full width 0.80 of 64, of more outputs 1.25 of 10",
        formulation="strided_1x1",
        on_full_width=lambda s: s.outputs < 176 or s.weights_size >= 2e6,
    ),
    Rule(
        lambda s: (
            s.forward
            and not s.dense
            and not s.channels_last
            and s.all_pixels <= 10_000
            and s.inputs <= 128
        ),
        "nxc",
        DEPTHWISE,
        "0.76, 1.20 of 12; depthwise 46, 42 x 42, 4x4, minibatch 4: 0.70; depthwise 46, 35 x"
        " 35, 5x5/2, minibatch 16: 1.20; half width 0.90 of 45, of more channels 1.09 of 69",
        on_half_width=lambda s: s.inputs < 32,
    ),
    Rule(
        lambda s: (
            s.forward and s.dense_first and s.is_product and not s.whole_blocks and s.pixels > 400
        ),
        "given",
        MATMUL,
        "0.74, 1.02 of 8; 48 -> 15, 32 x 28, 1x1, minibatch 1: 0.72; 800 -> 8, 32 x 32, 1x1,"
        " minibatch 6: 1.02",
        formulation="matmul",
    ),
    Rule(
        lambda s: (
            s.forward and s.dense_first and not s.transposed and s.outputs <= 8 and s.positions > 16
        ),
        "nxc",
        JIT_BF16,
        "0.84, 1.40 of 18; 2 -> 4, 280 x 280, 11x11, minibatch 1: 0.74; 1 -> 3, 216 x 216, 7x7,"
        " minibatch 2: 1.40; full width 0.79 of 54, of one input 1.24 of 55",
        on_full_width=lambda s: s.inputs >= 2,
    ),
    Rule(
        lambda s: s.forward and s.depthwise and s.channels_last and s.inputs > 8,
        "given",
        DEPTHWISE,
        "0.86, 1.03 of 16; depthwise 60, 16 x 12, 6x6, minibatch 2: 0.80; depthwise 48, 400, 9,"
        " minibatch 1: 1.03",
    ),
    Rule(
        lambda s: s.data and s.in_groups and not s.transposed and s.channels_last and not s.is_1x1,
        "given",
        JIT_BF16,
        "0.51, 0.93 of 8 drawn afterwards; 16 groups of 4 -> 1, 144 x 144, 4x4, minibatch 1: 0.64;"
        " 32 groups of 2 -> 1, 55 x 55, 3x3, minibatch 16: 0.90",
    ),
    Rule(
        lambda s: (
            s.forward and s.in_groups and not s.transposed and s.channels_last and not s.is_1x1
        ),
        "given",
        JIT_BF16,
        "0.79, 1.65 of 31 drawn afterwards; 8 groups of 4 -> 2, 30 x 30, 5x5/2, minibatch 6: 0.79;"
        " 2 groups of 1 -> 16, 67 x 67, 5x5, minibatch 8: 1.65",
    ),
    Rule(
        lambda s: (
            not s.weights
            and s.is_product
            and s.dense_first
            and s.pixels <= 80
            and s.images >= 4
            and s.inputs * s.outputs >= 100_000
            and (s.data or (s.inputs <= 2 * s.outputs and s.all_pixels >= 100))
        ),
        "any",
        JIT_BF16_1X1,
        "of 34 problems drawn afterwards 0.76, 1.14; forward 1024 -> 640, 3 x 3, minibatch 16:"
        " 0.28; 96 -> 1280, 25, minibatch 4: 1.14; to fewer outputs, 960 -> 192, 8 x 8, minibatch"
        " 4: 1.31; full width 0.90 of 15, of fewer images 1.41 of 13",
        on_full_width=lambda s: s.images >= 8,
    ),
)
