"""Rules of convolutions in groups, in all directions."""

from __future__ import annotations

from .rule import (
    ANY_NAME,
    BRDGMM,
    DEPTHWISE,
    GEMM,
    JIT,
    JIT_AVX2,
    Rule,
    never,
)

__all__ = ["GROUPED"]

LARGE_DEPTHWISE = (
    "the rules below take, depthwise 480, 14 x 14, 5x5: 20 times as long; 96, 56 x 56, 7x7: 4.8;"
    " 768, 7 x 7, 7x7: 19; 242 problems drawn after the rule: 3.4 in geometric mean, 0.50 at worst:"
    " 44, 16 x 16, 13x1/2, minibatch 16; of fewer channels, 7, 95, 4, minibatch 16: 0.2;"
    " AVX2 alone, 5 to 20 channels, times with the rule over without: channels last 0.24, 1.1 of"
    " 62, first 0.48, 1.6 of 70"
)

SHORT_STEPS = (
    "two threads take 1.4 times as long in geometric mean over 18 problems; f32 16, 26 x 17,"
    " 5x5/2, minibatch 16: 2.3; bf16 24, 8 x 8, 5x5, minibatch 32: 1.9; f32 368, 14 x 14, 5x5/2:"
    " 0.9"
)

GROUPED = (
    # Depthwise: not all kernels have an implementation of their own in this direction.
    Rule(
        lambda s: (
            s.data and s.depthwise and s.line and s.bf16 and s.channels_last and not s.strided
        ),
        "given",
        BRDGMM,
        "depthwise 176, 580, 25: 1.7; 64, 13821, 9: 1.5; 64, 24240, 3: 2.9; 128, 307, 15: 1.3",
        formulation="flipped",
    ),
    Rule(
        lambda s: (
            s.data
            and s.depthwise
            and s.line
            and s.bf16
            and not s.channels_last
            and not s.strided
            and s.inputs % 16 != 0
            and s.inputs < 64
        ),
        "nxc",
        BRDGMM,
        "depthwise 8, 2100, 5: 1.8; 10, 13495, 15: 2.2; 24, 18638, 7: 1.2, where blocks of 16"
        " channels are not full; full width 0.72 of 28, of fewer pixels 1.12 of 10;"
        " half width 0.73 of 41, of fewer pixels 1.36 of 32",
        formulation="flipped",
        on_full_width=lambda s: s.pixels >= 2200,
        on_half_width=lambda s: s.pixels >= 2200,
    ),
    Rule(
        lambda s: (
            s.data
            and s.depthwise
            and s.bf16
            and s.channels_last
            and not s.line
            and not s.strided
            and s.flops >= 6e6
        ),
        "given",
        BRDGMM,
        "jit_dw takes 1.36 times as long in geometric mean over 32 problems, 0.99 at least; 64, 92"
        " x 95, 7x7: 1.6; 311, 9 x 9, 3x3: 0.99; of fewer flops 0.2 to 0.9",
        formulation="flipped",
    ),
    Rule(
        lambda s: (
            s.data
            and s.depthwise
            and s.bf16
            and not s.channels_last
            and not s.line
            and not s.strided
            and s.positions >= 25
            and s.flops >= (6e6 if s.positions > 36 else 1e7)
        ),
        "nxc",
        BRDGMM,
        "jit_dw takes 1.26 times as long in geometric mean over 30 problems; 16, 70 x 70, 7x7:"
        " 1.5; 256, 14 x 14, 5x5: 0.93; full width 1.11 of 30; half width 1.21 of 130",
        formulation="flipped",
        on_full_width=never,
        on_half_width=never,
    ),
    Rule(
        lambda s: s.data and s.depthwise and s.channels_last,
        "given",
        DEPTHWISE,
        "32, 14 x 14, 5x5: 1.3; 96, 14 x 14, 4x4: 1.6; 112, 46 x 81, 7x7/2: 1.8",
    ),
    Rule(
        lambda s: s.data and s.depthwise,
        "any",
        DEPTHWISE,
        "32, 35 x 35, 7x7: 1.4; bf16 18, 28 x 28, 5x5: 7; 512, 14 x 14, 3x3/2: 36; 64, 112 x"
        " 112: 10",
    ),
    Rule(
        lambda s: s.data and s.depthwise and s.channels_last,
        "given",
        DEPTHWISE,
        "in blocks of channels, 64, 11 x 18, 5x5 dilated by 2: 2.1; 192, 49 x 26: 1.1; 12"
        " problems: 1.4 in geometric mean",
        formulation="flipped",
    ),
    Rule(
        lambda s: s.data and s.depthwise,
        "any",
        DEPTHWISE,
        "depthwise 20, 19 x 19, 7x7: 6.7; depthwise 160, 32 x 35, 3x3: 7.1; depthwise 32, 8 x 8,"
        " 6x6: 12; half width 0.16 of 103, strided in float32 2.18 of 27",
        formulation="flipped",
        on_half_width=lambda s: s.bf16 or not s.strided,
    ),
    Rule(
        lambda s: s.data and s.depthwise and s.bf16,
        "any",
        ANY_NAME,
        "depthwise 68, 1952, 15: 1.9; depthwise 16, 900, 3: 3.1; depthwise 32, 38700, 3: 3.9;"
        " full width 0.47, 1.63 of 40, of other problems 1.59 of 55;"
        " half width 0.59 of 21, of larger kernels 1.51 of 69",
        formulation="flipped",
        on_full_width=lambda s: (
            s.volume and not s.larger_kernel and (s.has_bias or (s.channels_last and s.in_patches))
        ),
        on_half_width=lambda s: not s.larger_kernel,
    ),
    Rule(
        lambda s: s.forward and s.depthwise and s.channels_last and not s.bf16 and not s.line,
        "given",
        DEPTHWISE,
        "depthwise 96, 9 x 9, 3x3: 2.0 times as fast as brdgmm; 32, 8 x 8, 5x5: 1.9; 64, 14 x 8,"
        " 7x7: 1.4; 424, 27 x 29, 4x4: 1.1; 80, 105 x 105, 7x7: 0.97",
    ),
    Rule(
        lambda s: s.forward and s.depthwise and not s.channels_last and not s.bf16 and not s.line,
        "any",
        DEPTHWISE,
        "oneDNN's own choice, in blocks of 16 or of 8 channels, where that fits the memory limit",
    ),
    Rule(
        lambda s: s.forward and s.depthwise and not s.channels_last and not s.bf16 and not s.line,
        "any",
        DEPTHWISE,
        "in chunks, gemm takes, depthwise 40, 91 x 91, 7x7 dilated by 7, with bias: 12 times as"
        " long; 20, 91 x 91, 7x7: 7.9; 20, 112 x 112, 3x3: 2.4; full width 1.41 of 8;"
        " half width 1.98 of 24",
        splits=True,
        on_full_width=never,
        on_half_width=never,
    ),
    Rule(
        lambda s: (
            s.forward
            and s.depthwise
            and s.line
            and not s.channels_last
            and (s.positions > 9 or (s.inputs % 16 != 0 and s.inputs < 64))
        ),
        "nxc",
        BRDGMM,
        "depthwise 136, 1392, 15: 4.5 times as fast as gemm; 104, 24848, 15: 4.1 in bf16; 8, 400,"
        " 3: 2.9 times as fast as in blocks of 16 channels; 40, 7444, 9: 1.7 in bf16",
    ),
    # Depthwise kernels larger than 3x3 have no weights gradient of their own.
    Rule(
        lambda s: (
            s.weights
            and s.depthwise
            and s.line
            and not s.channels_last
            and s.channels > 88
            and s.pixels >= 900
        ),
        "any",
        DEPTHWISE,
        "depthwise 144, 14874, 2: 2.5 times as fast as the kernel of weights gradients; 336, 4290,"
        " 2: 1.4; 94, 12662, 2: 1.25; of fewer channels, 76, 14363, 2: 1.06; 69, 5060, 3: 0.9",
        formulation="dst_as_weights",
    ),
    Rule(
        lambda s: s.weights and s.depthwise and s.line and not s.channels_last,
        "nxc",
        DEPTHWISE,
        "depthwise 13, 4734, 3: 2.8; 8, 17800, 2: 5.0; bf16 8, 1500, 3: 2.5; 96, 208, 3: 1.0;"
        " larger kernels have no such implementation; full width 0.88 of 13, of larger weights"
        " 1.47 of 55; half width 0.68 of 39, of more channels 1.56 of 75",
        on_full_width=lambda s: s.weights_size < 96,
        on_half_width=lambda s: s.inputs < 27,
    ),
    Rule(
        lambda s: s.weights and s.depthwise and s.channels_last,
        "given",
        DEPTHWISE,
        "3x3: oneDNN's own choice; 64, 56 x 56: 3.1 of what blocks of channels take",
    ),
    Rule(
        lambda s: s.weights and s.depthwise and not s.channels_last,
        "any",
        DEPTHWISE,
        "3x3: oneDNN's own choice; larger kernels have no such implementation",
    ),
    # Of few flops, a second thread is awaited longer than it helps, an image at a time.
    Rule(
        lambda s: s.weights and s.short_steps and (s.channels_last or s.channels <= 32),
        "nxc",
        DEPTHWISE,
        SHORT_STEPS,
        formulation="dst_as_weights",
        threads=1,
    ),
    Rule(
        lambda s: s.weights and s.short_steps,
        "any",
        DEPTHWISE,
        SHORT_STEPS,
        formulation="dst_as_weights",
        threads=1,
    ),
    Rule(
        lambda s: s.weights and s.large_depthwise and (s.channels_last or s.channels <= 32),
        "nxc",
        DEPTHWISE,
        LARGE_DEPTHWISE,
        formulation="dst_as_weights",
    ),
    Rule(
        lambda s: s.weights and s.large_depthwise,
        "any",
        DEPTHWISE,
        LARGE_DEPTHWISE,
        formulation="dst_as_weights",
    ),
    Rule(
        lambda s: s.weights and s.depthwise and s.bf16 and not s.line,
        "nxc",
        JIT,
        "depthwise 192, 105 x 105, 7x7: 1.6",
        compute_dtype="f32",
    ),
    # Its weights are blocks of 16 x 16 channels, most of them zeros, which take much memory.
    Rule(
        lambda s: (
            s.weights
            and s.depthwise
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
        lambda s: s.weights and s.depthwise and not s.line,
        "nxc",
        JIT,
        "within the limit, gemm takes longer; in chunks, 512, 56 x 56, 4x4: 0.8; 320, 112 x 112,"
        " 5x5: 0.6",
    ),
    # Along a line, where some have only a matrix product.
    Rule(
        lambda s: s.weights and s.depthwise and s.bf16 and s.positions <= 8 and s.channels_last,
        "given",
        JIT,
        "depthwise 64, 1299, 3: 1.9",
        compute_dtype="f32",
    ),
    Rule(
        lambda s: s.weights and s.depthwise and s.bf16,
        "any",
        GEMM,
        "depthwise 112, 25900, 25: 4.7 times as fast as in the caller's layout",
    ),
    Rule(
        lambda s: (
            s.data
            and not s.dense
            and not s.depthwise
            and not s.channels_last
            and s.is_1x1
            and not s.strided
        ),
        "any",
        GEMM,
        "2 groups of 4 -> 4, 21 x 21, 1x1: 2.1; 8 groups of 32 -> 64, 8 x 8: 1.7; bf16 64 groups of"
        " 8 -> 8, 28 x 28: 1.7; 2 groups of 16 -> 16, 48 x 89: 1.4",
    ),
    Rule(
        lambda s: (
            s.forward
            and not s.dense
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
        lambda s: (
            s.weights
            and not s.dense
            and not s.depthwise
            and not s.channels_last
            and s.is_1x1
            and not s.strided
        ),
        "any",
        GEMM,
        "2 groups of 4 -> 4, 21 x 21, 1x1: 5.5; bf16 64 groups of 8 -> 16, 48 x 50: 3.8",
    ),
    Rule(
        lambda s: (
            s.weights and s.bf16 and s.thin_groups and not s.depthwise and not s.channels_last
        ),
        "any",
        JIT,
        "64 groups of 4 -> 8, 49 x 49, 3x3: 5.5 times as fast as brgconv_bwd_w",
    ),
    Rule(
        lambda s: s.weights and s.thin_groups and not s.channels_last and not s.bf16,
        "any",
        JIT,
        "32 groups of 8 -> 8, 56 x 56, 3x3/2: 3.3; 4 groups of 8 -> 8, 32 x 32, 3x3: 3.4",
    ),
    Rule(
        lambda s: s.weights and s.thin_groups and not s.channels_last and not s.bf16,
        "nxc",
        JIT,
        "16 groups of 4, 42 x 42, 5x5: 3.6, where only gemm takes other layouts; full width 0.65"
        " of 41, 1x1 1.25 of 40",
        on_full_width=lambda s: not s.is_1x1,
    ),
    Rule(
        lambda s: (
            s.weights
            and s.thin_groups
            and s.channels_last
            and not s.depthwise
            and not s.bf16
            and s.group_channels <= 4
            and not s.is_single
            and not s.small
        ),
        "given",
        JIT_AVX2,
        "64 groups of 4 -> 8, 25 x 25, 3x3: 4.8; 32 groups of 4 -> 4, 12 x 12, 1x1: 2.8; full"
        " width 1.55 of 10; half width 0.80 of 25, of larger dst 1.38 of 49",
        on_full_width=never,
        on_half_width=lambda s: s.dst_size < 50_000,
    ),
)
