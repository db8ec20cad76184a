"""Rules of data gradients, and of forward transposed convolutions: the same arithmetic."""

from __future__ import annotations

from .rule import (
    BRGEMM,
    BRGEMM_1X1,
    BRGEMM_STRIDED,
    GEMM,
    JIT,
    JIT_1X1,
    Rule,
    never,
)

__all__ = ["DATA"]

DATA = (
    Rule(
        lambda s: (
            s.dense_last
            and s.is_1x1
            and s.strided
            and s.inputs >= 64
            and not s.whole_blocks
            and not s.transposed
        ),
        "given",
        GEMM,
        "464 -> 21, 7 x 7, 1x1/2: 3; full width 0.81 of 36, of fewer channels 2.16 of 3;"
        " half width 0.54 of 14, the others 1.44 of 47",
        on_full_width=lambda s: s.channels >= 76,
        on_half_width=lambda s: s.all_pixels < 200 and s.group_products >= 6500,
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.bf16
            and s.in_patches
            and s.inputs <= 4
            and s.positions >= 16
            and s.pixels >= 2000
            and not s.transposed
        ),
        "any",
        GEMM,
        "1 -> 64, 247 x 247, 4x4/4: 3.7; 3 -> 24, 212 x 212: 2.3; 3 -> 32, 248 x 248: 1.3; 4 -> 27,"
        " 352 x 352: 0.42; of fewer pixels, 4 -> 80, 112 x 112: 0.66",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and s.in_patches
            and 4 < s.inputs <= 8
            and s.positions >= 16
            and not s.transposed
        ),
        "any",
        GEMM,
        "6 -> 64, 208 x 208, 4x4/4: 2.1; 6 -> 25, 147 x 147: 2.6; bf16 6 -> 80, 120 x 120: 4.5",
    ),
    Rule(
        lambda s: (
            s.dense_last
            and s.inputs == 1
            and not s.is_1x1
            and (s.strided or s.outputs >= 9)
            and not s.bf16
            and not s.transposed
            and not s.line
            and s.outputs <= 40
        ),
        "any",
        GEMM,
        "in the caller's layout gemm takes 1.6 times as long in geometric mean over 13 problems; 1"
        " -> 16, 66 x 66, 3x3/2: 3.6; 1 -> 32, 84 x 84, 7x7/2: 1.04; of more outputs, 1 -> 72, 217"
        " x 217, 3x3/2: 0.66; without strides, 1 -> 32, 84 x 42, 5x5: 1.4; 1 -> 16, 229 x 229,"
        " 11x11: 1.3",
    ),
    Rule(
        lambda s: s.dense_last and s.inputs == 1 and s.strided and not s.bf16 and not s.transposed,
        "given",
        GEMM,
        "1 -> 96, 12216, 15/2: 3.7; 1 -> 88, 77 x 77 x 77, 1x3x3/2: 1.9; 1 -> 80, 231 x 231,"
        " 3x3/2: 1.9; 1 -> 48, 24 x 24 x 24, 1x3x3/2: 1.5; full width 0.50 of 8, of fewer outputs"
        " 3.77 of 4; half width 0.41 of 7, of fewer weights 2.58 of 23",
        on_full_width=lambda s: s.outputs >= 56,
        on_half_width=lambda s: s.weights_size >= 400,
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense
            and s.outputs <= 4
            and 16 < s.inputs <= 32
            and s.positions >= 25
            and not s.volume
            and not s.strided
            and not s.small
        ),
        "any",
        JIT,
        "32 -> 2, 104 x 206, 7x7: 2.4 times as fast as direct; full width 1.30 of 8",
        formulation="flipped",
        on_full_width=never,
    ),
    Rule(
        lambda s: (
            s.line
            and s.dense_first
            and not s.bf16
            and not s.strided
            and s.positions >= 9
            and s.channels >= 12
        ),
        "nxc",
        BRGEMM,
        "56 -> 64, 1300, 9 dilated by 63: 1.5 times as fast as gemm; 64 -> 48, 15967, 25: 3.4",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense
            and s.volume
            and (s.thin or s.inputs <= 4)
            and not s.strided
            and not s.is_1x1
            and not s.small
        ),
        "any",
        BRGEMM,
        "flipped and gemm take 1.5 times as long in geometric mean over 41 problems, 0.87 at least;"
        " 2 -> 12, 35 x 35 x 35, 5x5x5: 2.4; 1 -> 32, 42 x 42 x 42, 3x3x3: 0.87",
    ),
    # Few channels on both sides.
    Rule(
        lambda s: s.thin and s.bf16 and not s.strided and not s.is_1x1 and not s.small,
        "any",
        JIT,
        "16 -> 4, 42 x 42 x 42, 1x3x3: 1; 3 -> 4, 168 x 142, 5x5: 1.6; 1 -> 3, 128 x 128, 9x9: 5;"
        " full width 2.59 of 16; half width 1.71 of 84",
        formulation="flipped",
        on_full_width=never,
        on_half_width=never,
    ),
    Rule(
        lambda s: s.bf16 and s.dense_first and s.inputs == 1 and s.strided and not s.line,
        "any",
        GEMM,
        "1 -> 32, 222 x 222, 5x5/2: 2.8 times as fast as brgconv_strided; 1 -> 55, 175 x 175,"
        " 7x7/2: 2.1 times as fast as flipped",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense
            and s.inputs <= 4
            and s.strided
            and (s.dense_last or s.positions >= 25)
        ),
        "any",
        BRGEMM_STRIDED,
        "3 -> 34, 140 x 140, 7x7/2: 2.5 times as fast as gemm; 3 -> 22, 88 x 88, 5x5/2: 4.8"
        " times; full width 1.29 of 30; half width 1.13 of 108",
        on_full_width=never,
        on_half_width=never,
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense
            and s.inputs <= 4
            and s.strided
            and s.positions >= 25
            and not s.volume
        ),
        "any",
        JIT,
        "4 -> 32, 75 x 75, 7x7/2: 1.1; 1 -> 20, 226 x 169, 5x5/2: 1.3; 4 -> 16, 112 x 141, 7x7/2:"
        " 1.9; full width 1.11 of 3; half width 1.41 of 46",
        formulation="flipped",
        on_full_width=never,
        on_half_width=never,
    ),
    Rule(
        lambda s: s.bf16 and s.dense_last and s.channels <= 4 and s.is_1x1,
        "any",
        BRGEMM_1X1,
        "64 -> 1, 48 x 48 x 48: 3.1 times as fast as gemm in the caller's layout",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense
            and s.inputs <= 4
            and not s.strided
            and (s.dense_last or s.pixels <= 10_000)
        ),
        "any",
        BRGEMM,
        "4 -> 80, 8 x 8 x 8, 3x3x3: 3.5 times as fast as gemm in the caller's layout",
    ),
    Rule(
        lambda s: (
            s.thin
            and s.dense_first
            and not s.strided
            and s.positions > 1
            and not (s.volume and s.inputs == 1 and s.outputs >= 9)
        ),
        "nxc",
        JIT,
        "4 -> 8, 17 x 17 x 17, 5x5x5: 2; 2 -> 3, 232 x 399, 5x5: 6; 4 -> 2, 96 x 96, 11x11: 7.5;"
        " 1 -> 9, 40 x 40 x 40, 3x3x3: 0.53; 1 -> 16, 8 x 8 x 8, 5x5x5: 0.42",
    ),
    Rule(
        lambda s: s.thin and s.dense_last and not s.strided and s.positions > 1,
        "given",
        JIT,
        "4 -> 8, 14 x 14 x 14, 1x3x3: 3.7; 1 -> 4, 80 x 80, 9x9: 4.8; 4 -> 1, 568 x 428, 11x11:"
        " 8.1",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and not s.strided
            and not s.is_1x1
            and not s.bf16
            and not s.whole_blocks
            and s.inputs > 4
            and s.outputs <= 32
            and not s.line
        ),
        "nxc",
        JIT,
        "40 -> 32, 22 x 24, 1x7: 1; 28 -> 12, 10 x 10, 5x5: 1.3; 209 -> 19, 21 x 21, 3x3: 1.6",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and s.strided
            and s.volume
            and not s.bf16
            and not s.is_1x1
            and s.inputs > 4
        ),
        "nxc",
        JIT,
        "30 -> 44, 8 x 8 x 8, 3x3x3/2: 1; 74 -> 9, 8 x 8 x 8, 3x3x3/2: 1.4; 8 -> 4, 16 x 16 x"
        " 16, 3x3x3/2: 4",
    ),
    Rule(
        lambda s: s.dense_last and s.strided and 1 < s.inputs <= 4 and s.outputs <= 32,
        "given",
        JIT,
        "3 -> 16, 147 x 147, 7x7/2: 1.3; 3 -> 16, 223 x 183, 7x7/2: 1.4; 3 -> 19, 200 x 257,"
        " 7x7/2: 2.1",
    ),
    Rule(
        lambda s: s.small and s.dense_last and not s.is_1x1 and s.inputs > 4,
        "given",
        JIT,
        "16 -> 16, 8 x 8, 3x3 on one thread: 3.1 us, 3.9 by the first in this layout",
    ),
    Rule(
        lambda s: s.dense_first and s.inputs <= 4,
        "any",
        GEMM,
        "3 -> 64, 224 x 224, 7x7/2: 3.2; 1 -> 64, 570 x 570, 3x3: 3.9",
    ),
    Rule(
        lambda s: s.dense_last and s.inputs <= 4 and (s.positions >= 16 or not s.strided),
        "given",
        GEMM,
        "3 -> 64, 224 x 224, 7x7/2: 2.1; 3 -> 128, 64 x 64, 4x4/2: 3.0; 1 -> 64: 4.0; full width"
        " 0.64 of 25, of smaller kernels 1.23 of 55",
        on_full_width=lambda s: s.positions >= 9,
    ),
    Rule(
        lambda s: s.dense_last and s.inputs <= 4,
        "given",
        JIT,
        "3 -> 32, 224 x 224, 3x3/2: 1.2",
    ),
    Rule(
        lambda s: s.dense_first and s.is_1x1 and s.pixels >= 400,
        "any",
        GEMM,
        "64 -> 64, 56 x 56: 2.7; 256 -> 128: 1.4; 28 x 28: 1.2 to 1.6; with stride 2: 1.5",
    ),
    Rule(
        lambda s: (
            s.dense_first and s.is_1x1 and s.pixels >= 100 and (s.strided or s.inputs < s.outputs)
        ),
        "any",
        GEMM,
        "256 -> 1024, 14 x 14: 1.17; 512 -> 1024, 28 x 28 with stride 2: 1.5",
    ),
    Rule(
        lambda s: s.dense_first and s.is_1x1 and s.strided,
        "any",
        JIT_1X1,
        "1024 -> 2048, 14 x 14 with stride 2: 1.46, where gemm has 1.1",
    ),
    Rule(
        lambda s: s.dense_last and s.is_1x1 and s.strided,
        "given",
        JIT_1X1,
        "256 -> 512, 56 x 56 with stride 2: 1.07; 1024 -> 2048, 14 x 14: 1.2",
    ),
    Rule(
        lambda s: s.dense_last and s.is_1x1 and s.pixels >= 10_000 and not s.bf16,
        "given",
        GEMM,
        "32 -> 64, 112 x 112: 4.4, the first in this layout 3.6",
    ),
    Rule(
        lambda s: s.dense_last and s.is_1x1 and s.pixels < 100 and s.channels >= 128 and not s.bf16,
        "any",
        JIT_1X1,
        "512 -> 2048, 7 x 7: 1.0, where the caller's layout has 0.9; half width of 32 images"
        " and more 1.14 of 5",
        on_half_width=lambda s: s.images < 32,
    ),
    Rule(
        lambda s: s.bf16 and s.dense_first and s.strided and (s.positions >= 16 or s.pixels >= 100),
        "any",
        JIT,
        "128, 56 x 56, 3x3/2: 1.05; 256, 16 x 16, 4x4/2: 1.2; 512, 14 x 14, 3x3/2 loses",
    ),
    # In planes of fewer than 100 pixels, jit in its own layout takes 0.83 of the time in float32
    # (14 drawn problems, at worst 1.00), and 0.80 of 20 others (0.93). In such volumes with kernels
    # of 3x3x3 it takes 0.83 of the time of 52 on an AMD EPYC (1.24).
    Rule(
        lambda s: (
            s.dense_first
            and not s.is_1x1
            and not s.strided
            and not s.is_split
            and (
                (s.channels >= 256 and s.pixels <= 4500 and (s.pixels >= 100 or s.bf16 or s.line))
                or (s.positions >= 27 and s.channels >= 32 and (s.pixels >= 100 or s.bf16))
            )
        ),
        "nxc",
        BRGEMM,
        "256, 14 x 14, 3x3: 1.05 to 1.11; 256 -> 512, 68 x 68: 1.14; 256, 138 x 138: 0.93 to 0.96;"
        " 64, 48 x 48 x 48, 3x3x3: 1.2; 64 -> 128, 24 x 24 x 24: 1.11; 512, 7 x 7, minibatch 8:"
        " 0.89; half width 0.87 of 41, the others 1.10 of 89",
        on_half_width=lambda s: s.transposed or s.line,
    ),
    Rule(
        lambda s: (
            s.dense_first
            and not s.bf16
            and not s.is_1x1
            and not s.strided
            and not s.line
            and s.channels >= 160
            and 150 <= s.pixels < 1600
        ),
        "nxc",
        BRGEMM,
        "1.07 of 9 drawn problems, at worst 0.97; 1.07 of 19 others, at worst 0.96; 224, 14 x 14,"
        " 3x3, minibatch 16: 1.13; both gradients, which share the reorder of diff_dst in layout"
        " any: 0.96 to 1.10, and with fewer channels down to 0.83 (64, 56 x 56); half width,"
        " 1024 or 2048 channels of diff_dst: 1.09 of 56, at best 0.99; 256 to 960: 1.01 of 4",
        # Pixels of so many channels begin a multiple of 4096 bytes apart, in the same sets of the
        # first cache.
        on_half_width=lambda s: s.transposed or s.outputs % 1024 != 0,
    ),
)
