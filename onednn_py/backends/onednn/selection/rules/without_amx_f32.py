"""Rules of float32 with AVX-512 but not AMX, asked before those that were fitted with it.

Where channels are few, kernels of 8 channels compute less in vain than those of 16.

Fitted on 1279 problems of `benchmarks/survey.py`, on two cores of an AMD EPYC. Figures are times by
the rule over those of the rules behind it, in geometric mean and at worst, of the problems that it
applies to. The heuristic choice took 1.16 times as long as the fastest way without these rules, and
takes 1.12.
"""

from __future__ import annotations

from .rule import BRGEMM_AVX2, DEPTHWISE, GEMM, JIT, JIT_1X1, JIT_AVX2, Rule, never

__all__ = ["F32_WITHOUT_AMX"]

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
        " minibatch 8: 1.02; full width 1.38 of 30",
        on_full_width=never,
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
        " 5x5/2, minibatch 1: 1.14; full width 0.92 of 26, of smaller kernels 1.13 of 55",
        on_full_width=lambda s: s.positions >= 16,
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
        " minibatch 4: 0.99; full width 1.23 of 30",
        on_full_width=never,
    ),
    Rule(
        lambda s: (
            s.data
            and s.dense_last
            and not s.transposed
            and not s.is_1x1
            and s.inputs > 4
            and s.dst_size <= 2**20
            and ((s.strided and not s.line) or (s.pixels < 2000 and s.outputs * s.pixels < 50_000))
        ),
        "given",
        JIT,
        "0.84, 1.45 of 120 drawn after its limits; of the problems that they leave out 1.02, 2.06"
        " of 60, and 1024 -> 512, 32 x 32, 3x3, minibatch 1: 4.1",
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
        " minibatch 8: 1.09; full width 1.22 of 52",
        on_full_width=never,
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
        "0.82, 1.02 of 15; 4 groups of 8 -> 8, 25 x 25, 3x3, minibatch 8: 0.83; 32 groups of 8 ->"
        " 8, 32 x 32, 3x3, minibatch 16: 1.02; full width 0.91 of 17, of smaller weights 1.07 of"
        " 30",
        on_full_width=lambda s: s.weights_size >= 18_000,
    ),
    Rule(
        lambda s: (
            s.weights
            and s.dense_last
            and not s.transposed
            and s.strided
            and not s.dilated
            and not (s.is_1x1 or s.in_patches)
            and s.channels <= 48
        ),
        "given",
        JIT,
        "of 15 problems drawn afterwards 0.91, 2.39, of 7 of the survey's families 0.61, 0.89; 24"
        " -> 96, 112 x 112, 3x3/2: 0.68; 32 -> 16, 56 x 56, 4x4/2, minibatch 1: 2.39; of more"
        " channels, 64 -> 128, 128 x 128, 4x4/2: 1.7; of patches, 32 -> 64, 32 x 32 x 32, 2x2x2/2:"
        " 1.3",
    ),
    Rule(
        lambda s: (
            s.forward
            and s.dense_last
            and not s.transposed
            and s.inputs > 8
            and s.outputs <= 8
            and s.pixels > 64
            and not s.is_product
        ),
        "given",
        BRGEMM_AVX2,
        "of all draws 0.84, 1.20 of 34; 64 -> 4, 1163, 3/4 dilated by 2, minibatch 2: 0.84; 32 ->"
        " 6, 39 x 39, 2x2/2, minibatch 32: 1.20; full width 1.08 of 30",
        on_full_width=never,
    ),
    # Heads of networks.
    Rule(
        lambda s: (
            s.weights and s.dense_first and s.is_product and s.inputs >= 16 and s.outputs <= 12
        ),
        "any",
        GEMM,
        "of 12 problems drawn afterwards 0.34, 1.02; 16 -> 2, 106 x 106, with bias: 0.16; 16 -> 11,"
        " 23 x 23 x 23, with bias, minibatch 16: 1.02",
    ),
)
