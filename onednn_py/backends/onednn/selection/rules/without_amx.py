"""Rules of CPUs without AMX, asked before those that were fitted on two cores with it.

In bfloat16 oneDNN's first implementations are those by brgemm, which gain from tiles that these
CPUs do not have; the older kernels with the dot products of AVX512_BF16 mostly take less time. In
float32, kernels of 8 channels compute less in vain where channels are few.

Fitted on 1723 problems of `benchmarks/survey.py` in bfloat16 and 1279 in float32, on two cores of
an AMD EPYC. Figures are times by the rule over those of the rules behind it, in geometric mean and
at worst, of the problems that it applies to. The heuristic choice took 1.22 times as long as the
fastest way in bfloat16 and 1.16 times in float32 without these rules; it takes 1.09 and 1.12. Where
the survey's sizes end, so do some rules: what they gain is lost in large layers of the suites.
"""

from __future__ import annotations

from .rule import (
    BRGEMM,
    DEPTHWISE,
    GEMM,
    JIT,
    JIT_1X1,
    JIT_AVX2,
    JIT_BF16,
    JIT_BF16_1X1,
    MATMUL,
    Rule,
)

__all__ = ["BF16_WITHOUT_AMX", "F32_WITHOUT_AMX"]

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
        " minibatch 2: 1.36",
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
        " 4x4/4, minibatch 2: 1.00",
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
        " 2816, 5, minibatch 6: 1.03",
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
        lambda s: s.weights and s.dense_first and s.transposed and s.positions > 4,
        "any",
        JIT_BF16,
        "0.81, 1.14 of 15; transposed 80 -> 88, 8 x 5, 3x3/2, minibatch 32: 0.98; transposed 16"
        " -> 20, 7 x 7, 4x4/2, minibatch 2: 1.14",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: s.weights and s.dense_last and s.transposed and not s.is_1x1 and s.flops > 3e6,
        "given",
        JIT_BF16,
        "0.76, 0.98 of 14; transposed 256 -> 16, 378, 3/2, minibatch 1: 0.72; transposed 192 ->"
        " 32, 8 x 8 x 8, 4x4x4/2, minibatch 16: 0.98",
        formulation="as_convolution",
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
        " 312, 1/2, minibatch 2: 1.31",
        formulation="strided_1x1",
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
        " 35, 5x5/2, minibatch 16: 1.20",
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
        " minibatch 2: 1.40",
    ),
    Rule(
        lambda s: s.forward and s.depthwise and s.channels_last and s.inputs > 8,
        "given",
        DEPTHWISE,
        "0.86, 1.03 of 16; depthwise 60, 16 x 12, 6x6, minibatch 2: 0.80; depthwise 48, 400, 9,"
        " minibatch 1: 1.03",
    ),
)

F32_WITHOUT_AMX = (
    Rule(
        lambda s: (
            s.data
            and s.dense_first
            and not s.transposed
            and s.inputs <= 3
            and not s.volume
            and s.outputs > 8
            and s.positions <= 25
            and not s.is_1x1
        ),
        "any",
        GEMM,
        "0.81, 1.00 of 14; 1 -> 128, 1141, 7/4, minibatch 16: 1.00; 3 -> 64, 72 x 72, 5x5/2,"
        " minibatch 4: 1.00",
    ),
    Rule(
        lambda s: (
            s.data and s.dense_first and not s.transposed and s.inputs <= 8 and s.outputs <= 8
        ),
        "nxc",
        JIT_AVX2,
        "0.67, 1.02 of 34; 3 -> 4, 125 x 114, 11x11, minibatch 8: 0.63; 4 -> 6, 4 x 4, 5x5,"
        " minibatch 8: 1.02",
    ),
    Rule(
        lambda s: (
            s.data
            and s.dense_last
            and not s.transposed
            and not s.volume
            and s.inputs <= 3
            and s.outputs > 8
            and s.dst_size <= 2**23
        ),
        "any",
        GEMM,
        "0.80, 1.14 of 22; 3 -> 16, 80 x 80, 7x7/2, minibatch 16: 0.72; 3 -> 68, 304 x 229,"
        " 5x5/2, minibatch 1: 1.14",
    ),
    Rule(
        lambda s: (
            s.data
            and s.dense_last
            and not s.transposed
            and not s.is_1x1
            and s.inputs <= 8
            and s.outputs <= 8
        ),
        "given",
        JIT_AVX2,
        "0.63, 0.99 of 18; 1 -> 8, 203 x 192, 9x9, minibatch 8: 0.61; 1 -> 3, 16 x 19, 3x3,"
        " minibatch 4: 0.99",
    ),
    Rule(
        lambda s: (
            s.data
            and s.dense_last
            and not s.transposed
            and not s.is_1x1
            and s.inputs > 4
            and s.dst_size <= 2**20
        ),
        "given",
        JIT,
        "0.89, 1.30 of 61; 52 -> 32, 7 x 7, 5x1, minibatch 32: 0.92; 80 -> 224, 22 x 22, 3x1,"
        " minibatch 4: 1.30",
    ),
    Rule(
        lambda s: s.data and s.depthwise and s.channels_last and s.flops > 1e7 and not s.strided,
        "given",
        DEPTHWISE,
        "0.83, 1.12 of 14; depthwise 400, 14 x 12, 7x7, minibatch 8: 0.70; depthwise 12, 38400,"
        " 9, minibatch 8: 1.12",
        formulation="flipped",
    ),
    Rule(
        lambda s: s.weights and s.dense_last and s.is_product and s.dst_size <= 2**14,
        "given",
        JIT_1X1,
        "0.72, 1.09 of 10; 336 -> 40, 8 x 8, 1x1, minibatch 6: 0.84; 104 -> 16, 7 x 7, 1x1,"
        " minibatch 8: 1.09",
    ),
    Rule(
        lambda s: (
            s.weights
            and not s.dense
            and s.channels_last
            and s.group_products <= 64
            and not s.depthwise
        ),
        "given",
        JIT_AVX2,
        "0.82, 1.02 of 15; 4 groups of 8 -> 8, 25 x 25, 3x3, minibatch 8: 0.83; 32 groups of 8"
        " -> 8, 32 x 32, 3x3, minibatch 16: 1.02",
    ),
)
