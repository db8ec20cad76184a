"""Rules of weights gradients."""

from __future__ import annotations

from .rule import ANY_NAME, BRGEMM_WEIGHTS, DEPTHWISE, GEMM, JIT, JIT_1X1, JIT_AVX2, JIT_BF16, Rule

__all__ = ["WEIGHTS"]

WEIGHTS = (
    Rule(
        lambda s: s.bf16 and s.transposed and s.dense_first and s.is_1x1 and s.strided,
        "any",
        GEMM,
        "",
        formulation="strided_1x1",
    ),
    Rule(
        lambda s: s.bf16 and s.thin_groups and not s.depthwise and not s.channels_last,
        "any",
        JIT,
        "",
    ),
    Rule(
        lambda s: not s.bf16 and s.dense_last and s.is_1x1 and s.strided and s.channels <= 16,
        "given",
        JIT,
        "",
    ),
    # Depthwise kernels larger than 3x3 have no implementation of their own.
    Rule(
        lambda s: s.depthwise and s.channels_last,
        "given",
        DEPTHWISE,
        "",
    ),
    Rule(
        lambda s: s.depthwise and not s.channels_last,
        "any",
        DEPTHWISE,
        "",
    ),
    Rule(
        lambda s: s.depthwise and s.bf16 and not s.line and not s.is_single,
        "nxc",
        JIT_AVX2,
        "",
        several_threads=True,
        compute_dtype="f32",
    ),
    Rule(
        lambda s: s.depthwise and s.bf16 and not s.line,
        "nxc",
        JIT,
        "",
        compute_dtype="f32",
    ),
    Rule(
        lambda s: s.depthwise and not s.line and not s.is_single,
        "nxc",
        JIT_AVX2,
        "",
        several_threads=True,
    ),
    Rule(
        lambda s: s.depthwise and not s.line,
        "nxc",
        JIT,
        "",
    ),
    # Along a line, where some have only a matrix product.
    Rule(
        lambda s: s.depthwise and s.bf16 and s.positions <= 8 and s.channels_last,
        "given",
        JIT,
        "",
        compute_dtype="f32",
    ),
    Rule(
        lambda s: s.depthwise and s.bf16,
        "any",
        GEMM,
        "",
    ),
    Rule(
        lambda s: s.thin_groups and not s.channels_last and not s.bf16,
        "any",
        JIT,
        "",
    ),
    Rule(
        lambda s: s.thin_groups and not s.channels_last and not s.bf16,
        "nxc",
        JIT,
        "",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense
            and s.inputs == 1
            and not s.line
            and (s.channels_last or not s.is_1x1)
        ),
        "nxc",
        JIT_BF16,
        "",
    ),
    Rule(
        lambda s: s.thin and s.inputs in (1, 4) and s.dense_first and not s.is_1x1,
        "nxc",
        JIT_AVX2,
        "",
    ),
    Rule(
        lambda s: s.thin and s.dense_last and not s.is_1x1 and not s.strided,
        "given",
        JIT_AVX2,
        "",
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
        "",
    ),
    Rule(
        lambda s: s.bf16 and s.line and s.dense_first and s.inputs <= 8,
        "any",
        GEMM,
        "",
    ),
    Rule(
        lambda s: (
            s.dense_first
            and not s.bf16
            and not s.whole_blocks
            and not s.is_1x1
            and not s.transposed
            and s.inputs > 4
        ),
        "nxc",
        JIT,
        "",
    ),
    Rule(
        lambda s: s.bf16 and s.transposed and s.dense_first and not s.is_1x1 and not s.small,
        "any",
        BRGEMM_WEIGHTS,
        "",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: s.dense_last and s.is_1x1 and not s.bf16 and s.channels <= 32,
        "given",
        JIT_1X1,
        "",
    ),
    Rule(
        lambda s: s.bf16 and s.dense_last and s.is_1x1 and (s.strided or s.pixels < 100),
        "any",
        BRGEMM_WEIGHTS,
        "",
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
