"""Rules for CPUs without AMX whose AVX-512 units have full width: float32.

Ratios are of the rule's choice to that without it, by `benchmarks/survey.py pairs`, on problems
that were drawn after the rules: geometric mean, worst, of so many problems.
"""

from __future__ import annotations

from .rule import BRGEMM_AVX2, BRGEMM_AVX512, DEPTHWISE, GEMM, GEMM_DECONVOLUTION, JIT, Rule

__all__ = ["FULL_WIDTH_F32"]


FULL_WIDTH_F32 = (
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.data
            and not s.transposed
            and not s.is_product
            and s.inputs < 236
            and s.outputs >= 100
            and s.images < 4
            and s.flops < (8e7 if not s.whole_blocks else 2e7)
        ),
        "any",
        GEMM,
        "0.62, 1.41 of 65",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and not s.channels_last
            and s.data
            and not s.transposed
            and s.depthwise
            and s.inputs < 29
        ),
        "nxc",
        DEPTHWISE,
        "0.89, 1.26 of 65",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.data
            and s.transposed
            and s.inputs < 32
            and s.outputs >= 50
            and not s.whole_blocks
            and s.weights_size < 57_600
        ),
        "any",
        GEMM,
        "0.55, 1.66 of 57",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.forward
            and not s.transposed
            and s.outputs >= 100
            and not s.volume
            and s.images < 8
            and s.flops < 4.3e6
        ),
        "any",
        GEMM,
        "0.76, 1.49 of 52",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.forward
            and not s.transposed
            and not s.whole_blocks
            and 16 <= s.inputs < 128
            and s.positions >= 4
            and s.pixels >= 4000
        ),
        "nxc",
        BRGEMM_AVX512,
        "0.88, 1.68 of 65",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.forward
            and s.transposed
            and s.inputs < 21
            and s.outputs >= 92
            and s.positions < 25
        ),
        "any",
        GEMM,
        "0.82, 1.39 of 65",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.weights
            and not s.transposed
            and s.is_1x1
            and s.outputs < 16
            and s.weights_size < 40
        ),
        "any",
        GEMM,
        "0.41, 1.63 of 57",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.weights
            and not s.transposed
            and not s.strided
            and s.images >= 2
            and s.group_products < 24
            and s.pixels >= 2304
            and s.dst_size >= 40_000
        ),
        "nxc",
        JIT,
        "0.77, 1.29 of 48",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.weights
            and s.transposed
            and s.is_1x1
            and s.channels < 14
            and s.outputs < 16
            and s.all_pixels >= 1432
        ),
        "given",
        GEMM_DECONVOLUTION,
        "0.43, 1.93 of 41",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.weights
            and s.transposed
            and 4 <= s.inputs < 32
            and s.outputs < 64
            and s.pixels >= 150
            and s.images >= 6
        ),
        "nxc",
        JIT,
        "0.67, 1.95 of 65",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_first
            and s.weights
            and s.transposed
            and s.outputs >= 100
            and s.group_products >= 800
            and s.pixels >= 19
            and s.flops < 4e7
        ),
        "given",
        GEMM_DECONVOLUTION,
        "0.82, 1.29 of 65",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_last
            and s.data
            and s.transposed
            and not s.line
            and s.positions >= 5
            and s.inputs < 6
            and s.outputs >= 17
        ),
        "any",
        GEMM,
        "0.68, 1.33 of 49",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_last
            and s.data
            and s.transposed
            and not s.line
            and not s.is_product
            and s.weights_size < 15_000
            and s.flops < 8e7
        ),
        "given",
        JIT,
        "0.83, 2.14 of 55",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_last
            and s.forward
            and not s.transposed
            and 1 < s.inputs < 16
            and s.outputs < 20
            and s.weights_size >= 100
            and s.group_products < 80
        ),
        "given",
        JIT,
        "0.85, 1.53 of 65",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.channels_last
            and s.forward
            and not s.transposed
            and s.in_groups
            and not s.whole_blocks
            and s.inputs >= 128
        ),
        "given",
        BRGEMM_AVX2,
        "0.77, 1.31 of 40",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_last
            and s.forward
            and s.transposed
            and not s.line
            and not s.is_product
            and s.inputs < 16
        ),
        "given",
        JIT,
        "0.89, 1.57 of 65",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_last
            and s.weights
            and not s.transposed
            and not s.has_bias
            and s.inputs < 32
            and s.outputs >= 200
            and s.flops >= 2e8
            and s.dst_size >= 430_000
            and s.weights_size < 131_000
        ),
        "given",
        GEMM,
        "0.84, 1.78 of 44",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.dense_last
            and s.weights
            and s.transposed
            and s.positions >= 2
            and s.outputs < 80
            and s.dst_size >= 50_000
        ),
        "given",
        JIT,
        "0.90, 1.68 of 57",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            not s.bf16
            and s.channels_last
            and s.weights
            and s.transposed
            and s.depthwise
            and not s.small
            and s.dst_size >= 45_696
        ),
        "given",
        DEPTHWISE,
        "0.90, 1.15 of 40",
        formulation="as_convolution",
    ),
)
