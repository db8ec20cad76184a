"""Rules for CPUs without AMX whose AVX-512 units have full width: bfloat16.

Ratios are of the rule's choice to that without it, by `benchmarks/survey.py pairs`, on problems
that were drawn after the rules: geometric mean, worst, of so many problems.
"""

from __future__ import annotations

from .rule import BRGEMM_DECONVOLUTION, DEPTHWISE, GEMM, GEMM_DECONVOLUTION, JIT_BF16, MATMUL, Rule

__all__ = ["FULL_WIDTH_BF16"]

# Up to so many elements of dst, reading channels last is worth its copies.
LARGEST_DST = 1.8e6

FULL_WIDTH_BF16 = (
    Rule(
        lambda s: (
            s.bf16
            and s.channels_last
            and s.weights
            and not s.transposed
            and s.is_product
            and s.small
            and not s.has_bias_gradient
        ),
        "given",
        MATMUL,
        "0.73, 1.23 of 65; with a bias gradient 3.2 of 17",
        formulation="matmul",
    ),
    Rule(
        lambda s: (
            s.bf16
            and not s.channels_last
            and s.weights
            and not s.transposed
            and s.in_groups
            and s.larger_kernel
            and s.group_products < 128
            and s.weights_size >= 1000
        ),
        "nxc",
        JIT_BF16,
        "0.52, 2.67 of 65; of smaller weights 1.49 of 18",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.data
            and not s.transposed
            and s.larger_kernel
            and not s.strided
            and 4 < s.channels < 16
            and s.outputs < 64
            and s.dst_size < LARGEST_DST
        ),
        "nxc",
        JIT_BF16,
        "0.85, 1.43 of 65; of more channels of dst 1.17 of 23",
    ),
    # Data gradients of transposed convolutions: the arithmetic of a forward convolution.
    Rule(
        lambda s: s.bf16 and s.channels_last and s.transposed and s.forward and s.depthwise,
        "given",
        DEPTHWISE,
        "0.84, 1.08 of 40",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.data
            and not s.transposed
            and not s.is_product
            and s.inputs < 128
            and s.outputs >= 200
            and s.images < 8
            and s.flops < 1.5e8
        ),
        "any",
        GEMM,
        "0.79, 1.85 of 52",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.data
            and not s.transposed
            and not s.strided
            and not s.volume
            and s.outputs >= 80
            and s.channels < 32
            and s.positions < 15
            and s.weights_size < 10_000
            and not s.small
        ),
        "any",
        GEMM,
        "0.79, 1.22 of 65",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.data
            and s.transposed
            and s.has_bias
            and s.is_1x1
            and s.all_pixels >= 5400
            and s.dst_size < 8e6
        ),
        "any",
        GEMM,
        "0.56, 0.91 of 23",
        formulation="flipped",
    ),
    Rule(
        lambda s: (
            s.bf16 and s.dense_first and s.data and s.transposed and s.has_bias and not s.volume
        ),
        "nxc",
        BRGEMM_DECONVOLUTION,
        "0.85, 1.52 of 54",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.data
            and s.transposed
            and s.outputs < 24
            and s.positions >= 16
            and s.group_products < 384
        ),
        "nxc",
        JIT_BF16,
        "0.59, 1.16 of 43",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.bf16
            and not s.channels_last
            and s.data
            and s.transposed
            and s.in_groups
            and not s.is_1x1
            and s.inputs >= 8
            and s.outputs < 80
            and s.group_channels < 4
        ),
        "nxc",
        JIT_BF16,
        "0.53, 2.85 of 40",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.weights
            and not s.transposed
            and s.inputs < 16
            and s.positions >= 3
            and s.group_products < 480
            and s.dst_size < 1.3e6
        ),
        "any",
        JIT_BF16,
        "0.84, 1.51 of 65",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.weights
            and not s.transposed
            and not s.is_1x1
            and s.inputs < 63
            and s.outputs >= 300
        ),
        "any",
        GEMM,
        "0.73, 2.49 of 65",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.weights
            and s.transposed
            and not s.is_1x1
            and s.inputs < 32
            and s.outputs < 16
        ),
        "nxc",
        JIT_BF16,
        "0.63, 1.33 of 65",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.weights
            and s.transposed
            and s.outputs >= 80
            and s.positions < 16
            and s.pixels < 1500
            and s.dst_size < 390_000
        ),
        "given",
        GEMM_DECONVOLUTION,
        "0.82, 1.30 of 65",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.weights
            and s.transposed
            and s.is_product
            and s.flops < 2e7
            and s.group_products < 600
            and s.pixels < 5000
        ),
        "any",
        GEMM,
        "0.45, 1.25 of 43",
        formulation="as_convolution",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_first
            and s.forward
            and not s.transposed
            and s.has_bias
            and s.is_product
            and s.channels < 100
        ),
        "any",
        GEMM,
        "0.57, 1.43 of 54",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_last
            and s.data
            and not s.transposed
            and s.larger_kernel
            and s.inputs > 1
            and s.outputs < 25
            and s.pixels < 15_000
        ),
        "given",
        JIT_BF16,
        "0.78, 1.86 of 65",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_last
            and s.data
            and not s.transposed
            and not s.is_product
            and s.pixels < 50
            and s.images < 6
            and s.outputs >= 48
            and s.weights_size >= 24_000
        ),
        "given",
        GEMM,
        "0.49, 1.52 of 65",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_last
            and s.forward
            and not s.transposed
            and s.is_product
            and s.all_pixels < 1500
        ),
        "given",
        MATMUL,
        "0.77, 1.28 of 65",
        formulation="matmul",
        weights="given",
    ),
    Rule(
        lambda s: (
            s.bf16
            and s.dense_last
            and s.weights
            and not s.transposed
            and s.strided
            and s.images >= 4
            and s.group_products >= 15_000
            and s.pixels < 88
        ),
        "given",
        GEMM,
        "0.67, 1.50 of 52",
        formulation="im2col",
    ),
)
